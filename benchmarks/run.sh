#!/usr/bin/env bash
# Measures this client and the reference's (nova's) in one run, from nothing but a Debian
# 12, and writes tables into build/benchmarks/.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/../tools/setup.sh"

usage() {
    cat <<USAGE
$(sed -n '2,3s/^# //p' "$0")

usage: benchmarks/run.sh [--quick] [--repeats N] [--out DIRECTORY]

  --quick      one small case, this client only, less than a minute
  --repeats N  runs of each case (3)
  --out        where to write

COMPUTE_AGENT_VENV            where this project's virtual environment is
COMPUTE_AGENT_REFERENCE_VENV  where the one with nova is (now $REFERENCE_VENV)
USAGE
}

OUT=
QUICK=()
REPEATS=()

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --quick) QUICK=(--quick) ;;
            --repeats | --out)
                [ $# -gt 1 ] || fail "$1 needs a value"
                if [ "$1" = --out ]; then OUT=$(realpath -m "$2"); else REPEATS=(--repeats "$2"); fi
                shift
                ;;
            *) help_or_fail "$1" ;;
        esac
        shift
    done
}

read_arguments "$@"
set_up dev
REFERENCE=()
if [ ${#QUICK[@]} -eq 0 ]; then
    install_reference
    REFERENCE=(--reference "$REFERENCE_VENV/bin/python")
    : "${OUT:=$ROOT/build/benchmarks}"
fi
: "${OUT:=${TMPDIR:-/tmp}/compute-agent-benchmarks}"
cd "$ROOT"
say 'calls, bytes and times against real Placements'
"$VENV/bin/python" -m benchmarks.compare --out "$OUT" "${QUICK[@]}" "${REPEATS[@]}" "${REFERENCE[@]}"
say 'trees in memory'
"$VENV/bin/python" -m benchmarks.memory --out "$OUT" "${QUICK[@]}" "${REFERENCE[@]}"
say "done: see $OUT"
