# shellcheck shell=bash
# tools/test.sh --lab: runs the tests of tests/lab in a lab that is started for them; a lab that
# already runs is used and left running.  Sourced by tools/test.sh.

run_lab_tests() {
    set_up libvirt,dev,registry,test "${BUILD_PACKAGES[@]}" "${LIBVIRT_PACKAGES[@]}"
    cd "$ROOT"
    if ! tools/lab.sh uri >/dev/null 2>&1; then trap 'tools/lab.sh stop' EXIT; fi
    tools/lab.sh start
    say "pytest tests/lab $*"
    COMPUTE_AGENT_TEST_LAB=yes PATH=$VENV/bin:$PATH pytest --durations=5 "$@" tests/lab
}
