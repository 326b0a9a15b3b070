"""Serialize views with a checksum, so that they survive a restart, and keep them in files.

Data that does not fit exactly is refused, never repaired: reading Placement again is cheap,
acting on a wrong view is not.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from reportclient import forms
from reportclient.model import Names, Provider
from reportclient.plan import as_dicts
from reportclient.snapshot import Snapshot
from reportclient.view import View

LOG = logging.getLogger(__name__)
VERSION = 1


class UnusableView(Exception):
    """The saved bytes are damaged, of another version or of another root."""


def dump_view(view: View, root: str) -> bytes:
    """Return the view of the tree of ``root`` (UUID) as bytes, for :func:`load_view`."""
    rows = [provider_row(provider) for provider in view.snapshot.providers.values()]
    head = {"version": VERSION, "root": root, "providers": rows}
    return sealed({**head, **view_fields(view)})


def load_view(data: bytes, root: str) -> View:
    """Return the view that :func:`dump_view` saved; it is not ``certain`` until it is verified.

    :raises UnusableView: the data is damaged, of another version or of another root.
    """
    try:
        fields = unsealed(data)
        for name, wanted in (("version", VERSION), ("root", root)):
            if fields[name] != wanted:
                raise ValueError(f"its {name} is {fields[name]}, not {wanted}")
        return view_from_json(fields)
    except DAMAGE as err:
        raise UnusableView(f"the saved view of the root {root} can't be used: {err}") from err


def provider_row(provider: Provider) -> list[Any]:
    """Return a provider as JSON values."""
    return [
        provider.uuid,
        provider.name,
        provider.parent_uuid,
        as_dicts(provider.inventory),
        sorted(provider.traits),
        sorted(provider.aggregates),
    ]


def view_fields(view: View) -> dict[str, Any]:
    """Return the rest of a view, besides the providers, as JSON values."""
    return {
        "generations": {k: v for k, v in view.generations.items() if k not in view.unread},
        "sharing": sorted(view.sharing),
        "drained": {uuid: dict(before) for uuid, before in view.drained.items()},
        "drained_since": dict(view.drained_since),
        "traits": sorted(view.names.traits),
        "classes": sorted(view.names.classes),
        "modified": view.modified,
        "restored": view.restored,
    }


def view_from_json(body: Mapping[str, Any]) -> View:
    """Return the view of ``body``: the values of :func:`view_fields`, and ``providers`` as rows.

    :raises ValueError: a value has another form.
    """
    traits, classes, sharing = (
        frozenset(forms.field(body, key, forms.TEXTS)) for key in ("traits", "classes", "sharing")
    )
    return View(
        Snapshot.build(forms.field(body, "providers", forms.items(_provider))),
        forms.field(body, "generations", forms.AMOUNTS),
        Names(traits, classes),
        sharing,
        forms.field(body, "drained", forms.mapping(forms.AMOUNTS)),
        forms.field(body, "drained_since", forms.mapping(float)),
        modified=forms.field(body, "modified", forms.text),
        restored=forms.field(body, "restored", bool),
    )


_CHECKS: tuple[forms.Check[Any], ...] = (
    forms.text,
    forms.text,
    forms.OPTIONAL_TEXT,
    forms.mapping(forms.inventory),
    lambda names: frozenset(forms.TEXTS(names)),
    lambda uuids: frozenset(forms.TEXTS(uuids)),
)
"""The forms of the values of :func:`provider_row`."""


def _provider(row: Any) -> Provider:
    return Provider(*(check(value) for check, value in zip(_CHECKS, row, strict=True)))


CHECKSUM = "sha256"
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""Exceptions that reading damaged data can raise, including too deeply nested JSON."""


def sealed(fields: Mapping[str, Any]) -> bytes:
    """Return JSON-compatible fields with their checksum as bytes: plain, readable JSON."""
    return json.dumps({**fields, CHECKSUM: _checksum(fields)}, indent=1).encode() + b"\n"


def unsealed(data: bytes) -> dict[str, Any]:
    """Return the fields without the checksum.

    :raises ValueError: (or another of ``DAMAGE``) the data is damaged.

    >>> unsealed(sealed({"version": 1}))
    {'version': 1}
    """
    try:
        fields = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(fields, dict):
        raise TypeError("it is not a JSON object")
    checksum = fields.pop(CHECKSUM, None)
    if checksum != _checksum(fields):
        raise ValueError("its checksum is wrong" if checksum else "it has no checksum")
    return fields


def _checksum(fields: Mapping[str, Any]) -> str:
    """Return the checksum of the fields, independent of their order and spacing."""
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class FileStore:
    """A directory with a file for each root; the ``store`` of a client.

    Without a usable file the tree is read from Placement, which is always right: so a damaged file
    counts as none, and an error of the disk is logged and stops no report.  Threads may share it,
    each root used by one at a time.
    """

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)
        self._saved: dict[str, View] = {}
        """The views as the files have them, by root."""

    def load(self, root: str) -> View | None:
        """See :class:`reportclient.root.Store`."""
        path = self._path(root)
        try:
            self._saved[root] = load_view(path.read_bytes(), root)
        except FileNotFoundError:
            return None
        except (OSError, UnusableView) as err:
            LOG.warning("%s is ignored, Placement is read instead: %s", path, err)
            return None
        return self._saved[root]

    def save(self, root: str, view: View) -> None:
        """See :class:`reportclient.root.Store`."""
        if self._saved.get(root) == view.stale():
            return
        path = self._path(root)
        new = path.with_suffix(".new")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            new.write_bytes(dump_view(view, root))
            new.replace(path)
        except OSError as err:
            LOG.warning("%s can't be written, a restart reads Placement instead: %s", path, err)
            self.forget(root)  # an outdated view may look true after Placement was restored
        else:
            self._saved[root] = view.stale()

    def forget(self, root: str) -> None:
        """See :class:`reportclient.root.Store`."""
        self._saved.pop(root, None)
        with suppress(OSError):
            self._path(root).unlink(missing_ok=True)

    def _path(self, root: str) -> Path:
        return self._directory / f"{root}.json"
