#!/usr/bin/env bash
# A hypervisor in QEMU on this machine, to try the libvirt driver on: two NUMA nodes with
# hugepages, an SR-IOV device with VFs, mediated devices, a slot for hotplug.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"

STATE=${COMPUTE_AGENT_LAB_DIR:-${XDG_STATE_HOME:-${HOME:-/root}/.local/state}/compute-agent-lab}

usage() {
    cat <<USAGE
$(sed -n '2,3s/^# //p' "$0")

usage: tools/lab.sh start | stop | status | uri | plug | unplug | run COMMAND

  start        build the lab (the first time), boot it, and wait for its libvirtd (half a
               minute if two cores are free); do nothing if the lab runs.  Prints the URI last.
  stop         stop the lab; files that were written in it are lost
  status       show whether the lab runs, its URI and its PCI devices; exit code 1 if it does
               not run
  uri          print the URI of the lab's libvirtd, for scripts
  plug         plug a network card into the empty slot, at NUMA node 1
  unplug       take the card out again
  run COMMAND  run a command in the lab as root: tools/lab.sh run 'pkill -9 libvirtd'

While the lab runs, every user of this machine can reach its libvirtd.  The lab can read the
world-readable files of this machine, cannot change any, and cannot reach any network.

COMPUTE_AGENT_LAB_DIR      directory of the lab's kernel and sockets
                           (now $STATE)
COMPUTE_AGENT_LAB_SECONDS  how long to wait for the lab's libvirtd (300)
USAGE
}

start() {
    if running >/dev/null && answers; then
        say "the lab runs already"
        uri
        return
    fi
    install_packages gcc make libc6-dev "${LIBVIRT_PACKAGES[@]}"
    stop_lab
    build_lab
    # If interrupted, stop QEMU too: it would keep a core busy unnoticed.
    trap 'stop_lab; exit 130' INT TERM HUP
    boot
    wait_until_ready
    trap - INT TERM HUP
    say "the lab is ready after $SECONDS s; stop it with tools/lab.sh stop"
    uri
}

status() {
    local pid
    pid=$(running) || {
        say "the lab does not run; start it with tools/lab.sh start"
        return 1
    }
    say "the lab runs (QEMU is process $pid)"
    if answers; then say "libvirtd answers at $(uri)"; else say "libvirtd does not answer at $(uri)"; fi
    say "PCI devices:"
    # shellcheck disable=SC2016  # the shell in the lab expands it
    talk shell "$SHELL_SOCKET" 'cd /sys/bus/pci/devices; for each in *; do
        echo "$each $(cat $each/vendor):$(cat $each/device) node $(cat $each/numa_node)"; done'
}

# change plug|unplug WORDS
change() {
    local status=0
    talk qmp "$QMP" "$1" || status=$?
    case $status in
        0) say "the card $2" ;;
        3) say "the card $2 already" ;;
        *) return "$status" ;;
    esac
}

talk() {
    running >/dev/null || fail 'the lab does not run' 'Start it: tools/lab.sh start'
    python3 "$LAB/talk.py" "$@"
}

prepare() {
    [ "$(uname -sm)" = 'Linux x86_64' ] || fail "the lab is an x86_64 machine, this is $(uname -sm)"
    # The longest of its sockets is STATE/shell; the kernel takes 107 bytes.
    [ "$(printf %s "$STATE/shell" | wc -c)" -le 107 ] || fail "the path $STATE is too long for a unix socket" \
        'Choose another directory: COMPUTE_AGENT_LAB_DIR=/some/where'
    mkdir -p "$STATE" || fail "cannot create $STATE" 'Choose another directory: COMPUTE_AGENT_LAB_DIR=/some/where'
    chmod 700 "$STATE"
    # Only one of these commands at a time.
    exec 8>"$STATE/.lock"
    flock -w 600 8 || fail "another process has held the lock $STATE/.lock for ten minutes" "See: fuser $STATE/.lock"
}

case ${1:-} in
    start | stop | status | uri | plug | unplug | run) ;;
    -h | --help)
        usage
        exit
        ;;
    *)
        usage >&2
        exit 2
        ;;
esac
prepare
# shellcheck source=tools/lab/build.sh
. "$ROOT/tools/lab/build.sh"
# shellcheck source=tools/lab/machine.sh
. "$ROOT/tools/lab/machine.sh"
case $1 in
    start) start ;;
    stop) stop_lab && say 'the lab is stopped' ;;
    status) status ;;
    uri) running >/dev/null && uri ;;
    plug) change plug 'is plugged in' ;;
    unplug) change unplug 'is not plugged in' ;;
    run)
        shift
        talk shell "$SHELL_SOCKET" "$*"
        ;;
esac
