#!/usr/bin/env bash
# Builds an image for containers, with compute-agent and compute-registry: Debian 12 from the archive that
# this machine's apt uses, and the packages of tools/deb.sh.  docs/image.rst says how to run it.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"

usage() {
    cat <<USAGE
$(sed -n '2,3s/^# //p' "$0")

usage: tools/image.sh [--packages DIR] [--output FILE]

  --packages DIR  directory with the three packages; without this option tools/deb.sh builds them
  --output FILE   the image, for podman load or docker load (dist/compute-agent-image.tar)

The image is named localhost/compute-agent:VERSION.
USAGE
}

RELEASE=bookworm
BUILD=$ROOT/build/image
PACKAGES=
OUTPUT=$ROOT/dist/compute-agent-image.tar
FILES=$ROOT/tools/image
SHARE=/usr/share/compute-agent/image

while [ $# -gt 0 ]; do
    case $1 in
        --packages | --output)
            [ $# -gt 1 ] || fail "$1 needs a path"
            case $1 in
                --packages) PACKAGES=$(realpath "$2") ;;
                --output) OUTPUT=$(realpath -m "$2") ;;
            esac
            shift
            ;;
        -h | --help)
            usage
            exit
            ;;
        *) fail "unknown argument: $1" 'See tools/image.sh --help' ;;
    esac
    shift
done

# Print the path of a package's one file.
package_file() {
    local files=("$PACKAGES/$1"_*.deb)
    [ -e "${files[0]}" ] && [ ${#files[@]} -eq 1 ] || fail "$PACKAGES has not one file of the package $1" \
        "Remove old versions from it, or leave --packages out."
    echo "${files[0]}"
}

# Users with fixed numbers, since the files of a volume outlive an image.  The group that may use libvirt is
# the host's, and is given when a container is started.
make_root() {
    local name includes=()
    for name in compute-agent-common compute-agent compute-registry; do includes+=(--include="$(package_file "$name")"); done
    say "installing Debian $RELEASE and the packages (a minute or three)"
    sources_of "$RELEASE" >"$BUILD/sources"
    [ -s "$BUILD/sources" ] || fail "apt has no source of Debian $RELEASE here" 'Run: apt-get update'
    quietly 'Is there a network?' as_root mmdebstrap --variant=essential "${includes[@]}" \
        --include=python3-libvirt,ca-certificates,systemd-standalone-sysusers \
        --hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount \
        --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --essential-hook='mkdir -p "$1/etc/sysusers.d"' \
        --essential-hook="copy-in $FILES/compute-agent.conf $FILES/compute-registry.conf /etc/sysusers.d" \
        --customize-hook="mkdir -p \"\$1$SHARE\"" \
        --customize-hook="copy-in $FILES/run $FILES/healthy $SHARE" \
        --customize-hook='chroot "$1" install -d -m 0750 -o compute-agent -g compute-agent /var/lib/compute-agent' \
        --customize-hook='chroot "$1" install -d -m 0750 -o compute-registry -g compute-registry /var/lib/compute-registry' \
        "$RELEASE" "$BUILD/root.tar" "$BUILD/sources"
}

# buildah with its storage in $BUILD, so that nothing is left in this machine's.  It runs nothing.
in_storage() {
    quietly 'The output above is from buildah.' as_root buildah --root "$BUILD/storage" \
        --runroot "$BUILD/storage-run" --storage-driver vfs "$@"
}

# A health check is in Docker's format of images only; podman and others run both.
make_image() {
    say "packing $NAME"
    in_storage from --name agent scratch
    in_storage add agent "$BUILD/root.tar" /
    in_storage config --user compute-agent --entrypoint "[\"$SHARE/run\"]" --cmd compute-agent \
        --volume /var/lib/compute-agent --volume /var/lib/compute-registry --stop-signal SIGTERM \
        --env PYTHONFAULTHANDLER=1 --env OS_MONITORING__LISTEN_PORT=9817 --healthcheck "CMD $SHARE/healthy" --healthcheck-interval 30s \
        --healthcheck-start-period 120s --healthcheck-timeout 10s --healthcheck-retries 3 \
        --label org.opencontainers.image.version="$VERSION" --label org.opencontainers.image.title=compute-agent agent
    rm -f "$OUTPUT"
    in_storage commit --format docker --rm agent "docker-archive:$OUTPUT:$NAME"
}

mkdir -p "$BUILD" "${OUTPUT%/*}"
LOG=$BUILD/log
: >"$LOG"
install_packages mmdebstrap buildah ca-certificates
expect_space "$BUILD" 2000
if [ -z "$PACKAGES" ]; then
    PACKAGES=$BUILD/packages
    rm -rf "$PACKAGES"
    "$ROOT/tools/deb.sh" --output "$PACKAGES"
fi
VERSION=$(dpkg-deb --field "$(package_file compute-agent)" Version)
NAME=localhost/compute-agent:${VERSION//\~/-}
make_root
make_image
as_root rm -rf "$BUILD/storage" "$BUILD/storage-run"
say "$OUTPUT ($(du -m "$OUTPUT" | cut -f1) MB): $NAME"
