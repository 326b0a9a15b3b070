"""WSGI applications: the API's version discovery, and the calls of ``policy.CALLS``."""

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from wsgiref.util import application_uri, request_uri

from agent.registry.control import Control
from agent.registry.errors import RegistryError
from compute_registry.rest import policy
from compute_registry.rest.request import (
    OLDEST,
    Answer,
    Environ,
    Refused,
    Request,
    Version,
    api_description,
    status_line,
    version_headers,
    version_of,
)
from compute_registry.rest.services import refusal
from reportclient.plain_text import plain

LOG = logging.getLogger(__name__)

StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

BASE = re.compile(r"/v2(?:\.1)?(?:/[0-9a-fA-F-]{32,36})?(?P<rest>/os-.*?)/?")
"""A path below the endpoint, which may contain the project's id."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """Answers ``/`` and ``/v2.1`` without authentication; ``below`` answers all other paths."""

    below: Application

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        path = environ.get("PATH_INFO", "").rstrip("/")
        if path not in ("", "/v2.1"):
            return self.below(environ, start_response)
        described = api_description(application_uri(environ).rstrip("/"))
        body = {"version": described} if path else {"versions": [described]}
        return _send(start_response, 200, body, [])


@dataclass(frozen=True, slots=True)
class ComputeApplication:
    """Answers the calls of ``policy.CALLS``; ``allowed`` decides by caller and policy rule."""

    control: Control
    allowed: policy.Allowed = policy.allow_all

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        version = OLDEST
        try:
            version = version_of(environ)
            answer = self._answer(environ, version)
        except Refused as err:
            return _send(start_response, err.status, err.body(), version_headers(version))
        except RegistryError as err:
            refused = refusal(err)
            headers = version_headers(version)
            return _send(start_response, refused.status, refused.body(), headers)
        except Exception:
            path = plain(environ.get("PATH_INFO", ""))
            LOG.exception("%s %s", environ["REQUEST_METHOD"], path)
            refused = Refused(500, "unexpected error: see the log of compute-registry")
            return _send(start_response, 500, refused.body(), version_headers(version))
        status = 204 if answer.body is None else 200
        headers = [*version_headers(version), *_in_ascii(answer.headers)]
        return _send(start_response, status, answer.body, headers)

    def _answer(self, environ: Environ, version: Version) -> Answer:
        path, method = environ.get("PATH_INFO", ""), environ["REQUEST_METHOD"]
        ours = BASE.fullmatch(path)
        matches = [(call, call.match(ours["rest"])) for call in policy.CALLS] if ours else []
        routed = [(call, arguments) for call, arguments in matches if arguments is not None]
        if not routed:
            raise Refused(404, f"{path!a} is not served; docs/registry.rst lists what is served")
        for call, arguments in routed:
            if call.method == method:
                if not self.allowed(environ, call.rule):
                    raise Refused(403, f"Policy doesn't allow {call.rule} to be performed.")
                url = request_uri(environ, include_query=False)
                return call.answer(self.control)(Request(environ, version, url), *arguments)
        raise Refused(405, f"{path!a} does not support the method {method}")


def _in_ascii(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (name, plain(text).encode("ascii", "backslashreplace").decode("ascii"))
        for name, text in headers.items()
    ]


def _send(
    start_response: StartResponse,
    status: int,
    body: dict[str, Any] | None,
    headers: list[tuple[str, str]],
) -> list[bytes]:
    text = b"" if body is None else json.dumps(body).encode()
    content_type = [] if body is None else [("Content-Type", "application/json")]
    start_response(
        status_line(status), [*content_type, ("Content-Length", str(len(text))), *headers]
    )
    return [text]
