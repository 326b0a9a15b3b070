"""The compute API: its routes, the versions for discovery, and its errors."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from flask import Blueprint, Flask, Response, abort, g, redirect, request, url_for
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException, default_exceptions
from werkzeug.routing import BaseConverter

from agent import errors
from compute_registry.control import Control
from compute_registry.rest import services
from compute_registry.rest.policy import DELETE, LIST, UPDATE, Allowed
from compute_registry.rest.request import HEADERS, NEWEST, OLDEST, Request

_UPDATED = "2013-07-23T11:33:21Z"
"""When Nova released the API v2.1; clients show it."""

_STATUSES: Mapping[type[errors.RegistryError], int] = {
    errors.UnknownHost: 404,
    errors.ReasonRefused: 400,
    errors.InputRefused: 400,
    errors.RegistryUnavailable: 503,
}
"""Each other error is a conflict with the record as it is."""
_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    501: "notImplemented",
    503: "serviceUnavailable",
}


class Base(BaseConverter):
    """The first part of a path, which may contain the project's id."""

    part_isolating = False
    regex = r"v2(?:\.1)?(?:/[0-9a-fA-F-]{32,36})?"


def add_api(app: Flask, control: Control, allowed: Allowed) -> None:
    """Add the API's routes to the application; ``allowed`` decides by caller and policy rule."""

    def add(method: str, path: str, answer: Callable[..., ResponseReturnValue], rule: str) -> None:
        def view(base: str, **ids: str) -> ResponseReturnValue:
            if not allowed(request.environ, rule):
                abort(403, f"Policy doesn't allow {rule} to be performed.")
            return answer(control, cast("Request", request), *ids.values())

        api.add_url_rule(path, f"{method} {path}", view, methods=[method])

    app.url_map.converters["base"] = Base
    api = Blueprint("api", __name__, url_prefix="/<base:base>")
    api.before_request(_read_version)
    api.after_request(_name_version)
    add("GET", "/os-services", services.list_services, LIST)
    add("GET", "/os-services/<id>", services.show_service, LIST)
    add("PUT", "/os-services/<id>", services.update_service, UPDATE)
    add("DELETE", "/os-services/<id>", services.delete_service, DELETE)
    app.register_blueprint(api)
    app.add_url_rule("/", "versions", _versions)
    app.add_url_rule("/v2.1", "version", lambda: {"version": _description()})


def _versions() -> ResponseReturnValue:
    """Return the API's versions; a browser is led to the page."""
    if request.accept_mimetypes.best_match(("application/json", "text/html")) == "text/html":
        return redirect(url_for("page.fleet"))
    return {"versions": [_description()]}


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


def http_error(err: errors.RegistryError) -> HTTPException:
    """Return the HTTP error for an error of the registry."""
    return default_exceptions[_STATUSES.get(type(err), 409)](str(err))


def json_error(err: HTTPException) -> Response:
    """Return the answer with an error, in the form of Nova's."""
    name = _NAMES.get(err.code or 0, "computeFault")
    body = {name: {"code": err.code, "message": err.description}}
    headers = err.get_headers()
    return Response(json.dumps(body), err.code, headers, content_type="application/json")
