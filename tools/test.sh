#!/usr/bin/env bash
# Runs all checks and tests on a machine with Debian 12: installs what is missing, then runs
# ruff, mypy and pytest.  Arguments go to pytest.  The last line is pytest's.  First argument:
# --fast: only ruff, mypy and the tests that start no server and do not wait.
# --lowest: those tests on the lowest versions that setup.cfg allows, in an environment of its own.
# --lab: only the tests on the hypervisor of tools/lab.sh, which is started for them.
# --faults: only the tests that take too long for every run, one after the other.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"

case ${1:-} in
    -h | --help)
        sed -n '2,7s/^# //p' "$0"
        echo 'COMPUTE_AGENT_VENV is another path for the virtual environment,'
        echo 'COMPUTE_AGENT_REFERENCE_VENV for the one with nova.'
        echo 'COMPUTE_AGENT_TEST_WORKERS is the number of test processes; 0: only this one.'
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

# To be called after set_up, which looks for a Python outside of the environment.
enter_environment() {
    cd "$ROOT"
    PATH=$VENV/bin:$PATH
    export PATH
    unset PYTHONDONTWRITEBYTECODE # or hundreds of short processes would compile every module
}

check_source() {
    check ruff check
    check ruff format --check
    check mypy
}

# run_tests COMMAND...: exit with pytest's status, or 1 if only an earlier check failed.
run_tests() {
    local status=0
    if [ ${#failed[@]} -gt 0 ]; then printf '==> FAILED already: %s\n' "${failed[@]}"; fi
    "$@" || status=$?
    if [ "$status" -eq 0 ] && [ ${#failed[@]} -gt 0 ]; then status=1; fi
    exit "$status"
}

if [ "${1:-}" = --fast ] || [ "${1:-}" = --lowest ]; then
    if [ "$1" = --lowest ]; then VENV=$VENV-lowest LOWEST=yes; fi
    shift
    set_up libvirt,dev,registry,test "${BUILD_PACKAGES[@]}"
    enter_environment
    if [ -z "${LOWEST:-}" ]; then check_source; fi
    say "pytest $*"
    export COMPUTE_AGENT_TEST_FAST=yes HYPOTHESIS_PROFILE=fast
    run_tests pytest "${spread[@]}" "$@"
fi

long=()
if [ "${1:-}" = --faults ]; then
    shift
    long=(iptables binutils debootstrap lintian python3-pip python3-yaml python3-libvirt)
fi

set_up libvirt,dev,registry,test "${BUILD_PACKAGES[@]}" "${LIBVIRT_PACKAGES[@]}" \
    "${SERVER_PACKAGES[@]}" git graphviz systemd-container "${long[@]}"
# 64 MB; without it the browser tests of the registry's page are skipped.
(install_packages chromium-headless-shell) || say 'Chromium could not be installed: the browser tests are skipped'
# 20 MB; for promtool, which tests the alerts, and for the picture of the dashboard.
(install_packages prometheus) || say 'promtool could not be installed: the tests of the alerts are skipped'
if [ ${#long[@]} -gt 0 ]; then
    (install_packages podman runc buildah mmdebstrap) || say 'podman could not be installed: the test of the image is skipped'
fi
# In parallel with the checks; without it the tests that need nova are skipped.
rm -f "$LOG"
install_reference &
reference=$!
enter_environment

# Some tests start a libvirtd or a systemd, which needs root: a user with sudo runs all tests through
# it; files that they leave in the checkout are given back to the user.
privileged() {
    if [ "$(id -u)" -eq 0 ] || ! sudo -n true 2>/dev/null; then
        "$@"
        return
    fi
    local kept=() status=0 name
    for name in PATH TMPDIR CI COLUMNS TERM $(compgen -e COMPUTE_AGENT_ || true); do
        if [ -n "${!name:-}" ]; then kept+=("$name=${!name}"); fi
    done
    say 'running the tests as root, through sudo'
    sudo -n env "${kept[@]}" "$@" || status=$?
    take_checkout_back
    return "$status"
}

if [ ${#long[@]} -gt 0 ]; then
    wait "$reference" || say 'nova could not be installed: the tests that need it are skipped'
    say "pytest -m faults $*"
    export COMPUTE_AGENT_TEST_FAULTS=yes
    privileged pytest -m faults --durations=0 "$@"
    exit
fi

check_source
wait "$reference" || say 'nova could not be installed: the tests that need it are skipped'
say "pytest $*"
run_tests privileged pytest "${spread[@]}" "$@"
