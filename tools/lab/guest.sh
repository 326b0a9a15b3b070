#!/bin/sh
# Sets up the booted lab as a hypervisor: devices, hugepages, udev, a shell on the second serial
# line, and a libvirtd that is restarted whenever it ends.  Runs as process 1.  tools/lab.sh waits
# for the lines that start with LAB.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
PF=/sys/bus/pci/devices/0000:41:00.0
NODES=/sys/devices/system/node

# Hide these directories of the outer machine: not all of their files can be read.
for directory in /run /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log /tmp; do
    mkdir -p "$directory"
    mount -t tmpfs tmpfs "$directory"
done
mkdir -p /run/lock /run/udev /var/lib/libvirt/qemu /dev/pts /dev/shm /dev/hugepages
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t hugetlbfs hugetlbfs /dev/hugepages
mount -t cgroup2 cgroup2 /sys/fs/cgroup
hostname lab
echo LAB booted

echo 0 >"$PF/sriov_drivers_autoprobe" # VFs are for guests: bind no driver
echo 2 >"$PF/sriov_numvfs"
echo 64 >$NODES/node0/hugepages/hugepages-2048kB/nr_hugepages
echo 32 >$NODES/node1/hugepages/hugepages-2048kB/nr_hugepages

# The addresses of QEMU's user network; udev chose the interface name.
ip link set lo up
card=$(basename /sys/bus/pci/drivers/virtio-pci/*/virtio*/net/*)
ip address add 10.0.2.15/24 dev "$card"
ip link set "$card" up

/lib/systemd/systemd-udevd --daemon
udevadm trigger
udevadm settle --timeout=60
echo LAB devices

stty -F /dev/ttyS1 raw -echo
# Through a pipe, so that the shell sees no terminal and prints no prompt.
(while :; do setsid sh </dev/ttyS1 2>&1 | cat >/dev/ttyS1; done) &

rm -f /usr/bin/qemu-system-i386 # libvirt probes each emulator, which takes long
cat >/run/libvirtd.conf <<'CONF'
listen_tls = 0
listen_tcp = 1
auth_tcp = "none"
auth_unix_rw = "none"
CONF
printf 'user = "root"\ngroup = "root"\nstdio_handler = "file"\n' >/etc/libvirt/qemu.conf
(
    until virsh -c qemu:///system nodeinfo >/dev/null 2>&1; do sleep 1; done
    echo LAB libvirtd answers
) &
while :; do
    libvirtd --listen -f /run/libvirtd.conf >>/run/libvirtd.log 2>&1
    echo "libvirtd ended with $?"
    sleep 1
done
