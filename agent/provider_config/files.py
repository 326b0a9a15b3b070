"""The files of ``[compute] provider_config_location``: read, checked, the last good ones kept.

A bad file changes nothing in Placement: what was read last stays in use, over restarts
too, and the agent says that it is not well, with the file and the line.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.opts import PROVIDER_CONFIG_LOCATION
from agent.provider_config.entries import Entries, Entry, Key, combined, said
from agent.provider_config.schema import read
from agent.reporting.reports import Report
from agent.state import files as regular
from agent.state.document import Document, Unusable
from drivers.diagnostics import BadFile, Diagnostic

LOG = logging.getLogger(__name__)

KEPT = "provider-config.json"
PART = "provider files"
"""What is degraded while they are bad."""

Texts = tuple[tuple[str, str], ...]
"""Paths and contents, in their order."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Files that can be used."""

    entries: Entries
    warnings: tuple[Diagnostic, ...] = ()
    files: tuple[str, ...] = ()


def texts_in(location: Path, *, required: bool) -> Texts:
    """The ``*.yaml`` of a directory in the order of their names, or the one file.

    A directory that is not there is one without files, unless it is ``required``.

    :raises BadFile: something can't be read.
    """
    try:
        names = sorted(path.name for path in location.iterdir())
    except NotADirectoryError:
        return (_text(location),)
    except FileNotFoundError as err:
        if required:
            raise BadFile([_unreadable(location, err)]) from err
        return ()
    except OSError as err:
        raise BadFile([_unreadable(location, err)]) from err
    paths = (location / name for name in names if _is_ours(name))
    texts: list[tuple[str, str]] = []
    diagnostics: list[Diagnostic] = []
    for path in paths:
        try:
            texts.append(_text(path))
        except BadFile as err:
            diagnostics += err.diagnostics
    if diagnostics:
        raise BadFile(diagnostics)
    return tuple(texts)


def passed_over(location: Path) -> tuple[Diagnostic, ...]:
    """A warning for each file that somebody may think is read."""
    try:
        likely = sorted(path.name for path in location.iterdir() if path.suffix == ".yml")
    except OSError:
        return ()
    text = "is not read: only *.yaml are"
    return tuple(Diagnostic(str(location / name), 1, "", text) for name in likely)


def parsed(texts: Iterable[tuple[str, str]], known: Iterable[Diagnostic] = ()) -> Loaded:
    """Return the entries of all files; ``known`` are warnings that were logged before.

    :raises BadFile: with all that is wrong in all of them.
    """
    entries: list[Entry] = []
    warnings = list(known)
    diagnostics: list[Diagnostic] = []
    names = []
    for name, text in texts:
        names.append(name)
        try:
            file = said(read(text, name))
        except BadFile as err:
            diagnostics += err.diagnostics
        else:
            entries += file.entries
            warnings += file.warnings
    try:
        together = combined(entries)
    except BadFile as err:
        diagnostics += err.diagnostics
    if diagnostics:
        raise BadFile(diagnostics)
    return Loaded(together, tuple(warnings), tuple(names))


