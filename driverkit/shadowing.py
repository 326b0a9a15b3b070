"""An error if another package hides one of ours, as where a checkout has its own ``drivers``."""

from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def refuse_shadows() -> None:
    """Check the packages that the kit needs.  :raises ImportError: another one is in the way."""
    for name in ("agent", "computectl", "drivers"):
        spec, ours = find_spec(name), HERE / name / "__init__.py"
        if spec and spec.origin and Path(spec.origin).resolve() != ours:
            raise ImportError(
                f"{spec.origin} shadows {ours}, which the kit for drivers needs: rename that "
                "package, or keep it out of sys.path (python -m pytest puts the current directory "
                "first there, pytest does not)"
            )
