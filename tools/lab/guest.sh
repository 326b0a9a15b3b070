#!/bin/sh
# Makes a hypervisor of the booted lab: devices, hugepages, udev, a shell on the second
# serial line, and a libvirtd that is started again whenever it ends.  Runs as process 1.
# Lines that start with LAB are what tools/lab.sh waits for.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
PF=/sys/bus/pci/devices/0000:41:00.0
NODES=/sys/devices/system/node

# What the machine keeps here is its own, and not all of it can be read.
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

echo 0 >"$PF/sriov_drivers_autoprobe" # a VF is for guests: no driver here
echo 2 >"$PF/sriov_numvfs"
echo 64 >$NODES/node0/hugepages/hugepages-2048kB/nr_hugepages
echo 32 >$NODES/node1/hugepages/hugepages-2048kB/nr_hugepages

# QEMU's user network has these addresses; the card is called what udev has made of it.
ip link set lo up
card=$(basename /sys/bus/pci/drivers/virtio-pci/*/virtio*/net/*)
ip address add 10.0.2.15/24 dev "$card"
ip link set "$card" up

/lib/systemd/systemd-udevd --daemon
udevadm trigger
udevadm settle --timeout=60
echo LAB devices

stty -F /dev/ttyS1 raw -echo
# Through a pipe it is no terminal to the shell, which would prompt there.
(while :; do setsid sh </dev/ttyS1 2>&1 | cat >/dev/ttyS1; done) &

rm -f /usr/bin/qemu-system-i386 # libvirt asks each emulator at length what it can do
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
