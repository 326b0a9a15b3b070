"""Errors as the compute API answers them."""

import json
from collections.abc import Mapping

from flask import Response
from werkzeug.exceptions import HTTPException, default_exceptions

from agent.registry import errors

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


def http_error(err: errors.RegistryError) -> HTTPException:
    """Return the HTTP error for an error of the registry."""
    return default_exceptions[_STATUSES.get(type(err), 409)](str(err))


def json_error(err: HTTPException) -> Response:
    """Return the answer with an error, in the form of Nova's."""
    name = _NAMES.get(err.code or 0, "computeFault")
    body = {name: {"code": err.code, "message": err.description}}
    headers = err.get_headers()
    return Response(json.dumps(body), err.code, headers, content_type="application/json")
