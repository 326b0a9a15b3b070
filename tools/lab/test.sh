# shellcheck shell=bash
# tools/test.sh --lab: the tests of tests/lab, on a lab that runs only for them; one that
# runs already is used and left running.  Sourced by tools/test.sh.

run_lab_tests() {
    set_up libvirt,dev,registry,test "${BUILD_PACKAGES[@]}" "${LIBVIRT_PACKAGES[@]}"
    cd "$ROOT"
    if ! tools/lab.sh uri >/dev/null 2>&1; then trap 'tools/lab.sh stop' EXIT; fi
    tools/lab.sh start
    say "pytest tests/lab $*"
    COMPUTE_AGENT_TEST_LAB=yes PATH=$VENV/bin:$PATH pytest --durations=5 "$@" tests/lab
}
