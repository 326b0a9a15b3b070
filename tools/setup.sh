# shellcheck shell=bash
# What tools/demo.sh and tools/test.sh share: everything that a fresh Debian 12 lacks.
# Sourced, not run.  It asks no questions, does only what is missing, and says what it
# does on lines that start with "==>"; all the rest goes to a log that is shown when
# something fails.
#
#   set_up EXTRAS PACKAGE...    afterwards $VENV/bin has the commands
#
# COMPUTE_AGENT_VENV names another place for the virtual environment, and
# COMPUTE_AGENT_REFERENCE_VENV for the one with nova, which install_reference makes;
# COMPUTE_AGENT_SKIP_PACKAGES says that no system package is to be looked for.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${COMPUTE_AGENT_VENV:-$ROOT/.venv}
NOVA=nova==34.0.0
REFERENCE_VENV=${COMPUTE_AGENT_REFERENCE_VENV:-$ROOT/.venv-nova}

# shellcheck disable=SC2034  # for the scripts that source this
BUILD_PACKAGES=(gcc libc6-dev pkg-config libvirt-dev)
case $(uname -m) in
    aarch64) QEMU_PACKAGE=qemu-system-arm ;;
    *) QEMU_PACKAGE=qemu-system-x86 ;;
esac
# Named one by one, because recommended packages are not installed.
# shellcheck disable=SC2034
LIBVIRT_PACKAGES=(libvirt-daemon-system libvirt-daemon libvirt-daemon-driver-qemu
    libvirt-clients "$QEMU_PACKAGE" qemu-utils udev)

# shellcheck disable=SC2034
SERVER_PACKAGES=(mariadb-server postgresql rabbitmq-server)

say() { printf '==> %s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    if [ $# -gt 0 ]; then printf '       %s\n' "$@" >&2; fi
    exit 1
}

set_up() {
    local extras=$1
    shift
    LOG=$(mktemp "${TMPDIR:-/tmp}/compute-agent-setup.XXXXXX") ||
        fail "no file can be made in ${TMPDIR:-/tmp}" "Is the disk full?  See: df -h"
    take_checkout_back
    choose_python "$@"
    make_environment "$extras"
    rm -f "$LOG"
}

# What root made in somebody's checkout (sudo tools/demo.sh) is given to whose checkout it is,
# or the next command of that user could not write there.
take_checkout_back() {
    local owner roots directory
    owner=$(stat -c %u:%g "$ROOT")
    if [ "${owner%:*}" = 0 ]; then return; fi
    for directory in "$ROOT" "$VENV"; do
        roots=$(find "$directory" -xdev -user 0 -print -quit 2>/dev/null || true)
        if [ -z "$roots" ]; then continue; fi
        if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; then
            fail "$roots belongs to root: something was run with sudo here" \
                "Give it back: sudo chown -R $(id -un) $directory"
        fi
        as_root find "$directory" -xdev -user 0 -exec chown -h "$owner" {} +
    done
}

# quietly NEXT-STEP COMMAND...: run it with its output in the log; on failure show the
# end of it and say what to do.
quietly() {
    local next=$1
    shift
    printf '\n$ %s\n' "$*" >>"$LOG"
    "$@" >>"$LOG" 2>&1 </dev/null && return
    tail -n 25 "$LOG" >&2
    if grep -q 'No space left on device' "$LOG"; then next='The disk is full: see df -h'; fi
    fail "this failed: $*" "$next" "All that was said: $LOG"
}

# -- system packages

# A python3 that is new enough, can make virtual environments, and against whose
# headers a library can be compiled.
usable_python() {
    command -v "$1" >/dev/null && "$1" - >/dev/null 2>&1 <<'PYTHON'
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info >= (3, 11) and os.path.exists(header)))
PYTHON
}

choose_python() {
    local candidate
    for candidate in python3 /usr/bin/python3; do
        if usable_python "$candidate"; then
            PYTHON=$candidate
            install_packages "$@"
            return
        fi
    done
    install_packages python3 python3-venv python3-dev "$@"
    PYTHON=/usr/bin/python3
    usable_python "$PYTHON" ||
        fail "$PYTHON is $("$PYTHON" --version 2>&1), and Python 3.11 or newer is needed" \
            "Put a newer python3 (with venv and its headers) first on PATH, or use Debian 12."
}

