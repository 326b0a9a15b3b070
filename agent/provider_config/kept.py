"""A value on disk: replaced as a whole or not at all, and known to be undamaged.

Two lines: a header with the format's version and a checksum, and the value as JSON.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.state import files

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
            first, _, body = files.read(self.path).partition(b"\n")
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
        except (ValueError, LookupError, TypeError, RecursionError) as err:
            raise Damaged(f"it has no header ({err})") from err

    def keep(self, value: Any) -> None:
        """Neither a crash nor a power cut leaves half of it.  :raises OSError:"""
        body = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
        header = {"version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}
        files.replace(self.path, json.dumps(header).encode() + b"\n" + body)

    def remove(self) -> None:
        """Nothing is kept any more.  :raises OSError:"""
        files.remove(self.path)

    def set_aside(self) -> str:
        """Out of the way, for somebody to look at; where it is now, to end a clause with."""
        return files.aside(self.path)
