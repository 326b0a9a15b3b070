#!/usr/bin/env bash
# Regenerates docs/diagrams, and docs/pictures from a private Placement.  Needs the environment that
# tools/test.sh makes, and Graphviz.  An argument is another directory for the pictures.
set -euo pipefail
cd "$(dirname "$0")/.."
for diagram in docs/diagrams/*.dot; do dot -Tsvg -o "${diagram%.dot}.svg" "$diagram"; done
exec "${COMPUTE_AGENT_VENV:-.venv}/bin/python" -m tests.spec.drawn "$@"
