"""The page of the fleet over a registry in memory: what is shown, and to whom."""

import base64
import gzip
import socket
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from html.parser import HTMLParser
from typing import Any

import pytest
from flask import render_template
from keystoneauth1 import exceptions as ksa
from werkzeug.test import Client

from agent import version
from agent.errors import RegistryUnavailable
from compute_registry.control import Control
from compute_registry.keystone import OF_ONE, KeystoneCalls, Login
from compute_registry.observed_placement import ObservedTree, Usage
from compute_registry.observed_service import observed_services
from compute_registry.page.blueprint import is_page
from compute_registry.page.selection import Host, Selection, select_hosts
from compute_registry.page.trees import PlacementReads, shown_tree
from compute_registry.rest.policy import LIST, TREES
from compute_registry.web import refused, registry_app, split
from reportclient.model import SHARES_VIA_AGGREGATE, Provider
from reportclient.replies import Answer
from reportclient.snapshot import Snapshot
from tests.stranger import FakePlacement
from tests.unit.cli.trees import AGGREGATE, uuid_of
from tests.unit.registry.fakes import SEEN, OneRecord, record

ROOT = "9cbb8ef1-1a5c-4ba1-9d4b-9b0a05d3c8a1"
RECORDS = (
    record("b10", roots=(ROOT,)),
    record("b9", disabled=True, disabled_reason="Umzug", disabled_at=SEEN - timedelta(days=2)),
    record("a1", silent_for=100.0, contested_by="rack 2"),
    record("c1", last_seen=None, silent_for=None, forced_down=True),
)


class Registry(OneRecord):
    def __init__(self) -> None:
        super().__init__(RECORDS[0], [])
        self.records = list(RECORDS)

    def list_services(self):
        return self.records

    def get_service(self, host: str):
        self.held = next((one for one in self.records if one.host == host), self.held)
        return super().get_service(host)


class Site:
    def __init__(self, placement: Any = None, rules: frozenset[str] | None = None) -> None:
        self.registry = Registry()
        self.app = registry_app(
            Control(self.registry, None),
            lambda _, rule: rules is None or rule in rules,
            PlacementReads(placement),
        )

    def __call__(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        answer = self.app.test_client().open(path, method=method, headers=headers)
        self.headers = answer.headers
        return answer.status_code, answer.text


def names(query: str) -> list[str]:
    pairs = dict(one.split("=") for one in query.split("&") if one)
    return [
        one.service.record.host
        for one in select_hosts(
            Selection.from_query(pairs), [*map(Host, observed_services(RECORDS, 60, None))]
        ).hosts
    ]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ["a1", "c1", "b9", "b10"]),
        ("q=umzug", ["b9"]),
        ("show=down", ["a1", "c1"]),
        ("show=up", ["b9", "b10"]),
        ("show=contested", ["a1"]),
        ("show=nonsense", ["a1", "c1", "b9", "b10"]),
        ("q=forced", ["c1"]),
        ("q=not read", ["b10"]),
    ],
)
def test_what_is_chosen_and_in_which_order(query: str, shown: list[str]) -> None:
    assert names(query) == shown


def test_links_keep_what_else_was_chosen() -> None:
    selection = Selection("a b", "down")
    assert selection.link(text="c") == "?q=c&show=down"


def test_what_needs_attention_is_first_and_says_why() -> None:
    api = FakePlacement()
    api.stranger.add_trait(
        api.stranger.create_provider("b10", uuid=ROOT), "COMPUTE_STATUS_DISABLED"
    )
    site = Site(api)
    site.registry.records.append(record("e1", degraded="trait: Placement is away\n<b>\ndisk: full"))
    status, text = site("/fleet")
    assert status == 200
    assert [text.index(f">{host}</a>") for host in ("a1", "b10", "e1", "c1", "b9")] == sorted(
        text.index(f">{host}</a>") for host in ("a1", "b10", "e1", "c1", "b9")
    )
    assert text.count(' class="wrong">') == 2
    assert "two agents use this host name: the agent at" in text
    assert "enabled in its service record, but COMPUTE_STATUS_DISABLED is on 1 of 1 root" in text
    assert "degraded: trait: Placement is away (+2 more)<" in text and "show=degraded" in text
    lines = ("trait: Placement is away", "&lt;b&gt;", "disk: full")
    assert all(f"<li>{line}</li>" in site("/fleet/e1")[1] for line in lines)
    assert "if not: computectl status on the host" in site("/fleet/b10")[1]


