"""Names of new drivers, and what happens when the package can't be written."""

import argparse
from pathlib import Path

import pytest

from computectl.shared.errors import CommandError
from driverkit.driver_new import NewDriver, class_name, name_problem


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "beginning with a letter"),
        ("My-Driver", "as in my_driver"),
        ("2fast", "as in fast"),
        ("a/b", "as in a_b"),
        ("../x1", "as in x1"),
        ("class", "beginning with a letter"),
        ("json", "Python has a module json already"),
        ("agent", "Python has a module agent already"),
        ("tests", "Python has a module tests already"),
        ("fake", "a driver of this name is installed: driverkit.scripted:FakeDriver"),
        ("pytest", "Python has a module pytest already"),
    ],
)
def test_another_is_refused_with_why_and_what_to_do(name: str, said: str) -> None:
    problem = name_problem(name)
    assert problem is not None and said in "; ".join(problem)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("mydriver", "MyDriver"), ("my_driver", "MyDriver"), ("acme_gpus", "AcmeGpusDriver")],
)
def test_a_name_of_a_package_is_accepted_and_names_the_class(name: str, kind: str) -> None:
    assert name_problem(name) is None
    assert class_name(name) == kind
    assert class_name("driver") == "Driver"


def new(directory: Path) -> None:
    NewDriver.execute(
        None, argparse.Namespace(name="mydriver", directory=directory, kind="devices")
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_nothing_that_is_there_is_overwritten(tmp_path: Path, kind: str) -> None:
    there = tmp_path / "there"
    if kind == "folder":
        there.mkdir()
    elif kind == "file":
        there.write_text("mine")
    else:
        there.symlink_to("nowhere")
    with pytest.raises(CommandError, match="already exists"):
        new(there)
    assert kind != "file" or there.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [there]


def test_a_folder_that_can_not_be_made_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="nothing was written"):
        new(tmp_path / "file" / "mydriver")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