@dataclass(slots=True)
class ProviderFiles:
    """The provider files of the service, and the entries that wait for a provider."""

    location: Path = Path()
    required: bool = False
    """Whether the directory has to be there: somebody has named it."""
    kept: Document | None = None
    """Where the last good files are kept."""
    holding: bool = False
    """What was applied stays as it is, whatever the files say."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """What is wrong with the files as they are now."""
    warnings: tuple[Diagnostic, ...] = ()
    _in_use: Entries | None = field(default_factory=Entries)
    _met: dict[str, frozenset[Key]] = field(default_factory=dict)
    _warned: set[Key] = field(default_factory=set)

    @classmethod
    def of(cls, location: Path, state_path: Path, *, writing: bool = True) -> "ProviderFiles":
        """Those of the agent with this state directory; nothing is read yet."""
        required = str(location) != PROVIDER_CONFIG_LOCATION
        return cls(location, required, Document(state_path / KEPT, writing=writing))

    @property
    def entries(self) -> Entries | None:
        """The entries in use; ``None`` if they are unknown, or files are switched off."""
        return None if self.holding else self._in_use

    def load(self) -> None:
        """At start: the files, or the last good ones.  Never raises: ``degraded`` tells."""
        self._in_use = None
        self.read()
        if self._in_use is None:
            self._in_use = self._last_good()

    def read(self) -> None:
        """Put the files as they are now into use, all of them or none.  Never raises."""
        try:
            texts = texts_in(self.location, required=self.required)
            loaded = parsed(texts, passed_over(self.location))
        except BadFile as err:
            self.diagnostics = err.diagnostics
            for diagnostic in err.diagnostics:
                LOG.warning("Provider files not applied: %s", diagnostic)
            return
        self._tell(loaded)
        self.diagnostics, self.warnings, self._in_use = (), loaded.warnings, loaded.entries
        self._keep(texts)

    @property
    def problem(self) -> str:
        """Why the last good files can't be kept; empty while they can."""
        return "" if self.kept is None else self.kept.problem

    def degraded(self) -> dict[str, str]:
        """Return the errors, by part."""
        if not self.diagnostics or self.holding:
            return {}
        use = "none is applied" if self._in_use is None else "the last valid files stay in use"
        return {
            PART: f"{BadFile(self.diagnostics)}; {use}; correct this, then reload compute-agent"
        }

    # -- entries that wait for a provider

    def meet(self, root: str, met: frozenset[Key]) -> None:
        """Which entries found their provider in the tree of ``root``."""
        self._met[root] = met

    def tell_absent(self, roots: Collection[str], reports: Sequence[Report]) -> None:
        """Each one once, and once more when it was there meanwhile."""
        if not self._seen(roots):
            return
        absent = self._absent(roots)
        self._warned &= {entry.key for entry in absent}
        if any(report.error or report.driver_errors for report in reports):
            return  # it may be a driver's that could not be asked
        for entry in absent:
            if entry.key not in self._warned:
                LOG.warning("%s", _waits(entry))
                self._warned.add(entry.key)

    def notes(self, roots: Collection[str]) -> Iterator[str]:
        """Yield the warnings."""
        yield from map(str, self.warnings)
        yield from map(_waits, self._absent(roots))

    def _absent(self, roots: Collection[str]) -> list[Entry]:
        """Entries whose provider is in no tree; none before each of the trees was seen."""
        if self._in_use is None or not self._seen(roots):
            return []
        met = frozenset[Key]().union(*(self._met[root] for root in roots))
        return [entry for entry in self._in_use.explicit if entry.key not in met]

    def _seen(self, roots: Collection[str]) -> bool:
        return bool(roots) and self._met.keys() >= set(roots)

    def _tell(self, loaded: Loaded) -> None:
        for warning in loaded.warnings:
            LOG.warning("%s", warning)
        if loaded.entries != self._in_use and (loaded.files or self._in_use):
            count = len(loaded.entries.all())
            files = len(loaded.files)
            LOG.info("Provider files in use: %d in %s, %d entries", files, self.location, count)

    def _last_good(self) -> Entries | None:
        if self.kept is None:
            return None
        try:
            texts = self.kept.load(_texts)
            return None if texts is None else parsed(texts).entries
        except (Unusable, BadFile) as err:
            LOG.warning("The saved copy of the last valid provider files can't be used: %s", err)
            return None

    def _keep(self, texts: Texts) -> None:
        if self.kept is None:
            return
        try:
            if texts:
                self.kept.keep(
                    {"files": texts}, "after a restart there is no valid copy to fall back to"
                )
            else:
                self.kept.remove()
        except OSError as err:
            LOG.warning("%s can't be removed: %s", self.kept.path, err.strerror)


def _waits(entry: Entry) -> str:
    return (
        f"{entry.place}: no provider has the {entry.by} {entry.identifier}: "
        "its entry waits until there is one"
    )


def _is_ours(name: str) -> bool:
    return name.endswith(".yaml") and not name.startswith(".")


def _text(path: Path) -> tuple[str, str]:
    try:
        data = regular.read(path)
    except OSError as err:
        raise BadFile([_unreadable(path, err)]) from err
    try:
        return str(path), data.decode()
    except UnicodeDecodeError as err:
        line = data[: err.start].count(b"\n") + 1
        raise BadFile([Diagnostic(str(path), line, "", "not UTF-8")]) from err


def _unreadable(path: Path, err: OSError) -> Diagnostic:
    return Diagnostic(str(path), 1, "", f"can't be read: {err.strerror}")


def _texts(fields: Mapping[str, Any]) -> Texts:
    """:raises ValueError: (or LookupError, TypeError) it is something else."""
    return tuple((str(name), str(text)) for name, text in fields["files"])
