# shellcheck shell=bash
# The lab's QEMU: command line, start, stop and progress messages.  Sourced by tools/lab.sh; needs
# $STATE and tools/setup.sh.

CONSOLE=$STATE/console.log
QMP=$STATE/qmp
SHELL_SOCKET=$STATE/shell
PIDFILE=$STATE/qemu.pid
READY_SECONDS=${COMPUTE_AGENT_LAB_SECONDS:-300}

# Print the pid of this lab's QEMU, if it runs.  Checks the command line, since the pid in the file
# may have been reused.
running() {
    local pid
    pid=$(cat "$PIDFILE" 2>/dev/null) || return 1
    tr "\0" "\n" 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF "unix:$QMP,server=on,wait=off" || return 1
    echo "$pid"
}

uri() { echo "qemu+tcp://127.0.0.1:$(cat "$STATE/port")/system"; }

answers() { timeout -k 2 20 virsh -q -c "$(uri)" nodeinfo >/dev/null 2>&1; }

free_port() {
    python3 -c 'import socket
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    print(s.getsockname()[1])'
}

boot() {
    free_port >"$STATE/port"
    rm -f "$CONSOLE" "$QMP" "$SHELL_SOCKET"
    local as=()
    # The lab sees this machine's files: without root it can read only the world-readable ones.
    if [ "$(id -u)" -eq 0 ]; then as=(-runas nobody); fi
    say 'booting the lab in QEMU without KVM: a core for half a minute, 1 GB of memory while it runs'
    LOG=$STATE/qemu.log
    : >"$LOG"
    quietly "See $LOG" qemu-system-x86_64 "${as[@]}" -daemonize -pidfile "$PIDFILE" \
        -nodefaults -no-reboot -display none -qmp "unix:$QMP,server=on,wait=off" \
        -serial "file:$CONSOLE" \
        -chardev "socket,id=shell,path=$SHELL_SOCKET,server=on,wait=off" -serial chardev:shell \
        -kernel "$STATE/vmlinuz" -initrd "$STATE/initrd" \
        -append 'console=ttyS0 panic=-1 quiet intel_iommu=on' \
        "${CELLS[@]}" "${FILES_AND_NETWORK[@]}" \
        -netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:$(cat "$STATE/port")-:16509" \
        "${DEVICES[@]}" 8>&- # QEMU must not hold the lock
}

# Two NUMA cells with 2 GiB and 1 GiB, two CPUs each, at distance 21.
CELLS=(
    -uuid 1ab00000-0000-4000-8000-000000000001
    -machine q35 -accel 'tcg,thread=multi' -cpu max -m 3G -smp 4,sockets=2,cores=2
    -object memory-backend-ram,id=memory0,size=2G
    -object memory-backend-ram,id=memory1,size=1G
    -numa node,nodeid=0,cpus=0-1,memdev=memory0
    -numa node,nodeid=1,cpus=2-3,memdev=memory1
    -numa dist,src=0,dst=1,val=21
)
FILES_AND_NETWORK=(
    -virtfs local,path=/,mount_tag=machine,security_model=none,readonly=on,multidevs=remap
    -device virtio-net-pci,netdev=net
)
# The IOMMU, without which a guest can't be given a PCI device, comes before the devices.
# 21:00.0, at cell 0: "edu", which the module of mdev/ uses as a graphics card.
# 41:00.0, at cell 1: an NVMe controller with up to four VFs, and an empty slot.
DEVICES=(
    -device intel-iommu
    -device pxb-pcie,id=bridge0,bus=pcie.0,bus_nr=32,numa_node=0
    -device pxb-pcie,id=bridge1,bus=pcie.0,bus_nr=64,numa_node=1
    -device pcie-root-port,id=port0,bus=bridge0,slot=1,chassis=1 -device edu,bus=port0
    -device pcie-root-port,id=port1,bus=bridge1,slot=2,chassis=2
    -device nvme-subsys,id=subsystem
    -device 'nvme,bus=port1,serial=lab,subsys=subsystem,sriov_max_vfs=4,sriov_vq_flexible=8,sriov_vi_flexible=4,max_ioqpairs=18,msix_qsize=17'
    -device pcie-root-port,id=socket1,bus=bridge1,slot=3,chassis=3
)

# Print the progress of the boot; if it fails, print the end of the console and exit.
wait_until_ready() {
    local printed=0 line lines give_up=$((SECONDS + READY_SECONDS))
    until grep -q '^LAB libvirtd answers' "$CONSOLE" 2>/dev/null && answers; do
        mapfile -t lines < <(grep -a '^LAB' "$CONSOLE" 2>/dev/null | tr -d '\r')
        for line in "${lines[@]:printed}"; do say "in the lab: ${line#LAB }"; done
        printed=${#lines[@]}
        if ! running >/dev/null || [ $SECONDS -gt $give_up ]; then
            tail -n 20 "$CONSOLE" >&2 || true
            stop_lab
            fail "the lab did not boot" "Its console output is in $CONSOLE" \
                "On a slow machine allow more time: COMPUTE_AGENT_LAB_SECONDS=600 (now $READY_SECONDS)"
        fi
        sleep 0.5
    done
}

stop_lab() {
    local pid tenth
    pid=$(running) || return 0
    python3 "$LAB/talk.py" qmp "$QMP" quit >/dev/null 2>&1 || kill -TERM "$pid" 2>/dev/null || true
    for tenth in $(seq 100); do
        if ! running >/dev/null; then return 0; fi
        sleep 0.1
    done
    say "QEMU did not end within $((tenth / 10)) s: killing it"
    kill -KILL "$pid" 2>/dev/null || true
}
