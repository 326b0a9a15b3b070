"""The request filter: candidate queries that leave disabled hosts out.  Pure.

GET /allocation_candidates with only_enabled(parameters, microversion)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import os_traits

FORBIDDEN = f"!{os_traits.COMPUTE_STATUS_DISABLED}"

ROOT_REQUIRED = (1, 35)
"""From this microversion on, ``root_required`` looks at root providers only."""
FORBIDS = (1, 22)
"""From this microversion on, traits can be forbidden."""
REPEATABLE = (1, 39)
"""From this microversion on, ``required`` may be given more than once."""

Value = str | Iterable[str]


class CannotForbid(ValueError):
    """No trait can be forbidden with this microversion, or not in this query."""


def only_enabled(parameters: Mapping[str, Value], microversion: str) -> dict[str, Value]:
    """The parameters of a candidate query that forbids COMPUTE_STATUS_DISABLED.

    ``parameters`` are those of ``GET /allocation_candidates`` by name, a value being a
    text or several of them; they stay as they are.  With microversion 1.35 and later the
    trait is forbidden on the root, whatever the providers below it are asked for; before,
    on the providers that give the resources without a group suffix, which is where a
    compute host's root gives them.

    :raises CannotForbid: the microversion is below 1.22, or the query requires the trait.
    """
    version = _version(microversion)
    if version < FORBIDS:
        raise CannotForbid(f"microversion {microversion}: traits can be forbidden from 1.22 on")
    name = "root_required" if version >= ROOT_REQUIRED else "required"
    merged = dict(parameters)
    merged[name] = _merged(parameters.get(name), several=version >= REPEATABLE)
    return merged


def _merged(found: Value | None, *, several: bool) -> Value:
    values = [found] if isinstance(found, str) else list(found or ())
    values = [value for value in values if value]
    terms = [term.strip() for value in values for term in _terms(value)]
    if FORBIDDEN[1:] in terms:
        raise CannotForbid(f"the query asks for {FORBIDDEN[1:]} and must not")
    if FORBIDDEN in terms:
        return found if found is not None else FORBIDDEN
    joinable = [n for n, value in enumerate(values) if not value.startswith("in:")]
    if not joinable:
        return [*values, FORBIDDEN] if values and several else FORBIDDEN
    values[joinable[0]] += f",{FORBIDDEN}"
    return values[0] if len(values) == 1 else values


def _terms(value: str) -> list[str]:
    """Each trait with its sign; those of ``in:`` are alternatives, none of them is required."""
    return [] if value.startswith("in:") else value.split(",")


def _version(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    if found is None:
        raise CannotForbid(f"{text!r} is no microversion")
    return int(found[1]), int(found[2])
