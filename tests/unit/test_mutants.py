"""The mutants of our own fit the code as it is, and name tests that there are."""

from pathlib import Path

import pytest

from tests.mutants.mutants import ROOT, Mutant, boundaries, mutants_of
from tests.tiers import WITH_SERVERS

MUTANTS = [mutant for boundary in boundaries() for mutant in mutants_of(boundary)]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.boundary}: {one.loses}")
def test_structure_a_mutant_changes_one_place_and_its_tests_are_there(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    assert text.count(mutant.old) == 1 and mutant.old != mutant.new
    compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
    assert all((ROOT / name).exists() for name in mutant.tests)
    files = [ROOT / name for name in mutant.tests if name.endswith(".py")]
    assert not [file for file in files if "pytestmark = pytest.mark.slow" in file.read_text()]


@pytest.mark.parametrize("boundary", boundaries())
def test_structure_a_boundary_is_in_the_fast_tier(boundary: str) -> None:
    folders = {Path(name).parts[1] for mutant in mutants_of(boundary) for name in mutant.tests}
    assert folders and not folders & set(WITH_SERVERS)


def test_structure_no_two_mutants_of_a_boundary_are_the_same() -> None:
    assert len({(one.file, one.old, one.new) for one in MUTANTS}) == len(MUTANTS)
