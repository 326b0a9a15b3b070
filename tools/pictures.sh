#!/usr/bin/env bash
# Draws docs/pictures anew, from a Placement of its own.  Needs the environment of the tests
# (tools/test.sh makes it) and Graphviz.  An argument names another folder.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${COMPUTE_AGENT_VENV:-.venv}/bin/python" -m tests.spec.drawn "$@"
