"""The compute API as far as os-services goes, over WSGI: for the tools people already use."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl
from wsgiref.util import application_uri

from agent.registry import rest_versions
from agent.registry.errors import RegistryError
from agent.registry.rest_errors import Refused, status_line
from agent.registry.rest_services import Answer, Services, refusal

LOG = logging.getLogger(__name__)

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

SERVICES = re.compile(r"/v2(?:\.1)?(?:/[0-9a-fA-F-]{32,36})?/os-services(?:/(?P<one>[^/]+))?/?")
"""Endpoints may have the project's id in them."""
LONGEST_BODY = 65536


@dataclass(frozen=True, slots=True)
class Discovery:
    """``/`` and ``/v2.1``, for everybody; all else is for ``below``."""

    below: Application

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""
        path = environ.get("PATH_INFO", "").rstrip("/")
        if path not in ("", "/v2.1"):
            return self.below(environ, start_response)
        described = rest_versions.description(application_uri(environ).rstrip("/"))
        body = {"version": described} if path else {"versions": [described]}
        return _send(start_response, 200, body, [])


@dataclass(frozen=True, slots=True)
class ServicesApplication:
    """os-services; who may use it was decided before."""

    services: Services

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""
        version = rest_versions.OLDEST
        try:
            version = rest_versions.asked(environ)
            answer = self._answer(environ, version)
        except Refused as err:
            return _send(start_response, err.status, err.body(), rest_versions.headers(version))
        except RegistryError as err:
            refused = refusal(err)
            headers = rest_versions.headers(version)
            return _send(start_response, refused.status, refused.body(), headers)
        except Exception:
            LOG.exception("%s %s", environ["REQUEST_METHOD"], environ.get("PATH_INFO"))
            refused = Refused(500, "this should not happen: please report what the log has")
            return _send(start_response, 500, refused.body(), rest_versions.headers(version))
        status = 204 if answer is None else 200
        return _send(start_response, status, answer, rest_versions.headers(version))

    def _answer(self, environ: Environ, version: rest_versions.Version) -> Answer:
        path = environ.get("PATH_INFO", "")
        found = SERVICES.fullmatch(path)
        if found is None:
            raise Refused(404, f"there is no {path} here, only os-services")
        method, one = environ["REQUEST_METHOD"], found["one"]
        if method == "GET" and one is None:
            return self.services.all(version, dict(parse_qsl(environ.get("QUERY_STRING", ""))))
        if method == "GET" and one is not None:
            return self.services.show(version, one)
        if method == "PUT" and one is not None:
            return self.services.update(version, one, _body(environ))
        if method == "DELETE" and one is not None:
            return self.services.delete(version, one)
        raise Refused(405, f"{method} {path} does not exist")


def _body(environ: Environ) -> dict[str, Any]:
    length = environ.get("CONTENT_LENGTH") or "0"
    size = int(length) if length.isdigit() else 0
    if size > LONGEST_BODY:
        raise Refused(400, f"a body of {size} bytes is too long")
    try:
        body = json.loads(environ["wsgi.input"].read(size))
    except (ValueError, RecursionError) as err:
        raise Refused(400, f"the body is no JSON: {err}") from err
    if not isinstance(body, dict):
        raise Refused(400, "the body has to be a JSON object")
    return body


def _send(
    start_response: Callable[..., Any],
    status: int,
    body: dict[str, Any] | None,
    headers: list[tuple[str, str]],
) -> list[bytes]:
    text = b"" if body is None else json.dumps(body).encode()
    kind = [] if body is None else [("Content-Type", "application/json")]
    start_response(status_line(status), [*kind, ("Content-Length", str(len(text))), *headers])
    return [text]
