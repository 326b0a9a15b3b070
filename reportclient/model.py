"""Records of providers and inventories as frozen values, with checks.  Pure.

The field names are Placement's.
"""

import difflib
import re
import uuid as uuidlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

MAX_INT = 0x7FFFFFFF
"""The largest amount that Placement stores, and its default for ``max_unit``."""

MAX_RATIO = 3.40282e38
"""The largest allocation ratio that Placement takes."""

SHARES_VIA_AGGREGATE = "MISC_SHARES_VIA_AGGREGATE"
SILICON = "CUSTOM_SILICON_"
"""Prefix of the trait of all providers that are parts of one thing, such as a divided GPU."""

INVENTORY_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")
_DEFAULTS = (None, 0, 1, MAX_INT, 1, 1.0)
"""Placement's defaults for ``INVENTORY_FIELDS``, in the same order; ``total`` has none."""
_VALUES: Callable[[Any], tuple[Any, ...]] = attrgetter(*INVENTORY_FIELDS)
"""Returns the values of a record, in the same order."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The inventory record of one resource class of a provider.

    A field that is ``None`` is not set: Placement's current value stays, or its default
    applies (see :meth:`with_defaults`).  Amounts are in the unit of the resource class
    (MEMORY_MB: MiB, DISK_GB: GiB).
    """

    total: int
    reserved: int | None = None
    min_unit: int | None = None
    max_unit: int | None = None
    step_size: int | None = None
    allocation_ratio: float | None = None

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Inventory":
        """Return an inventory record from Placement's JSON: ``{"total": 8, "reserved": 1}``.

        :raises ValueError: it is no mapping, a field is unknown, has the wrong type, or ``total``
            is missing.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"a record has to be a dict like {{'total': 8}}, not {record!r}")
        if unknown := record.keys() - set(INVENTORY_FIELDS):
            wrong = min(unknown, key=str)
            hint = meant_or_known(wrong, INVENTORY_FIELDS)
            raise ValueError(f"unknown field {wrong!r} in an inventory record{hint}")
        if record.get("total") is None:
            raise ValueError("an inventory record needs 'total'")
        given = {key: value for key, value in record.items() if value is not None}
        for key, value in given.items():
            whole = "" if key == "allocation_ratio" else "whole "
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise ValueError(f"{key} has to be a {whole}number, not {value!r}")
            try:
                given[key] = int(value) if whole else float(value)
            except OverflowError:
                raise ValueError(f"{key} is too large") from None
        return cls(**given)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that are set, as a new dict."""
        values = zip(INVENTORY_FIELDS, _VALUES(self), strict=True)
        return {name: value for name, value in values if value is not None}

    def with_defaults(self, current: "Inventory | None") -> "Inventory":
        """Return this record with unset fields taken from ``current``, else Placement's defaults.

        A ``reserved`` that is taken and above the total is lowered to it.

        >>> Inventory(8).with_defaults(Inventory(4, allocation_ratio=16.0)).allocation_ratio
        16.0
        """
        own = _VALUES(self)
        if None not in own:
            return self
        below = _DEFAULTS if current is None else _VALUES(current)
        given = zip(own, below, _DEFAULTS, strict=True)
        full: list[Any] = [next(v for v in values if v is not None) for values in given]
        if self.reserved is None:
            full[1] = min(full[1], self.total)
        return Inventory(*full)

    @property
    def capacity(self) -> int:
        """Amount for consumers: ``(total - reserved) * allocation_ratio``, rounded down."""
        total, reserved, *_, ratio = _VALUES(self.with_defaults(None))
        return int((total - reserved) * ratio)

    def problem(self) -> str | None:
        """Return why Placement would refuse this record, or ``None``."""
        total, reserved, low, high, step, ratio = _VALUES(self.with_defaults(None))
        amounts = {"total": total, "min_unit": low, "max_unit": high, "step_size": step}
        for name, value in amounts.items():
            if not 1 <= value <= MAX_INT:
                return f"{name} is {value}, it has to be from 1 to {MAX_INT}"
        if not 0 <= reserved <= total:
            return f"reserved is {reserved}, it has to be from 0 to the total, {total}"
        if not 0 < ratio <= MAX_RATIO:
            return f"allocation_ratio is {ratio:g}, it has to be above 0 and at most {MAX_RATIO:g}"
        return f"min_unit is {low}, above max_unit, {high}" if low > high else None


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider; ``parent_uuid`` is ``None`` for a root.

    ``inventory`` must not be changed after construction: records are shared
    between snapshots.
    """

    uuid: str
    name: str
    parent_uuid: str | None = None
    inventory: Mapping[str, Inventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()

    @property
    def shares(self) -> bool:
        """Whether the provider is a sharing provider."""
        return SHARES_VIA_AGGREGATE in self.traits


class ProviderData(NamedTuple):
    """A mutable copy of one provider; changing it does not change the tree."""

    uuid: str
    name: str
    generation: int | None
    parent_uuid: str | None
    inventory: dict[str, dict[str, Any]]
    traits: set[str]
    aggregates: set[str]
    resources: dict[str, Any]


def total_by_class(parts: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Return the total amount of each resource class in ``parts``: amounts by class."""
    total: Counter[str] = Counter()
    for amounts in parts:
        total.update(amounts)
    return total


