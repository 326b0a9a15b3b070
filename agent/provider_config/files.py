"""The provider files of ``[compute] provider_config_location``, and a copy of the last valid ones.

An invalid file changes nothing in Placement: the last valid files stay in use, also after a
restart, and the agent is degraded, with a text that names file and line.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.opts import PROVIDER_CONFIG_LOCATION
from agent.provider_config.entries import Entries, Key, Texts, parse_files
from agent.reporting.condition import Condition, Severity
from agent.reporting.reports import Report
from agent.state import files as regular
from agent.state.document import Document, Unusable, without_file
from drivers.errors import BadFile, Diagnostic

LOG = logging.getLogger("compute_agent.placement")

SAVED = "provider-config.json"
"""Name of the file with the last valid provider files, in ``state_path``."""
PART = "provider files"
"""Subject of the condition while the files are invalid."""
RELOAD = "correct this, then reload compute-agent"


def read_files(location: Path, *, required: bool) -> Entries:
    """Return the entries of the ``*.yaml`` of a directory, by file name, or of the one file.

    A missing directory counts as empty, unless it is ``required``.

    :raises BadFile: the directory can't be read; or files can't be read, or, if all can, are wrong.
    """
    try:
        names = sorted(path.name for path in location.iterdir())
    except NotADirectoryError:
        return parse_files([_text(location)])
    except OSError as err:
        if isinstance(err, FileNotFoundError) and not required:
            return Entries()
        raise BadFile([_unreadable(location, err)]) from err
    texts: list[tuple[str, str]] = []
    diagnostics: list[Diagnostic] = []
    for name in names:
        if name.endswith(".yaml") and not name.startswith("."):
            try:
                texts.append(_text(location / name))
            except BadFile as err:
                diagnostics += err.diagnostics
    if diagnostics:
        raise BadFile(diagnostics)
    why = "is ignored: only *.yaml files are read"
    ignored = (str(location / name) for name in names if name.endswith(".yml"))
    return parse_files(texts, [Diagnostic(name, 1, "", why) for name in ignored])


def _text(path: Path) -> tuple[str, str]:
    try:
        data = regular.read_anywhere(path)
    except OSError as err:
        raise BadFile([_unreadable(path, err)]) from err
    try:
        return str(path), data.decode()
    except UnicodeDecodeError as err:
        line = data[: err.start].count(b"\n") + 1
        raise BadFile([Diagnostic(str(path), line, "", "not UTF-8")]) from err


def _unreadable(path: Path, err: OSError) -> Diagnostic:
    return Diagnostic(str(path), 1, "", f"can't be read: {err.strerror}")


@dataclass(slots=True)
class ProviderFiles:
    """The provider files in use, and the entries whose provider does not exist yet."""

    location: Path = Path()
    required: bool = False
    """Whether the directory has to exist: it is not the default one."""
    saved: Document = field(default_factory=without_file)
    """The copy of the last valid files."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Errors of the files that were read last."""
    entries: Entries | None = field(default_factory=Entries)
    """The entries in use; ``None`` if there are no valid files."""
    _matched: dict[str, frozenset[Key]] = field(default_factory=dict)
    _warned: set[Key] = field(default_factory=set)

    @classmethod
    def from_location(
        cls, location: Path, state_path: Path, *, writing: bool = True
    ) -> "ProviderFiles":
        """Return the provider files of one agent; nothing is read yet."""
        required = str(location) != PROVIDER_CONFIG_LOCATION
        return cls(location, required, Document(state_path / SAVED, writing=writing))

    def load_files(self) -> None:
        """Read the files at start, or else the last valid ones.  Errors are in ``conditions``."""
        self.entries = None
        self.read()
        if self.entries is not None:
            return
        try:
            texts = self.saved.read(_texts)
            self.entries = None if texts is None else parse_files(texts)
        except (Unusable, BadFile) as err:
            LOG.warning("The saved copy of the last valid provider files can't be used: %s", err)

    def read(self) -> None:
        """Read the files and use all of them, or none if one is invalid.  Errors are logged."""
        try:
            entries = read_files(self.location, required=self.required)
        except BadFile as err:
            self.diagnostics = err.diagnostics
            for diagnostic in err.diagnostics:
                LOG.warning("Provider files not applied: %s", diagnostic)
            return
        for warning in entries.warnings:
            LOG.warning("%s", warning)
        if entries != self.entries and (entries.files or self.entries):
            count, files = len(entries.all()), len(entries.files)
            LOG.info("Provider files in use: %d in %s, %d entries", files, self.location, count)
        self.diagnostics, self.entries = (), entries
        if entries.files or self.saved.path.exists():
            otherwise = "after a restart there is no valid copy to fall back to"
            self.saved.save_or_warn({"files": entries.files}, otherwise)

    def conditions(self) -> tuple[Condition, ...]:
        """Return a condition while the files are invalid."""
        if not self.diagnostics:
            return ()
        use = "the last valid files stay in use"
        if self.entries is None:
            use = "no provider file is applied"
        text = f"{BadFile(self.diagnostics)}; {use}"
        return (Condition(text, RELOAD, PART),)

    # -- entries whose provider does not exist

    def record_matched(self, root: str, matched: frozenset[Key]) -> None:
        """Record which entries have a provider in the tree of ``root``."""
        self._matched[root] = matched

    def warn_unmatched(self, roots: Collection[str], reports: Sequence[Report]) -> None:
        """Log the entries without a provider, each once until its provider has existed."""
        if (unmatched := self._unmatched(roots)) is None:
            return
        self._warned &= unmatched.keys()
        if any(report.error or report.driver_errors for report in reports):
            return  # a driver that failed may report the provider
        for key, condition in unmatched.items():
            if key not in self._warned:
                LOG.warning("%s", condition.sentence)
        self._warned |= unmatched.keys()

    def notes(self, roots: Collection[str]) -> Iterator[Condition]:
        """Yield the warnings of the files, and the entries without a provider."""
        for warning in self.entries.warnings if self.entries else ():
            yield Condition(str(warning), RELOAD, severity=Severity.WARNING)
        yield from (self._unmatched(roots) or {}).values()

    def _unmatched(self, roots: Collection[str]) -> dict[Key, Condition] | None:
        """Return a condition for each entry whose provider is in no tree, by its key.

        ``None`` until each tree was recorded.
        """
        if not roots or not self._matched.keys() >= set(roots):
            return None
        return {
            entry.key: Condition(
                f"{entry.place}: no provider has the {entry.by} {entry.identifier}",
                "the entry is applied once that provider exists",
                severity=Severity.WARNING,
            )
            for entry in (self.entries.explicit if self.entries else ())
            if not any(entry.key in self._matched[root] for root in roots)
        }


def _texts(fields: Mapping[str, Any]) -> Texts:
    """Parse the saved copy.  :raises ValueError: (or LookupError, TypeError) it is no such copy."""
    return tuple((str(name), str(text)) for name, text in fields["files"])
