"""A fact of the host is one file.  What a newcomer forgets is named here.

``docs/libvirt/facts.rst`` is the checklist.
"""

import importlib
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import os_traits
import pytest

from drivers.api import DriverContext, ProviderTree
from drivers.libvirt.facts import report
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.tree.reported import HostReport
from tests.hosts import FakeHost
from tests.unit.libvirt.fake_binding import FakeLibvirt, FakeLibvirtError
from tests.unit.libvirt.hosts import NODE, ROOT, facts, reading

HERE = Path(__file__).resolve()
DRIVER = HERE.parents[3] / "drivers/libvirt"
DOCS = HERE.parents[3] / "docs/libvirt"
FACTS = facts()
ONLY_TRAITS = {"architecture", "CPU features", "domain capabilities", "pci"}
"""What is not said stays as it is; pci says so of its devices itself."""
PAGE = (DOCS / "facts.rst").read_text()


def fact_classes() -> dict[str, Path]:
    """All classes of facts, with the file that each is in."""
    found = {}
    for file in sorted([*DRIVER.glob("facts/*.py"), *DRIVER.glob("devices/*.py")]):
        module = importlib.import_module(f"drivers.libvirt.{file.parent.name}.{file.stem}")
        for name, one in inspect.getmembers(module, inspect.isclass):
            is_fact = hasattr(one, "query_host") and hasattr(one, "build_report") and name != "Fact"
            if is_fact and one.__module__ == module.__name__:
                found[name] = file
    return found


def test_every_fact_is_asked():
    asked = {type(fact).__name__ for fact in FACTS.values()}
    forgotten = fact_classes().keys() - asked
    assert not forgotten, f"add {', '.join(forgotten)} to FACTS in facts/report.py"


def test_every_fact_has_a_name_of_its_own():
    assert len(FACTS) == len(report.FACTS), "two facts of FACTS have the same name"


@pytest.mark.parametrize("name", FACTS)
def test_every_fact_is_in_the_table_of_the_docs(name):
    file = fact_classes()[type(FACTS[name]).__name__].relative_to(DRIVER)
    row = rf"^``{re.escape(name)}``\s+``{re.escape(str(file))}``\s+\S"
    assert re.search(row, PAGE, re.MULTILINE), f"docs/libvirt/facts.rst has no row for {name}"


@pytest.mark.parametrize("name", FACTS)
def test_every_fact_has_a_test_of_its_own(name):
    module = fact_classes()[type(FACTS[name]).__name__].stem
    texts = [file.read_text() for file in HERE.parent.glob("test_*.py") if file != HERE]
    imported = re.compile(rf"^(from \S+\.{module} import|from .* import .*\b{module}\b)", re.M)
    assert any(map(imported.search, texts)), f"no test in tests/unit/libvirt imports {module}"


def test_every_trait_that_a_fact_names_is_a_standard_one():
    """Placement would refuse the others."""
    pattern = re.compile(r"\"((?:HW|COMPUTE|STORAGE|MISC)_[A-Z0-9_]+)\"")
    known = {*os_traits.get_traits()}
    for file in fact_classes().values():
        words = {word for word in pattern.findall(file.read_text()) if not word.endswith("_")}
        assert words <= known, f"{file}: os-traits has no {', '.join(words - known)}"


class Mute:
    """Every question fails, as of a host that answers its name and nothing else."""

    def __init__(self, tmp_path: Path) -> None:
        binding = FakeLibvirt()
        binding.refused = {
            call: FakeLibvirtError("out of luck") for call in binding.answers if call[0] != "v"
        }
        self.host = FakeHost(tmp_path, binding).connection()
        self.host.read_files = self._no_files  # type: ignore[method-assign]

    def _no_files(self, what, _job):
        raise report.DriverNotReady(f"no files: {what}")


@pytest.mark.parametrize("name", [name for name in FACTS if name != "host"])
def test_a_fact_that_was_never_told_takes_nothing_away(name, tmp_path):
    """It says nothing, or that it is unanswered; the host's name and CPUs are another matter."""
    mute = Mute(tmp_path)
    fact = facts(labels={"CUSTOM_PMEM_NAMESPACE_A": ("ns0",)})[name]
    sources = Sources(mute.host)
    document = sources.capabilities = reading().capabilities
    answer = fact.query_host(sources)
    said = fact.build_report(answer, ReportContext(NODE, document))
    assert not said.inventory and not said.children
    assert said.unanswered or name in ONLY_TRAITS, (
        "a fact with inventory says that it is unanswered; one with traits alone stands in ONLY_TRAITS"
    )
    mute.host.close()


@dataclass(frozen=True)
class Newcomer:
    """A fact as somebody writes it on the first day: nothing else has to change."""

    name: ClassVar[str] = "newcomer"

    @classmethod
    def from_context(cls, _context: DriverContext) -> Self:
        return cls()

    def query_host(self, sources: Sources) -> bool | None:
        return sources.fetch_or_default(
            self.name,
            lambda: sources.host.call_if_supported("news", lambda c: bool(c.getNews()), None),
            None,
        )

    def build_report(self, answer: bool | None, _context: ReportContext) -> HostReport:
        inventory = {"CUSTOM_NEWS": {"total": 1}} if answer else {}
        return HostReport(inventory, traits={} if answer is None else {"COMPUTE_NODE": answer})


@pytest.mark.parametrize(("news", "has"), [(1, True), (0, False), (None, None)])
def test_a_new_trait_is_one_class_and_a_line(news, has, monkeypatch, tmp_path):
    """A libvirt (or a binding) that has no such call says nothing, and breaks nothing."""
    monkeypatch.setattr(report, "FACTS", (*report.FACTS, Newcomer))
    binding = FakeLibvirt()
    if news is not None:
        binding.answers["getNews"] = news
    host = FakeHost(tmp_path, binding)
    driver, tree = host.driver(), ProviderTree()
    tree.new_root("host1", ROOT)
    tree.add_traits("host1", *["COMPUTE_NODE"] * (has is not True))
    driver.update_provider_tree(tree, "host1")
    assert tree.has_traits("host1", ["COMPUTE_NODE"]) is (has is not False)
    assert driver.degraded("host1") == {}
    assert ("CUSTOM_NEWS" in tree.data("host1").inventory) is (has is True)
    binding.answers["getNews"] = 0
    driver.update_provider_tree(tree, "host1")
    assert "CUSTOM_NEWS" not in tree.data("host1").inventory, "it goes as well"
    host.close()
