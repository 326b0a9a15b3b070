r"""Documents of roots as bytes to append to a file, and back.  Pure.

A record is one change of one root, all of it or nothing::

    <digest of the rest of the line's head> <root> <length> <digest of the body> <body>\n

So damage in a body loses one root.  Damage in a head could belong to any root, and loses all.  An
incomplete record at the end is not damage: its write never succeeded.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = tuple[str, str]
"""Kind of a document (view, ledger, removed), and its key within the kind."""
Documents = dict[Key, Any]

_HEAD = re.compile(rb"([0-9a-f]{16}) (([^ \n]+) ([0-9]{1,12}) ([0-9a-f]{16})) ")
_FORMAT = "compute-agent-roots"
_FORGOTTEN = 2


class NotARecord(ValueError):
    """The head of a record is damaged, so it is unknown which roots lost documents."""


@dataclass(slots=True)
class DecodedRecords:
    """The content of a file; ``roots`` has the documents by root."""

    version: int = 0
    size: int = 0
    """Bytes after the last rewrite, when nothing was outdated."""
    total: int = 0
    """Bytes of the file."""
    good: int = 0
    """Bytes of complete records, from the start."""
    roots: dict[str, Documents] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    """Roots with a damaged record that were not replaced after it."""


def first_record(version: int, size: int = 0) -> bytes:
    """Return the first record; ``size`` is the number of bytes after it without outdated ones."""
    return _record(_FORMAT, b"%d %012d" % (version, size))


def change_record(
    root: str, changed: Mapping[Key, Any], removed: Iterable[Key] = (), *, whole: bool = False
) -> bytes:
    """Return a record of changed and removed documents; ``whole``: the root has no others."""
    body = [int(whole), [[*key, value] for key, value in changed.items()], list(removed)]
    return _record(root, json.dumps(body, separators=(",", ":")).encode())


def forget_record(root: str) -> bytes:
    """Return a record that removes all documents of a root."""
    return _record(root, b"[%d,[],[]]" % _FORGOTTEN)


def decode_records(data: bytes) -> DecodedRecords:
    """Return the content of a file.

    :raises NotARecord: a head is damaged; the text has its position.
    """
    result = DecodedRecords(total=len(data))
    while result.good < result.total:
        head = _HEAD.match(data, result.good)
        if head is None or _digest(head[2]) != head[1]:
            return _end(result, data)
        end = head.end() + int(head[4])
        if end >= result.total:  # its last byte is the end of the line
            return result
        body = data[head.end() : end]
        if _digest(body) == head[5]:
            _take(result, head[3].decode(), body)
        elif len(data.rstrip(b"\0")) < end:
            return result
        else:
            result.damaged.add(head[3].decode())
        result.good = end + 1
        if not result.version:
            raise NotARecord("the first record is not a version record")
    return result


def encode_records(version: int, roots: Mapping[str, Documents]) -> bytes:
    """Return a file with these documents and nothing outdated."""
    records = [change_record(root, documents, whole=True) for root, documents in roots.items()]
    return b"".join([first_record(version, sum(map(len, records))), *records])


def _end(result: DecodedRecords, data: bytes) -> DecodedRecords:
    """Return the complete records, if the rest is an incomplete write.  :raises NotARecord:"""
    rest = data[result.good :]
    if rest.endswith(b"\n") and b"\0\0" not in rest:
        raise NotARecord(f"there is no record at byte {result.good}")
    return result


def _take(result: DecodedRecords, root: str, body: bytes) -> None:
    if root == _FORMAT:
        result.version, result.size = map(int, body.split())
        return
    kind, changed, removed = json.loads(body)
    if kind:
        result.damaged.discard(root)
        result.roots[root] = {}
    documents = result.roots.setdefault(root, {})
    for key in removed:
        documents.pop((key[0], key[1]), None)
    documents.update({(each[0], each[1]): each[2] for each in changed})
    if kind == _FORGOTTEN:
        del result.roots[root]


def _record(root: str, body: bytes) -> bytes:
    head = b"%s %d %s" % (root.encode(), len(body), _digest(body))
    return b"%s %s %s\n" % (_digest(head), head, body)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=8).hexdigest().encode()
