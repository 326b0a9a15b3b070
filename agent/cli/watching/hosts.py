"""All hosts of the registry, as a screen has them: rows, their order, what changed.  Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.cli.drawing.fold import natural
from agent.cli.reading.services import ObservedService
from agent.cli.watching.feed import Change

Order = Callable[[ObservedService], Any]


@dataclass(frozen=True, slots=True)
class Hosts:
    """All services, and why Placement could not be asked about them."""

    services: tuple[ObservedService, ...]
    why_not: str | None = None

    @property
    def summary(self) -> dict[str, int]:
        """How many there are of what; those that need somebody are last."""
        states = [one.state for one in self.services]
        return {
            "up": states.count("up"),
            "disabled": sum(one.record.disabled for one in self.services),
            "forced down": states.count("forced down"),
            "down": states.count("down"),
            "differ from Placement": sum(one.agrees is False for one in self.services),
            "contested": sum(one.record.contested_by is not None for one in self.services),
        }


def wants_attention(one: ObservedService) -> int:
    """The less, the more: down or in disagreement, then disabled, then well."""
    if one.record.contested_by is not None or one.agrees is False:
        return 0
    if not one.up:
        return 1
    return 2 if one.record.disabled else 3


def _by_name(one: ObservedService) -> Any:
    return natural(one.record.host)


def _silence(one: ObservedService) -> float:
    silent = one.record.silent_for
    return float("-inf") if silent is None else -silent


ORDERS: Mapping[str, Order] = {
    "attention": lambda one: (wants_attention(one), _by_name(one)),
    "host": _by_name,
    "last seen": lambda one: (_silence(one), _by_name(one)),
    "status": lambda one: (one.record.status, _by_name(one)),
    "state": lambda one: (one.state, _by_name(one)),
}
"""What hosts can be sorted by; the first is what they are sorted by at the start."""


def chosen(
    services: Iterable[ObservedService], words: str, order: str, *, backwards: bool = False
) -> list[ObservedService]:
    """Those that have each of the words somewhere, in this order."""
    wanted = words.lower().split()
    found = [one for one in services if all(word in _said(one) for word in wanted)]
    return sorted(found, key=ORDERS[order], reverse=backwards)


def _said(one: ObservedService) -> str:
    record = one.record
    reason = record.disabled_reason or ""
    return f"{record.host} {record.status} {one.state} {one.agreement} {reason}".lower()


def changes(before: Hosts, now: Hosts, at: float) -> list[Change]:
    """What is otherwise now, host by host."""
    old = {one.record.host: one for one in before.services}
    found: list[Change] = []
    for one in now.services:
        was = old.pop(one.record.host, None)
        texts = [("is new", "")] if was is None else _differences(was, one)
        found += (Change(at, one.record.host, text, style) for text, style in texts)
    found += (Change(at, host, "its record is deleted", "yellow") for host in old)
    return found


def _differences(was: ObservedService, now: ObservedService) -> list[tuple[str, str]]:
    found = []
    if now.record.version != was.record.version and now.record.status != was.record.status:
        reason = f": {now.record.disabled_reason}" if now.record.disabled_reason else ""
        found.append((f"{now.record.status}{reason}", "yellow" if now.record.disabled else "green"))
    if now.state != was.state:
        found.append((f"{was.state} -> {now.state}", "green" if now.up else "red"))
    if now.agrees != was.agrees and None not in (now.agrees, was.agrees):
        text = "Placement agrees again" if now.agrees else "Placement differs from its record"
        found.append((text, "green" if now.agrees else "red"))
    if now.record.roots != was.record.roots:
        found.append((f"{len(was.record.roots)} -> {len(now.record.roots)} roots", ""))
    if now.record.contested_by and not was.record.contested_by:
        found.append((f"contested by {now.record.contested_by}", "red"))
    return found
