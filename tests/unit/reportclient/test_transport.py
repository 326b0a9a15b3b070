"""What a peer may do to us: be slow, talk without end, or send us elsewhere."""

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from keystoneauth1 import adapter, session, token_endpoint

from reportclient.errors import Unreachable
from reportclient.http import PlacementAPI, Transport, bounded_session, token_adapter
from tests.servers.ports import free_port
from tests.servers.tls import Authority, TlsProxy

LISTING = {"resource_providers": [{"uuid": str(number)} for number in range(1000)]}
LISTED = json.dumps(LISTING).encode()
PATIENCE = 0.2

Answer = Callable[["Peer"], None]


class Peer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.tokens.append(self.headers.get("X-Auth-Token"))
        self.server.answer(self)

    do_POST = do_CONNECT = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""

    def say(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def drip(self, piece: bytes) -> None:
        """Say it again and again, until nobody listens."""
        while not self.server.closing.wait(PATIENCE / 4):
            try:
                self.wfile.write(piece)
            except OSError:
                break
        self.close_connection = True


@contextmanager
def peer(answer: Answer) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Peer)
    server.answer, server.tokens, server.closing = answer, [], threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()


def api_of(
    server: ThreadingHTTPServer, timeout: float = 60.0, limit: int = 2**20, **options: Any
) -> PlacementAPI:
    auth = token_endpoint.Token(server.url, "secret")
    bounded = bounded_session(session.Session(auth, timeout=timeout), limit)
    return PlacementAPI(adapter.Adapter(bounded, service_type="placement"), **options)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("bounded", [True, False])
def test_a_token_is_never_sent_on(status: int, bounded: bool) -> None:
    with peer(lambda it: it.say(LISTED)) as other:
        moved = {"Location": f"{other.url}/stolen"}
        with peer(lambda it: it.say(b"", status, **moved)) as placement:
            api = api_of(placement)
            if not bounded:  # a session of somebody else's
                api = PlacementAPI(
                    adapter.Adapter(
                        session.Session(token_endpoint.Token(placement.url, "secret")),
                        service_type="placement",
                    )
                )
            with pytest.raises(Unreachable, match="redirects to" if bounded else str(status)):
                api.request("GET", "/resource_providers")
        assert placement.tokens == ["secret"] and other.tokens == []


@pytest.mark.parametrize(
    ("location", "said"), [("/moved", r"redirects to {url}/moved;"), ("http://[bad", "no address")]
)
def test_a_redirect_names_the_address_to_configure(location: str, said: str) -> None:
    with peer(lambda it: it.say(b"", 302, Location=location)) as placement:
        with pytest.raises(Unreachable, match=said.format(url=placement.url)):
            api_of(placement).request("GET", "/resource_providers")


def test_a_password_is_never_sent_on() -> None:
    with peer(lambda it: it.say(LISTED)) as other:
        answer = {"Location": f"{other.url}/v3/auth/tokens"}
        with peer(lambda it: it.say(b"", 307, **answer)) as keystone:
            with pytest.raises(Exception, match="redirects to"):
                bounded_session(session.Session()).post(
                    f"{keystone.url}/v3/auth/tokens", json={"password": "x"}, authenticated=False
                )
        assert other.tokens == []


def test_what_carries_no_secret_is_sent_on() -> None:
    with peer(lambda it: it.say(LISTED)) as other:
        with peer(lambda it: it.say(b"", 302, Location=other.url)) as there:
            found = bounded_session(session.Session()).get(there.url, authenticated=False)
        assert found.json() == LISTING


@pytest.mark.parametrize(
    ("start", "rest"),
    [
        (b"Content-Length: 9999999\r\n\r\n", b" "),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["a body", "chunks"],
)
def test_an_answer_that_never_ends_is_given_up_though_it_never_stops(start: bytes, rest) -> None:
    def answer(it: Peer) -> None:
        it.wfile.write(b"HTTP/1.1 200 OK\r\n" + start)
        it.drip(rest)

    with peer(answer) as placement, pytest.raises(Unreachable, match="not complete in time"):
        api_of(placement, PATIENCE).request("GET", "/resource_providers")


def no_answer(it: Peer) -> None:
    it.close_connection = True


def test_a_refused_connection_is_unsent_and_a_lost_one_may_have_been_done() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        refused = PlacementAPI(token_adapter(url, "token"))
        with pytest.raises(Unreachable) as unsent:
            refused.request("GET", "/x")
        assert unsent.value.unsent
    with peer(no_answer) as placement, pytest.raises(Unreachable) as told:
        api_of(placement).request("GET", "/x")
    assert not told.value.unsent


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, (1, 1, 1, 1, 1)), ({"longest_wait": 4 * PATIENCE}, (1, 2, 4, 4, 1))],
)
def test_a_time_out_doubles_up_to_a_limit_until_an_answer_comes(
    monkeypatch, options, expected
) -> None:
    waits: list[float | None] = []
    sends = Transport.send

    def send(self: Transport, request: object, **options: Any) -> object:
        waits.append(options["timeout"])
        return sends(self, request, **options)

    monkeypatch.setattr(Transport, "send", send)
    answers: list[Answer] = []
    with peer(lambda it: answers.pop(0)(it)) as placement:
        api = api_of(placement, PATIENCE, **options)
        for each in (api.tagged("req-1"), api, api.tagged("req-2")):
            answers.append(lambda it: it.server.closing.wait(20 * PATIENCE))
            with pytest.raises(Unreachable, match=r"timed out; .*, raise timeout \(0\.2 s\)$"):
                each.request("GET", "/x")
        for _ in range(2):
            answers.append(lambda it: it.say(LISTED))
            api.request("GET", "/x")
    assert waits == [PATIENCE * n for n in expected]


