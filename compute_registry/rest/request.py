"""A request to the compute API: its microversion, caller, query and body.

Served are 2.1, which clients get that name no microversion, to 2.104, the newest of Nova 34;
docs/registry.rst has the defaults of clients.  Microversions that change the calls served here:
2.11 forced_down; 2.53 UUIDs, and one call to change a service; 2.69 lists services of an
unreachable cell with unknown fields (here the answer is a 503 if the database is unreachable);
2.75 refuses unknown query parameters.
"""

import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

import flask
from flask import abort
from microversion_parse import Version, get_version, parse_version_string
from oslo_middleware.request_id import ENV_REQUEST_ID

from agent.bus.caller import Caller
from agent.registry import checks

OLDEST = Version(2, 1)
UUIDS = Version(2, 53)
"""The first microversion with UUIDs as ids; before it they are numbers."""
STRICT = Version(2, 75)
"""The first microversion that refuses unknown query parameters."""
NEWEST = Version(2, 104)
HEADERS = ("OpenStack-API-Version", "X-OpenStack-Nova-API-Version")
TRUE = frozenset({"True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes"})
FALSE = frozenset({"False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"})
Field = tuple[Callable[[Any], bool], str]
_TEXT: Field = (
    lambda value: isinstance(value, str) and 0 < len(value) <= checks.LONGEST,
    f"a text of 1 to {checks.LONGEST} characters",
)
FIELDS: Mapping[str, Field] = {
    "host": _TEXT,
    "binary": _TEXT,
    "disabled_reason": _TEXT,
    "status": (lambda value: value in ("enabled", "disabled"), "enabled or disabled"),
    "forced_down": (
        lambda value: isinstance(value, bool | str) and value in {True, False, *TRUE, *FALSE},
        "true or false",
    ),
}
"""Fields of bodies: whether a value is valid, and what it has to be."""
LONGEST_BODY = 65536


class Request(flask.Request):
    """A request to the API or the page; what is wrong with it is raised as an HTTPException."""

    @cached_property
    def version(self) -> Version:
        """The microversion that it names; the oldest if it names none."""
        text = get_version(self.headers, "compute", HEADERS[1:]) or str(OLDEST)
        if text == "latest":
            return NEWEST
        try:
            version = parse_version_string(text)
        except TypeError:
            version = None
        if version is None or str(version) != text:
            abort(400, f"{text} is not a microversion, such as {NEWEST}")
        if not OLDEST <= version <= NEWEST:
            abort(406, f"microversion {text} is not supported: use {OLDEST} to {NEWEST}")
        return version

    @property
    def caller(self) -> Caller:
        """The address, and the user and project of the token if Keystone is used."""
        header = self.environ.get
        return Caller.from_context(
            {
                "request_id": header(ENV_REQUEST_ID),
                "user_name": _name(header("HTTP_X_USER_NAME"), header("HTTP_X_USER_ID")),
                "project_name": _name(header("HTTP_X_PROJECT_NAME"), header("HTTP_X_PROJECT_ID")),
                "remote_address": self.remote_addr,
            }
        )

    def query(self, *names: str) -> dict[str, str]:
        """Return the query's parameters of these ``names``; of repeated ones the last.

        Unknown ones are refused from the microversion 2.75 on.
        """
        try:
            pairs = list(self.args.items(multi=True))
        except UnicodeDecodeError:
            abort(400, "the query is not valid UTF-8")
        for name, _ in pairs:
            if name not in names and self.version >= STRICT:
                abort(400, f"unknown query parameter {name!a}")
        return {name: value for name, value in pairs if name in names}

    def body(self, required: AbstractSet[str], allowed: AbstractSet[str]) -> dict[str, Any]:
        """Return the JSON object of the body; its fields are of ``FIELDS``, and valid."""
        try:
            body: dict[str, Any] = json.loads(self.get_data())
        except (ValueError, RecursionError) as err:
            abort(400, f"the body is not valid JSON: {err}")
        if not isinstance(body, dict):
            abort(400, "the body has to be a JSON object")
        for name in sorted(required - body.keys()):
            abort(400, f"{name} is missing")
        for name in sorted(body.keys() - allowed - required):
            abort(400, f"unknown field {name!a}")
        for name, value in body.items():
            is_valid, text = FIELDS[name]
            if not is_valid(value):
                abort(400, f"{name} has to be {text}")
        return body


def _name(name: str | None, id_: str | None) -> str | None:
    return f"{name} ({id_})" if name and id_ else name or id_
