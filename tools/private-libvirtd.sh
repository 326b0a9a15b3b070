#!/bin/bash
# Starts a libvirtd of its own, in the foreground: private-libvirtd.sh DIR
#
# All that it reads and writes lives below DIR, bound over the system's folders in a
# mount namespace of its own: the libvirtd of this machine, if there is one, is not
# touched and not seen.  No network is defined, so no bridge and no dnsmasq is started.
#
#   URI      qemu+unix:///system?socket=DIR/run/libvirt/libvirt-sock
#   PID      DIR/run/libvirtd.pid (libvirtd itself, not what watches over it)
#   log      DIR/log/libvirtd.log
#
# Whoever may enter DIR may use it: keep that to yourself (chmod 700).  SIGTERM or SIGINT ends it and everything that it started.
set -euo pipefail

die() {
    echo "private-libvirtd: $*" >&2
    exit 1
}

[ $# -eq 1 ] || die "usage: private-libvirtd.sh DIR"
[ "$(id -u)" -eq 0 ] || die "has to run as root: libvirtd and mount namespaces need it (try sudo)"

tools=$(dirname "$(readlink -f "$0")")
libvirtd=$(PATH=$PATH:/usr/sbin:/sbin command -v libvirtd) ||
    die "no libvirtd here; on Debian: apt-get install libvirt-daemon-system qemu-system-x86"
python=$(command -v python3) || die "python3 is not installed"
unshare --mount --propagation private true 2>/dev/null ||
    die "this machine does not allow a mount namespace (a container without CAP_SYS_ADMIN?)"

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
rm -f "$socket" # a client that waits for it to appear must not find the last one's
exec unshare --mount --propagation private sh -c "$bind" private-libvirtd "$dir" \
    "$python" "$tools/subreaper.py" "$libvirtd" --pid-file "$dir/run/libvirtd.pid"
