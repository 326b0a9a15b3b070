"""The pictures in docs/pictures: the specifications' trees, read from a real Placement.

``tools/pictures.sh`` writes them; ``test_pictures`` holds them against what is drawn now.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from computectl.drawing.picture import Picture, picture
from computectl.drawing.svg import draw_dot, svg_of
from computectl.reading.trees import read_trees
from reportclient.apply import apply
from reportclient.diff import diff
from reportclient.http import PlacementAPI, token_adapter
from reportclient.snapshot import EMPTY, Snapshot
from reportclient.view import View
from tests.servers.placement import RealPlacement
from tests.spec import models
from tests.spec import picture as shared_tree
from tests.unit.cli.trees import AGGREGATE, numa_host

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
AGGREGATES = {
    **{models.uuid_of(name): name for name in ("agg", "aggA", "aggB")},
    **{uuid: f"agg{number}" for number, uuid in shared_tree.AGG.items()},
    AGGREGATE: AGGREGATE[:8],
}


def _model(model: models.Model) -> Callable[[RealPlacement], object]:
    return lambda placement: models.build(placement, model)


def _shared_tree(placement: RealPlacement) -> None:
    placement.start()
    placement.empty()
    shared_tree.build(placement)


def _large_host(placement: RealPlacement) -> None:
    """A host with 128 network cards, a few of them used."""
    placement.start()
    placement.empty()
    snapshot = numa_host(pfs=128)
    outcome = apply(diff(EMPTY, snapshot), View(), _api(placement))
    assert outcome.stopped_by is None and not outcome.failed, outcome
    uses = {"host1_numa0": {"VCPU": 8, "MEMORY_MB": 4096}, "host1_numa0_pf3": {"SRIOV_NET_VF": 2}}
    of = {name: snapshot.named(name) for name in uses}
    placement.stranger.put_allocation({one.uuid: uses[name] for name, one in of.items() if one})


SCENES: Mapping[str, Callable[[RealPlacement], object]] = {
    "sharing": _model(models.SHARING),
    "nested": _model(models.NESTED),
    "nics": _model(models.NICS),
    "two-storages": _model(models.TWO_STORAGES),
    "root-traits": _model(models.ROOT_TRAITS),
    "fpgas": _model(models.FPGAS),
    "physnets": _model(models.PHYSNETS),
    "disabled": _model(models.with_twins(models.NICS)),
    "shared-tree": _shared_tree,
    "large-host": _large_host,
}


def drawn(name: str, placement: RealPlacement) -> Picture:
    """As ``computectl tree --all`` reads it, but that aggregates have the documents' names."""
    SCENES[name](placement)
    snapshot, usage = read_trees(_api(placement)).together()
    return picture(_as_named(snapshot), usage)


def _as_named(snapshot: Snapshot) -> Snapshot:
    return Snapshot.build(
        replace(one, aggregates=frozenset(AGGREGATES.get(uuid, uuid) for uuid in one.aggregates))
        for one in snapshot.walk()
    )


def _api(placement: RealPlacement) -> PlacementAPI:
    return PlacementAPI(token_adapter(placement.url, "admin"))


def write(folder: Path) -> None:
    """All of them, as SVG, and as the DOT text that it is drawn from."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        RealPlacement(Path(scratch) / "placement") as placement,
    ):
        for name in SCENES:
            dot = draw_dot(drawn(name, placement))
            (folder / f"{name}.dot").write_text(dot)
            (folder / f"{name}.svg").write_text(svg_of(dot))


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
