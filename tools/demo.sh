#!/usr/bin/env bash
# Shows the agent at work on this machine, which needs only Debian 12: installs what is missing,
# starts a private libvirtd and Placement, and reports this host to that Placement.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"
# shellcheck source=tools/lab/demo.sh
. "$ROOT/tools/lab/demo.sh"

usage() {
    cat <<USAGE
$(sed -n '2,3s/^# //p' "$0")

usage: tools/demo.sh [--once] [--driver libvirt|fake | --lab]

  --once            run one period and print the tree; without this option run until Ctrl-C
  --driver libvirt  report this machine through libvirt; an error if libvirt is not available
  --driver fake     report a scripted host with two NUMA nodes, SR-IOV and shared storage
                    (default: libvirt if it is available, else fake)
  --lab             report the hypervisor of tools/lab.sh, with two NUMA nodes, hugepages, VFs
                    and vGPUs. A network card is plugged in and out while you watch. The
                    hypervisor is started and stopped by this command, unless it already runs

COMPUTE_AGENT_DEMO_DIR      directory of the demo's Placement and state, kept between runs
                            (now $STATE)
COMPUTE_AGENT_VENV          directory of the virtual environment
COMPUTE_AGENT_DEMO_SECONDS  --lab: seconds before the card is plugged in or out (8)
USAGE
}

STATE=${COMPUTE_AGENT_DEMO_DIR:-${XDG_STATE_HOME:-${HOME:-/root}/.local/state}/compute-agent-demo}
DRIVER=libvirt
DRIVER_CHOSEN=
LAB=
LIBVIRT_URI=
LIBVIRTD_PID=
AGENT_PID=
ONCE=()

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --once) ONCE=(--once) ;;
            --lab) LAB=yes ;;
            --driver=*) choose_driver "${1#*=}" ;;
            --driver)
                [ $# -gt 1 ] || fail '--driver needs a name: libvirt or fake'
                choose_driver "$2"
                shift
                ;;
            *) help_or_fail "$1" ;;
        esac
        shift
    done
    if [ -n "$LAB" ] && [ -n "$DRIVER_CHOSEN" ]; then
        fail '--lab and --driver do not go together' '--lab always uses the libvirt driver: tools/demo.sh --lab'
    fi
}

choose_driver() {
    case $1 in
        libvirt | fake) DRIVER=$1 DRIVER_CHOSEN=yes ;;
        *) fail "this demo has no driver $1" 'Choose libvirt or fake' ;;
    esac
}

# -- libvirt

# Sets LIBVIRT_URI, or returns 1.
find_libvirt() {
    if { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; } && start_private_libvirtd; then return; fi
    if libvirt_answers qemu:///system; then
        say "using this machine's libvirtd, qemu:///system"
        LIBVIRT_URI=qemu:///system
        return
    fi
    return 1
}