@pytest.mark.parametrize(
    ("answers", "said"),
    [(True, "does not speak TLS: is http:// meant"), (False, "no TLS handshake with .* 0.2 s: is")],
)
def test_https_on_a_port_of_http_says_so_and_raises_no_timeout(answers: bool, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        if answers:
            thread = threading.Thread(target=lambda: server.accept()[0].sendall(b"HTTP/1.0 400\n"))
            thread.start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        api = token_adapter(url, "x")
        api.session.timeout = PATIENCE
        with pytest.raises(Unreachable, match=said) as caught:
            PlacementAPI(api).request("GET", "/x")
    assert "raise timeout" not in str(caught.value)


@pytest.mark.parametrize(
    ("sent", "headers"), [(LISTED, {}), (gzip.compress(LISTED), {"Content_Encoding": "gzip"})]
)
def test_a_large_answer_is_taken_up_to_the_limit_once_it_is_unpacked(
    sent: bytes, headers: dict[str, str]
) -> None:
    with peer(lambda it: it.say(sent, **headers)) as placement:
        assert api_of(placement, limit=len(LISTED)).request("GET", "/x") == LISTING
        with pytest.raises(Unreachable, match=r"GET /x.*larger than .* MiB"):
            api_of(placement, limit=len(LISTED) - 1).request("GET", "/x")


def test_the_connection_is_used_again() -> None:
    with peer(lambda it: it.say(LISTED)) as placement:
        ports: list[int] = []
        placement.answer = lambda it: (ports.append(it.client_address[1]), it.say(LISTED))
        api = api_of(placement)
        for _ in range(3):
            api.request("GET", "/x")
        assert len(set(ports)) == 1
        assert Transport().poolmanager is not None


@pytest.mark.parametrize(
    ("since", "days", "trusted", "why"),
    [
        (-2, -1, True, "certificate has expired"),
        (1, 2, True, "certificate is not yet valid"),
        (0, 2, False, ".*certificate"),
    ],
)
def test_a_certificate_that_is_not_accepted_is_named_with_the_reason(
    tmp_path, since: int, days: int, trusted: bool, why: str
) -> None:
    authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
    authority.issue(days, since)
    ca = authority.ca if trusted else other.ca
    with TlsProxy(authority, 9) as proxy:
        made = session.Session(token_endpoint.Token(proxy.url, "t"), verify=str(ca))
        api = PlacementAPI(adapter.Adapter(bounded_session(made), "placement"))
        text = f"the certificate of 127.0.0.1:{proxy.port} is not accepted: {why}"
        with pytest.raises(Unreachable, match=text):
            api.request("GET", "/resource_providers")


@pytest.mark.parametrize(
    ("scheme", "dead", "why"),
    [
        ("http", True, "127.0.0.1 (see http_proxy, https_proxy, no_proxy): Connection refused"),
        ("https", True, "127.0.0.1 (see http_proxy, https_proxy, no_proxy): Connection refused"),
        ("https", False, "(see http_proxy, https_proxy, no_proxy): Tunnel connection failed: 403"),
    ],
)
def test_a_proxy_of_the_environment_is_named_in_an_error(
    monkeypatch: pytest.MonkeyPatch, scheme: str, dead: bool, why: str
) -> None:
    """One that the service got with its environment is what nobody thinks of."""
    with peer(lambda it: it.say(b"", 403)) as proxy:
        url = f"http://127.0.0.1:{free_port()}" if dead else proxy.url
        monkeypatch.setenv(f"{scheme}_proxy", url)
        monkeypatch.delenv("no_proxy", raising=False)
        api = PlacementAPI(token_adapter(f"{scheme}://placement.example:8778", "secret"))
        with pytest.raises(Unreachable) as failed:
            api.request("GET", "/resource_providers")
    address = f"Unable to establish connection to {scheme}://placement.example:8778"
    assert f"{address} through the proxy {why}" in str(failed.value)
