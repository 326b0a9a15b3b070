"""A value on disk: replaced as a whole or not at all, and known to be undamaged.

Two lines: a header with the format's version and a checksum, and the value as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = 1


class Damaged(Exception):
    """The file is there and can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file of the state directory."""

    path: Path

    def load(self) -> Any:
        """What was kept; ``None`` if there is nothing.

        :raises Damaged: it is damaged, of another version, or can't be read.
        """
        try:
            first, _, body = self.path.read_bytes().partition(b"\n")
            header = json.loads(first)
            if header["version"] != VERSION:
                raise Damaged(f"it has version {header['version']}, not {VERSION}")
            if header["sha256"] != hashlib.sha256(body).hexdigest():
                raise Damaged("its checksum is wrong")
            return json.loads(body)
        except FileNotFoundError:
            return None
        except OSError as err:
            raise Damaged(err.strerror or str(err)) from err
        except (ValueError, LookupError, TypeError) as err:
            raise Damaged(f"it has no header ({err})") from err

    def keep(self, value: Any) -> None:
        """Neither a crash nor a power cut leaves half of it.  :raises OSError:"""
        body = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
        header = {"version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_name(f".{self.path.name}")
        with scratch.open("wb") as file:
            file.write(json.dumps(header).encode() + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self.path)
        self._sync()

    def remove(self) -> None:
        """Nothing is kept any more.  :raises OSError:"""
        self.path.unlink(missing_ok=True)
        self._sync()

    def set_aside(self) -> Path:
        """Out of the way, for somebody to look at; where it is now.  :raises OSError:"""
        aside = self.path.with_name(f"{self.path.name}.damaged")
        return self.path.replace(aside)

    def _sync(self) -> None:
        descriptor = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
