# shellcheck shell=bash
# tools/demo.sh --lab: reports the hypervisor of tools/lab.sh, and plugs a network card in and
# out in the background.  Sourced by tools/demo.sh.

LOOK_SECONDS=${COMPUTE_AGENT_DEMO_SECONDS:-8}
LAB_PID=
HAND_PID=
LAB_IS_OURS=

# In the background, so that this script receives signals while the lab boots.
start_lab() {
    if ! "$ROOT/tools/lab.sh" uri >/dev/null 2>&1; then LAB_IS_OURS=yes; fi
    "$ROOT/tools/lab.sh" start &
    LAB_PID=$!
    wait "$LAB_PID" || fail 'the lab does not run' 'Its output is above; see also tools/lab.sh --help'
    LAB_PID=
    # shellcheck disable=SC2034  # for the script that sources this
    LIBVIRT_URI=$("$ROOT/tools/lab.sh" uri)
    # The demo starts without the card.
    "$ROOT/tools/lab.sh" unplug >/dev/null
}

# Stop the lab only if this script started it.
stop_lab_parts() {
    stop HAND_PID
    stop LAB_PID
    if [ -n "$LAB_IS_OURS" ]; then "$ROOT/tools/lab.sh" stop; fi
}

lab_configuration() {
    cat <<'CONF'
report_numa = nested
report_hugepages = pages
virt_type = qemu
[pci]
report_in_placement = true
device_spec = [{"vendor_id": "1b36", "product_id": "0010"}, {"vendor_id": "8086", "product_id": "10d3", "resource_class": "network-card"}]
[devices]
enabled_mdev_types = labmdev-large
CONF
}

# play STATUS-FILE: once the agent has reported, plug the card in and out again.
play() {
    rm -f "$1"
    play_with_the_card "$1" &
    HAND_PID=$!
}

play_with_the_card() {
    until [ -e "$1" ]; do pause 0.2; done
    pause "$LOOK_SECONDS"
    say 'plugging a network card in, at NUMA node 1'
    "$ROOT/tools/lab.sh" plug >/dev/null
    pause "$LOOK_SECONDS"
    say 'taking the card out again'
    "$ROOT/tools/lab.sh" unplug >/dev/null
    pause "$LOOK_SECONDS"
    say 'now try it: tools/lab.sh plug, tools/lab.sh unplug; Ctrl-C ends the demo'
}

# Holds none of our output open when we are gone.
pause() { sleep "$1" >/dev/null 2>&1; }
