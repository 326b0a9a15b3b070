"""Save views with a checksum, so that they survive a restart, and keep them in files.

Data that does not fit exactly is refused, never repaired: reading Placement again is cheap,
acting on a wrong view is not.
"""

import logging
from contextlib import suppress
from pathlib import Path

from reportclient.forms import DAMAGE, sealed, unsealed
from reportclient.view import View

LOG = logging.getLogger(__name__)
VERSION = 1


class UnusableView(Exception):
    """The saved bytes are damaged, of another version or of another root."""


def dump_view(view: View, root: str) -> bytes:
    """Return the view of the tree of ``root`` (UUID) as bytes, for :func:`load_view`."""
    return sealed({"version": VERSION, "root": root, **view.as_json()})


def load_view(data: bytes, root: str) -> View:
    """Return the view that :func:`dump_view` saved; it is not ``certain`` until it is verified.

    :raises UnusableView: the data is damaged, of another version or of another root.
    """
    try:
        fields = unsealed(data)
        for name, wanted in (("version", VERSION), ("root", root)):
            if fields[name] != wanted:
                raise ValueError(f"its {name} is {fields[name]}, not {wanted}")
        return View.from_json(fields)
    except DAMAGE as err:
        raise UnusableView(f"the saved view of the root {root} can't be used: {err}") from err


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
