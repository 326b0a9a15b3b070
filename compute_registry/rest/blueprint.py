"""The routes of the compute API: the calls of ``policy.CALLS``, and the versions for discovery."""

from typing import Any, cast

from flask import Blueprint, Flask, Response, abort, g, request
from flask.typing import ResponseReturnValue
from werkzeug.routing import BaseConverter

from agent.registry.control import Control
from compute_registry.rest.policy import CALLS, Allowed, Call
from compute_registry.rest.request import HEADERS, NEWEST, OLDEST, Request

_UPDATED = "2013-07-23T11:33:21Z"
"""When Nova released the API v2.1; clients show it."""


class Base(BaseConverter):
    """The first part of a path, which may contain the project's id."""

    part_isolating = False
    regex = r"v2(?:\.1)?(?:/[0-9a-fA-F-]{32,36})?"


def add_api(app: Flask, control: Control, allowed: Allowed) -> None:
    """Add the API's routes to the application; ``allowed`` decides by caller and policy rule."""
    app.url_map.converters["base"] = Base
    api = Blueprint("api", __name__, url_prefix="/<base:base>")
    api.before_request(_read_version)
    api.after_request(_name_version)
    for call in CALLS:
        path, endpoint = call.path.replace("{id}", "<id>"), f"{call.method} {call.path}"
        api.add_url_rule(path, endpoint, _view(call, control, allowed), methods=[call.method])
    app.register_blueprint(api)
    app.add_url_rule("/", "versions", lambda: {"versions": [_description()]})
    app.add_url_rule("/v2.1", "version", lambda: {"version": _description()})


def _view(call: Call, control: Control, allowed: Allowed) -> Any:
    def answer(base: str, **ids: str) -> ResponseReturnValue:  # noqa: ARG001
        if not allowed(request.environ, call.rule):
            abort(403, f"Policy doesn't allow {call.rule} to be performed.")
        return call.answer(control, cast("Request", request), *ids.values())

    return answer


def _read_version() -> None:
    g.version = cast("Request", request).version


def _name_version(response: Response) -> Response:
    version, (new, old) = g.get("version", OLDEST), HEADERS
    response.headers.update({new: f"compute {version}", old: f"{version}"})
    response.vary.update(HEADERS)
    return response


def _description() -> dict[str, Any]:
    """Return the version document of the API v2.1, for version discovery by clients."""
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": str(NEWEST),
        "min_version": str(OLDEST),
        "updated": _UPDATED,
        "links": [{"rel": "self", "href": f"{request.host_url}v2.1/"}],
    }
