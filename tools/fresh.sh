#!/usr/bin/env bash
# Runs a command of this repository's last commit in a fresh Debian 12, as a user with sudo: a container
# with what debootstrap installs, a clone, and the settings of this machine's apt and pip.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"

if [ $# -eq 0 ] || [ "$1" = -h ] || [ "$1" = --help ]; then
    sed -n '2,3s/^# //p' "$0"
    cat <<USAGE

usage: tools/fresh.sh COMMAND...

for example: tools/fresh.sh tools/demo.sh --once
             tools/fresh.sh tools/test.sh --fast

The container has the network of this machine, and is deleted at the end. What debootstrap installed
stays in build/fresh for the next run.
USAGE
    exit
fi

RELEASE=bookworm
BASE=$ROOT/build/fresh/$RELEASE

make_base() {
    local mirror
    if [ -e "$BASE/etc/apt/sources.list" ]; then return; fi
    mirror=$(sources_of "$RELEASE" | awk 'NR == 1 { print $2 }')
    [ -n "$mirror" ] || fail "apt has no source of Debian $RELEASE here" 'Run: apt-get update'
    say "installing Debian $RELEASE in $BASE (a minute or two)"
    as_root rm -rf "$BASE"
    as_root mkdir -p "$BASE"
    quietly 'Is there a network?' \
        as_root debootstrap --variant=minbase --include=sudo,ca-certificates "$RELEASE" "$BASE" "$mirror"
    sources_of "$RELEASE" | as_root tee "$BASE/etc/apt/sources.list" >/dev/null
}

# Print this machine's settings of where pip finds packages, as a pip.conf.
pip_settings() {
    echo '[global]'
    { python3 -m pip config list 2>/dev/null || true; } |
        sed -nE "s/^[^.]+\.(index-url|extra-index-url|trusted-host|proxy|cert)='(.*)'\$/\1 = \2/p" |
        awk -F ' = ' '!seen[$1]++'
}

make_container() {
    local certificate
    as_root cp -a --reflink=auto "$BASE" "$CONTAINER"
    pip_settings | as_root tee "$CONTAINER/etc/pip.conf" >/dev/null
    certificate=$(sed -n 's/^cert = //p' "$CONTAINER/etc/pip.conf")
    if [ -n "$certificate" ]; then as_root install -D -m 0644 "$certificate" "$CONTAINER$certificate"; fi
    printf '127.0.0.1 localhost\n127.0.1.1 fresh\n' | as_root tee "$CONTAINER/etc/hosts" >/dev/null # sudo looks it up
    as_root chroot "$CONTAINER" useradd --create-home --shell /bin/bash user
    echo 'user ALL=(ALL) NOPASSWD: ALL' | as_root tee "$CONTAINER/etc/sudoers.d/user" >/dev/null
    git -c safe.directory='*' clone --quiet --no-hardlinks "$ROOT" "$SCRATCH/clone"
    as_root mv "$SCRATCH/clone" "$CONTAINER/home/user/compute-agent"
    as_root chroot "$CONTAINER" chown -R user: /home/user
}

LOG=$(mktemp "${TMPDIR:-/tmp}/compute-agent-setup.XXXXXX")
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/compute-agent-fresh.XXXXXX") # for this user: pip's settings may have a password
CONTAINER=$SCRATCH/root
trap 'as_root rm -rf --one-file-system "$SCRATCH"' EXIT
install_packages debootstrap systemd-container git
expect_space "$SCRATCH" 4000
make_base
make_container
say "$* (Debian $RELEASE, as user)"
rm -f "$LOG"
# nspawn refuses to clean up below a /run that is on a disk, as in a container.
as_root unshare --mount sh -c 'mkdir -p /run/systemd/nspawn; mount -t tmpfs tmpfs /run/systemd/nspawn; exec "$@"' sh \
    systemd-nspawn --quiet --register=no --keep-unit --as-pid2 --machine="fresh-$$" --hostname=fresh \
    --directory="$CONTAINER" --user=user --chdir=/home/user/compute-agent "$@"
