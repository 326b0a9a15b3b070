"""docs/porting.rst: what is said of the driver before, and that the one after works."""

import ast
import re
import textwrap
from pathlib import Path

from stevedore.extension import Extension

from agent import config
from drivers.api import DriverContext
from drivers.loader import driver_from
from tests.agents import ROOT, VERIFY, Agent
from tests.unit.test_legacy import Nodes as NamesNode
from tests.unit.test_legacy import asked, load

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "porting.rst").read_text()
BLOCKS = [
    textwrap.dedent(block).strip("\n") + "\n"
    for block in re.findall(r"\.\. code-block:: python\n\n((?: {4}.*\n|\n)+)", DOCUMENT)
]
_, AFTER, OLDER, NEWER = BLOCKS


def ported(tmp_path: Path) -> tuple[object, DriverContext]:
    space: dict[str, object] = {"__name__": "acme"}
    exec(compile(AFTER, "acme.py", "exec"), space)
    path = tmp_path / "agent.conf"
    path.write_text("[DEFAULT]\nhost = host1\nreserved_host_cpus = 2\n")
    conf = config.load_config(["--config-file", str(path)])
    return space["AcmeDriver"], DriverContext("host1", tmp_path, conf)


def test_the_driver_after_reports_and_reshapes_in_a_real_placement(placement, tmp_path):
    kind, context = ported(tmp_path)
    loaded = driver_from(Extension("acme", None, kind, None), context, "docs/porting.rst")
    stranger = placement.stranger
    stranger.create_provider("host1", ROOT)
    stranger.add_trait(ROOT, "COMPUTE_NODE")
    stranger.set_inventory(ROOT, {"VGPU": {"total": 16}})
    consumer = stranger.put_allocation({ROOT: {"VGPU": 4}})
    agent = Agent(
        placement, named={"acme": loaded.driver}, rules=config.settings(context.conf).rules
    )
    report = agent.period(VERIFY, disabled=False)
    assert report.ok, report.texts()
    uuids = placement.uuids(f"?in_tree={ROOT}")
    assert set(uuids) == {"host1", "host1_board0", "host1_board1"}
    root = stranger.inventory(ROOT)
    assert set(root) == {"VCPU"}
    assert (root["VCPU"]["total"], root["VCPU"]["reserved"]) == (32, 2)
    assert "HW_CPU_X86_AVX2" in stranger.traits(ROOT)
    held = placement.request("GET", f"/allocations/{consumer}")["allocations"]
    assert {u: a["resources"] for u, a in held.items()} == {
        uuids["host1_board0"]: {"CUSTOM_ACME_UNIT": 4}
    }


def test_the_older_methods_and_what_they_become_say_the_same():
    assert {"get_inventory", "get_traits"} == {n.name for n in ast.parse(OLDER).body}
    space: dict[str, object] = {"NamesNode": NamesNode}
    for name, text in (("Older", OLDER), ("Newer", NEWER)):
        exec(f"class {name}(NamesNode):\n{textwrap.indent(text, '    ')}", space)
    context = DriverContext("host1", Path("/nonexistent"))
    older, newer = (asked(load(space[name], context)) for name in ("Older", "Newer"))
    assert older.traits == newer.traits
    assert older.inventory["VCPU"]["total"] == newer.inventory["VCPU"]["total"] == 8
