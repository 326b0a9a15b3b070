#!/usr/bin/env bash
# Builds Debian packages: compute-agent-common (the Python environment and computectl), and the
# services compute-agent and compute-registry, which depend on it.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"

usage() {
    cat <<USAGE
$(sed -n '2,3s/^# //p' "$0")

usage: tools/deb.sh [--wheels DIR] [--build DIR] [--output DIR]

  --wheels DIR  directory with the wheels of compute-agent and reportclient; without this option
                they are built from this source
  --build DIR   directory for intermediate files (build/deb); files of an earlier run are reused
  --output DIR  directory for the packages (dist)

The packages run on the Debian release that they were built on, with its python3. They contain
the library versions of constraints.txt.

COMPUTE_AGENT_DEB_LEVEL  compression level: 1 to 22 (19)
USAGE
}

WHEELS=
BUILD=$ROOT/build/deb
OUTPUT=$ROOT/dist
SYSTEM_PYTHON=/usr/bin/python3
HOME_OF_ALL=/opt/compute-agent
MAINTAINER="${DEBFULLNAME:-compute-agent} <${DEBEMAIL:-root@localhost}>"

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --wheels | --build | --output)
                [ $# -gt 1 ] || fail "$1 needs a path"
                case $1 in
                    --wheels) WHEELS=$(realpath "$2") ;;
                    --build) BUILD=$(realpath -m "$2") ;;
                    --output) OUTPUT=$(realpath -m "$2") ;;
                esac
                shift
                ;;
            -h | --help)
                usage
                exit
                ;;
            *) fail "unknown argument: $1" 'See tools/deb.sh --help' ;;
        esac
        shift
    done
    ENVIRONMENT=$BUILD/environment
    LOG=$BUILD/log
}

pip() {
    quietly 'Does pip reach its index (see pip config list)?' \
        "$ENVIRONMENT/bin/python" -m pip --disable-pip-version-check "$@"
}

# Build from a copy, since a build writes files into the source tree.
build_wheels() {
    if [ -n "$WHEELS" ]; then return; fi
    say "building the wheels"
    WHEELS=$BUILD/wheels
    rm -rf "$BUILD/source" "$WHEELS"
    mkdir -p "$BUILD/source"
    tar -C "$ROOT" --exclude=__pycache__ --exclude='*.egg-info' -c agent compute_registry computectl \
        driverkit drivers reportclient etc setup.cfg pyproject.toml MANIFEST.in README.rst LICENSE |
        tar -C "$BUILD/source" -x
    pip wheel --no-deps --wheel-dir "$WHEELS" "$BUILD/source/reportclient" "$BUILD/source"
}

make_deb_environment() {
    if ! "$ENVIRONMENT/bin/python" -m pip --version >/dev/null 2>&1; then
        quietly 'Is python3-venv installed?' "$SYSTEM_PYTHON" -m venv --clear "$ENVIRONMENT"
    fi
}

# pip stays in the environment, so that operators can install third-party drivers.
install_wheels() {
    local ours=("$WHEELS"/{reportclient,compute_agent}-*.whl)
    say "installing ${ours[*]##*/} and their dependencies"
    pip install --no-compile -c "$ROOT/constraints.txt" "${ours[0]}" "${ours[1]}[libvirt,registry,watch]"
    pip install --no-compile --no-deps --force-reinstall "${ours[@]}"
    # Compile with the installed paths, which tracebacks show; also modules already compiled (pip).
    quietly 'A Python package in the environment does not compile.' "$SYSTEM_PYTHON" -m compileall -q -f -j2 \
        -s "$ENVIRONMENT" -p "$HOME_OF_ALL" "$ENVIRONMENT/lib"
    VERSION=$("$ENVIRONMENT/bin/python" -c \
        'from importlib import metadata; print(metadata.version("compute-agent"))')
    # Debian writes 1.0~rc1 for PEP 440's 1.0rc1, so that it sorts before 1.0.
    DEB_VERSION=$(sed -E 's/\.?(a|b|rc|dev)([0-9]+)/~\1\2/; s/\+/+/' <<<"$VERSION")
}

# -- the contents of the packages

tree_of() { echo "$BUILD/tree/$1"; }

put() { install -D -m "$1" "$2" "$3"; }

# Copy the environment and replace the build path in its files.
common_tree() {
    local tree
    tree=$(tree_of compute-agent-common)
    mkdir -p "$tree/opt"
    cp -a "$ENVIRONMENT" "$tree$HOME_OF_ALL"
    forget_where_it_was_built "$tree$HOME_OF_ALL"
    mkdir -p "$tree/usr/bin"
    ln -s "$HOME_OF_ALL/bin/computectl" "$tree/usr/bin/computectl"
    manual computectl 1 "$tree"
    completion computectl "$tree"
    put 0644 "$ROOT/LICENSE" "$tree/usr/share/doc/compute-agent-common/copyright"
}

forget_where_it_was_built() {
    grep -rlIF "$ENVIRONMENT" "$1/bin" "$1/pyvenv.cfg" |
        xargs -r sed -i "s#$ENVIRONMENT#$HOME_OF_ALL#g"
    rm -f "$1"/lib/python3*/site-packages/{compute_agent,reportclient}-*.dist-info/direct_url.json
    sed -i '/direct_url.json/d' "$1"/lib/python3*/site-packages/{compute_agent,reportclient}-*.dist-info/RECORD
}

