"""Texts of differences between reports of a driver, and measurements of its calls."""

import contextlib
import gc
import inspect
import logging
import re
import sys
import time
import tracemalloc
import uuid as uuidlib
import warnings
from collections.abc import Iterator, Mapping

from driverkit.host import Host
from reportclient.model import Inventory
from reportclient.snapshot import Snapshot

MOST = 12
"""The most differences that are shown; the others are counted."""
UNIQUE = re.compile(
    r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}"  # a UUID
    r"|(?<![0-9a-f])[0-9a-f]{2}([:-][0-9a-f]{2}){5,7}(?![0-9a-f])",  # a hardware address
    re.IGNORECASE,
)


def is_unique(name: str, owners: tuple[str, ...]) -> bool:
    """Return whether a name has an owner's in it, or a UUID, hardware address or serial number."""
    words = re.findall("[A-Za-z0-9]{8,}", name)
    serial = any(sum(map(str.isdigit, word)) >= 4 for word in words)
    named = any(owner.lower() in name.lower() for owner in owners if owner)
    return named or serial or UNIQUE.search(name) is not None


def is_constant(uuid: str, name: str, node: str, driver: type) -> bool:
    """Return whether a UUID is written in the driver's source, or made of a part of the name."""
    with contextlib.suppress(OSError, TypeError):
        if uuid in inspect.getsource(sys.modules[driver.__module__]).lower():
            return True
    key = name.partition(f"{node}_")[2]
    spaces = (uuidlib.NAMESPACE_DNS, uuidlib.NAMESPACE_URL, uuidlib.NAMESPACE_OID)
    made = [str(make(it, key)) for it in spaces for make in (uuidlib.uuid3, uuidlib.uuid5)]
    return uuid in made and not is_unique(key, ())


def facts(tree: Snapshot) -> dict[str, str]:
    """Return what a tree says of each provider, by the subject of the statement."""
    texts: dict[str, str] = {}
    for provider in tree.walk():
        title = f"provider {provider.name} ({provider.uuid})"
        texts[title] = f"below {provider.parent_uuid}" if provider.parent_uuid else "a root"
        for name, record in provider.inventory.items():
            texts[f"{title}: inventory of {name}"] = _text(record)
        texts |= {f"{title}: trait {name}": "set" for name in sorted(provider.traits)}
        texts |= {f"{title}: aggregate {uuid}": "set" for uuid in sorted(provider.aggregates)}
    return texts


def _text(record: Inventory) -> str:
    """Return the total, and what differs from Placement's defaults."""
    default = Inventory(record.total).with_defaults(None).as_dict()
    fields = record.with_defaults(None).as_dict().items()
    return ", ".join(f"{name} {n}" for name, n in fields if name == "total" or n != default[name])


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return the facts of ``after`` that ``before`` does not have."""
    return {subject: text for subject, text in after.items() if before.get(subject) != text}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the differences of two trees' facts, a line each; empty if there are none."""
    subjects = [*changed(after, before), *(changed(before, after).keys() - before.keys())]
    lines = [
        f"{each}: {before.get(each, 'nothing')} -> {after.get(each, 'nothing')}"
        for each in sorted(subjects)
    ]
    more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return "\n".join(lines[:MOST] + more)


def assert_same(before: Snapshot, after: Snapshot, when: str) -> None:
    """Expect two trees to say the same; the failure shows the differences."""
    lines = differences(facts(before), facts(after))
    assert not lines, f"{when}:\n{lines}"


def assert_quiet(host: Host, when: str, *, backwards: bool = False) -> None:
    """Expect a period in which nothing is written."""
    before = host.observed()
    written = [each.sentence() for each in host.period(backwards=backwards) if each.done]
    assert_same(before, host.observed(), when)
    assert not written, f"{when}: {'; '.join(written)}"


def quiet_seconds(host: Host) -> float:
    """Return the processor time of the second call for each node."""
    trees = [(node, host.tree(node, host.edited(node))) for node in host.nodes()]
    began = time.process_time()
    for node, tree in trees:
        host.edited(node, tree)
    return time.process_time() - began


@contextlib.contextmanager
def without_handlers() -> Iterator[None]:
    """Drop what the driver logs or warns in the block: pytest keeps it, which is no leak."""
    handlers, logging.root.handlers = logging.root.handlers, [logging.NullHandler()]
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.root.handlers = handlers


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """Trace memory in the block."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
