#!/bin/bash
# Starts a private libvirtd in the foreground: private-libvirtd.sh DIR
#
# All of its files are below DIR, which is bind-mounted over the system's directories in a
# mount namespace.  The libvirtd of this machine, if there is one, is neither affected nor
# visible.  No network is defined, so no bridge is created and no dnsmasq is started.
#
#   URI      qemu+unix:///system?socket=DIR/run/libvirt/libvirt-sock
#   PID      DIR/run/libvirtd.pid (of libvirtd, not of subreaper.py, its parent)
#   log      DIR/log/libvirtd.log
#
# Every user who can enter DIR can use this libvirtd: chmod 700 DIR.  SIGTERM or SIGINT ends
# libvirtd and all processes that it started.
set -euo pipefail

die() {
    echo "private-libvirtd: $*" >&2
    exit 1
}

[ $# -eq 1 ] || die "usage: private-libvirtd.sh DIR"
[ "$(id -u)" -eq 0 ] || die "run this as root (sudo): libvirtd and mount namespaces need it"

tools=$(dirname "$(readlink -f "$0")")
libvirtd=$(PATH=$PATH:/usr/sbin:/sbin command -v libvirtd) ||
    die "libvirtd is not installed; on Debian: apt-get install libvirt-daemon-system qemu-system-x86"
python=$(command -v python3) || die "python3 is not installed"
unshare --mount --propagation private true 2>/dev/null ||
    die "cannot create a mount namespace: is this a container without CAP_SYS_ADMIN?"

mkdir -p "$1"
dir=$(readlink -f "$1")
socket=$dir/run/libvirt/libvirt-sock
# The kernel takes 107 bytes and a zero; -admin and -ro are the longest that libvirtd adds.
longest=$dir/run/libvirt/libvirt-admin-sock
bytes=$(printf %s "$longest" | wc -c)
[ "$bytes" -le 107 ] ||
    die "the socket's path would have $bytes bytes, the kernel allows 107: choose a DIR that is" \
        "$((bytes - 107)) shorter than $dir"

mkdir -p "$dir"/{etc,lib,cache,log,run/libvirt}
# Guests and probes run as root: the user of the distribution cannot enter DIR.  Without
# security drivers, cgroups, namespaces and virtlogd it also runs inside a container.
cat >"$dir/etc/qemu.conf" <<END
user = "root"
group = "root"
security_driver = "none"
remember_owner = 0
stdio_handler = "file"
cgroup_controllers = []
namespaces = []
END
cat >"$dir/etc/libvirtd.conf" <<END
unix_sock_dir = "$dir/run/libvirt"
unix_sock_rw_perms = "0777"
auth_unix_rw = "none"
auth_unix_ro = "none"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
END

bind='
    set -e
    dir=$1; shift
    mkdir -p /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /run/libvirt
    mount --bind "$dir/etc" /etc/libvirt
    mount --bind "$dir/lib" /var/lib/libvirt
    mount --bind "$dir/cache" /var/cache/libvirt
    mount --bind "$dir/log" /var/log/libvirt
    mount --bind "$dir/run/libvirt" /run/libvirt
    exec "$@"
'
rm -f "$socket" # a client that waits for the socket must not find that of an earlier run
exec unshare --mount --propagation private sh -c "$bind" private-libvirtd "$dir" \
    "$python" "$tools/subreaper.py" "$libvirtd" --pid-file "$dir/run/libvirtd.pid"