Allocations = dict[str, dict[str, Any]]
"""Allocations by consumer UUID, each in the format of ``GET /allocations/{consumer_uuid}``."""


def used_by(consumer: Mapping[str, Any]) -> list[str]:
    """Return the providers (UUIDs) of which a consumer's allocations hold something."""
    return [uuid for uuid, part in consumer["allocations"].items() if part["resources"]]


def used_providers(allocations: Allocations) -> set[str]:
    """Return the providers (UUIDs) on which these allocations are."""
    return {uuid for held in allocations.values() for uuid in used_by(held)}


def meant(name: object, names: Iterable[str]) -> str:
    """Return "; is … meant?" for a mistyped name, with the nearest of ``names``; empty if none."""
    near = difflib.get_close_matches(str(name), names, 1)
    return f"; is {near[0]} meant?" if near else ""


def meant_or_known(name: object, names: Iterable[str]) -> str:
    """Return :func:`meant`, or "; known are …" if no name is near."""
    return meant(name, names) or f"; known are {', '.join(names)}"


def read_inventory(
    records: Mapping[str, Mapping[str, Any] | Inventory], provider: str
) -> dict[str, Inventory]:
    """Read an inventory, ``{resource class: record}``, of dicts or :class:`Inventory` records.

    :param provider: the provider's name, for the error.
    :raises ValueError: a record is invalid; names the provider, the class and the field.
    """
    inventory = {}
    for name, record in records.items():
        if not isinstance(name, str):
            raise ValueError(
                f"inventory of provider {provider}: {name!r} is not the name of a class"
            )
        resource_class = plain_str(name)
        try:
            read = record if isinstance(record, Inventory) else Inventory.from_dict(record)
        except ValueError as err:
            raise ValueError(f"provider {provider}: inventory of {resource_class}: {err}") from None
        inventory[resource_class] = read
    return inventory


def read_traits(traits: Iterable[str], provider: str) -> frozenset[str]:
    """Return traits as plain ``str``, since claims are saved as JSON.

    :param provider: the provider's name, for the error.
    :raises ValueError: it is not an iterable of names.
    """
    return read_names(traits, f"traits of provider {provider}")


def read_names(names: Iterable[str], what: str) -> frozenset[str]:
    """Return names of traits or classes as plain ``str``; otherwise as :func:`read_traits`.

    :param what: the beginning of the error.
    """
    for name in (read := _name_set(names, what)):
        if not isinstance(name, str):
            raise ValueError(f"{what}: {name!r} is not a name")
    return plain_strs(read)


def read_aggregates(aggregates: Iterable[str], provider: str) -> frozenset[str]:
    """Return aggregates as canonical UUIDs; otherwise as :func:`read_traits`."""
    what = f"aggregate of provider {provider}"
    return frozenset(canonical_uuid(uuid, what) for uuid in _name_set(aggregates, what))


def _name_set(values: Iterable[str], what: str) -> frozenset[str]:
    """Return the values as a set; a single string is an error, not a set of its letters."""
    if isinstance(values, str):
        raise ValueError(f"{what}: a list or a set is needed, not the string {values!r}")
    try:
        return frozenset(values)
    except TypeError:
        raise ValueError(f"{what}: a list or a set of names is needed, not {values!r}") from None


