"""The page's routes: a list of the hosts, and a page for each host."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import jinja2
from flask import Blueprint, Flask, Response, abort, render_template, request
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from agent.registry.control import Control
from agent.registry.observed_service import observed_services
from compute_registry.page.selection import GROUPS, Selection, select_hosts
from compute_registry.page.trees import NotRead, PlacementReads, ShownTree
from compute_registry.rest.policy import API, Allowed
from compute_registry.rest.request import Request
from reportclient.plain_text import ago, plain

T = TypeVar("T")
PATH = "/fleet"
HOSTS = f"{API}os-services:list"
TREES = f"{API}os-hypervisors:show"
QUERY = ("q", "show", "sort", "order", "page")


def add_page(app: Flask, control: Control, placement: PlacementReads, allowed: Allowed) -> None:
    """Add the page's routes and templates to the application."""
    app.jinja_options = {
        "undefined": jinja2.StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
    }
    style, script = (Markup(_part(name)) for name in ("style.css", "filter.js"))  # noqa: S704  ours
    app.jinja_env.globals |= {"style": style, "script": script}
    app.jinja_env.filters |= {"ago": ago, "plain": plain}
    views = FleetPage(control, placement, allowed)
    page = Blueprint("page", __name__, template_folder="templates", url_prefix=PATH)
    page.before_request(views.permit)
    page.after_request(_protected)
    page.add_url_rule("", "fleet", views.list_hosts)
    page.add_url_rule("/<path:host>", "host", views.show_host)
    app.register_blueprint(page)


def error_page(err: HTTPException) -> Response:
    """Return a page with an error message."""
    text = render_template("refused.html", error=err)
    return _protected(Response(text, err.code, err.get_headers(), mimetype="text/html"))


@cache
def _part(name: str) -> str:
    """Return the text of a file that each page includes."""
    return Path(__file__).parent.joinpath("templates", name).read_text()


def _protected(response: Response) -> Response:
    """Forbid the browser to load, store or run what is not the page's own."""
    allowed = {
        "default-src": "'none'",
        "style-src": _hash(_part("style.css")),
        "script-src": _hash(_part("filter.js")),
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    response.headers.update(
        {
            "Content-Security-Policy": "; ".join(map(" ".join, allowed.items())),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
    )
    return response


@dataclass(frozen=True, slots=True)
class FleetPage:
    """The views."""

    control: Control
    placement: PlacementReads
    allowed: Allowed

    def permit(self) -> None:
        """Refuse callers who may not list services."""
        if not self.allowed(request.environ, HOSTS):
            abort(403, f"Policy doesn't allow {HOSTS} to be performed.")

    def list_hosts(self) -> bytes:
        """Answer ``/fleet``."""
        selection = Selection.from_query(cast("Request", request).query(QUERY))
        records = self.control.registry.list_services()
        disabled, not_read = self._read(self.placement.disabled_roots)
        hosts = observed_services(records, self.control.down_after, disabled)
        return _render(
            "fleet.html",
            fleet=select_hosts(selection, hosts),
            selection=selection,
            groups=GROUPS,
            not_read=not_read,
            now=datetime.now(UTC),
        )

    def show_host(self, host: str) -> bytes:
        """Answer ``/fleet/{host}``."""
        record, query = self.control.registry.get_service(host), cast("Request", request).query
        root = query(("root",)).get("root", record.roots[0] if record.roots else "")
        if root and root not in record.roots:
            abort(404, f"{host} has no root provider {root}")
        disabled, not_read = self._read(self.placement.disabled_roots)
        (service,) = observed_services([record], self.control.down_after, disabled)
        tree: ShownTree | None = None
        if not root:
            not_read = "the agent has not reported a root provider yet"
        elif not not_read:
            tree, not_read = self._read(lambda: self.placement.tree(root))
        return _render(
            "host.html",
            service=service,
            root=root,
            tree=tree,
            not_read=not_read,
            now=datetime.now(UTC),
        )

    def _read(self, read: Callable[[], T]) -> tuple[T | None, str]:
        """Return what ``read`` returns; or ``None``, and why Placement was not read."""
        if not self.allowed(request.environ, TREES):
            return None, f"Policy doesn't allow {TREES} to be performed."
        try:
            return read(), ""
        except NotRead as err:
            return None, str(err)


def is_page(environ: dict[str, Any]) -> bool:
    """Whether a request is for the page."""
    return f"{environ.get('PATH_INFO', '')}/".startswith(f"{PATH}/")


def _render(name: str, **values: Any) -> bytes:
    return render_template(name, **values).encode("utf-8", "replace")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
