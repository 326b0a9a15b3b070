"""The page as a WSGI application: a list of the hosts, and a page for each host."""

import base64
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote

import jinja2
from markupsafe import Markup

from agent.registry.control import Control
from agent.registry.errors import RegistryError
from agent.registry.observed_service import observed_services
from compute_registry.page.selection import GROUPS, Selection, select_hosts
from compute_registry.page.trees import NotRead, PlacementReads, ShownTree
from compute_registry.rest import policy
from compute_registry.rest.application import StartResponse
from compute_registry.rest.request import LONGEST_QUERY, Environ, Refused, status_line
from compute_registry.rest.services import refusal
from reportclient.plain_text import ago, plain

HTML = "text/html; charset=utf-8"
TEMPLATES = Path(__file__).parent / "templates"
Headers = list[tuple[str, str]]
T = TypeVar("T")
PATH = "/fleet"
HOSTS = f"{policy.API}os-services:list"
TREES = f"{policy.API}os-hypervisors:show"


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


@dataclass(frozen=True, slots=True)
class FleetPage:
    """Answers ``/fleet`` and paths below it."""

    control: Control
    placement: PlacementReads
    pages: Pages
    allowed: policy.Allowed = policy.allow_all

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        try:
            text = self._answer(environ)
        except (Refused, RegistryError) as err:
            refused = err if isinstance(err, Refused) else refusal(err)
            return self.pages.error_page(
                start_response, HTTPStatus(refused.status), str(refused), []
            )
        return self.pages.send(start_response, HTTPStatus.OK, text, [])

    def _answer(self, environ: Environ) -> str:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            raise Refused(405, "this page is read-only")
        if not self.allowed(environ, HOSTS):
            raise Refused(403, f"Policy doesn't allow {HOSTS} to be performed.")
        host = _decoded(environ["PATH_INFO"]).removeprefix(PATH).strip("/")
        query = _query(environ)
        if not host:
            return self._list(Selection.from_query(query), environ)
        return self._host(host, query, environ)

    def _list(self, selection: Selection, environ: Environ) -> str:
        records = self.control.registry.list_services()
        disabled, not_read = self._read(environ, self.placement.disabled_roots)
        hosts = observed_services(records, self.control.down_after, disabled)
        return self.pages.render(
            "fleet.html",
            fleet=select_hosts(selection, hosts),
            selection=selection,
            groups=GROUPS,
            not_read=not_read,
            now=datetime.now(UTC),
        )

    def _host(self, host: str, query: dict[str, str], environ: Environ) -> str:
        record = self.control.registry.get_service(host)
        root = query.get("root", record.roots[0] if record.roots else "")
        if root and root not in record.roots:
            raise Refused(404, f"{host} has no root provider {root}")
        disabled, not_read = self._read(environ, self.placement.disabled_roots)
        (service,) = observed_services([record], self.control.down_after, disabled)
        tree: ShownTree | None = None
        if not root:
            not_read = "the agent has not reported a root provider yet"
        elif not not_read:
            tree, not_read = self._read(environ, lambda: self.placement.tree(root))
        return self.pages.render(
            "host.html",
            service=service,
            root=root,
            tree=tree,
            not_read=not_read,
            now=datetime.now(UTC),
        )

    def _read(self, environ: Environ, read: Callable[[], T]) -> tuple[T | None, str]:
        """Return what ``read`` returns; or ``None``, and why Placement was not read."""
        if not self.allowed(environ, TREES):
            return None, f"Policy doesn't allow {TREES} to be performed."
        try:
            return read(), ""
        except NotRead as err:
            return None, str(err)


def is_page(environ: Environ) -> bool:
    """Whether a request is for the page."""
    path: str = environ.get("PATH_INFO", "")
    return f"{path}/".startswith(f"{PATH}/")


def _decoded(path: str) -> str:
    """Return a path as UTF-8; WSGI decodes its bytes as Latin-1."""
    return path.encode("latin-1").decode("utf-8", "replace")


def _query(environ: Environ) -> dict[str, str]:
    try:
        return dict(parse_qsl(environ.get("QUERY_STRING", ""), max_num_fields=LONGEST_QUERY))
    except ValueError as err:
        raise Refused(400, f"the query has more than {LONGEST_QUERY} parameters") from err


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
