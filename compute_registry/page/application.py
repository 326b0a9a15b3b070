"""The page as a WSGI application: a list of the hosts, and a page for each host."""

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl

from agent.registry.control import Control
from agent.registry.errors import RegistryError
from compute_registry.page.pages import Pages
from compute_registry.page.selection import GROUPS, Selection, observed_services, select_hosts
from compute_registry.page.trees import NoTree, ShownTree, TreesOfHosts
from compute_registry.rest import policy
from compute_registry.rest.application import Application, StartResponse
from compute_registry.rest.request import LONGEST_QUERY, Environ, Refused
from compute_registry.rest.services import refusal

PATH = "/fleet"
HOSTS = f"{policy.API}os-services:list"
TREES = f"{policy.API}os-hypervisors:show"


@dataclass(frozen=True, slots=True)
class FleetPage:
    """Answers ``/fleet`` and paths below it; ``below`` answers all other paths."""

    below: Application
    control: Control
    trees: TreesOfHosts
    pages: Pages
    allowed: policy.Allowed = policy.allow_all

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        if not is_page(environ):
            return self.below(environ, start_response)
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
            return self._list(Selection.from_query(query))
        return self._host(host, query, with_tree=self.allowed(environ, TREES))

    def _list(self, selection: Selection) -> str:
        control = self.control
        hosts = observed_services(control.registry.list_services(), control.down_after)
        fleet = select_hosts(selection, hosts)
        return self.pages.render("fleet.html", fleet=fleet, selection=selection, groups=GROUPS)

    def _host(self, host: str, query: dict[str, str], *, with_tree: bool) -> str:
        record = self.control.registry.get_service(host)
        (service,) = observed_services([record], self.control.down_after)
        root = query.get("root", record.roots[0] if record.roots else "")
        if root and root not in record.roots:
            raise Refused(404, f"{host} has no root provider {root}")
        tree, why_not = self._tree(root, allowed=with_tree)
        return self.pages.render(
            "host.html", service=service, root=root, tree=tree, why_not=why_not
        )

    def _tree(self, root: str, *, allowed: bool) -> tuple[ShownTree | None, str]:
        if not allowed:
            return None, f"Policy doesn't allow {TREES} to be performed."
        if not root:
            return None, "the agent has not reported a root provider yet"
        try:
            return self.trees.read(root), ""
        except NoTree as err:
            return None, str(err)


@dataclass(frozen=True, slots=True)
class PageOrApi:
    """Passes a request on to the page or to the REST API, by path."""

    page: Application
    api: Application

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        chosen = self.page if is_page(environ) else self.api
        return chosen(environ, start_response)


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
