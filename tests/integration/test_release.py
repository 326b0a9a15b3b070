"""``tools/release.sh`` in a repository of its own, whose ``tools/test.sh`` only says how it went."""

import configparser
import os
import re
import shutil
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.integration.test_wheel import BESIDE, LEFT_OUT, PACKAGES, REPOSITORY, metadata_of
from tests.servers.process import completed

FILES = (*BESIDE, ".gitignore", "tools/release.sh", "tools/setup.sh")
TESTS = """#!/bin/sh
mkdir -p build
git log -1 --format=%s >build/tested
if [ -e build/broken ]; then echo 'a test failed' >&2; exit 1; fi
"""


class Checkout:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in (*PACKAGES, "reportclient", "etc", "releasenotes"):
            shutil.copytree(REPOSITORY / name, directory / name, ignore=LEFT_OUT)
        (directory / "tools").mkdir()
        for name in FILES:
            shutil.copy(REPOSITORY / name, directory / name)
        self.write("tools/test.sh", TESTS).chmod(0o755)
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "a")
        self.git("config", "user.email", "a@example.org")
        self.commit()

    def write(self, name: str, text: str) -> Path:
        (self.directory / name).write_text(text)
        return self.directory / name

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.directory), *words]
        return completed(*command, check=True).stdout

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "-q", "-m", "a change")

    def release(self, *words: str) -> str:
        """Its error, or nothing."""
        env = {**os.environ, "COMPUTE_AGENT_VENV": sys.prefix}
        done = completed(self.directory / "tools" / "release.sh", *words, env=env)
        assert (done.returncode == 0) == (not done.stderr), done.stdout + done.stderr
        return done.stderr


def wrong_tags(directory: Path) -> set[str]:
    """Tags of versions at this commit that its files do not have."""
    project = tomllib.loads((directory / "reportclient" / "pyproject.toml").read_text())["project"]
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(directory / "setup.cfg")
    command = ["git", "-C", str(directory), "tag", "--points-at", "HEAD"]
    found = completed(*command).stdout.split()
    right = {setup["metadata"]["version"], f"reportclient-{project['version']}"}
    return {tag for tag in found if re.match(r"(reportclient-)?\d", tag)} - right


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_release_sets_the_version_tests_tags_and_builds(checkout: Checkout) -> None:
    checkout.write("reportclient/CHANGELOG.rst", "Changes\n=======\n\n7.0.1\n-----\n\nFaster.\n")
    checkout.commit()
    assert not checkout.release("--library", "7.0.1")
    assert not checkout.release("7.1.0rc1")
    tested = (checkout.directory / "build" / "tested").read_text()
    assert (
        tested == checkout.git("log", "-1", "--format=%s", "7.1.0rc1") == "compute-agent 7.1.0rc1\n"
    )
    assert checkout.git("tag").split() == ["7.1.0rc1", "reportclient-7.0.1"]
    assert checkout.git("status", "--porcelain") == ""
    assert not wrong_tags(checkout.directory)
    dist = checkout.directory / "dist"
    assert metadata_of(dist, "compute_agent")["Version"] == "7.1.0rc1"
    assert metadata_of(dist, "reportclient")["Version"] == "7.0.1"
    assert (dist / "reportclient-7.0.1.tar.gz").exists()
    with tarfile.open(dist / "compute_agent-7.1.0rc1.tar.gz") as sdist:
        changelog = sdist.extractfile("compute_agent-7.1.0rc1/CHANGELOG.rst")
        assert changelog and b"\n7.1.0rc1\n===" in (text := changelog.read())
        assert b"The first version." in text
        assert "compute_agent-7.1.0rc1/releasenotes/notes/reno.cache" in sdist.getnames()


def test_a_tag_of_this_commit_names_its_version(checkout: Checkout) -> None:
    assert not wrong_tags(REPOSITORY)
    checkout.git("tag", "99.0.0")
    checkout.git("tag", "reportclient-99.0.0")
    assert wrong_tags(checkout.directory) == {"99.0.0", "reportclient-99.0.0"}


def test_nothing_is_tagged_if_something_is_missing(checkout: Checkout) -> None:
    assert "not a version such as 1.2.3" in checkout.release("1.2")
    assert "CHANGELOG.rst has no section 9.0.0" in checkout.release("--library", "9.0.0")
    checkout.write("README.rst", "changed")
    assert "the working tree has changes" in checkout.release("9.0.0")
    checkout.commit()
    (checkout.directory / "build").mkdir()
    checkout.write("build/broken", "")
    assert "a test failed" in checkout.release("9.0.0")
    assert checkout.git("tag") == ""
    checkout.git("tag", "8.0.0")
    assert "the tag 8.0.0 exists" in checkout.release("8.0.0")
    assert "no note since 8.0.0" in checkout.release("9.0.0")
