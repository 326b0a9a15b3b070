#!/usr/bin/env bash
# Draws docs/diagrams anew, and docs/pictures from a Placement of its own.  Needs the environment of
# the tests (tools/test.sh makes it) and Graphviz.  An argument names another folder for the latter.
set -euo pipefail
cd "$(dirname "$0")/.."
for diagram in docs/diagrams/*.dot; do dot -Tsvg -o "${diagram%.dot}.svg" "$diagram"; done
exec "${COMPUTE_AGENT_VENV:-.venv}/bin/python" -m tests.spec.drawn "$@"