def test_a_browser_is_led_to_the_page_and_a_program_to_the_versions() -> None:
    site = Site()
    assert site("/", Accept="text/html,*/*;q=0.8")[0] == 302
    assert site.headers["Location"] == "/fleet"
    assert '"versions"' in site("/", Accept="*/*")[1]


def test_a_page_is_compressed_and_sent_again_only_if_it_changed() -> None:
    site = Site()
    wanted = {"Accept-Encoding": "gzip"}
    answer = site.app.test_client().get("/fleet", headers=wanted)
    assert answer.content_encoding == "gzip" and "c1" in gzip.decompress(answer.data).decode()
    known = {**wanted, "If-None-Match": answer.headers["ETag"]}
    assert site("/fleet", **known) == (304, "")
    site.registry.records.append(record("e1"))
    again = site.app.test_client().get("/fleet", headers=known)
    assert again.status_code == 200 and "e1" in gzip.decompress(again.data).decode()


def test_a_long_name_lacks_its_middle_and_is_whole_in_its_title() -> None:
    site = Site()
    long = f"{'a' * 40}{'b' * 20}.{'c' * 20}.example.org"
    site.registry.records.append(record(long))
    site.registry.records.append(record("10.0.0.7"))
    text = site("/fleet")[1]
    assert f'title="{long}"' in text and f">{'a' * 11}…{'b' * 12}<" in text
    assert ">10.0.0.7<" in text


def test_the_domain_of_most_hosts_is_said_once() -> None:
    site = Site()
    site.registry.records[:] = [record(f"n{n}.rack{n}.dc1.example.org") for n in range(3)]
    site.registry.records += [record("n9.rack9.other.example.org"), record("bastion")]
    text = site("/fleet")[1]
    assert text.count(">.dc1.example.org</span>") == 1
    assert '>n1<span class="domain">.rack1</span></a>' in text and ">bastion</a>" in text
    assert '>n9<span class="domain">.rack9.ot…xample.org</span></a>' in text


def test_roots_have_their_names() -> None:
    api = FakePlacement()
    for uuid, name in ((ROOT, "node7"), (ROOT.replace("0", "1"), "node8")):
        api.stranger.add_trait(api.stranger.create_provider(name, uuid=uuid), "COMPUTE_NODE")
    site = Site(api)
    site.registry.records.append(record("e1", roots=(ROOT, ROOT.replace("0", "1"))))
    text = site("/fleet/e1")[1]
    assert ">node7</a>" in text and ">node8</a>" in text


def test_a_root_that_placement_does_not_have_agrees_with_nothing() -> None:
    api = FakePlacement()
    site = Site(api)
    text = site("/fleet")[1]
    assert f"its root provider {ROOT} is not in Placement as a compute node" in text
    assert ">agrees<" not in text
    assert '<b class="error">not in Placement</b>' in text
    assert text.count(' class="wrong">') == 2, "with the host that two agents use"
    assert "not in Placement as a compute node" in site("/fleet/b10")[1]
    api.stranger.add_trait(api.stranger.create_provider("b10", uuid=ROOT), "COMPUTE_NODE")
    text = Site(api)("/fleet")[1]
    assert "not in Placement" not in text and text.count("agrees") == 1


def test_the_search_finds_a_host_of_any_place_and_what_its_row_says() -> None:
    site = Site()
    site.registry.records = [
        record(f"h{number}", agent_version="9.9" if number == 7 else "1.0")
        for number in range(2500)
    ]
    for query, host in (("h2400", "h2400"), ("9.9", "h7")):
        text = site(f"/fleet?q={query}")[1]
        assert '<b id="shown">1</b> of 2500' in text and f">{host}</a>" in text
    assert "the first 1000: search for others" in site("/fleet")[1]
    text = site("/fleet?q=nowhere&show=up")[1]
    assert "No host has “nowhere” in what its row says, among the hosts that are up" in text


