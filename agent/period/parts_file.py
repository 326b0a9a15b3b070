"""Where it is kept between two lives of the agent which driver reported what."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path

from agent.period.parts import Parts, as_json, from_json
from agent.state import files

LOG = logging.getLogger(__name__)

PREFIX = "parts-"
VERSION = 1


@dataclass(slots=True)
class PartsFile:
    """One root's parts in the state directory; there is none where one driver has it all."""

    path: Path
    kept: Parts = field(default_factory=Parts)
    unwritable: bool = False

    @classmethod
    def of(cls, state_path: Path, root: str) -> PartsFile:
        """The file of this root."""
        return cls(state_path / f"{PREFIX}{root}.json")

    def load(self) -> Parts:
        """What was kept; none, and one line in the log, if it can't be used.

        Without it nothing is lost: each driver says its part again, and what nobody says
        stays as long as one of them can't be asked.
        """
        try:
            found = json.loads(files.read(self.path))
            if found["version"] != VERSION:
                raise ValueError(f"version {found['version']!r} is not known here")  # noqa: TRY301
            self.kept = from_json(found)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as err:
            LOG.warning("%s is ignored, the drivers are heard anew: %s", self.path, err)
        return self.kept

    def keep(self, parts: Parts) -> None:
        """Keep them if they changed; a full disk stops nobody from reporting.

        It is told once, and tried again in each period.
        """
        if parts == self.kept:
            return
        try:
            data = json.dumps({"version": VERSION, **as_json(parts)})
            files.replace(self.path, data.encode())
        except OSError as err:
            if not self.unwritable:
                LOG.warning("Which driver reports what can't be kept in %s: %s", self.path, err)
            self.unwritable = True
        else:
            self.unwritable, self.kept = False, parts
