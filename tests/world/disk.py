"""The agents' disks, in memory: before each file operation the disk may fail or the process end.

Only ``agent/state`` writes below a state directory.  In its module that opens files, :class:`Os`
replaces ``os``.  :class:`StatePath` has those methods of ``pathlib.Path`` that the agent uses.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import count
from typing import Any

from agent.state import files
from tests.world.scheduler import Scheduler

_WRITING = os.O_WRONLY | os.O_RDWR
_NUMBERS = count(1 << 24)
"""Numbers of files and descriptors: unique, since a file of an earlier history may be closed late."""


@dataclass(eq=False, slots=True)
class Node:
    """A file or a directory."""

    number: int
    is_directory: bool = False
    data: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True)
class Stat:
    st_mode: int
    st_ino: int
    st_size: int
    st_uid: int = 0

    @classmethod
    def of(cls, node: Node) -> Stat:
        kind = stat.S_IFDIR if node.is_directory else stat.S_IFREG
        return cls(kind | 0o644, node.number, len(node.data))


class Disk:
    """All files of a history, by their paths."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.nodes: dict[str, Node] = {}
        self.opened: dict[int, Node] = {}

    def step(self, what: Any, *, writes: bool) -> None:
        process = self._scheduler.owner
        if process is None:
            return
        process.step()
        fault = process.machine.disk_fault
        if writes and fault:
            process.met_bad_disk = True
            raise OSError(fault, os.strerror(fault), str(what))

    @property
    def is_bad(self) -> bool:
        process = self._scheduler.owner
        return process is not None and bool(process.machine.disk_fault)

    def node(self, path: str) -> Node:
        """:raises FileNotFoundError:"""
        node = self.nodes.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def make(self, path: str, *, is_directory: bool = False) -> Node:
        node = self.nodes[path] = Node(next(_NUMBERS), is_directory)
        return node

    def open(self, node: Node) -> int:
        descriptor = next(_NUMBERS)
        self.opened[descriptor] = node
        return descriptor

    def copy(self, source: str, target: str) -> None:
        """Copy a directory with everything below it."""
        for path, node in list(self.nodes.items()):
            if path == source or path.startswith(f"{source}/"):
                copied = self.make(target + path[len(source) :], is_directory=node.is_directory)
                copied.data[:] = node.data


class Os:
    """Replaces the module ``os`` with functions that use the simulated disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, *_: int) -> int:
        self._disk.step(path, writes=bool(flags & _WRITING))
        text, nodes = str(path), self._disk.nodes
        if text in nodes and flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), text)
        if text not in nodes and flags & os.O_CREAT:
            self._disk.make(text)
        return self._disk.open(self._disk.node(text))

    def fdopen(self, descriptor: int, _: str) -> Handle:
        return Handle(self, descriptor)

    def fstat(self, descriptor: int) -> Stat:
        return Stat.of(self.node(descriptor))

    def node(self, descriptor: int) -> Node:
        """:raises OSError: the descriptor is not open."""
        try:
            return self._disk.opened[descriptor]
        except KeyError:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None

    def close(self, descriptor: int) -> None:
        self.node(descriptor)
        del self._disk.opened[descriptor]

    def fsync(self, descriptor: int) -> None:
        """Do nothing but the step: simulated writes always outlive the process."""
        self._disk.step("a file", writes=True)
        self.node(descriptor)

    def link(self, source: Any, target: Any) -> None:
        self._disk.step(target, writes=True)
        if str(target) in self._disk.nodes:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        self._disk.nodes[str(target)] = self._disk.node(str(source))

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        """Write data; a disk that fails takes the first half, as real disks may."""
        if self._disk.is_bad and len(data) > 1:
            data = data[: len(data) // 2]
        else:
            self._disk.step("a file", writes=True)
        self.node(descriptor).data[offset : offset + len(data)] = data
        return len(data)

    def ftruncate(self, descriptor: int, size: int) -> None:
        del self.node(descriptor).data[size:]


class Handle:
    """A file object."""

    def __init__(self, system: Os, descriptor: int) -> None:
        self._system, self._descriptor = system, descriptor

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self._system.close(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def read(self) -> bytes:
        return bytes(self._system.node(self._descriptor).data)

    def write(self, data: bytes) -> int:
        self._system.node(self._descriptor).data.extend(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""


class StatePath:
    """A path of a state directory or of a file below it."""

    __slots__ = ("_disk", "_text", "name")

    def __init__(self, disk: Disk, text: str) -> None:
        self._disk, self._text = disk, text
        self.name = text[text.rindex("/") + 1 :]

    def __str__(self) -> str:
        return self._text

    __fspath__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StatePath) and str(other) == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __truediv__(self, name: str) -> StatePath:
        return StatePath(self._disk, f"{self._text}/{name}")

    @property
    def parent(self) -> StatePath:
        return StatePath(self._disk, self._text[: self._text.rindex("/")])

    @property
    def stem(self) -> str:
        return posixpath.splitext(self.name)[0]

    @property
    def suffix(self) -> str:
        return posixpath.splitext(self.name)[1]

    def with_name(self, name: str) -> StatePath:
        return self.parent / name

    def absolute(self) -> StatePath:
        return self

    # -- looking

    def exists(self) -> bool:
        return self._text in self._disk.nodes

    def is_file(self) -> bool:
        return self.exists() and not self._disk.nodes[self._text].is_directory

    def lstat(self) -> Stat:
        """Simulated files have no links."""
        raise PermissionError

    def stat(self) -> Stat:
        return Stat.of(self._disk.node(self._text))

    def iterdir(self) -> Iterator[StatePath]:
        self._disk.node(self._text)
        within = f"{self._text}/"
        texts = [text for text in self._disk.nodes if text.startswith(within)]
        return iter(
            [StatePath(self._disk, text) for text in texts if text.rindex("/") < len(within)]
        )

    def glob(self, pattern: str) -> Iterator[StatePath]:
        return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))

    def read_bytes(self) -> bytes:
        self._disk.step(self, writes=False)
        return bytes(self._disk.node(self._text).data)

    # -- changing

    def write_text(self, text: str) -> None:
        """Write a file for an actor other than the agent: without faults."""
        self._disk.make(self._text).data[:] = text.encode()

    def mkdir(self, **_: Any) -> None:
        for path in (self.parent, self):
            if not path.exists():
                self._disk.make(str(path), is_directory=True)

    def chmod(self, _: int) -> None:
        """Do nothing: there are no permissions."""

    def replace(self, target: StatePath) -> StatePath:
        self._disk.step(target, writes=True)
        self._disk.nodes[str(target)] = self._disk.node(self._text)
        del self._disk.nodes[self._text]
        return target

    def touch(self) -> None:
        self._disk.step(self, writes=not self.exists())
        if not self.exists():
            self._disk.make(self._text)

    def unlink(self, missing_ok: bool = False) -> None:
        self._disk.step(self, writes=False)
        if not missing_ok:
            self._disk.node(self._text)
        self._disk.nodes.pop(self._text, None)


@contextlib.contextmanager
def disks(disk: Disk) -> Iterator[None]:
    """Within this context the agents use the simulated disk."""
    before = vars(files)["os"]
    vars(files)["os"] = Os(disk)
    try:
        yield
    finally:
        vars(files)["os"] = before


DISK_FAULTS = {
    "is full": errno.ENOSPC,
    "is read-only": errno.EROFS,
    "fails": errno.EIO,
}