def test_a_host_that_its_agent_disabled_says_since_when_and_what_to_do() -> None:
    site = Site()
    site.registry.records[1] = replace(RECORDS[1], disabled_reason="AUTO: libvirt: lost")
    [condition] = observed_services([site.registry.records[1]], 60, None)[0].problems
    assert condition.sentence == (
        "b9: disabled by its agent, since 2029-12-31 03:04 UTC, until its hypervisor is back; "
        "run computectl status on the host"
    )
    text = site("/fleet/b9")[1]
    assert "since 2029-12-31 03:04 UTC" in text and "run computectl status on the host" in text


@pytest.mark.parametrize(
    ("path", "says"), [("/fleet", True), ("/fleet/b10", True), ("/fleet/nobody", False)]
)
def test_each_page_links_back_and_names_its_registry_unless_it_refuses(
    path: str, says: bool
) -> None:
    text = Site()(path)[1]
    footer = text[text.index("<footer>") :]
    assert 'href="/fleet"' in footer
    assert (f"compute-registry {version()} on {socket.gethostname()}" in text) is says


def test_an_unread_placement_is_named_and_no_cell_has_a_question_mark() -> None:
    text = Site(None)("/fleet")[1]
    assert "Placement was not read: compute-registry can&#39;t read Placement" in text
    assert text.count(">not read</span>") == 1, "the other hosts have no root provider"
    assert ">?<" not in text


def test_all_that_is_shown_is_escaped() -> None:
    site = Site()
    reason = '"><script>alert(1)</script>'
    site.registry.records[1] = replace(RECORDS[1], disabled_reason=reason, address=reason)
    for path in ("/fleet", "/fleet/b9", "/fleet?q=%22%3E%3Cscript%3E"):
        status, text = site(path)
        assert status == 200
        assert "<script>alert" not in text and '"><script' not in text


@pytest.mark.parametrize(
    ("path", "method", "status", "said"),
    [
        ("/fleet/nobody", "GET", 404, "nobody"),
        ("/fleet", "POST", 405, "not allowed"),
        ("/fleet/b10?root=x", "GET", 404, "no root provider x"),
    ],
)
def test_what_can_not_be_shown_says_why(path: str, method: str, status: int, said: str) -> None:
    found, text = Site()(path, method)
    assert found == status and said in text


def test_a_lost_database_is_told() -> None:
    site = Site()

    def lost() -> None:
        raise RegistryUnavailable("no database")

    site.registry.list_services = lost
    assert site("/fleet")[0] == 503


def test_who_may_not_list_services_sees_nothing_but_trees_have_a_rule() -> None:
    assert Site(rules=frozenset())("/fleet/b10")[0] == 403
    status, text = Site(FakePlacement(), frozenset({LIST}))("/fleet/b10")
    assert (status, TREES in text) == (200, True)


def test_without_a_tree_the_record_is_shown_all_the_same() -> None:
    for api, why in (
        (FakePlacement(), f"no root provider {ROOT}"),
        (None, "[placement] auth_type"),
    ):
        status, text = Site(api)("/fleet/b10")
        assert status == 200 and "RPC version" in text and why in text


