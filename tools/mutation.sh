#!/usr/bin/env bash
# Mutation testing of the pure core: small faults are put into a copy of it, one at a time,
# and the fast tests have to notice each.  docs/mutation.rst has the score and the survivors.
#
#   tools/mutation.sh [-m MINUTES] [PATTERN...]   all of the core, or mutants whose names
#                                                 match, such as 'reportclient.diff.*', without
#                                                 those that have run; a mutant that is named
#                                                 in full runs again
#   tools/mutation.sh sample COUNT [PATTERN]      that many names at random, to be given to it
#   tools/mutation.sh show MUTANT                 what a mutant changes
#   tools/mutation.sh score                       what the last run came to
#
# A process for each core at the lowest priority, for an hour at most unless -m says otherwise;
# a run that was cut off goes on where it was.  Of the fast tests those run that reach the
# mutant; one that hangs is ended after half a minute.  The tests are those of now, the code is
# that of the first call: after a change of it remove the copy that is named at the end.
# COMPUTE_AGENT_MUTATION names another place for that copy, COMPUTE_AGENT_VENV the environment
# that tools/test.sh made.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"

MUTMUT=mutmut==3.8.1
OWN_VENV=${COMPUTE_AGENT_MUTATION_VENV:-$ROOT/.venv-mutation}
COPY=${COMPUTE_AGENT_MUTATION:-${TMPDIR:-/tmp}/compute-agent-mutation}

