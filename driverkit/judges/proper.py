"""Which names and amounts Placement takes, and which names are a child's own.  Pure."""

import re
from collections.abc import Iterable, Iterator

import os_resource_classes
import os_traits

from driverkit.differences import called
from reportclient.model import Provider
from reportclient.names import is_custom, name_problem

LONGEST_NAME = 200

_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_MAC = re.compile(r"(?<![0-9a-f])[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5,7}(?![0-9a-f])", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9]+")
_SERIAL_LENGTH, _SERIAL_DIGITS = 8, 4


def problems(provider: Provider) -> Iterator[str]:
    """What Placement would not take of it."""
    yield from (f"{called(provider)}: {text}" for text in _problems(provider))


def _problems(provider: Provider) -> Iterator[str]:
    if not 1 <= len(provider.name) <= LONGEST_NAME:
        yield f"its name has {len(provider.name)} characters, not 1 to {LONGEST_NAME}"
    yield from _bad_names("trait", provider.traits, os_traits.get_traits())
    yield from _bad_names("resource class", provider.inventory, os_resource_classes.STANDARDS)
    for name, record in sorted(provider.inventory.items()):
        problem = record.problem()
        if problem is not None:
            yield f"inventory of {name}: {problem}"


def _bad_names(what: str, names: Iterable[str], standard: Iterable[str]) -> Iterator[str]:
    known = frozenset(standard)
    for name in sorted(names, key=str):
        problem = name_problem(name, what)
        if problem is not None:
            yield problem
        elif name not in known and not is_custom(name):
            yield f"there is no {what} {name}, and it does not begin with CUSTOM_"


def is_own(name: str, *owners: str) -> bool:
    """Whether no other host would give this name to a device of its own.

    It has the name or UUID of one of ``owners`` in it (the node, its host), or something
    that is unique by itself: a UUID, a hardware address, a serial number.
    """
    if any(owner.lower() in name.lower() for owner in owners if owner):
        return True
    return bool(_UUID.search(name) or _MAC.search(name)) or any(map(_is_serial, _words(name)))


def _words(name: str) -> list[str]:
    return _WORD.findall(name)


def _is_serial(word: str) -> bool:
    digits = sum(character.isdigit() for character in word)
    return len(word) >= _SERIAL_LENGTH and digits >= _SERIAL_DIGITS