install_packages() {
    local package missing=()
    if [ -n "${COMPUTE_AGENT_SKIP_PACKAGES:-}" ]; then return; fi
    for package in "$@"; do
        if ! installed "$package"; then missing+=("$package"); fi
    done
    if [ ${#missing[@]} -eq 0 ]; then return; fi
    expect_apt "${missing[@]}"
    expect_space / 1500
    say "installing system packages: ${missing[*]}"
    quietly 'Is there a network?  Are the sources in /etc/apt right?' \
        as_root apt-get -q update
    local before
    before=$(units_on_disk)
    quietly "Is there a network?  By hand, as root: apt-get install ${missing[*]}" \
        as_root env DEBIAN_FRONTEND=noninteractive sh -c "$WITHOUT_STARTING" sh \
        apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=120 install "${missing[@]}"
    disable_new_units "$before"
}

# A command during which Debian starts no service that it installs: what is needed of
# them is started privately.  A reload is allowed: D-Bus has to hear of a new polkit.
# shellcheck disable=SC2016
WITHOUT_STARTING='
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    {
        echo "#!/bin/sh"
        echo "for word; do case \$word in *start) exit 101 ;; esac; done"
        echo "exit 0"
    } >$policy && chmod 755 $policy
    trap "rm -f $policy" EXIT
fi
"$@"'

# Servers that only tests need.  What this run has installed of them does not start at boot,
# where it would listen; what was there before is left as it is.
SERVER_UNITS=(rabbitmq-server.service epmd.service epmd.socket mariadb.service postgresql.service
    prometheus.service)

units_on_disk() {
    local unit
    for unit in "${SERVER_UNITS[@]}"; do
        if [ -e "/lib/systemd/system/$unit" ]; then echo "$unit"; fi
    done
}

disable_new_units() {
    local unit new=()
    for unit in $(units_on_disk); do
        case " ${1//$'\n'/ } " in *" $unit "*) ;; *) new+=("$unit") ;; esac
    done
    if [ ${#new[@]} -eq 0 ] || ! command -v systemctl >/dev/null; then return 0; fi
    as_root systemctl disable --quiet "${new[@]}" >>"$LOG" 2>&1 || true
    say "not started at boot, as only tests need them: ${new[*]}"
}

installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

expect_apt() {
    command -v apt-get >/dev/null ||
        fail "this is no Debian: what these of its packages hold may be missing: $*" \
            'Install that, then set COMPUTE_AGENT_SKIP_PACKAGES=yes and run this again.'
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null ||
        fail "these packages are missing, and this is not root, nor has it sudo without a password" \
            "As root: apt-get install $*"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# expect_space DIRECTORY MEBIBYTES
expect_space() {
    local free
    free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
    [ "${free:-0}" -ge "$2" ] ||
        fail "$1 has ${free:-no} MiB free, and $2 are needed" "Make room, then run this again."
}

# -- virtual environment

make_environment() {
    local extras=$1 stamp wanted
    mkdir -p "$VENV" 2>/dev/null || fail "can't make $VENV" \
        "Choose another place: COMPUTE_AGENT_VENV=/some/where $0"
    (: >>"$VENV/.lock") 2>/dev/null || fail "$VENV can't be written by $(id -un)" \
        "Give it back: sudo chown -R $(id -un) $VENV, or choose another place with COMPUTE_AGENT_VENV"
    exec 9>>"$VENV/.lock"
    flock 9 # two of these at once would spoil each other's work
    stamp=$VENV/.installed-${extras//,/-}
    wanted=$(fingerprint)
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || ! "$VENV/bin/python" -c '' 2>/dev/null; then
        install_project "$extras"
        fingerprint >"$stamp"
    fi
    exec 9>&- # what is started later must not hold the lock
}

fingerprint() {
    { cat "$ROOT/setup.cfg" "$ROOT/pyproject.toml" "$ROOT/constraints.txt"; "$PYTHON" --version; echo "$ROOT"; } |
        sha256sum | cut -d' ' -f1
}

install_project() {
    expect_space "$VENV" 700
    if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        say "making a virtual environment in $VENV"
        quietly 'Is python3-venv installed?' "$PYTHON" -m venv "$VENV"
    fi
    say "installing compute-agent[$1] and what it needs (a minute or two)"
    quietly 'Is there a network?  Does pip reach its index (see pip config list)?' \
        "$VENV/bin/python" -m pip install --disable-pip-version-check \
        -c "$ROOT/constraints.txt" -e "${ROOT}[$1]"
}

# -- Nova in an environment of its own, for benchmarks and for tests beside it

install_reference() {
    if [ "$(cat "$REFERENCE_VENV/.installed" 2>/dev/null)" = "$NOVA" ]; then return; fi
    LOG=$(mktemp "${TMPDIR:-/tmp}/compute-agent-setup.XXXXXX")
    expect_space "$(dirname "$REFERENCE_VENV")" 700
    say "installing $NOVA in $REFERENCE_VENV (a minute or two)"
    quietly 'Is python3-venv installed?' "$PYTHON" -m venv "$REFERENCE_VENV"
    quietly 'Is there a network?  Does pip reach its index (see pip config list)?' \
        "$REFERENCE_VENV/bin/python" -m pip install --disable-pip-version-check "$NOVA"
    echo "$NOVA" >"$REFERENCE_VENV/.installed"
    rm -f "$LOG"
}