# An environment of its own, which sees the libraries of the other one but not the work
# tree that is installed there.
make_own_environment() {
    [ -x "$VENV/bin/python" ] || fail "there is no $VENV" "Run tools/test.sh first"
    [ -x "$OWN_VENV/bin/mutmut" ] && return
    say "an environment for $MUTMUT in $OWN_VENV"
    LOG=$(mktemp "${TMPDIR:-/tmp}/compute-agent-mutation.XXXXXX")
    quietly "Is there a python3-venv?" "$VENV/bin/python" -m venv --clear "$OWN_VENV"
    quietly "Is PyPI, or its mirror, there?" "$OWN_VENV/bin/pip" install "$MUTMUT"
    "$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        >"$("$OWN_VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/beside.pth"
    rm -f "$LOG"
}

# What is mutated, and by which tests: those of the boundaries, of the fast tier.  A hanging test
# ends its process with status 1, which is a mutant killed.
write_configuration() {
    cat >"$COPY/pyproject.toml" <<'TOML'
[tool.pytest.ini_options]
addopts = ["--strict-markers", "-p", "no:cacheprovider"]
markers = ["one_at_a_time(name): see tests/sharing.py", "real_libvirt", "real_systemd", "lab",
    "faults(always)", "slow"]
timeout = 30
timeout_method = "thread"

[tool.mutmut]
source_paths = ["agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient"]
only_mutate = [
    "agent/ownership/unrecorded.py",
    "agent/ownership/settlement.py",
    "agent/ownership/ledger.py",
    "agent/ownership/provider_settlement.py",
    "agent/ownership/placing.py",
    "agent/ownership/policy.py",
    "agent/ownership/settle.py",
    "agent/ownership/driver_snapshot.py",
    "agent/ownership/statement.py",
    "agent/period/driver_answers.py", "agent/period/decide.py",
    "agent/attach/leaving.py", "agent/period/traits.py",
    "agent/provider_config/asserted.py", "agent/switching/*.py", "reportclient/refusals.py",
    "reportclient/apply.py", "reportclient/diff.py", "reportclient/edit.py",
    "reportclient/placing.py", "reportclient/reader.py", "reportclient/reshape.py",
    "reportclient/snapshot.py", "reportclient/view.py", "reportclient/claims.py",
]
also_copy = ["setup.cfg", "etc", "docs", "examples"]
pytest_add_cli_args_test_selection = [
    "tests/unit/ownership", "tests/examples", "tests/ownership", "tests/unit/reportclient",
    "tests/unit/test_several_drivers.py", "tests/unit/test_attach.py", "tests/unit/test_leaving.py",
    "tests/unit/test_hard_periods.py", "tests/unit/test_host_status.py",
    "tests/unit/test_host_enabled.py", "tests/unit/test_service_switch.py",
    "tests/unit/test_many_nodes.py", "tests/property/test_diff.py",
    "tests/property/test_apply_on_fake.py", "tests/property/test_host_status.py",
    "tests/contract", "tests/unit/test_period_edges.py",
]
pytest_add_cli_args = ["-W", "ignore"]
timeout_multiplier = 3.0
timeout_constant = 20.0
mutate_only_covered_lines = false
track_dependencies = false
use_git_change_detection = false
TOML
}

make_copy() {
    local code=()
    [ -d "$COPY" ] || code=(agent compute_registry computectl driverkit drivers reportclient setup.cfg etc docs examples)
    mkdir -p "$COPY"
    (cd "$ROOT" && git ls-files -z tests "${code[@]}" | xargs -0 cp --parents -t "$COPY")
    write_configuration
}

# names_left PATTERN...: the mutants to be run, or the patterns where there are no mutants yet.
names_left() {
    (cd "$COPY" && "$OWN_VENV/bin/python" - "$@" <<'PYTHON'
import fnmatch, json, pathlib, sys
patterns = sys.argv[1:] or ["*"]
codes = {}
for file in pathlib.Path("mutants").rglob("*.meta"):
    codes.update(json.loads(file.read_text())["exit_code_by_key"])
for pattern in patterns:
    names = [name for name in sorted(codes) if fnmatch.fnmatch(name, pattern)]
    left = [name for name in names if codes[name] is None or name == pattern]
    print("\n".join(left if names else [pattern]))
PYTHON
    )
}

sample() {
    [ -d "$COPY/mutants" ] || fail "there are no mutants yet" "Run tools/mutation.sh -m 10 first"
    (cd "$COPY" && "$OWN_VENV/bin/python" - "$@" <<'PYTHON'
import fnmatch, json, pathlib, random, sys
names = [name for file in sorted(pathlib.Path("mutants").rglob("*.meta"))
         for name in json.loads(file.read_text())["exit_code_by_key"]
         if fnmatch.fnmatch(name, "".join(sys.argv[2:]) or "*")]
print("\n".join(random.Random(1).sample(names, min(int(sys.argv[1]), len(names)))))
PYTHON
    )
}

score() {
    (cd "$COPY" && "$OWN_VENV/bin/python" - <<'PYTHON'
import collections, json, pathlib
names = {0: "survived", 1: "killed", 3: "killed", 5: "untested", 33: "untested", 34: "skipped",
         None: "not run", 24: "timeout", 36: "timeout", 152: "timeout", 255: "timeout", -24: "timeout"}
total = collections.Counter()
for file in sorted(pathlib.Path("mutants").rglob("*.meta")):
    codes = json.loads(file.read_text())["exit_code_by_key"]
    counts = collections.Counter(names.get(code, "killed") for code in codes.values())
    if not codes:
        continue
    total += counts
    noticed = counts["killed"] + counts["timeout"]
    run = sum(counts.values()) - counts["not run"] - counts["skipped"]
    name = file.relative_to("mutants").as_posix().removesuffix(".meta")
    print(f"{name:40} {noticed:4} of {run:4} noticed", dict(counts))
    for key, code in codes.items():
        if names.get(code) in ("survived", "untested"):
            print("   ", key, names[code])
noticed = total["killed"] + total["timeout"]
run = sum(total.values()) - total["not run"] - total["skipped"]
print(f"{noticed} of {run} noticed ({100 * noticed / max(run, 1):.1f} %)", dict(total))
PYTHON
    )
}

minutes=60
case ${1:-} in
    -h | --help)
        sed -n '2,18s/^#\( \|$\)//p' "$0"
        exit
        ;;
    show)
        cd "$COPY" && exec "$OWN_VENV/bin/mutmut" show "$2"
        ;;
    sample)
        shift
        sample "$@"
        exit
        ;;
    score)
        score
        exit
        ;;
    -m)
        minutes=$2
        shift 2
        ;;
esac

make_own_environment
make_copy
cd "$COPY"
# As many examples for a property as find what ordinary faults break; the same each time.
export HYPOTHESIS_PROFILE=fast COMPUTE_AGENT_TEST_FAST=yes
export PATH=$OWN_VENV/bin:$PATH
status=0
mapfile -t names < <(names_left "$@" | grep .)
if [ ${#names[@]} -eq 0 ]; then
    score
    say "all of these have run; in $COPY"
    exit
fi
if [ $# -eq 0 ] && [ "${names[*]}" = "*" ]; then names=(); fi
say "for $minutes minutes at most; what mutmut says is in $COPY/run.log"
timeout --signal=INT --kill-after=30 "${minutes}m" \
    nice -n 19 mutmut run --max-children "$(nproc)" "${names[@]}" >"$COPY/run.log" 2>&1 || status=$?
if [ "$status" -ne 0 ] && [ "$status" -ne 124 ]; then
    tail -n 25 "$COPY/run.log" >&2
    fail "mutmut ended with $status" "Has the code changed since the first call?  rm -r $COPY" \
        "Do the tests pass?  See $COPY/run.log"
fi
score
say "in $COPY"