class Tree(HTMLParser):
    """A host's page: ``providers`` are the depths and names of its table, ``text`` is what it says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.providers: list[tuple[int, str]] = []
        self.text, self._depth, self._naming = "", 0, False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tbody" and (found := (dict(attrs).get("class") or "")).startswith("depth"):
            self._depth = int(found[5:])
        self._naming = tag == "summary"

    def handle_data(self, data: str) -> None:
        self.text += f"{data.strip()} " if data.strip() else ""
        if self._naming and data.strip():
            self.providers.append((self._depth, data.strip()))
            self._naming = False


class Dated(FakePlacement):
    """Its inventories were written 3 h ago."""

    def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        result = Answer(super().request(method, path, **more))
        if path.endswith("/inventories"):
            result.modified = format_datetime(datetime.now(UTC) - timedelta(hours=3))
        return result


def test_the_page_shows_all_that_placement_has_of_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "compute_registry.observed_placement.SUMMARY_FROM", 1000
    )  # the fake has no candidates
    api = Dated()
    stranger = api.stranger
    root = stranger.create_provider("b10", uuid=ROOT)
    stranger.set_inventory(root, {"VCPU": {"total": 8, "reserved": 2, "allocation_ratio": 4.0}})
    stranger.set_aggregates(root, {AGGREGATE})
    stranger.add_trait(root, "COMPUTE_STATUS_DISABLED")
    pf2, pf10 = (stranger.create_child(root, name) for name in ("b10_pf2", "pf10"))
    vf = stranger.create_child(pf2, "<b>vf")
    stranger.add_trait(vf, "CUSTOM_FAST")
    stranger.set_inventory(pf10, {"VGPU": {"total": 1}})
    nfs = stranger.create_provider("nfs")
    stranger.set_inventory(nfs, {"DISK_GB": {"total": 100}})
    stranger.set_aggregates(nfs, {AGGREGATE})
    stranger.add_trait(nfs, SHARES_VIA_AGGREGATE)
    used = {root: {"VCPU": 3}, pf10: {"VGPU": 1}, nfs: {"DISK_GB": 10}}
    consumer = stranger.put_allocation(used)
    site = Site(api)
    status, text = site("/fleet/b10")
    page = Tree(text)
    assert status == 200
    assert page.providers == [(0, "b10"), (1, "pf2"), (2, "<b>vf"), (1, "pf10"), (0, "nfs")]
    assert "VCPU 8 2 4 24 3 21" in page.text
    assert "VCPU 3 of 24 VGPU 1 of 1 Provider" in page.text, "what the tree has in all"
    assert "DISK_GB 100 0 1 100 10 90" in page.text
    assert f"Shared through aggregate {AGGREGATE} nfs" in page.text
    assert f"{ROOT} · generation" in page.text and "1 consumer" in page.text
    assert "CUSTOM_FAST" in page.text and f"aggregate {AGGREGATE}" in page.text
    assert '<tr class="full"><th scope="row">VGPU' in text
    stranger.set_inventory(pf10, {"VGPU": {"total": 1, "reserved": 1}})
    stranger.set_inventory(root, {"VCPU": {"total": 2}})
    stranger.set_inventory(
        nfs, {"DISK_GB": {"total": 100}, "CUSTOM_X": {"total": 1, "reserved": 1}}
    )
    page = Tree(site("/fleet/b10")[1])
    assert "VGPU 1 1 1 0 1 -1 draining" in page.text
    drains = f"pf10: draining: in use by {consumer}"
    assert f"{drains}, for at least 3 h. Next: to end it sooner" in page.text
    assert f"allocation unset --provider {pf10} CONSUMER" in page.text
    assert "VCPU 2 0 1 2 3 -1 over capacity" in page.text
    assert "CUSTOM_X 1 1 1 0 0 0 drained" in page.text
    assert 'class="off">COMPUTE_STATUS_DISABLED' in text and "<b>vf" not in text


def test_a_tree_may_be_deeper_than_python_recurses() -> None:
    deep = [Provider(uuid_of("0"), "0")]
    for number in range(1, sys.getrecursionlimit() + 10):
        deep.append(Provider(uuid_of(str(number)), str(number), deep[-1].uuid))
    tree = shown_tree(ObservedTree(Snapshot.build(deep), deep[0].uuid, Usage()), {})
    with Site().app.test_request_context("/fleet/b10"):
        text = render_template(
            "host.html",
            host=Host(observed_services(RECORDS, 60, None)[0]),
            root=deep[0].uuid,
            tree=tree,
            not_read="",
            placement="",
            now=SEEN,
        )
    assert [depth for depth, _ in Tree(text).providers] == [min(n, 12) for n in range(len(deep))]


# -- who comes in with a browser


class Plugin:
    def __init__(self, error: Exception | None = None) -> None:
        self.tokens, self.error, self.token = ["old", "new"], error, None
        self.answers = threading.Event()
        self.answers.set()

    def get_token(self, _: Any) -> str:
        if self.token is None:
            self.answers.wait()
            if self.error:
                raise self.error
            self.token = self.tokens.pop(0)
        return self.token

    def get_auth_state(self) -> str | None:
        return self.token

    def invalidate(self) -> bool:
        was, self.token = self.token, None
        return was is not None


class Door:
    """Behind Keystone, as far as a token goes; ``taken`` are those that it lets in."""

    def __init__(self, error: Exception | None = None, *, hung: bool = False) -> None:
        self.taken, self.given, self.plugin = {"old", "new"}, [], Plugin(error)
        self.session, self.calls = None, KeystoneCalls(0.01 if hung else 10)
        self.refuse, self.behind = partial(refused, Site().app), Client(Login(self, self._log_in))

    def _log_in(self, *given: str) -> Plugin:
        self.given.append(given)
        return self.plugin

    def __call__(self, environ: dict[str, Any], start: Any) -> list[bytes]:
        token = environ["HTTP_X_AUTH_TOKEN"]
        start("200 OK" if token in self.taken else "401 Unauthorized", [])
        return [token.encode()]

    def get(self, **more: str) -> tuple[int, dict[str, str], bytes]:
        answer = self.behind.get("/fleet", environ_overrides={"REMOTE_ADDR": "127.0.0.1", **more})
        return answer.status_code, dict(answer.headers), answer.data


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def test_an_application_credential_becomes_a_token() -> None:
    door = Door()
    assert door.get(HTTP_AUTHORIZATION=basic("id:a:b"))[::2] == (200, b"old")
    assert door.given == [("id", "a:b")]


@pytest.mark.parametrize("said", ["", "Basic", "Basic !", basic("no colon"), "Bearer x"])
def test_who_gives_none_is_asked(said: str) -> None:
    status, headers, _ = Door().get(HTTP_AUTHORIZATION=said)
    assert status == 401
    assert headers["WWW-Authenticate"].startswith('Basic realm="compute-registry"')


def test_a_token_that_has_ended_is_renewed_and_nobody_notices() -> None:
    door = Door()
    door.get(HTTP_AUTHORIZATION=basic("id:s"))
    door.taken = {"new"}
    assert door.get(HTTP_AUTHORIZATION=basic("id:s"))[::2] == (200, b"new")


@pytest.mark.parametrize(
    ("error", "status"),
    [(ksa.Unauthorized(), 401), (ksa.NotFound(), 401), (ksa.ConnectFailure("x"), 503)],
)
def test_what_keystone_says_is_told_without_the_secret(error: Exception, status: int) -> None:
    found, _, body = Door(error).get(HTTP_AUTHORIZATION=basic("id:s3cret"))
    assert found == status and b"s3cret" not in body


def test_a_hanging_keystone_is_named_and_holds_up_no_known_credential() -> None:
    door = Door(hung=True)
    while door.get(HTTP_AUTHORIZATION=basic("id:s"))[0] != 200:
        """The thread of a call has not ended yet."""
    door.plugin = Plugin()
    door.plugin.answers.clear()
    texts = [b"Keystone did not answer within 0.01 s"] * OF_ONE + [b"Keystone was busy for 0.005 s"]
    for text in texts:
        status, _, body = door.get(HTTP_AUTHORIZATION=basic("invented:s"))
        assert status == 503 and text in body
    assert door.get(HTTP_AUTHORIZATION=basic("id:s"))[::2] == (200, b"old")
    door.plugin.answers.set()


def test_a_credential_that_is_refused_later_waits_for_its_turn_again() -> None:
    door = Door()
    door.get(HTTP_AUTHORIZATION=basic("id:s"))
    door.taken, door.plugin.error = set(), ksa.Unauthorized()
    assert door.get(HTTP_AUTHORIZATION=basic("id:s"))[0] == 401
    assert door.plugin.get_auth_state() is None


def test_credentials_are_not_taken_where_others_can_listen() -> None:
    door = Door()
    said = {"HTTP_AUTHORIZATION": basic("id:s"), "REMOTE_ADDR": "192.0.2.1"}
    assert door.get(**said)[0] == 403
    assert door.given == []
    assert door.get(**said, **{"wsgi.url_scheme": "https"})[0] == 200


def test_a_token_in_the_header_is_taken_as_it_is() -> None:
    assert Door().get(HTTP_X_AUTH_TOKEN="new", REMOTE_ADDR="192.0.2.1")[::2] == (200, b"new")


def test_only_the_page_is_entered_with_a_browser() -> None:
    chosen_for = split(is_page, lambda e, s: "page", lambda e, s: "others")
    assert chosen_for({"PATH_INFO": "/fleet/x"}, None) == "page"
    assert chosen_for({"PATH_INFO": "/v2.1/os-services"}, None) == "others"
    assert chosen_for({"PATH_INFO": "/fleetx"}, None) == "others"
