"""The HTML answers: templates, and headers that forbid all other scripts and resources."""

import base64
import hashlib
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from compute_registry.rest.application import StartResponse
from compute_registry.rest.request import status_line
from reportclient.plain_text import ago, plain

HTML = "text/html; charset=utf-8"
TEMPLATES = Path(__file__).parent / "templates"
Headers = list[tuple[str, str]]


class Pages:
    """Renders templates and sends them."""

    def __init__(self) -> None:
        loader = jinja2.FileSystemLoader(TEMPLATES)
        self._jinja = jinja2.Environment(
            loader=loader,
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        parts = {name: (TEMPLATES / name).read_text() for name in ("style.css", "filter.js")}
        self._jinja.globals |= {
            "style": Markup(parts["style.css"]),  # noqa: S704  our own files
            "script": Markup(parts["filter.js"]),  # noqa: S704  files of ours
        }
        self._jinja.filters |= {
            "ago": ago,
            "plain": plain,
            "segment": lambda text: quote(text, safe=""),
        }
        allowed = {
            "default-src": "'none'",
            "style-src": _hash(parts["style.css"]),
            "script-src": _hash(parts["filter.js"]),
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }
        self._headers: Headers = [
            ("Content-Security-Policy", "; ".join(map(" ".join, allowed.items()))),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ]

    def render(self, name: str, **values: Any) -> str:
        """Return a template filled with these values."""
        return self._jinja.get_template(name).render(**values)

    def error_page(
        self, start_response: StartResponse, status: HTTPStatus, message: str, more: Headers
    ) -> Iterable[bytes]:
        """Send a page with an error message."""
        text = self.render("refused.html", status=status, message=message)
        return self.send(start_response, status, text, more)

    def send(
        self, start_response: StartResponse, status: HTTPStatus, text: str, more: Headers
    ) -> Iterable[bytes]:
        """Send a page, with the ``more`` headers."""
        body = text.encode("utf-8", "replace")
        content = [("Content-Type", HTML), ("Content-Length", str(len(body)))]
        start_response(status_line(status), [*content, *self._headers, *more])
        return [body]


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
