#!/usr/bin/env bash
# Mutation testing of the pure core: mutmut puts small faults (mutants) into a copy of the code, one
# at a time, and the fast tests have to detect each.  docs/mutation.rst has the results.
#
#   tools/mutation.sh [-m MINUTES] [PATTERN...]   run all mutants, or those whose names match,
#                                                 such as 'reportclient.diff.*', except those
#                                                 that have already run; a mutant whose full
#                                                 name is given runs again
#   tools/mutation.sh sample COUNT [PATTERN]      print the names of COUNT random mutants
#   tools/mutation.sh show MUTANT                 show what a mutant changes
#   tools/mutation.sh score                       print the result of the last run, and the survivors
#                                                 without a reason in tests/mutants/survivors.txt
#
# It uses one process for each core at the lowest priority, for an hour at most (-m changes
# that); an interrupted run continues where it stopped.  For each mutant, the fast tests that
# reach it run; a test that hangs is ended after half a minute.  The tests are copied at each
# call, the code only at the first: after a change of the code remove the copy, whose path is
# printed at the end.  COMPUTE_AGENT_MUTATION is another path for the copy, COMPUTE_AGENT_VENV
# the environment that tools/test.sh made.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"

MUTMUT=mutmut==3.8.1
OWN_VENV=${COMPUTE_AGENT_MUTATION_VENV:-$ROOT/.venv-mutation}
COPY=${COMPUTE_AGENT_MUTATION:-${TMPDIR:-/tmp}/compute-agent-mutation}

# A separate environment, which uses the libraries of the tests' environment but not the work tree
# that is installed there.
make_own_environment() {
    [ -x "$VENV/bin/python" ] || fail "the environment $VENV does not exist" "Run tools/test.sh first"
    [ -x "$OWN_VENV/bin/mutmut" ] && return
    say "making an environment for $MUTMUT in $OWN_VENV"
    LOG=$(mktemp "${TMPDIR:-/tmp}/compute-agent-mutation.XXXXXX")
    quietly "Is python3-venv installed?" "$VENV/bin/python" -m venv --clear "$OWN_VENV"
    quietly "Does pip reach its index (see pip config list)?" "$OWN_VENV/bin/pip" install "$MUTMUT"
    "$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        >"$("$OWN_VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/beside.pth"
    rm -f "$LOG"
}

# Configure which modules are mutated and which tests run: the fast ones of the boundaries.  A test
# that hangs ends its process with status 1, which counts as a killed mutant.
write_configuration() {
    cat >"$COPY/pyproject.toml" <<'TOML'
[tool.pytest.ini_options]
# mutmut runs the fastest tests first; tests.sharing would sort them by file.
addopts = ["--strict-markers", "-p", "no:cacheprovider", "-p", "no:tests.sharing"]
markers = ["one_at_a_time(name): see tests/sharing.py", "needs(name)", "real_systemd", "lab",
    "faults(always)", "slow"]
log_level = "DEBUG"
timeout = 30
timeout_method = "thread"

[tool.mutmut]
source_paths = ["agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient"]
only_mutate = [
    "agent/ownership/ledger.py", "agent/ownership/placing.py", "agent/ownership/policy.py",
    "agent/ownership/settle.py", "agent/ownership/statement.py",
    "agent/period/ask.py", "agent/period/attach.py", "agent/period/competing.py",
    "agent/period/rules.py", "agent/period/tracker.py", "agent/period/traits.py",
    "agent/provider_config/asserted.py", "agent/switching/*.py", "reportclient/refusals.py",
    "reportclient/apply.py", "reportclient/diff.py",
    "reportclient/reader.py", "reportclient/rebase.py", "reportclient/reshape.py",
    "reportclient/snapshot.py", "reportclient/view.py", "reportclient/claims.py",
]
also_copy = ["setup.cfg", "etc", "docs", "examples", "benchmarks"]
pytest_add_cli_args_test_selection = [
    "tests/ownership", "tests/examples", "tests/unit/reportclient", "tests/unit/test_host_status.py",
    "tests/unit/test_host_enabled.py", "tests/unit/test_service_switch.py",
    "tests/unit/test_many_nodes.py", "tests/property/test_diff.py",
    "tests/property/test_apply_on_fake.py", "tests/property/test_host_status.py",
    "tests/property/test_rebase.py", "tests/contract", "tests/world",
    "tests/unit/metrics/test_monitoring.py", "tests/unit/provider_config", "tests/unit/registry",
    "tests/unit/state", "tests/unit/test_nodes.py", "tests/unit/test_signing.py",
    "tests/unit/test_switching.py", "tests/unit/test_watching.py", "tests/property/test_tree_model.py",
]
# This one takes longer than many others together.
pytest_add_cli_args = ["-W", "ignore", "--ignore", "tests/ownership/test_whatever_drivers_say.py"]
timeout_multiplier = 3.0
timeout_constant = 20.0
mutate_only_covered_lines = false
track_dependencies = false
use_git_change_detection = false
TOML
}

make_copy() {
    local code=()
    [ -d "$COPY" ] || code=(agent benchmarks compute_registry computectl driverkit drivers reportclient setup.cfg etc docs examples)
    mkdir -p "$COPY"
    (cd "$ROOT" && git ls-files -z tests "${code[@]}" | xargs -0 cp --parents -t "$COPY")
    write_configuration
}

# names_left PATTERN...: print the mutants to run, or the patterns if there are no mutants yet.
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
    (cd "$COPY" && "$OWN_VENV/bin/python" - "$ROOT" <<'PYTHON'
import collections, json, pathlib, re, sys
sys.path.insert(0, sys.argv[1])
from tests.mutants.mutants import survivors
reasons = collections.Counter()
for module, function, number, _ in survivors():
    reasons[f"{module}.{function}"] += number

def has_reason(key):
    module, _, mangled = key.rpartition(".")
    name = re.sub("__mutmut_.*", "", mangled)
    name = f"{module}.{name.removeprefix('x_').removeprefix('xǁ').replace('ǁ', '.')}"
    reasons[name] -= 1
    return reasons[name] >= 0

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
        if names.get(code) in ("survived", "untested") and not has_reason(key):
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
        sed -n '2,19s/^#\( \|$\)//p' "$0"
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
# Few examples for each property, the same ones each time.
export HYPOTHESIS_PROFILE=fast COMPUTE_AGENT_TEST_FAST=yes
export PATH=$OWN_VENV/bin:$PATH
status=0
mapfile -t names < <(names_left "$@" | grep .)
if [ ${#names[@]} -eq 0 ]; then
    score
    say "all of these mutants have already run; the copy is in $COPY"
    exit
fi
if [ $# -eq 0 ] && [ "${names[*]}" = "*" ]; then names=(); fi
say "running for at most $minutes minutes; the output of mutmut is in $COPY/run.log"
timeout --signal=INT --kill-after=30 "${minutes}m" \
    nice -n 19 mutmut run --max-children "$(nproc)" "${names[@]}" >"$COPY/run.log" 2>&1 || status=$?
if [ "$status" -ne 0 ] && [ "$status" -ne 124 ]; then
    tail -n 25 "$COPY/run.log" >&2
    fail "mutmut ended with $status" "Has the code changed since the first call?  rm -r $COPY" \
        "Do the tests pass?  See $COPY/run.log"
fi
score
say "the copy is in $COPY"
