"""Reads the XML documents of libvirt's objects: node devices, storage pools and guests.

Runs in the worker thread that holds the connection (see session.py).  A document that can't be read
does not affect the others.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from drivers.libvirt.connection.session import unusable_answer
from drivers.libvirt.documents import require_document

NOT_FOUND_ERRORS = ("VIR_ERR_NO_NODE_DEVICE", "VIR_ERR_NO_STORAGE_POOL", "VIR_ERR_NO_DOMAIN")


@dataclass(frozen=True, slots=True)
class ListedDocuments:
    """Documents by the object's name; ``unread``: why there is none, by name."""

    documents: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def notes(self, kind: str) -> dict[str, str]:
        """Return a note on each document that can't be read; ``kind`` begins its key."""
        return {f"{kind} {name}": f"can't be read: {why}" for name, why in self.unread.items()}


def read_documents(
    connection: Any,
    binding: Any,
    objects: Iterable[Any],
    tag: str,
    problem: Callable[[str], str | None] = lambda _text: None,
) -> ListedDocuments:
    """Return the documents with the root ``tag`` of ``objects``, without those that are gone.

    ``problem`` returns why a document can't be used, or ``None`` if it can.
    """
    not_found = {getattr(binding, name) for name in NOT_FOUND_ERRORS}
    listed = ListedDocuments()
    for number, item in enumerate(objects):
        name = f"number {number}"  # unless its name can be decoded
        try:
            name = str(item.name())
            text = require_document(str(item.XMLDesc(0)), tag)
            why = problem(text)
        except ValueError as err:
            why = unusable_answer(err)
        except binding.libvirtError as err:
            if not connection.isAlive():
                raise
            if err.get_error_code() in not_found:
                continue
            why = str(err.get_error_message() or err)
        if why is None:
            listed.documents[name] = text
        else:
            listed.unread[name] = why
    return listed
