"""Parses the blocks ``changes`` and ``failures`` of a script, for one node."""

import difflib
import re
import threading
from collections.abc import Collection, Mapping
from typing import Any

from driverkit.scripted.parse_providers import (
    Names,
    read_children,
    read_record,
    read_texts,
    read_uuids,
    refuse_duplicates,
)
from driverkit.scripted.script import ROOT, Change, Failure, MoveSpec, ProviderSpec, Span
from drivers.yaml_file import Field
from reportclient.model import Inventory

ByRef = Mapping[str, ProviderSpec]
"""The providers of a node, with those that earlier changes add, by ref."""

_EVENT_KEYS = ("node", "provider", "after", "for", "every")
_MARKS = ("add_traits", "remove_traits", "add_aggregates", "remove_aggregates")
_FAILURES = ("not_ready", "error", "sleep", "inventory")
CHANGE_KEYS = frozenset((*_EVENT_KEYS, *_MARKS, "inventory", "children", "moves", "remove"))
FAILURE_KEYS = frozenset((*_EVENT_KEYS, *_FAILURES))
_MOVE_KEYS = frozenset(("to", "as"))
_TIME = re.compile(r"(\d+(?:\.\d+)?)(s?)")


def read_change(field: Field, names: Names, by_ref: ByRef) -> Change:
    """Return an item of ``changes``."""
    fields = field.mapping(CHANGE_KEYS)
    if not set(fields).difference(_EVENT_KEYS):
        raise field.error("has a time, but no change")
    ref = _ref(fields.get("provider"), by_ref)
    children = tuple(read_children(fields.get("children"), names, ref))
    refuse_duplicates([*by_ref.values(), *children], field)
    refs = {*by_ref, *(child.ref for child in children)}
    return Change(
        _span(fields),
        ref,
        inventory=_inventory(fields.get("inventory")),
        add_traits=read_texts(fields.get("add_traits"), names),
        remove_traits=read_texts(fields.get("remove_traits"), names),
        add_aggregates=read_uuids(fields.get("add_aggregates"), names),
        remove_aggregates=read_uuids(fields.get("remove_aggregates"), names),
        children=children,
        moves=_moves(fields.get("moves"), ref, refs),
        removed=_removed(fields.get("remove"), ref),
    )


def read_failure(field: Field, by_ref: ByRef) -> Failure:
    """Return an item of ``failures``."""
    fields = field.mapping(FAILURE_KEYS)
    kinds = [key for key in _FAILURES if key in fields]
    if len(kinds) != 1:
        raise field.error(f"needs exactly one of {', '.join(_FAILURES)}")
    return Failure(
        _span(fields),
        _ref(fields.get("provider"), by_ref),
        not_ready=_text(fields.get("not_ready")),
        error=_text(fields.get("error")),
        sleep=_seconds(fields.get("sleep")),
        inventory=_anything(fields.get("inventory")),
    )


def _span(fields: Mapping[str, Field]) -> Span:
    times = {key: _time(fields[key]) for key in ("after", "for", "every") if key in fields}
    if len({timed for _, timed in times.values()}) > 1:
        raise fields["for" if "for" in times else "every"].error(
            "has to be in the same unit as the others: all periods (3), or all seconds (3s)"
        )
    amounts = {key: amount for key, (amount, _) in times.items()}
    if "every" in amounts and not 0 < amounts.get("for", 0) < amounts["every"]:
        raise fields["every"].error("needs a 'for' that is above 0 and shorter")
    timed = any(timed for _, timed in times.values())
    return Span(amounts.get("after", 0), amounts.get("for"), amounts.get("every"), timed)


def _time(field: Field) -> tuple[float, bool]:
    """Return the amount, and whether it is in seconds (else in periods)."""
    match = _TIME.fullmatch(field.text())
    if match is None or ("." in match[1] and not match[2]):
        raise field.error(f"has to be periods (3) or seconds (3s), not {field.text()!r}")
    return float(match[1]), bool(match[2])


def _seconds(field: Field | None) -> float | None:
    if field is None:
        return None
    seconds = field.number()
    if not 0 <= seconds < threading.TIMEOUT_MAX:
        raise field.error("has to be a number of seconds")
    return seconds


def _ref(field: Field | None, by_ref: Collection[str]) -> str:
    if field is None:
        return ROOT
    if field.text() not in by_ref:
        raise field.error(_unknown(field.text(), by_ref))
    return field.text()


def _inventory(field: Field | None) -> dict[str, Inventory | None]:
    records = field.mapping() if field else {}
    return {name: None if item.empty else read_record(item) for name, item in records.items()}


def _moves(field: Field | None, ref: str, refs: Collection[str]) -> tuple[MoveSpec, ...]:
    return tuple(
        _move(resource_class, item, ref, refs)
        for resource_class, item in (field.mapping() if field else {}).items()
    )


def _move(resource_class: str, field: Field, ref: str, refs: Collection[str]) -> MoveSpec:
    fields = field.mapping(_MOVE_KEYS)
    new_class = fields["as"].text() if "as" in fields else resource_class
    targets = fields["to"].mapping() if "to" in fields else {}
    if not targets:
        raise field.error("needs 'to': the target providers, each with its inventory")
    for target, where in targets.items():
        if target not in refs:
            raise where.error(_unknown(target, refs))
        if (target, new_class) == (ref, resource_class):
            raise where.error("is the present place")
    records = {target: read_record(where) for target, where in targets.items()}
    return MoveSpec(resource_class, new_class, records)


def _unknown(ref: str, refs: Collection[str]) -> str:
    near = difflib.get_close_matches(ref, refs, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "'.' is the node, 'a/b' is b below a"
    return f"no provider {ref!r} here; {hint}"


def _removed(field: Field | None, ref: str) -> bool:
    if field is None:
        return False
    if field.text() != "true":
        raise field.error("has to be true")
    if ref == ROOT:
        raise field.error("a node can't be removed by a change")
    return True


def _text(field: Field | None) -> str | None:
    return None if field is None else field.text()


def _anything(field: Field | None) -> dict[str, Any] | None:
    return None if field is None else {name: item.plain() for name, item in field.mapping().items()}
