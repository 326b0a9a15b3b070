# shellcheck shell=bash
# Builds the lab's kernel, its modules and its initrd from Debian packages, which are downloaded
# and unpacked, not installed.  Sourced by tools/lab.sh; needs $STATE and tools/setup.sh.
#
#   build_lab       creates $STATE/vmlinuz and $STATE/initrd
#
# Nothing is rebuilt while $STATE/.built has the checksum of the files in tools/lab.

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
        # apt has no package lists yet.
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
    say "downloading the kernel $KERNEL and its headers (90 MB)"
    cd "$UNPACKED/packages" || return
    quietly "Is there a network?  If the version is gone, as root: apt-get update" \
        apt-get -q download "${packages[@]}"
    local package
    for package in *.deb; do
        quietly 'Is the disk full?  See: df -h' dpkg-deb --extract "$package" "$UNPACKED"
    done
    cd "$ROOT" || return
}

# depends_of PACKAGE PATTERN: print the first dependency whose name matches.
depends_of() {
    apt-cache depends "$1" 2>/dev/null | awk '$1 == "Depends:" { print $2 }' | grep -m 1 -e "$2" || true
}

build_module() {
    say 'building a kernel module that provides mediated devices'
    local headers=$UNPACKED/usr/src/linux-headers-$KERNEL
    # The Makefile refers to the common headers at their installed path.
    sed -i "s#/usr/src/#$UNPACKED/usr/src/#" "$headers/Makefile"
    cp -r "$LAB/mdev" "$UNPACKED/mdev"
    quietly 'Are gcc-12 and make installed?' make -C "$headers" "M=$UNPACKED/mdev" modules
}

pack_initrd() {
    say 'packing the initrd'
    local disk=$STATE/memory-disk name found
    rm -rf "$disk"
    mkdir -p "$disk/bin" "$disk/modules"
    cp "$UNPACKED/bin/busybox" "$disk/bin"
    cp "$LAB/init" "$LAB/guest.sh" "$disk"
    for name in $(grep -v '^#' "$LAB/modules") labmdev; do
        found=$(find "$UNPACKED/lib/modules" "$UNPACKED/mdev" -name "$name.ko")
        [ -n "$found" ] || fail "the kernel $KERNEL has no module $name" \
            "$LAB/modules is for the kernel of Debian 12: adapt it to this one."
        cp "$found" "$disk/modules"
        echo "$name" >>"$disk/modules/order"
    done
    (cd "$disk" && find . | "$UNPACKED/bin/cpio" --quiet -o -H newc -R 0:0 | gzip -1) >"$STATE/initrd.new"
    mv "$STATE/initrd.new" "$STATE/initrd"
}