start_private_libvirtd() {
    local directory=$STATE/libvirtd log=$STATE/libvirtd.log
    # The path of a socket has at most 107 characters.
    if [ ${#directory} -gt 70 ]; then directory=$(mktemp -d /tmp/compute-agent.XXXXXX); fi
    local uri="qemu+unix:///system?socket=$directory/run/libvirt/libvirt-sock"
    say "starting a private libvirtd in $directory"
    mkdir -p "$directory"
    # In a session of its own, so that Ctrl-C ends the agent first and libvirtd after it.  The shell waits
    # for it and passes SIGTERM on: where sudo allots a terminal (use_pty, as in Debian 12), setsid
    # would fork and end at once.
    local through=()
    if [ "$(id -u)" -ne 0 ]; then through=(sudo -n); fi
    "${through[@]}" sh -c 'trap "kill \$!" TERM; trap "" INT; setsid "$@" & wait; wait' sh \
        "$ROOT/tools/private-libvirtd.sh" "$directory" >"$log" 2>&1 </dev/null &
    LIBVIRTD_PID=$!
    local second
    for second in $(seq 30); do
        if [ ! -e "/proc/$LIBVIRTD_PID" ]; then break; fi
        if libvirt_answers "$uri"; then
            LIBVIRT_URI=$uri
            return
        fi
        sleep 1
    done
    say "the private libvirtd did not answer within $second s; the end of $log:"
    tail -n 5 "$log"
    stop LIBVIRTD_PID
    return 1
}

libvirt_answers() {
    timeout -k 2 5 virsh -q -c "$1" version >/dev/null 2>&1
}

fall_back_to_the_script() {
    if [ -n "$DRIVER_CHOSEN" ]; then
        fail 'no libvirtd answers on this machine, and a private one does not start' \
            'Run this as root, or start libvirtd, or use the scripted host: tools/demo.sh --driver fake'
    fi
    say 'libvirtd is not available here: using the scripted host instead (--driver fake)'
    DRIVER=fake
}

# -- starting and stopping

# stop VARIABLE: end the process whose id it holds, and wait for that.
stop() {
    local pid=${!1} tenth
    printf -v "$1" ''
    if [ -z "$pid" ] || ! signal_to TERM "$pid"; then return 0; fi
    for tenth in $(seq 100); do
        if [ ! -e "/proc/$pid" ]; then return 0; fi
        sleep 0.1
    done
    say "process $pid did not end within $((tenth / 10)) s: killing it"
    signal_to KILL "$pid" || true
}

# signal_to NAME PID: signal a process, also one that was started through sudo.
signal_to() {
    kill "-$1" "$2" 2>/dev/null || { [ -e "/proc/$2" ] && as_root sh -c "kill -$1 $2" 2>/dev/null; }
}

stop_everything() {
    stop AGENT_PID
    stop LIBVIRTD_PID
    stop_lab_parts
}

pass_on_the_signal() {
    if [ -n "$AGENT_PID" ]; then
        kill -TERM "$AGENT_PID" 2>/dev/null || true
    else
        exit 130
    fi
}

# Each driver has its own Placement and compute_id, since each reports another host.
write_configuration() {
    local directory=$STATE/${LAB:+lab-}$DRIVER
    CONFIGURATION=$directory.conf
    mkdir -p "$directory"
    cat >"$CONFIGURATION" <<CONF
[DEFAULT]
state_path = $directory
compute_driver = $DRIVER
CONF
    if [ -n "$LIBVIRT_URI" ]; then
        printf '[libvirt]\nconnection_uri = %s\n' "$LIBVIRT_URI"
        if [ -n "$LAB" ]; then lab_configuration; else echo "virt_type = $(virt_type)"; fi
    fi >>"$CONFIGURATION"
    if [ -n "$LAB" ] && [ ${#ONCE[@]} -eq 0 ]; then play "$directory/status.json"; fi
}

# Many test machines are virtual machines without KVM.
virt_type() {
    if virsh -q -c "$LIBVIRT_URI" domcapabilities --virttype kvm >/dev/null 2>&1; then
        echo kvm
    else
        echo qemu
    fi
}

# Run the agent in the background, so that this script receives signals meanwhile.
run_agent() {
    local arguments=(--dev --config-file "$CONFIGURATION" "${ONCE[@]}") status=0
    say "compute-agent ${arguments[*]}"
    "$VENV/bin/compute-agent" "${arguments[@]}" &
    AGENT_PID=$!
    while :; do
        status=0
        wait "$AGENT_PID" || status=$?
        # A signal interrupts the wait; the agent may still run.
        if ! kill -0 "$AGENT_PID" 2>/dev/null; then break; fi
    done
    # Get the agent's exit status, since a signal may have interrupted the last wait.
    status=0
    wait "$AGENT_PID" || status=$?
    AGENT_PID=
    return "$status"
}

read_arguments "$@"
trap stop_everything EXIT
trap pass_on_the_signal INT TERM HUP
if [ "$DRIVER" = libvirt ]; then
    set_up libvirt,dev "${BUILD_PACKAGES[@]}" "${LIBVIRT_PACKAGES[@]}"
else
    set_up dev
fi
mkdir -p "$STATE" || fail "cannot create $STATE" 'Choose another directory: COMPUTE_AGENT_DEMO_DIR=/some/where'
chmod 700 "$STATE"
if [ -n "$LAB" ]; then
    start_lab
elif [ "$DRIVER" = libvirt ]; then
    find_libvirt || fall_back_to_the_script
fi
write_configuration
run_agent
