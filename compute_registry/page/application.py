"""The page over WSGI: a list of the hosts, and one page for each."""

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl

from agent.registry import checks
from agent.registry.control import Control
from agent.registry.errors import RegistryError
from compute_registry.page.pages import HTML, SVG, Pages
from compute_registry.page.selection import GROUPS, Selection, chosen, observed
from compute_registry.page.trees import Drawn, NoTree, TreesOfHosts
from compute_registry.rest import policy
from compute_registry.rest.application import Application, StartResponse
from compute_registry.rest.request import LONGEST_QUERY, Environ, Refused
from compute_registry.rest.services import refusal

PATH = "/fleet"
HOSTS = f"{policy.API}os-services:list"
TREES = f"{policy.API}os-hypervisors:show"


@dataclass(frozen=True, slots=True)
class FleetPage:
    """``/fleet`` and what is below it; all else is for ``below``."""

    below: Application
    control: Control
    trees: TreesOfHosts
    pages: Pages
    allowed: policy.Allowed = policy.everybody

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        if not is_page(environ):
            return self.below(environ, start_response)
        try:
            kind, text = self._answer(environ)
        except (Refused, RegistryError) as err:
            refused = err if isinstance(err, Refused) else refusal(err)
            return self.pages.error_page(
                start_response, HTTPStatus(refused.status), str(refused), []
            )
        return self.pages.send(start_response, HTTPStatus.OK, kind, text, [])

    def _answer(self, environ: Environ) -> tuple[str, str]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            raise Refused(405, "this page is read-only")
        if not self.allowed(environ, HOSTS):
            raise Refused(403, f"Policy doesn't allow {HOSTS} to be performed.")
        host = _decoded(environ["PATH_INFO"]).removeprefix(PATH).strip("/")
        query = _query(environ)
        if not host:
            return HTML, self._list(Selection.of(query))
        return self._host(host, query, drawn=self.allowed(environ, TREES))

    def _list(self, selection: Selection) -> str:
        control = self.control
        hosts = observed(control.registry.list_services(), control.down_after)
        fleet = chosen(selection, hosts)
        return self.pages.made("fleet.html", fleet=fleet, selection=selection, groups=GROUPS)

    def _host(self, host: str, query: dict[str, str], *, drawn: bool) -> tuple[str, str]:
        record = self.control.registry.get_service(host)
        (one,) = observed([record], self.control.down_after)
        root = query.get("root", record.roots[0] if record.roots else "")
        if root and root not in record.roots:
            raise Refused(404, f"{host} has no root provider {root}")
        tree, why_not = self._tree(root, drawn=drawn)
        if query.get("format") == "svg":
            if tree is None or tree.svg is None:
                raise Refused(503, why_not)
            return SVG, tree.svg
        said = {"one": one, "root": root, "tree": tree, "why_not": why_not}
        return HTML, self.pages.made("host.html", **said)

    def _tree(self, root: str, *, drawn: bool) -> tuple[Drawn | None, str]:
        if not drawn:
            return None, f"Policy doesn't allow {TREES} to be performed."
        if not checks.is_uuid(root):
            return None, "its agent has not told of a root provider yet"
        try:
            tree = self.trees.drawn(root)
        except NoTree as err:
            return None, str(err)
        return tree, tree.why_not


@dataclass(frozen=True, slots=True)
class ForThePage:
    """Choose the page or the REST API by path."""

    page: Application
    others: Application

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        chosen = self.page if is_page(environ) else self.others
        return chosen(environ, start_response)


def is_page(environ: Environ) -> bool:
    """Whether this request is about the page."""
    path: str = environ.get("PATH_INFO", "")
    return f"{path}/".startswith(f"{PATH}/")


def _decoded(path: str) -> str:
    """WSGI has bytes as Latin-1."""
    return path.encode("latin-1").decode("utf-8", "replace")


def _query(environ: Environ) -> dict[str, str]:
    try:
        return dict(parse_qsl(environ.get("QUERY_STRING", ""), max_num_fields=LONGEST_QUERY))
    except ValueError as err:
        raise Refused(400, f"the query has more than {LONGEST_QUERY} parameters") from err
