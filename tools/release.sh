#!/usr/bin/env bash
# Releases compute-agent, or reportclient: sets the version, runs all tests, tags the commit, and
# builds the sdist and the wheel of the tag in dist.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "$0")/setup.sh"

usage() {
    cat <<USAGE
$(sed -n '2,3s/^# //p' "$0")

usage: tools/release.sh [--library] VERSION

  --library  release reportclient, with the tag reportclient-VERSION

The tag is not pushed.
USAGE
    exit "$1"
}

NAME=compute-agent DIRECTORY=. FILE=setup.cfg PREFIX=
while [ $# -gt 0 ]; do
    case $1 in
        --library) NAME=reportclient DIRECTORY=reportclient FILE=reportclient/pyproject.toml PREFIX=reportclient- ;;
        -h | --help) usage 0 ;;
        -*) usage 2 >&2 ;;
        *) VERSION=$1 ;;
    esac
    shift
done
[[ ${VERSION:-} =~ ^[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?$ ]] ||
    fail "'${VERSION:-}' is not a version such as 1.2.3 or 1.2.3rc1" 'See tools/release.sh --help'
TAG=$PREFIX$VERSION
cd "$ROOT"

expect_clean_tree() {
    [ -z "$(git status --porcelain)" ] || fail "the working tree has changes" 'Commit them: git status'
    ! git rev-parse -q --verify "refs/tags/$TAG" >/dev/null ||
        fail "the tag $TAG exists" 'A version is released once: choose the next.'
}

expect_notes() {
    if [ "$NAME" = reportclient ]; then
        grep -qx "$VERSION" reportclient/CHANGELOG.rst ||
            fail "reportclient/CHANGELOG.rst has no section $VERSION" 'Write what changed for users, and commit it.'
        return
    fi
    local last
    last=$(git describe --tags --abbrev=0 --match '[0-9]*' 2>/dev/null || git hash-object -t tree /dev/null)
    git diff --name-only --diff-filter=A "$last" HEAD -- releasenotes/notes | grep -q '\.yaml$' ||
        fail "releasenotes/notes has no note since $last" 'Write one with reno new, and commit it.'
}

set_version() {
    sed -i -E "s/^version = (\"?)[^\"]*/version = \1$VERSION/" "$FILE"
    git diff --quiet || git commit -q -m "$NAME $VERSION" "$FILE"
}

# From a copy of the tag: nothing that is not committed is released.
build() {
    local copy=$ROOT/build/release/$NAME next="The tag $TAG exists; delete it before you try again: git tag -d $TAG"
    rm -rf "$copy"
    mkdir -p "$copy" dist
    LOG=$ROOT/build/release/log
    git archive "$TAG" "$DIRECTORY" | tar -x -C "$copy"
    copy=$copy/$DIRECTORY
    if [ "$NAME" = compute-agent ]; then
        quietly "$next" "$VENV/bin/reno" cache --output "$copy/releasenotes/notes/reno.cache"
        quietly "$next" "$VENV/bin/reno" report --no-show-source --title Changes --output "$copy/CHANGELOG.rst"
    fi
    quietly "$next" "$VENV/bin/python" -m pip wheel --no-deps --no-build-isolation -w dist "$copy"
    quietly "$next" env -C "$copy" "$VENV/bin/python" -P -c \
        'import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])' "$ROOT/dist"
}

expect_clean_tree
expect_notes
set_version
tools/test.sh
git tag -a -m "$NAME $VERSION" "$TAG"
build
say "tagged $TAG; in dist: $(cd dist && echo "${NAME//-/_}-$VERSION"*)"
say "publish it: git push origin HEAD $TAG"
