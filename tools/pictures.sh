#!/usr/bin/env bash
# Regenerates docs/diagrams, docs/registry from a scripted fleet, and docs/pictures from a private
# Placement.  Needs the environment that tools/test.sh makes, Graphviz and Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."
for diagram in docs/diagrams/*.dot; do dot -Tsvg -o "${diagram%.dot}.svg" "$diagram"; done
PYTHON=${COMPUTE_AGENT_VENV:-.venv}/bin/python
"$PYTHON" -m tests.servers.fleet_pages
exec "$PYTHON" -m tests.spec.drawn
