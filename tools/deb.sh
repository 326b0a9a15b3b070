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

COMPUTE_AGENT_DEB_LEVEL  compression level: 0 to 9 (6)
DEBFULLNAME, DEBEMAIL    the maintainer (the author of the last commit)
USAGE
}

WHEELS=
# Projects of which the wheels are built, and the distributions that these are, compute_agent last.
PROJECTS=(reportclient .)
OURS=(reportclient compute_agent)
BUILD=$ROOT/build/deb
OUTPUT=$ROOT/dist
SYSTEM_PYTHON=/usr/bin/python3
HOME_OF_ALL=/usr/lib/compute-agent

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
            *) help_or_fail "$1" ;;
        esac
        shift
    done
    ENVIRONMENT=$BUILD/environment
    LOG=$BUILD/log
}

# Without the cache: a wheel in it may have been built here, for another Python.
pip() {
    quietly 'Does pip reach its index (see pip config list)?' \
        "$ENVIRONMENT/bin/python" -m pip --disable-pip-version-check --no-cache-dir "$@"
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
    pip wheel --no-deps --wheel-dir "$WHEELS" "${PROJECTS[@]/#/$BUILD/source/}"
}

make_deb_environment() {
    if ! "$ENVIRONMENT/bin/python" -m pip --version >/dev/null 2>&1; then
        quietly 'Is python3-venv installed?' "$SYSTEM_PYTHON" -m venv --clear "$ENVIRONMENT"
    fi
}

