"""The caller of an RPC or REST request: user, machine, request id.  Pure.

Over the bus it is in the context of a call, under the names of Nova's request contexts.
Nothing proves it: it is for logs, no permission depends on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reportclient.plain_text import plain

LONGEST = 255
KEYS = {
    "request_id": ("request_id",),
    "user": ("user_name", "user_id", "user"),
    "project": ("project_name", "project_id", "tenant"),
    "where": ("remote_address",),
}
"""The keys in a call's context for each field of a caller; the first one is sent."""
REASON = "reason"
"""The key of the operator's reason in the context of a call to an agent."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request; each field may be unknown."""

    request_id: str | None = None
    user: str | None = None
    project: str | None = None
    where: str | None = None

    @classmethod
    def from_context(cls, context: object) -> "Caller":
        """Return the caller that a call's context names; any object is accepted."""
        return cls(**{name: _text(context, *keys) for name, keys in KEYS.items()})

    def context(self) -> dict[str, str]:
        """Return the context of a call: the fields that are known."""
        values = {keys[0]: getattr(self, name) for name, keys in KEYS.items()}
        return {key: text for key, text in values.items() if text is not None}

    def __str__(self) -> str:
        """Return the caller as a log line shows it."""
        parts = [
            f"by {self.user}" if self.user else "by an unknown caller",
            f"of project {self.project}" if self.project else "",
            f"from {self.where}" if self.where else "",
            f"[{self.request_id}]" if self.request_id else "",
        ]
        return " ".join(part for part in parts if part)


NOBODY = Caller()
"""An unknown caller."""


def reason_of(context: object) -> str | None:
    """Return the operator's reason in the context of a call, or ``None``."""
    return _text(context, REASON)


def _text(context: Any, *names: str) -> str | None:
    for name in names if isinstance(context, Mapping) else ():
        text = context.get(name)
        if isinstance(text, str) and text:
            return plain(text)[:LONGEST]
    return None
