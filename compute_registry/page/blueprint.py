"""The page's routes: a list of the hosts, and a page for each host."""

import base64
import gzip
import hashlib
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import jinja2
from flask import Blueprint, Flask, Response, abort, render_template, request
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from agent import version
from agent.registry.record import ServiceRecord
from compute_registry.control import Control
from compute_registry.observed_placement import NEARLY_FULL
from compute_registry.observed_service import observed_services
from compute_registry.page.selection import TITLES, Host, Selection, select_hosts
from compute_registry.page.trees import NotRead, PlacementReads, ShownTree
from compute_registry.rest.policy import LIST, TREES, Allowed
from compute_registry.rest.request import Request
from reportclient.plain_text import ago, plain, shortened

T = TypeVar("T")
PATH = "/fleet"


def add_page(app: Flask, control: Control, placement: PlacementReads, allowed: Allowed) -> None:
    """Add the page's routes and templates to the application."""
    blanks = {"trim_blocks": True, "lstrip_blocks": True}
    app.jinja_options = {"undefined": jinja2.StrictUndefined, **blanks}
    style, script = (Markup(_part(name)) for name in ("style.css", "filter.js"))  # noqa: S704  ours
    program = {"version": version(), "machine": socket.gethostname(), "nearly_full": NEARLY_FULL}
    app.jinja_env.globals |= {"style": style, "script": script, **program}
    app.jinja_env.filters |= {"ago": ago, "plain": plain, "shortened": shortened}
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
    own = f"style-src {_hash(_part('style.css'))}; script-src {_hash(_part('filter.js'))}"
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; {own}; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "private, no-cache"
    return response


@dataclass(frozen=True, slots=True)
class FleetPage:
    """The views."""

    control: Control
    placement: PlacementReads
    allowed: Allowed

    def permit(self) -> None:
        """Refuse callers who may not list services."""
        if not self.allowed(request.environ, LIST):
            abort(403, f"Policy doesn't allow {LIST} to be performed.")

    def list_hosts(self) -> Response:
        """Answer ``/fleet``."""
        selection = Selection.from_query(cast("Request", request).query("q", "show"))
        records = self.control.registry.list_services()
        hosts, _, not_read = self._observed(records)
        fleet = select_hosts(selection, hosts)
        return self._render("fleet.html", not_read, fleet=fleet, selection=selection, titles=TITLES)

    def show_host(self, host: str) -> Response:
        """Answer ``/fleet/{host}``, with the tree of one root."""
        query = cast("Request", request).query("root")
        record = self.control.registry.get_service(host)
        root = query.get("root", record.roots[0] if record.roots else "")
        if root and root not in record.roots:
            abort(404, f"{host} has no root provider {root}")
        (shown,), names, not_read = self._observed([record])
        tree: ShownTree | None = None
        if not root:
            not_read = "the record has no root provider yet. On the host: computectl audit"
        elif not not_read:
            tree, not_read = self._read(lambda: self.placement.tree(root))
        values = {"host": shown, "root": root, "tree": tree, "names": names}
        return self._render("host.html", not_read, **values)

    def _observed(
        self, records: Sequence[ServiceRecord]
    ) -> tuple[list[Host], Mapping[str, str], str]:
        """Return the hosts of records, the names of roots, and why Placement was not read."""
        roots, not_read = self._read(self.placement.roots)
        services = observed_services(records, self.control.down_after, roots)
        return [Host(each) for each in services], roots.present if roots else {}, not_read

    def _read(self, read: Callable[[], T]) -> tuple[T | None, str]:
        """Return what ``read`` returns; or ``None``, and why Placement was not read."""
        if not self.allowed(request.environ, TREES):
            return None, f"Policy doesn't allow {TREES} to be performed."
        try:
            return read(), ""
        except NotRead as err:
            return None, str(err)

    def _render(self, name: str, not_read: str, **values: Any) -> Response:
        """Return a page, compressed; its ETag is that of the page without the time at its top."""
        where = "" if not_read else self.placement.url()
        now = datetime.now(UTC)
        text = render_template(name, not_read=not_read, placement=where, now=now, **values)
        content = text.encode("utf-8", "replace")
        response = Response(content, mimetype="text/html")
        known, _, after = text.partition('<time id="as-of"')
        response.set_etag(_digest(known + after.partition("</time>")[2]), weak=True)
        response.vary.add("Accept-Encoding")
        if request.accept_encodings["gzip"]:
            response.data, response.content_encoding = gzip.compress(content, 5), "gzip"
        response.make_conditional(request)
        return response


def is_page(environ: dict[str, Any]) -> bool:
    """Whether a request is for the page."""
    return f"{environ.get('PATH_INFO', '')}/".startswith(f"{PATH}/")


def _hash(text: str) -> str:
    return f"'sha256-{_digest(text)}'"


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8", "replace")).digest()).decode()