_TEXT = frozenset([str])


def plain_strs(values: Iterable[str]) -> frozenset[str]:
    """Return each value as :func:`plain_str`."""
    names = frozenset(values)
    return names if _TEXT.issuperset(map(type, names)) else frozenset(map(plain_str, names))


def plain_str(text: str) -> str:
    """Return a plain ``str``: a member of a string ``Enum`` is formatted differently."""
    return str.__str__(text)


LONGEST_NAME = 200
"""Characters that Placement accepts for a provider's name."""


def provider_name(name: str) -> str:
    """Return a provider's name as a plain ``str``.  :raises ValueError: the name is invalid."""
    if not (isinstance(name, str) and name):
        raise ValueError(f"a provider's name has to be a non-empty text, not {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"a provider's name has to be Unicode text, not {name!r}: it contains undecoded bytes"
        ) from None
    if len(name) > LONGEST_NAME:
        raise ValueError(f"a provider's name has at most {LONGEST_NAME} characters: {name!r}")
    return plain_str(name)


KEPT_NAME_LENGTH = 150
"""Characters of a provider's name in its name when removed; Placement allows 200 with the mark."""


def name_when_removed(provider: Provider) -> str:
    """Return the name of a provider that leaves; its own name is free for others."""
    mark = f"_removed_{provider.uuid}"
    return provider.name.removesuffix(mark)[:KEPT_NAME_LENGTH] + mark


def is_marked(provider: Provider) -> bool:
    """Return whether the provider has the name of one that leaves."""
    return provider.name == name_when_removed(provider)


def canonical_uuid(value: str, what: str) -> str:
    """Return a UUID in lower case with dashes, as Placement writes it.

    :raises ValueError: ``value`` is not a UUID; the message begins with ``what``.
    """
    canonical = parse_uuid(value)
    if canonical is None:
        raise ValueError(f"{what}: {value!r} is not a UUID")
    return canonical


def parse_uuid(value: object) -> str | None:
    """Return a UUID of any notation in lower case with dashes; ``None`` if it is not a UUID."""
    if isinstance(value, uuidlib.UUID):
        return str(value)
    try:
        return str(uuidlib.UUID(value))  # type: ignore[arg-type]
    except (ValueError, AttributeError, TypeError):
        return None


_NAME = re.compile(r"(?!CUSTOM_$)[A-Z0-9_]{1,255}")


def is_custom(name: str) -> bool:
    """Return whether this is a custom trait or class, which clients may create."""
    return name.startswith("CUSTOM_")


def name_problem(name: str, what: str) -> str | None:
    """Return why this is not a valid name of a ``what`` (trait or resource class), or ``None``."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return (
            f"{what} {name!r} is not a valid name: "
            "only A-Z, 0-9 and _, at most 255 characters, and at least one after CUSTOM_"
        )
    return None


@dataclass(frozen=True, slots=True)
class Names:
    """The traits and resource classes that Placement is known to have.

    The absent ones are standard names that this Placement refused; clients can't create them, so
    they are left out of requests until Placement may have been upgraded.
    """

    traits: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    absent_traits: frozenset[str] = frozenset()
    absent_classes: frozenset[str] = frozenset()

    def including(self, providers: Iterable[Provider]) -> "Names":
        """Return these names and those that the providers have in Placement."""
        listed = list(providers)
        traits = self.traits.union(*(provider.traits for provider in listed))
        classes = self.classes.union(*(provider.inventory for provider in listed))
        return replace(self, traits=traits, classes=classes)

    def refused(self, kind: str, names: frozenset[str]) -> "Names":
        """Return the names after Placement refused some ``kind``, traits or classes, as unknown."""
        known, absent = getattr(self, kind), getattr(self, f"absent_{kind}")
        absent |= {name for name in names if not is_custom(name)}
        return replace(self, **{kind: known - names, f"absent_{kind}": absent})

    def without_absent(self) -> "Names":
        """Return the names that Placement has: an upgraded Placement may know the others."""
        return Names(self.traits, self.classes)