install_wheels() {
    local ours=("${OURS[@]/%/-*.whl}")
    # shellcheck disable=SC2206  # the patterns match one wheel each
    ours=(${ours[@]/#/$WHEELS/})
    say "installing ${ours[*]##*/} and the dependencies"
    pip install --no-compile -c "$ROOT/constraints.txt" "${ours[@]}" "${ours[-1]}[metrics,registry]"
    pip install --no-compile --no-deps --force-reinstall "${ours[@]}"
    VERSION=$("$ENVIRONMENT/bin/python" -c \
        'from importlib import metadata; print(metadata.version("compute-agent"))')
    # Debian writes 1.0~rc1 for PEP 440's 1.0rc1, so that it sorts before 1.0.
    DEB_VERSION=$(sed -E 's/\.?(a|b|rc|dev)([0-9]+)/~\1\2/' <<<"$VERSION")-1
}

# -- the contents of the packages

tree_of() { echo "$BUILD/tree/$1"; }

kind_of() { if [ -d "$1/etc" ]; then echo service; else echo common; fi; }

put() { install -D -m "$1" "$2" "$3"; }

common_tree() {
    local tree environment
    tree=$(tree_of compute-agent-common)
    environment=$tree$HOME_OF_ALL
    mkdir -p "$tree/usr/lib" "$tree/usr/share" "$tree/usr/bin"
    cp -a "$ENVIRONMENT" "$environment"
    mv "$environment/share/compute-agent" "$tree/usr/share"
    use_packaged_paths "$tree/usr/share/compute-agent"
    remove_needless_files "$environment"
    use_modules_of_debian "$environment"
    forget_where_it_was_built "$environment"
    ln -s "../lib/compute-agent/bin/computectl" "$tree/usr/bin/computectl"
    manual computectl "$tree"
    completion computectl "$tree"
    documents compute-agent-common "$tree" "$environment"/lib/python3*/site-packages
}

# In files that pip installs the environment is in /opt.
use_packaged_paths() {
    find "$1" -type f -exec sed -i \
        's#/opt/compute-agent/share#/usr/share#g; s#/opt/compute-agent/bin#/usr/bin#g' {} +
}

# Remove what the three programs never load: pip; setuptools, for which pbr only asks; eventlet, which
# agent/bus/messaging.py blocks, with its own requirements; the vendors of network cards; tests.  Some
# modules of libraries have an interpreter line and are never run; libraries in C have debug symbols.
remove_needless_files() {
    local site
    site=$(echo "$1"/lib/python3*/site-packages)
    rm -rf "$1"/{etc,include,share} "$site"/*/tests "$site"/netaddr/eui/*.{idx,txt} \
        "$site"/{pip,setuptools,pkg_resources,eventlet,dns,dnspython,greenlet,tzdata}{,-*} \
        "$site"/{_distutils_hack,distutils-precedence.pth}
    find "$1/bin" ! -type d ! -name 'python*' ! -name 'compute*' -delete
    find "$1" -name __pycache__ -prune -exec rm -r {} +
    grep -rlI '^#!' "$site" | xargs -r sed -i '1s/^#!.*//'
    find "$site" -name '*.so' -type f -exec strip --strip-unneeded {} +
}

# Take modules with libraries in C that Debian maintains from its packages, if they are installed.
use_modules_of_debian() {
    local name suffix site
    site=$(echo "$1"/lib/python3*/site-packages)
    suffix=$("$SYSTEM_PYTHON" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
    rm -rf "$site"/{_yaml,yaml,pyyaml}{,[-.]*}
    for name in libvirt.py "libvirtmod$suffix" libvirt_qemu.py "libvirtmod_qemu$suffix" _yaml yaml; do
        ln -s "../../../../python3/dist-packages/$name" "$site/$name"
    done
    ln -sf ../../../bin/python3 "$1/bin/python3"
}

# Print what the libraries in C depend on.
libraries_of() {
    local empty=$BUILD/shlibdeps
    mkdir -p "$empty/debian"
    echo 'Source: compute-agent' >"$empty/debian/control"
    (cd "$empty" && find "$1" -name '*.so' -type f -exec dpkg-shlibdeps -O {} + 2>>"$LOG") | sed 's/^shlibs:Depends=//'
}

forget_where_it_was_built() {
    local distribution
    grep -rlIF "$ENVIRONMENT" "$1/bin" "$1/pyvenv.cfg" |
        xargs -r sed -i "s#$ENVIRONMENT#$HOME_OF_ALL#g"
    for distribution in "${OURS[@]}"; do
        rm -f "$1"/lib/python3*/site-packages/"$distribution"-*.dist-info/direct_url.json
        sed -i '/direct_url.json/d' "$1"/lib/python3*/site-packages/"$distribution"-*.dist-info/RECORD
    done
}

service_tree() {
    local name=$1 sample=$2 tree share
    tree=$(tree_of "$name")
    share=$(tree_of compute-agent-common)/usr/share/compute-agent
    put 0644 "$share/systemd/$name.service" "$tree/usr/lib/systemd/system/$name.service"
    if systemd_can_back_off; then
        put 0644 "$share/systemd/back-off.conf" \
            "$tree/usr/lib/systemd/system/$name.service.d/back-off.conf"
    fi
    put 0644 "$share/systemd/$name.sysusers" "$tree/usr/lib/sysusers.d/$name.conf"
    put 0640 "$share/$sample" "$tree/etc/$name/$name.conf"
    mkdir -p "$tree/usr/bin"
    ln -s "../lib/compute-agent/bin/$name" "$tree/usr/bin/$name"
    manual "$name" "$tree"
    completion "$name" "$tree"
    documents "$name" "$tree"
}

# documents NAME TREE [SITE-PACKAGES]: copyright, changelog and the overrides of lintian.
documents() {
    local name=$1 directory=$2/usr/share/doc/$1 overrides=$2/usr/share/lintian/overrides
    mkdir -p "$directory" "$overrides"
    "$SYSTEM_PYTHON" "$ROOT/tools/deb/copyright.py" "$MAINTAINER" "${@:3}" >"$directory/copyright"
    gzip -9n >"$directory/changelog.Debian.gz" <<CHANGELOG
compute-agent ($DEB_VERSION) unstable; urgency=medium

  * compute-agent $VERSION at commit $(last_commit %h).

 -- $MAINTAINER  $(last_commit %aD)
CHANGELOG
    sed "s/@NAME@/$name/g" "$ROOT/tools/deb/$(kind_of "$2").lintian-overrides" >"$overrides/$name"
}

# last_commit FORMAT: print a fact of the last commit, in git's format.
last_commit() {
    git -c safe.directory='*' -C "$ROOT" log -1 --format="$1" 2>>"$LOG" ||
        fail "$ROOT has no commit" 'Build the packages in a clone of the repository.'
}

# Older versions of systemd do not have RestartSteps= and would warn at each start.
systemd_can_back_off() {
    local version
    version=$(systemctl --version 2>/dev/null | awk 'NR == 1 { print int($2) }')
    [ "${version:-0}" -ge 254 ]
}

manual() {
    local name=$1 section page
    section=$(sed -n 's/^:Manual section: //p' "$ROOT/docs/man/$name.rst")
    page=$2/usr/share/man/man$section/$name.$section
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

# package NAME ARCHITECTURE DEPENDS RECOMMENDS SUMMARY: the description is standard input.
package() {
    local name=$1 architecture=$2 tree script
    tree=$(tree_of "$name")
    mkdir -p "$tree/DEBIAN"
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: $name
Source: compute-agent
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
$(sed 's/^/ /; s/^ $/ ./')
CONTROL
    (cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
    if [ "$(kind_of "$tree")" = service ]; then echo "/etc/$name/$name.conf" >"$tree/DEBIAN/conffiles"; fi
    for script in "$ROOT/tools/deb/$(kind_of "$tree")".p*; do
        sed "s/@NAME@/$name/g" "$script" >"$tree/DEBIAN/${script##*.}"
        chmod 0755 "$tree/DEBIAN/${script##*.}"
    done
    mkdir -p "$OUTPUT"
    quietly 'See above.' dpkg-deb --root-owner-group -Zxz -z"${COMPUTE_AGENT_DEB_LEVEL:-6}" \
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
    package compute-agent-common "$architecture" \
        "$(python_range), python3-yaml, tzdata, $(libraries_of "$(tree_of compute-agent-common)")" bash-completion \
        'Python environment of compute-agent, and computectl' <<DESCRIPTION
The packages compute-agent and compute-registry share this environment. The
command computectl shows what OpenStack's Placement has for a host and what
the agent would change, and switches hosts of a fleet off and on.
.
Drivers of other vendors are installed into the same environment.
DESCRIPTION
    package compute-agent all "$same, systemd | systemd-sysusers" 'python3-libvirt (>= 9.0)' \
        'reports the resources of a hypervisor to OpenStack Placement' <<DESCRIPTION
The daemon runs on each hypervisor, beside nova-compute, or where
nova-compute does not run. It asks drivers what the host has, such as CPUs, memory, disks,
NUMA cells, PCI devices and vGPUs, compares that with what Placement has, and
sends only the difference.
.
The driver for libvirt needs python3-libvirt.
DESCRIPTION
    package compute-registry all "$same, systemd | systemd-sysusers" '' \
        'keeps the service records of a fleet of compute-agents' <<DESCRIPTION
The registry runs on controllers. It has a record for each host of a fleet of
compute-agents: whether the host is disabled, why and since when, and when its
agent was last alive. Agents and operators reach it over the message bus, other
programs over a REST API that is compatible with Nova's os-services.
.
The records are in MariaDB.
DESCRIPTION
    rm -rf "$BUILD/tree"
}

read_arguments "$@"
umask 022
export PYTHONDONTWRITEBYTECODE=1 # implicitly compiled files would contain the build paths
mkdir -p "$BUILD"
exec 9>"$BUILD/lock"
flock 9 # only one build at a time
: >"$LOG"
install_packages python3 python3-venv dpkg-dev binutils git
MAINTAINER="${DEBFULLNAME:-$(last_commit %an)} <${DEBEMAIL:-$(last_commit %ae)}>"
expect_space "$BUILD" 700
make_deb_environment
build_wheels
install_wheels
pack
