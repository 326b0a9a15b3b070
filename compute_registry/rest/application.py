"""The compute API as a WSGI application: the calls of ``policy.CALLS``."""

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from wsgiref.util import request_uri

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
    status_line,
    version_headers,
    version_of,
)
from compute_registry.rest.services import refusal
from reportclient.plain_text import plain

LOG = logging.getLogger(__name__)

StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


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
            status = 204 if answer.body is None else 200
        except (Refused, RegistryError) as err:
            refused = err if isinstance(err, Refused) else refusal(err)
            status, answer = refused.status, Answer(refused.body())
        except Exception:
            path = plain(environ.get("PATH_INFO", ""))
            LOG.exception("%s %s", environ["REQUEST_METHOD"], path)
            refused = Refused(500, "unexpected error: see the log of compute-registry")
            status, answer = 500, Answer(refused.body())
        headers = version_headers(version)
        for name, text in answer.headers.items():
            headers.append((name, plain(text).encode("ascii", "backslashreplace").decode()))
        return send_json(start_response, status, answer.body, headers)

    def _answer(self, environ: Environ, version: Version) -> Answer:
        path, method = environ.get("PATH_INFO", ""), environ["REQUEST_METHOD"]
        calls = policy.matching(path)
        if not calls:
            raise Refused(404, f"{path!a} is not served; docs/registry.rst lists what is served")
        for call, ids in calls:
            if call.method == method:
                if not self.allowed(environ, call.rule):
                    raise Refused(403, f"Policy doesn't allow {call.rule} to be performed.")
                url = request_uri(environ, include_query=False)
                return call.answer(self.control, Request(environ, version, url), *ids)
        raise Refused(405, f"{path!a} does not support the method {method}")


def send_json(
    start_response: StartResponse,
    status: int,
    body: dict[str, Any] | None,
    headers: Iterable[tuple[str, str]] = (),
) -> list[bytes]:
    """Send an answer; ``None`` as body is an empty one."""
    text = b"" if body is None else json.dumps(body).encode()
    content_type = [] if body is None else [("Content-Type", "application/json")]
    start_response(
        status_line(status), [*content_type, ("Content-Length", str(len(text))), *headers]
    )
    return [text]
