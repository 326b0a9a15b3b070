"""What ``--dev`` says beside the tree."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from agent import config
from agent.reporting.reports import Report
from driverkit.dev import Show, configuration
from drivers.libvirt.opts import list_opts as libvirt_opts
from reportclient.model import Provider
from reportclient.snapshot import Snapshot
from tests.reports import report_with

UUID = "9d6ba763-8e93-5284-b069-776c52a0868f"


def shown(config_path: Path | None) -> str:
    snapshot = Snapshot.build([Provider(UUID, "host1")])
    tracker = SimpleNamespace(view=SimpleNamespace(snapshot=snapshot))
    out = io.StringIO()
    Show(SimpleNamespace(trackers={UUID: tracker}), config_path, out)([Report("host1")])
    assert UUID in out.getvalue()
    return out.getvalue()


def test_the_computectl_beside_this_python_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert "Ask more: computectl --config-file /x/dev.conf tree\n" in shown(Path("/x/dev.conf"))
    (tmp_path / "computectl").write_text("")
    assert f"Ask more: {tmp_path}/computectl --config-file /x/" in shown(Path("/x/dev.conf"))


class Served(NamedTuple):
    url: str
    token: str = "admin"


def test_what_it_writes_for_computectl_is_good_in_every_directory(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    conf = config.load_config(["--state-path", "here/state"])
    assert f"state_path = {tmp_path}/here/state\n" in configuration(conf, Served("http://p"))
    assert config.settings(conf).state_path == tmp_path / "here" / "state"


def test_what_a_driver_says_is_printed_so_that_no_terminal_obeys_it(tmp_path: Path) -> None:
    """Bytes that were not decoded can't even be printed where the locale is UTF-8."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    tracker = SimpleNamespace(view=SimpleNamespace(snapshot=Snapshot.build([])))
    report = report_with(driver_errors={"mine": OSError("no \udcff\n\x1b[31m here")})
    Show(SimpleNamespace(trackers={UUID: tracker}), None, out)([report])
    out.flush()
    said = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert "host1: driver mine: no \\udcff\\n\\x1b[31m here\n" in said


def test_nothing_is_to_be_asked_of_a_placement_that_ends() -> None:
    assert "computectl" not in shown(None)


WRITTEN = """[DEFAULT]
host = host1
compute_driver = libvirt
reserved_huge_pages = node:0,size:2048,count:4
reserved_huge_pages = node:1,size:2048,count:8
[pci]
device_spec = {"vendor_id": "1b36", "product_id": "0010"}
device_spec = [{"vendor_id": "8086",
    "product_id": "10d3"}]
[devices]
enabled_mdev_types = large, small
[placement]
endpoint = http://elsewhere
"""


def loaded(path: Path, *arguments: str) -> Any:
    conf = config.load_config(["--config-file", str(path), *arguments])
    for group, options in libvirt_opts():
        conf.register_opts(options, None if group == "DEFAULT" else group)
    return conf


def test_the_configuration_for_computectl_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "ours.conf").write_text(WRITTEN)
    before = loaded(tmp_path / "ours.conf", "--compute-driver", "fake,libvirt")
    (tmp_path / "dev.conf").write_text(configuration(before, Served("http://here")))
    after = loaded(tmp_path / "dev.conf")
    assert (after.host, after.compute_driver) == ("host1", ["fake", "libvirt"])
    assert after.reserved_huge_pages == before.reserved_huge_pages
    assert len(after.reserved_huge_pages) == 2
    assert after.devices.enabled_mdev_types == ["large", "small"]
    assert [json.loads(one) for one in after.pci.device_spec] == [
        {"vendor_id": "1b36", "product_id": "0010"},
        [{"vendor_id": "8086", "product_id": "10d3"}],
    ]
    assert "elsewhere" not in (tmp_path / "dev.conf").read_text()
