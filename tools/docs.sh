#!/usr/bin/env bash
# Builds the documentation as a web site; warnings are errors.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"

OUTPUT=${1:-$ROOT/build/docs}
case $OUTPUT in
    -*)
        printf '%s\n\nusage: tools/docs.sh [DIRECTORY]    (build/docs)\n' "$(sed -n '2s/^# //p' "$0")"
        exit
        ;;
esac

if ! "$VENV/bin/python" -c 'import furo, agent' 2>/dev/null; then set_up docs,registry; fi
"$VENV/bin/python" -m sphinx -W --keep-going -q -b html "$ROOT/docs" "$OUTPUT/html"
say "$OUTPUT/html/index.html"
