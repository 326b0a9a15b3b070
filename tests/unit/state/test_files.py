"""What is said of a file of the state directory that belongs to somebody else."""

import errno
import os
import pwd
from pathlib import Path

import pytest

from agent.check import exit_code
from agent.nodes.identity import IdentityError, refuse_unreadable
from agent.state import files
from agent.state.document import Document, Unusable
from agent.state.lock import lock_file

ROOT = "9d6ba763-8e93-5284-b069-776c52a0868f"


def refused(path: Path, number: int = errno.EACCES) -> OSError:
    return OSError(number, os.strerror(number), str(path))


def test_what_belongs_to_another_user_is_named_with_him_and_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    owner = pwd.getpwuid(tmp_path.stat().st_uid).pw_name
    us = pwd.getpwuid(65534).pw_name
    for path in (tmp_path, tmp_path / "state.json", tmp_path / "not" / "there"):
        assert files.describe_error(refused(path)) == (
            f"Permission denied: {tmp_path} belongs to {owner}, and this process runs as {us} "
            f"(run it as {owner}, or chown -R {us} {tmp_path})"
        )


def test_other_errors_and_what_is_ones_own_are_told_as_they_are(monkeypatch, tmp_path):
    assert files.describe_error(refused(tmp_path)) == "Permission denied"
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert files.describe_error(refused(tmp_path, errno.ENOSPC)) == "No space left on device"
    assert files.describe_error(OSError(errno.EACCES, "Permission denied")) == "Permission denied"


@pytest.fixture
def of_the_service(tmp_path):
    """A directory of another user's, in which root runs a command."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.chown(tmp_path, 65534, 65534)
    return tmp_path


@pytest.mark.parametrize("name", ["", "compute_id", "service.json", f"root-{ROOT}.json"])
def test_state_that_this_user_may_not_read_ends_the_start(of_the_service, name):
    path = of_the_service / name
    if name:
        path.write_text("{}")
    path.chmod(0o700 if not name else 0o600)
    os.chown(path, 0, 0)
    for folder in of_the_service.parents:
        if folder.name.startswith(("pytest-of", "pytest-", "popen-")):
            folder.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(
            IdentityError, match=f"{path}: Permission .* chown -R .* {path}"
        ) as told:
            refuse_unreadable(of_the_service)
    finally:
        os.seteuid(0)
    assert exit_code(told.value) == 2


def test_a_state_path_that_is_a_file_is_called_no_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(IdentityError, match=f"{tmp_path}/file: Not a directory"):
        refuse_unreadable(tmp_path / "file")


def test_what_root_makes_in_the_services_directory_is_the_services(of_the_service):
    files.replace(of_the_service / "file", b"x")
    owners = {path.name: path.stat().st_uid for path in of_the_service.iterdir()}
    assert owners == dict.fromkeys(owners, 65534)
    assert "file" in owners


USERS = {
    "read": files.read,
    "a document": lambda path: Document(path).read(dict),
    "locked": lambda path: lock_file(path, 0).__enter__(),
}
SECRET = "root's"


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("link", ["soft", "hard", "a file of root's that was moved here"])
def test_what_leads_root_out_of_the_services_directory_is_refused(
    of_the_service, tmp_path_factory, user, link
):
    """The service's user may have planted it, to have root read, write or give away a file."""
    secret = tmp_path_factory.mktemp("root") / "secret"
    secret.write_text(SECRET)
    planted = of_the_service / "file"
    if link == "soft":
        planted.symlink_to(secret)
    else:
        planted.hardlink_to(secret)
    if link.startswith("a file"):
        secret.unlink()
        secret = planted
    with pytest.raises((OSError, Unusable), match="is a symbolic link|belongs to root, and its"):
        USERS[user](planted)
    assert (secret.read_text(), secret.stat().st_uid) == (SECRET, 0)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    ("plant", "why"),
    [
        (lambda path: path.symlink_to("elsewhere"), "is a symbolic link"),
        (os.mkfifo, "is not a regular file"),
        (os.mkdir, "file"),
    ],
    ids=["link", "fifo", "directory"],
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, user, plant, why):
    (tmp_path / "elsewhere").write_text(SECRET)
    plant(tmp_path / "file")
    with pytest.raises((OSError, Unusable), match=why):
        USERS[user](tmp_path / "file")
    assert (tmp_path / "elsewhere").read_text() == SECRET


def test_the_mode_of_a_file_is_set_on_the_file_itself(tmp_path):
    files.replace(tmp_path / "file", b"x", mode=0o640)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