service_tree() {
    local name=$1 sample=$2 tree share
    tree=$(tree_of "$name")
    share=$ENVIRONMENT/share/compute-agent
    put 0644 "$share/systemd/$name.service" "$tree/usr/lib/systemd/system/$name.service"
    if systemd_can_back_off; then
        put 0644 "$share/systemd/back-off.conf" \
            "$tree/usr/lib/systemd/system/$name.service.d/back-off.conf"
    fi
    put 0644 "$share/systemd/$name.sysusers" "$tree/usr/lib/sysusers.d/$name.conf"
    put 0640 "$share/$sample" "$tree/etc/$name/$name.conf"
    mkdir -p "$tree/usr/bin"
    ln -s "$HOME_OF_ALL/bin/$name" "$tree/usr/bin/$name"
    manual "$name" 8 "$tree"
    completion "$name" "$tree"
    put 0644 "$ROOT/LICENSE" "$tree/usr/share/doc/$name/copyright"
}

# Older versions of systemd do not have RestartSteps= and would warn at each start.
systemd_can_back_off() {
    local version
    version=$(systemctl --version 2>/dev/null | awk 'NR == 1 { print int($2) }')
    [ "${version:-0}" -ge 254 ]
}

manual() {
    local name=$1 section=$2 page=$3/usr/share/man/man$2/$1.$2
    if [ ! -d "$BUILD/docutils" ]; then
        pip install --target "$BUILD/docutils" -c "$ROOT/constraints.txt" docutils
    fi
    mkdir -p "${page%/*}"
    PYTHONPATH=$BUILD/docutils quietly "Correct docs/man/$name.rst" "$SYSTEM_PYTHON" -m docutils \
        --writer=manpage --strict "$ROOT/docs/man/$name.rst" "$page"
    gzip -9n "$page"
}

completion() {
    local name=$1 bash=$2/usr/share/bash-completion/completions/$1
    mkdir -p "${bash%/*}" "$2/usr/share/zsh/vendor-completions"
    "$ROOT/tools/deb/completion.sh" "$name" "$ENVIRONMENT/bin/$name" >"$bash" 2>>"$LOG" ||
        fail "no completion for $name" "The complete output is in $LOG"
    sed "s/@NAME@/$name/g; s/@FUNCTION@/_${name//-/_}/" "$ROOT/tools/deb/completion.zsh" \
        >"$2/usr/share/zsh/vendor-completions/_$name"
}

# -- packing

# package NAME ARCHITECTURE DEPENDS RECOMMENDS DESCRIPTION
package() {
    local name=$1 architecture=$2 tree script
    tree=$(tree_of "$name")
    mkdir -p "$tree/DEBIAN"
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: $name
Version: $DEB_VERSION
Architecture: $architecture
Maintainer: $MAINTAINER
Section: net
Priority: optional
Depends: $3
${4:+Recommends: $4
}Installed-Size: $(du -sk --apparent-size "$tree" | cut -f1)
Homepage: https://docs.openstack.org/placement/latest/
Description: $5
CONTROL
    if [ "$name" != compute-agent-common ]; then
        echo "/etc/$name/$name.conf" >"$tree/DEBIAN/conffiles"
        for script in postinst prerm postrm; do
            sed "s/@NAME@/$name/g" "$ROOT/tools/deb/$script" >"$tree/DEBIAN/$script"
            chmod 0755 "$tree/DEBIAN/$script"
        done
    fi
    mkdir -p "$OUTPUT"
    quietly 'See above.' dpkg-deb --root-owner-group -Zzstd -z"${COMPUTE_AGENT_DEB_LEVEL:-19}" \
        --build "$tree" "$OUTPUT"
    echo "$OUTPUT/${name}_${DEB_VERSION}_$architecture.deb"
}

# The environment works only with the minor version of Python that created it.
python_range() {
    "$SYSTEM_PYTHON" -c 'import sys; major, minor = sys.version_info[:2]
print(f"python3 (>= {major}.{minor}), python3 (<< {major}.{minor + 1}~)")'
}

pack() {
    local architecture same="compute-agent-common (= $DEB_VERSION)"
    architecture=$(dpkg --print-architecture)
    say "packing $DEB_VERSION"
    rm -rf "$BUILD/tree"
    common_tree
    service_tree compute-agent etc/compute-agent.conf.sample
    service_tree compute-registry compute-registry/compute-registry.conf.sample
    package compute-agent-common "$architecture" "$(python_range)" \
        'libvirt0, bash-completion' 'environment of compute-agent, and computectl'
    package compute-agent all "$same, systemd | systemd-sysusers" '' \
        'reports the resources of a hypervisor to OpenStack Placement'
    package compute-registry all "$same, systemd | systemd-sysusers" '' \
        'keeps the service records of a fleet of compute-agents'
    rm -rf "$BUILD/tree"
}

read_arguments "$@"
umask 022
export PYTHONDONTWRITEBYTECODE=1 # implicitly compiled files would contain the build paths
mkdir -p "$BUILD"
exec 9>"$BUILD/lock"
flock 9 # only one build at a time
: >"$LOG"
install_packages python3 python3-venv python3-dev dpkg "${BUILD_PACKAGES[@]}"
expect_space "$BUILD" 700
make_deb_environment
build_wheels
install_wheels
pack
