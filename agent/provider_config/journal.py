"""What this agent added to providers, on disk: one file for each root.

It is written before Placement is, so that kill -9 in between never makes the agent take
its own for a stranger's; and a name leaves it only once Placement is seen without it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.provider_config.kept import Damaged, KeptFile
from agent.provider_config.overlay import Applied
from reportclient.model import canonical_uuid

LOG = logging.getLogger(__name__)

PREFIX = "provider-config-"


@dataclass(slots=True)
class Journal:
    """Any thread may use it.  Without a ``directory`` it lasts as long as the process."""

    directory: Path | None = None
    writing: bool = True
    """False for who only looks."""
    _known: dict[str, Mapping[str, Applied]] = field(default_factory=dict)
    _unwritable: bool = False
    _lock: AbstractContextManager[Any] = field(default_factory=threading.Lock, repr=False)

    def applied(self, roots: Iterable[str]) -> dict[str, Applied]:
        """What is ours below these roots, by the UUID of the provider."""
        with self._lock:
            found: dict[str, Applied] = {}
            for root in roots:
                if root not in self._known:
                    self._known[root] = self._load(root)
                found.update(self._known[root])
            return found

    def note(self, by_root: Mapping[str, Mapping[str, Applied]]) -> None:
        """From now on this is ours below these roots; on disk when this returns.

        A disk that can't be written is logged once and stops nobody from reporting: the
        process still knows.
        """
        with self._lock:
            for root, applied in by_root.items():
                if applied != self._known.get(root, {}):
                    self._known[root] = applied
                    self._keep(root, applied)

    def forget(self, root: str) -> None:
        """Nothing below this root is ours any more: it is gone, or another service's."""
        with self._lock:
            self._known.pop(root, None)
            file = self._file(root)
            if file is None or not self.writing or not file.path.exists():
                return
            try:
                file.remove()
            except OSError as err:
                LOG.warning("%s can't be removed: %s", file.path, err.strerror)

    def _load(self, root: str) -> Mapping[str, Applied]:
        file = self._file(root)
        if file is None:
            return {}
        try:
            return _parsed(file.load() or {})
        except Damaged as err:
            aside = file.set_aside() if self.writing else ""
            LOG.warning(
                "%s can't be used (%s)%s: what provider files added before is no longer taken "
                "away when it leaves them",
                file.path,
                err,
                aside,
            )
            return {}

    def _keep(self, root: str, applied: Mapping[str, Applied]) -> None:
        file = self._file(root)
        if file is None or not self.writing:
            return
        try:
            if applied:
                file.keep(_plain(applied))
            else:
                file.remove()
        except OSError as err:
            if not self._unwritable:
                LOG.warning(
                    "%s can't be written (%s): what provider files add now is not taken away "
                    "any more if the agent restarts before that is mended",
                    file.path,
                    err.strerror,
                )
            self._unwritable = True
        else:
            self._unwritable = False

    def _file(self, root: str) -> KeptFile | None:
        return None if self.directory is None else KeptFile(self.directory / f"{PREFIX}{root}.json")


def _plain(applied: Mapping[str, Applied]) -> dict[str, Any]:
    return {
        uuid: {"classes": sorted(one.classes), "traits": sorted(one.traits)}
        for uuid, one in applied.items()
    }


def _parsed(found: Any) -> dict[str, Applied]:
    """:raises Damaged: a whole file, with a right checksum, that is none of ours."""
    try:
        return {
            canonical_uuid(uuid, "provider"): Applied(_names(one["classes"]), _names(one["traits"]))
            for uuid, one in found.items()
        }
    except (ValueError, LookupError, TypeError, AttributeError) as err:
        raise Damaged(f"it is no journal ({err})") from err


def _names(found: Any) -> frozenset[str]:
    if not all(isinstance(name, str) for name in found):
        raise TypeError("a name is no text")
    return frozenset(found)
