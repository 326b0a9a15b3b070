"""Packages that ``pip install compute-agent[libvirt]`` brings: ``python -m tests.unit.packages``.

It is read from what is installed here, and from the requirements in setup.cfg.
"""

import configparser
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]


def packages_of(extra: str) -> dict[str, float]:
    """MiB of all packages that the extra needs, each by its name."""
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    options, extras = config["options"], config["options.extras_require"]
    lines = f"{options['install_requires']}\n{extras[extra]}".splitlines()
    return with_what_they_need([Requirement(x) for x in lines if x and not x.startswith("#")])


def with_what_they_need(waiting: list[Requirement]) -> dict[str, float]:
    """MiB of these packages and all that they need, each by its name."""
    found: dict[str, float] = {}
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) in seen:
                continue
            seen.add((name, wanted))
            needed = map(Requirement, metadata.requires(name) or [])
            waiting += [
                one for one in needed if not one.marker or one.marker.evaluate({"extra": wanted})
            ]
        files = (Path(str(file.locate())) for file in metadata.files(name) or [])
        found[name] = sum(file.stat().st_size for file in files if file.exists()) / 2**20
    return dict(sorted(found.items(), key=lambda item: -item[1]))


if __name__ == "__main__":
    sizes = packages_of("libvirt")
    sys.stdout.write(f"{len(sizes)} packages, {sum(sizes.values()):.0f} MiB\n")
    sys.stdout.writelines(f"{size:5.1f}  {name}\n" for name, size in sizes.items())
