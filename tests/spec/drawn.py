"""The pictures in docs/pictures: the specifications' trees, read from a real Placement.

``tools/pictures.sh`` writes them; ``test_pictures`` compares them with the trees.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from computectl.drawing.dot import draw_dot
from computectl.reading.trees import read_trees
from reportclient.http import PlacementAPI, token_adapter
from tests.servers.placement import RealPlacement
from tests.servers.process import completed
from tests.spec import models
from tests.spec import picture as shared_tree

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"


def _model(model: models.Model) -> Callable[[RealPlacement], object]:
    return lambda placement: models.build(placement, model)


def _shared_tree(placement: RealPlacement) -> None:
    placement.start()
    placement.empty()
    shared_tree.build(placement)


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
}


def drawn(name: str, placement: RealPlacement) -> str:
    """The DOT text of a scene, as ``computectl tree --all --dot`` prints it."""
    SCENES[name](placement)
    trees = read_trees(PlacementAPI(token_adapter(placement.url, "admin")))
    return "\n".join(draw_dot(*trees.together()))


def svg_of(dot: str) -> str:
    """The SVG that Graphviz draws."""
    return completed("dot", "-Tsvg", input=dot, check=True).stdout


def write() -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        RealPlacement(Path(scratch) / "placement") as placement,
    ):
        for name in SCENES:
            (FOLDER / f"{name}.svg").write_text(svg_of(drawn(name, placement)))


if __name__ == "__main__":
    write()
