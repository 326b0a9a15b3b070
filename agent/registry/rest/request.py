"""A request as the calls of the API see it, and their answer."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from agent.bus.caller import Caller, new_request_id
from agent.registry.rest.errors import Refused
from agent.registry.rest.versions import Version

Environ = dict[str, Any]
LONGEST_BODY = 65536
LONGEST_QUERY = 16
"""Parameters; nothing here has more than four."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``body`` is ``None`` for an empty 204."""

    body: dict[str, Any] | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked, by whom, in which microversion; ``here`` is the URL without its query."""

    environ: Environ
    version: Version
    here: str = ""

    @property
    def caller(self) -> Caller:
        """Whom Keystone has confirmed, if it was asked; else only from where."""
        said = self.environ.get
        return Caller.of_context(
            {
                "request_id": said(REQUEST_ID),
                "user_name": _name(said("HTTP_X_USER_NAME"), said("HTTP_X_USER_ID")),
                "project_name": _name(said("HTTP_X_PROJECT_NAME"), said("HTTP_X_PROJECT_ID")),
                "remote_address": said("REMOTE_ADDR"),
            }
        )

    def query(self, known: Collection[str], strict_since: Version) -> dict[str, str]:
        """The query's parameters that are known here, the last of each.

        :raises Refused: 400 for others, in microversions that refuse them.
        """
        try:
            pairs = parse_qsl(
                self.environ.get("QUERY_STRING", ""),
                keep_blank_values=True,
                max_num_fields=LONGEST_QUERY,
            )
        except ValueError as err:
            raise Refused(400, f"the query has more than {LONGEST_QUERY} parameters") from err
        for name, _ in pairs:
            if name not in known and self.version >= strict_since:
                raise Refused(400, f"there is no query parameter {name!a} here")
        return {name: value for name, value in pairs if name in known}

    def body(self) -> dict[str, Any]:
        """The JSON object that came.  :raises Refused: 400 for anything else."""
        length = self.environ.get("CONTENT_LENGTH") or "0"
        size = int(length) if length.isdigit() else 0
        if size > LONGEST_BODY:
            raise Refused(400, f"a body of {size} bytes is too long")
        try:
            body = json.loads(self.environ["wsgi.input"].read(size))
        except (ValueError, RecursionError) as err:
            raise Refused(400, f"the body is no JSON: {err}") from err
        if not isinstance(body, dict):
            raise Refused(400, "the body has to be a JSON object")
        return body


REQUEST_ID = "compute_registry.request_id"
"""In the environment, once it has been given out."""


def identified(environ: Environ) -> str:
    """The id of this request: given out once, and the same for all that look."""
    made: str = environ.setdefault(REQUEST_ID, new_request_id())
    return made


def _name(name: str | None, id_: str | None) -> str | None:
    return f"{name} ({id_})" if name and id_ else name or id_
