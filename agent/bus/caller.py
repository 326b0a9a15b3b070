"""The caller of an RPC or REST request: user, machine, request id.  Pure.

Over the bus it travels in the context of a call, by the names that Nova's contexts have.
There it is what the caller says of himself: for a log, not to decide by.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reportclient.plain_text import plain

LONGEST = 255
REASON = "reason"
"""In the context of a call to an agent: why, in the operator's words."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Any of it may be unknown."""

    request_id: str | None = None
    user: str | None = None
    project: str | None = None
    where: str | None = None

    @classmethod
    def of_context(cls, context: object) -> "Caller":
        """Return the caller that a call's context names, whatever else is in it."""
        said = context if isinstance(context, Mapping) else {}
        return cls(
            _text(said, "request_id"),
            _text(said, "user_name", "user_id", "user"),
            _text(said, "project_name", "project_id", "tenant"),
            _text(said, "remote_address"),
        )

    def context(self) -> dict[str, str]:
        """For a call."""
        said = {
            "request_id": self.request_id,
            "user_name": self.user,
            "project_name": self.project,
            "remote_address": self.where,
        }
        return {name: text for name, text in said.items() if text is not None}

    def __str__(self) -> str:
        """For a line of a log."""
        words = [
            f"by {self.user}" if self.user else "by an unknown caller",
            f"of project {self.project}" if self.project else "",
            f"from {self.where}" if self.where else "",
            f"[{self.request_id}]" if self.request_id else "",
        ]
        return " ".join(word for word in words if word)


NOBODY = Caller()
"""Where it is not known."""


def reason_of(context: object) -> str | None:
    """Why, if the context of a call says so."""
    return _text(context, REASON) if isinstance(context, Mapping) else None


def new_request_id() -> str:
    """Return a new request id in OpenStack's form, ``req-UUID``."""
    return f"req-{uuid.uuid4()}"


def _text(said: Mapping[Any, Any], *names: str) -> str | None:
    for name in names:
        text = said.get(name)
        if isinstance(text, str) and text:
            return plain(text)[:LONGEST]
    return None
