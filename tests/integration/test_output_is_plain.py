"""Whatever providers are called, computectl prints nothing that a terminal obeys.

On a real Placement, with every command that shows names, on any terminal.
"""

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

from computectl.app import ComputeCtl
from reportclient.model import Inventory, Provider
from reportclient.snapshot import Snapshot
from tests.integration.agent_host import Here, Said
from tests.servers.bulk_load import load
from tests.servers.placement import RealPlacement

AGGREGATE = "7a0e6a3c-52a5-4a39-8f4b-0d5b5f0c1e77"
ROOT, CHILD = "c0ffee00-0000-4000-8000-000000000001", "c0ffee00-0000-4000-8000-000000000002"
HOSTILE = "h\x1b[2J\x1b[31m\u202eé\nPlacement is well"
PRINTED = r"h\x1b[2J\x1b[31m\u202eé\nPlacement is well"
COMMANDS = [
    ("tree", ROOT),
    ("tree", HOSTILE),
    ("tree", "--all"),
    ("tree", "--all", "--dot"),
    *(("tree", ROOT, "-f", kind) for kind in ("table", "csv", "value")),
    ("tree", ROOT, "-f", "yaml"),
    ("tree", "nobody\x1b[2J\nat all"),
    ("candidates", "--resources", "VCPU=1"),
    ("candidates", "--resources", "VCPU=1", "-f", "csv"),
    ("candidates", "--resources", "VCPU=9", "--explain"),
    ("candidates", "--resources", "VCPU=1", "--required", "\x1b[2J"),
    ("candidates", "--query", "resources=VCPU:1&\x1b[2J=1"),
    ("plan",),
    ("adopt", HOSTILE),
    ("tree", "--\x1b[2J"),
    ("tr\x1b[2Jee",),
]


class AsciiHere(Here):
    """On a terminal that knows 95 characters, and obeys more."""

    def ctl(self, *args: str, **environ: str) -> Said:
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2)]
        with (
            mock.patch.dict("os.environ", {"COLUMNS": "80", **environ}),
            redirect_stdout(streams[0]),
            redirect_stderr(streams[1]),
        ):
            try:
                code = ComputeCtl().run(["--config-file", str(self.config), *args])
            except SystemExit as end:
                code = int(end.code or 0)
            for stream in streams:
                stream.flush()
        out, err = (stream.buffer.getvalue().decode("ascii") for stream in streams)
        return Said(code, out, err)


@pytest.fixture(scope="module")
def directory(placement_server: RealPlacement, tmp_path_factory: pytest.TempPathFactory) -> Path:
    placement_server.start()
    placement_server.empty()
    in_it = frozenset([AGGREGATE])
    root = Provider(ROOT, HOSTILE, inventory={"VCPU": Inventory(8)}, aggregates=in_it)
    card = Provider(CHILD, f"{HOSTILE}_pf", ROOT, inventory={"SRIOV_NET_VF": Inventory(8)})
    other = Provider(AGGREGATE, "other\x1b[2J\n", aggregates=in_it)
    load(placement_server, Snapshot.build([root, card, other]))
    return tmp_path_factory.mktemp("plain")


@pytest.mark.parametrize("kind", [Here, AsciiHere])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: repr(" ".join(words)))
def test_nothing_that_a_terminal_obeys_is_printed(
    words: tuple[str, ...], kind: type[Here], directory: Path, placement_server: RealPlacement
) -> None:
    host = kind(directory, placement_server.url, host="host1")
    host.configure()
    host.script("nodes: {'{host}': {inventory: {VCPU: 8}}}")
    said = host.ctl(*words)
    for text in (said.out, said.err):
        assert all(line.isprintable() for line in text.splitlines()), text
        assert not re.search(r"^Placement is well", text, re.M)
    assert "internal error" not in said.err
    assert said.err.count("\n") <= 1 or words[0] == "plan", said.err


def test_programs_get_the_name_as_it_is(directory: Path, placement_server: RealPlacement) -> None:
    host = Here(directory, placement_server.url)
    host.configure()
    assert {row["provider"] for row in host.ctl("tree", CHILD, "-f", "json").json()} >= {HOSTILE}
    found = host.ctl("candidates", "--resources", "VCPU=1", "-f", "json").json()
    assert {row["host"] for row in found} == {HOSTILE}


def test_letters_of_other_languages_are_shown(directory: Path, placement_server) -> None:
    host = Here(directory, placement_server.url)
    host.configure()
    assert PRINTED in host.ctl("tree", ROOT).out
