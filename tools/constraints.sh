#!/usr/bin/env bash
# constraints.sh: regenerate constraints.txt from the environment in which the tests ran.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
{
    head -n 2 "$ROOT/constraints.txt"
    "$VENV/bin/python" -m pip freeze --all --exclude-editable |
        grep -viE '^(pip|wheel|compute-agent|reportclient)=='
} >"$ROOT/constraints.new"
mv "$ROOT/constraints.new" "$ROOT/constraints.txt"
