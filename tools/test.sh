#!/usr/bin/env bash
# All checks and all tests, from nothing but a Debian 12: sets up what is missing, then
# runs ruff, mypy and pytest.  Arguments go to pytest.  The last line is pytest's.
# With --fast first: ruff, mypy and the tests that need no server and wait for nothing.
# With --lab first: only the tests on the hypervisor of tools/lab.sh, started for them.
# With --faults first: only those that take too long for every run, one after the other.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"

case ${1:-} in
    -h | --help)
        sed -n '2,6s/^# //p' "$0"
        echo 'COMPUTE_AGENT_VENV names another place for the virtual environment, and'
        echo 'COMPUTE_AGENT_REFERENCE_VENV for the one with nova.'
        echo 'COMPUTE_AGENT_TEST_WORKERS is how many run tests at once; 0: in this process.'
        exit
        ;;
esac

if [ "${1:-}" = --lab ]; then
    shift
    # shellcheck source=tools/lab/test.sh
    . "$ROOT/tools/lab/test.sh"
    run_lab_tests "$@"
    exit
fi

# Half of a test's time is waiting, so there are more workers than cores.
cores=$(nproc)
workers=${COMPUTE_AGENT_TEST_WORKERS:-$((cores < 8 ? cores + 2 : 10))}
spread=(--numprocesses="$workers" --dist=loadfile --no-loadscope-reorder)
failed=()

check() {
    say "$*"
    "$@" || failed+=("$*")
}

# After set_up, which looks for a Python outside of the environment.
enter_environment() {
    cd "$ROOT"
    PATH=$VENV/bin:$PATH
    export PATH
    unset PYTHONDONTWRITEBYTECODE # or hundreds of short processes would compile all anew
}

check_source() {
    check ruff check
    check ruff format --check
    check mypy
}

# run_tests COMMAND...: pytest's status, unless it is the only one that was content.
run_tests() {
    local status=0
    if [ ${#failed[@]} -gt 0 ]; then printf '==> FAILED already: %s\n' "${failed[@]}"; fi
    "$@" || status=$?
    if [ "$status" -eq 0 ] && [ ${#failed[@]} -gt 0 ]; then status=1; fi
    exit "$status"
}

if [ "${1:-}" = --fast ]; then
    shift
    set_up libvirt,dev,registry,test "${BUILD_PACKAGES[@]}"
    enter_environment
    check_source
    say "pytest $*"
    export COMPUTE_AGENT_TEST_FAST=yes HYPOTHESIS_PROFILE=fast
    run_tests pytest "${spread[@]}" "$@"
fi

long=()
if [ "${1:-}" = --faults ]; then
    shift
    long=(iptables)
fi

set_up libvirt,dev,registry,test "${BUILD_PACKAGES[@]}" "${LIBVIRT_PACKAGES[@]}" \
    "${SERVER_PACKAGES[@]}" git graphviz systemd-container "${long[@]}"
# 64 MB; without it the tests of the registry's page are skipped, and say so.
(install_packages chromium-headless-shell) || say 'no Chromium: the tests in a browser are skipped'
# 20 MB; for promtool, which the alerts are tested with, and for the picture of the dashboard.
(install_packages prometheus) || say 'no promtool: the tests of the alerts are skipped'
# Beside the checks; without it the tests beside Nova are skipped, and say so.
rm -f "$LOG"
install_reference &
reference=$!
enter_environment

# Some tests start a libvirtd or a systemd, which takes root: who has sudo runs all of them
# through it, and gets what they leave in the checkout.
privileged() {
    if [ "$(id -u)" -eq 0 ] || ! sudo -n true 2>/dev/null; then
        "$@"
        return
    fi
    local kept=() status=0 name
    for name in PATH TMPDIR CI COLUMNS TERM $(compgen -e COMPUTE_AGENT_ || true); do
        if [ -n "${!name:-}" ]; then kept+=("$name=${!name}"); fi
    done
    say 'as root, through sudo'
    sudo -n env "${kept[@]}" "$@" || status=$?
    take_checkout_back
    return "$status"
}

if [ ${#long[@]} -gt 0 ]; then
    wait "$reference" || say 'nova could not be installed: the tests beside it are skipped'
    say "pytest -m faults $*"
    export COMPUTE_AGENT_TEST_FAULTS=yes
    privileged pytest -m faults --durations=0 "$@"
    exit
fi

check_source
wait "$reference" || say 'nova could not be installed: the tests beside it are skipped'
say "pytest $*"
run_tests privileged pytest "${spread[@]}" "$@"
