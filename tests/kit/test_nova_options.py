"""Options of Nova's: which of them change what is reported."""

import ast
import re
from pathlib import Path

import pytest

from agent import opts as agent_opts
from drivers.libvirt import opts
from tests.servers.reference import REPOSITORY, reference_python

pytestmark = pytest.mark.needs("nova")

LIBVIRT, DRIVER = "virt/libvirt/driver.py", "virt/driver.py"
PLACES = {
    "_host": ("virt/libvirt/host.py",),
    "cpu_api": ("virt/libvirt/cpu/api.py",),
    "devspec": ("pci/devspec.py",),
    "driver": (LIBVIRT, DRIVER),
    "hardware": ("virt/hardware.py",),
    "image_cache_manager": ("virt/libvirt/imagecache.py", "virt/imagecache.py"),
    "libvirt_utils": ("virt/libvirt/utils.py",),
    "lvm": ("virt/libvirt/storage/lvm.py",),
    "pci_placement_translator": ("compute/pci_placement_translator.py",),
    "pci_tracker": ("pci/manager.py",),
    "provider_config": ("compute/provider_config.py",),
    "rbd_utils": ("storage/rbd_utils.py",),
    "whitelist": ("pci/whitelist.py",),
}
"""Files of Nova's by the name before the dot, where its code calls into another file."""
BEGINNINGS = (
    (LIBVIRT, "LibvirtDriver"),
    (LIBVIRT, "_get_gpu_inventories"),
    (LIBVIRT, "_update_host_specific_capabilities"),
    (LIBVIRT, "_uri"),
    (LIBVIRT, "update_provider_tree"),
    ("compute/pci_placement_translator.py", "update_provider_tree_for_pci"),
    ("compute/resource_tracker.py", "ResourceTracker"),
    ("compute/resource_tracker.py", "_update_to_placement"),
    ("pci/manager.py", "PciDevTracker"),
    ("storage/rbd_utils.py", "RBDDriver"),
    ("virt/libvirt/host.py", "_get_tdx_capacity"),
)
"""Functions that decide what is reported, with those that Nova calls by a name that it puts
together."""
WITHOUT_EFFECT = {
    "DEFAULT.host",
    "DEFAULT.my_ip",
    "DEFAULT.reserved_huge_pages",
    "DEFAULT.use_cow_images",
    "libvirt.disk_cachemodes",
    "libvirt.rbd_connect_timeout",
    "libvirt.sysinfo_serial",
}
"""Options that are read on the way, but change nothing that is reported."""


class Nova:
    """Nova's source: what its functions read of ``CONF``."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.files: dict[str, dict[str, ast.AST]] = {}
        self.seen: set[tuple[str, str]] = set()
        self.read: set[str] = set()

    def functions(self, file: str) -> dict[str, ast.AST]:
        if file not in self.files:
            tree = ast.parse((self.source / file).read_text())
            self.files[file] = {
                node.name: node
                for node in ast.walk(tree)
                if isinstance(node, ast.FunctionDef | ast.ClassDef)
            }
        return self.files[file]

    def follow(self, file: str, name: str) -> None:
        """Add what a function reads, and what it calls; of a class, what its constructor does."""
        if (file, name) in self.seen or name not in self.functions(file):
            return
        self.seen.add((file, name))
        found = self.functions(file)[name]
        if isinstance(found, ast.ClassDef):
            begins = [one for one in found.body if getattr(one, "name", "") == "__init__"]
            found = ast.Module([*begins], [])
        self.visit(file, found)

    def visit(self, file: str, found: ast.AST) -> None:
        for node in ast.walk(found):
            if isinstance(node, ast.Name):
                self.follow(file, node.id)
            elif isinstance(node, ast.Attribute):
                text = ast.unparse(node)
                option = re.fullmatch(r"(?:nova\.conf\.)?CONF\.(\w+)(?:\.(\w+))?", text)
                if option:
                    self.read.add(".".join(option.groups()) if option[2] else option[1])
                base = re.split(r"\W+", text.removesuffix(f".{node.attr}"))
                base = [part for part in base if part][-1:]
                nearby = PLACES["driver"] if file in PLACES["driver"] else (file,)
                for place in nearby if base == ["self"] else PLACES.get("".join(base), ()):
                    self.follow(place, node.attr)


@pytest.fixture(scope="module")
def read() -> set[str]:
    """The options that Nova reads to decide what it reports, as ``group.name``."""
    python = reference_python()
    assert python is not None
    (source,) = (python.parents[1] / "lib").glob("python*/site-packages/nova")
    nova = Nova(source)
    for file, name in BEGINNINGS:
        nova.follow(file, name)
    groups = {option.partition(".")[0] for option in nova.read if "." in option}
    return {
        option if "." in option else f"DEFAULT.{option}" for option in nova.read - groups
    } - WITHOUT_EFFECT


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Our options."""
    groups = [*agent_opts.list_opts(), *opts.all_opts()]
    return {f"{group}.{one.dest}" for group, options in groups for one in options}


def test_every_option_that_changes_what_nova_reports_is_honoured_or_named(
    read: set[str], known: set[str]
) -> None:
    assert read - known == {".".join(option) for option in opts.NOT_HONOURED}


def test_the_page_has_every_option_that_changes_what_nova_reports(read: set[str]) -> None:
    page = (REPOSITORY / "docs/configure.rst").read_text()
    named = set(re.findall(r"``(\w+)``", page.partition("\nOptions of Nova\n")[2]))
    ratios = {f"initial_{kind}_allocation_ratio" for kind in ("cpu", "ram", "disk")}
    assert {option.partition(".")[2] for option in read} | ratios <= named
