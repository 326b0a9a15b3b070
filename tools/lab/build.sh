# shellcheck shell=bash
# How the lab's kernel, its modules and its initial memory disk are made: from packages of
# Debian that are fetched and unpacked, not installed.  Sourced by tools/lab.sh; needs
# $STATE, and what tools/setup.sh defines.
#
#   build_lab       afterwards there are $STATE/vmlinuz and $STATE/initrd
#
# Nothing is made anew while $STATE/.built tells of the same files of tools/lab.

LAB=$ROOT/tools/lab

build_lab() {
    local wanted
    wanted=$(cat "$LAB"/{init,guest.sh,modules,build.sh} "$LAB"/mdev/* | sha256sum)
    if [ "$(cat "$STATE/.built" 2>/dev/null)" = "$wanted" ]; then return; fi
    expect_space "$STATE" 1200
    LOG=$STATE/build.log
    : >"$LOG"
    unpack_kernel
    build_module
    pack_initrd
    cp "$UNPACKED/boot/vmlinuz-$KERNEL" "$STATE/vmlinuz"
    rm -rf "$STATE/unpacked" "$STATE/memory-disk"
    echo "$wanted" >"$STATE/.built"
}

# Sets KERNEL, such as 6.1.0-56-amd64, and UNPACKED.
unpack_kernel() {
    KERNEL=$(depends_of linux-image-amd64 '^linux-image-[0-9]')
    if [ -z "$KERNEL" ]; then
        # Nobody has asked this machine's apt for anything yet.
        quietly 'Is there a network?  Are the sources in /etc/apt right?' as_root apt-get -q update
        KERNEL=$(depends_of linux-image-amd64 '^linux-image-[0-9]')
    fi
    KERNEL=${KERNEL#linux-image-}
    [ -n "$KERNEL" ] || fail 'no package linux-image-amd64 is known to apt' \
        'The lab needs the packages of Debian 12: see /etc/apt/sources.list'
    local headers=linux-headers-$KERNEL packages
    packages=("linux-image-$KERNEL" "$headers" "$(depends_of "$headers" -common$)"
        "$(depends_of "$headers" ^linux-kbuild)" busybox-static cpio)
    UNPACKED=$STATE/unpacked
    rm -rf "$UNPACKED"
    mkdir -p "$UNPACKED/packages"
    say "fetching the kernel $KERNEL and what builds a module for it (90 MB)"
    cd "$UNPACKED/packages" || return
    quietly "Is there a network?  If the version is gone, as root: apt-get update" \
        apt-get -q download "${packages[@]}"
    local package
    for package in *.deb; do
        quietly 'Is the disk full?  See: df -h' dpkg-deb --extract "$package" "$UNPACKED"
    done
    cd "$ROOT" || return
}

# depends_of PACKAGE PATTERN: the first package it needs whose name fits.
depends_of() {
    apt-cache depends "$1" 2>/dev/null | awk '$1 == "Depends:" { print $2 }' | grep -m 1 -e "$2" || true
}

build_module() {
    say 'building a kernel module that has mediated devices'
    local headers=$UNPACKED/usr/src/linux-headers-$KERNEL
    # It expects its other half where the package would have installed it.
    sed -i "s#/usr/src/#$UNPACKED/usr/src/#" "$headers/Makefile"
    cp -r "$LAB/mdev" "$UNPACKED/mdev"
    quietly 'Are gcc-12 and make installed?' make -C "$headers" "M=$UNPACKED/mdev" modules
}

pack_initrd() {
    say 'packing the initial memory disk'
    local disk=$STATE/memory-disk name found
    rm -rf "$disk"
    mkdir -p "$disk/bin" "$disk/modules"
    cp "$UNPACKED/bin/busybox" "$disk/bin"
    cp "$LAB/init" "$LAB/guest.sh" "$disk"
    for name in $(grep -v '^#' "$LAB/modules") labmdev; do
        found=$(find "$UNPACKED/lib/modules" "$UNPACKED/mdev" -name "$name.ko")
        [ -n "$found" ] || fail "the kernel $KERNEL has no module $name" \
            "$LAB/modules is made for the kernel of Debian 12: mend it for another."
        cp "$found" "$disk/modules"
        echo "$name" >>"$disk/modules/order"
    done
    (cd "$disk" && find . | "$UNPACKED/bin/cpio" --quiet -o -H newc -R 0:0 | gzip -1) >"$STATE/initrd.new"
    mv "$STATE/initrd.new" "$STATE/initrd"
}
