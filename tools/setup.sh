# shellcheck shell=bash
# Functions that the other scripts share: they install what a fresh Debian 12 lacks.  Sourced, not
# run.  They ask no questions, install only what is missing, and print what they do on lines that
# start with "==>"; other output goes to a log, whose end is printed if a command fails.
#
#   set_up EXTRAS PACKAGE...    installs packages and makes the virtual environment $VENV
#
# COMPUTE_AGENT_VENV is another path for the virtual environment, COMPUTE_AGENT_REFERENCE_VENV for
# the one with nova, which install_reference makes.  With COMPUTE_AGENT_SKIP_PACKAGES=yes no system
# package is installed.

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
# Listed one by one, since recommended packages are not installed.
# shellcheck disable=SC2034
LIBVIRT_PACKAGES=(libvirt-daemon-system libvirt-daemon libvirt-daemon-driver-qemu
    libvirt-clients "$QEMU_PACKAGE" qemu-utils udev)

# shellcheck disable=SC2034
SERVER_PACKAGES=(mariadb-server rabbitmq-server)

say() { printf '==> %s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    if [ $# -gt 0 ]; then printf '       %s\n' "$@" >&2; fi
    exit 1
}

# help_or_fail ARGUMENT: print the usage of this tool, or refuse an argument that it does not have.
help_or_fail() {
    case $1 in
        -h | --help) usage ;;
        *) fail "unknown argument: $1" "See $0 --help" ;;
    esac
    exit
}

set_up() {
    local extras=$1
    shift
    LOG=$(mktemp "${TMPDIR:-/tmp}/compute-agent-setup.XXXXXX") ||
        fail "cannot create a file in ${TMPDIR:-/tmp}" "Is the disk full?  See: df -h"
    take_checkout_back
    choose_python "$@"
    make_environment "$extras"
    rm -f "$LOG"
}

# Files that root created in a user's checkout (sudo tools/demo.sh) are given to the owner of the
# checkout, whose next command could not write there otherwise.
take_checkout_back() {
    local owner roots directory
    owner=$(stat -c %u:%g "$ROOT")
    if [ "${owner%:*}" = 0 ]; then return; fi
    for directory in "$ROOT" "$VENV"; do
        roots=$(find "$directory" -xdev -user 0 -print -quit 2>/dev/null || true)
        if [ -z "$roots" ]; then continue; fi
        if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; then
            fail "$roots belongs to root: a command was run with sudo here" \
                "Run: sudo chown -R $(id -un) $directory"
        fi
        as_root find "$directory" -xdev -user 0 -exec chown -h "$owner" {} +
    done
}

# quietly NEXT-STEP COMMAND...: run a command with its output in the log; if it fails, print the end
# of the log and the next step, and exit.
quietly() {
    local next=$1
    shift
    printf '\n$ %s\n' "$*" >>"$LOG"
    "$@" >>"$LOG" 2>&1 </dev/null && return
    tail -n 25 "$LOG" >&2
    if grep -q 'No space left on device' "$LOG"; then next='The disk is full: see df -h'; fi
    fail "this command failed: $*" "$next" "The complete output is in $LOG"
}

# -- system packages

# Whether a python3 is new enough, can make virtual environments, and has its headers.
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

# Run a command while Debian starts no service that it installs: the tests start their own.  A reload
# is allowed, since D-Bus has to notice a new polkit.
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

# Servers that only tests need.  Those that this run has installed are disabled, so that they do not
# start at boot; those that were installed before are left as they are.
SERVER_UNITS=(rabbitmq-server.service epmd.service epmd.socket mariadb.service
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
    say "disabled at boot, since only the tests need them: ${new[*]}"
}

installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

expect_apt() {
    command -v apt-get >/dev/null ||
        fail "this is not Debian, and the programs of these Debian packages may be missing: $*" \
            'Install them, then set COMPUTE_AGENT_SKIP_PACKAGES=yes and run this again.'
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null ||
        fail "these packages are missing, and this user is not root and has no sudo without a password" \
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
        fail "$1 has ${free:-no} MiB free, but $2 MiB are needed" "Free some space, then run this again."
}

# sources_of RELEASE: print the sources of this Debian that this machine's apt has, in the one-line format.
sources_of() {
    local origin
    # shellcheck disable=SC2016  # apt's own variables
    for origin in Debian Debian-Security; do
        apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
            'Created-By: Packages' "Label: $origin" | awk -v suite="^$1(-updates|-security)?\$" '$3 ~ suite'
    done
}

# -- virtual environment

make_environment() {
    local extras=$1 stamp wanted
    mkdir -p "$VENV" 2>/dev/null || fail "cannot create $VENV" \
        "Choose another path: COMPUTE_AGENT_VENV=/some/where $0"
    (: >>"$VENV/.lock") 2>/dev/null || fail "$(id -un) cannot write to $VENV" \
        "Run: sudo chown -R $(id -un) $VENV, or choose another path with COMPUTE_AGENT_VENV"
    exec 9>>"$VENV/.lock"
    flock 9 # only one installation at a time
    stamp=$VENV/.installed-${extras//,/-}
    wanted=$(fingerprint)
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || ! "$VENV/bin/python" -c '' 2>/dev/null; then
        install_project "$extras"
        fingerprint >"$stamp"
    fi
    exec 9>&- # processes started later must not hold the lock
}

fingerprint() {
    { cat "$ROOT"/{,reportclient/}pyproject.toml "$ROOT/setup.cfg" "$ROOT/constraints.txt"; "$PYTHON" --version; echo "$ROOT"; } |
        sha256sum | cut -d' ' -f1
}

install_project() {
    expect_space "$VENV" 700
    if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        say "making a virtual environment in $VENV"
        quietly 'Is python3-venv installed?' "$PYTHON" -m venv "$VENV"
    fi
    say "installing compute-agent[$1] and its dependencies (a minute or two)"
    constraints >"$VENV/constraints.txt"
    quietly 'Is there a network?  Does pip reach its index (see pip config list)?' \
        "$VENV/bin/python" -m pip install --disable-pip-version-check \
        -c "$VENV/constraints.txt" -e "$ROOT/reportclient" -e "${ROOT}[$1]"
}

constraints() {
    if [ -z "${LOWEST:-}" ]; then
        cat "$ROOT/constraints.txt"
    else
        sed -nE 's/^ +"?([A-Za-z0-9._-]+)(\[.*\])?>=([0-9.]+).*/\1==\3/p' "$ROOT/setup.cfg" \
            "$ROOT/reportclient/pyproject.toml"
    fi
}

# -- Nova in a separate environment, for benchmarks and tests that compare with it

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
