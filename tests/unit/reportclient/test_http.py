"""The door to Placement, with an adapter that answers as it is told."""

import json
import re
import time
from datetime import UTC, datetime

import pytest
import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1.session import Session

from reportclient import http, replies
from reportclient.errors import (
    AuthenticationFailed,
    Conflict,
    Forbidden,
    NoEndpoint,
    NotFound,
    PlacementError,
    Rejected,
    TooNew,
    TooOld,
    Unreachable,
    WrongForm,
)
from reportclient.forms import parse_microversion


class Answer:
    url = "http://10.0.0.1:8778/resource_providers?in_tree=x"

    def __init__(self, status, body, headers=None):
        self.status_code, self.headers = status, headers or {}
        self.content = body if isinstance(body, bytes) else json.dumps(body).encode()


class Door:
    """What is used of an adapter; ``answer`` is returned or raised, ``given`` are all options."""

    url = "http://10.0.0.1:8778/resource_providers?in_tree=x"

    def __init__(self, answer, session=None):
        self.answer, self.session, self.given = answer, session or Session(), []

    def request(self, path, method, **options):
        self.given.append(options)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def invalidate(self):
        """As keystoneauth's adapter."""


def refused(status, content, **headers):
    """Return the error about an answer of whoever stands at Placement's address."""
    with pytest.raises(PlacementError) as told:
        ask(Answer(status, content, headers))
    return told.value


def ask(answer):
    return http.PlacementAPI(Door(answer)).request("GET", "/resource_providers")


class Adapter(Door):
    """An old Placement, until it is upgraded."""

    def __init__(self, newest):
        super().__init__(None)
        self.newest, self.asked = newest, []

    def request(self, path, method, *, microversion, **_):
        self.asked.append(microversion)
        if parse_microversion(microversion) > parse_microversion(self.newest):
            error = {"status": 406, "max_version": self.newest, "min_version": "1.0"}
            return Answer(406, {"errors": [error]})
        return Answer(200, {"resource_providers": []})


def test_a_request_is_sent_with_the_version_that_it_needs():
    adapter = Adapter("1.39")
    for needs in (None, "1.29", "1.30", "1.37", "1.39"):
        http.PlacementAPI(adapter).request("GET", "/resource_providers", needs=needs)
    assert adapter.asked == ["1.30", "1.30", "1.30", "1.37", "1.39"]


@pytest.mark.parametrize(
    ("newest", "needs", "says"),
    [
        ("1.36", "1.37", "PUT /x needs microversion 1.37; Placement has 1.36"),
        ("1.20", None, "PUT /x needs microversion 1.30; Placement has 1.20"),
    ],
)
def test_an_older_placement_is_named_with_what_it_has_and_asked_again(newest, needs, says):
    adapter = Adapter(newest)
    api = http.PlacementAPI(adapter)
    for _ in range(2):
        with pytest.raises(TooOld) as old:
            api.request("PUT", "/x", needs=needs)
    assert (str(old.value), old.value.newest, len(adapter.asked)) == (says, newest, 2)
    adapter.newest = "1.39"
    api.request("PUT", "/x", needs=needs)


def unacceptable(**versions):
    error = {"status": 406, "detail": "Unacceptable version header", **versions}
    return Answer(406, {"errors": [error]})


def test_a_placement_that_has_forgotten_all_of_our_versions_is_too_new():
    with pytest.raises(TooNew, match=r"microversion 1\.50 and later only.*needs 1\.30"):
        ask(unacceptable(min_version="1.50", max_version="1.60"))


@pytest.mark.parametrize(
    "versions",
    [
        {"max_version": "latest", "min_version": None},
        {"max_version": 1.1, "min_version": "1"},
        {"max_version": ["1.1"], "min_version": {"major": 2}},
        {"max_version": "1.\u0663", "min_version": "1.-2"},
        {"max_version": "9" * 5000 + ".1", "min_version": ""},
        {},
    ],
)
def test_versions_that_are_none_are_no_traceback(versions):
    with pytest.raises(TooOld, match="406"):
        ask(unacceptable(**versions))


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (
            OSError("Could not find a suitable TLS CA certificate bundle: /etc/none.pem"),
            Unreachable,
        ),
        (Exception("password is a required attribute"), AuthenticationFailed),
        (LookupError("a mistake of ours stays one"), LookupError),
    ],
)
def test_an_error_that_is_not_of_keystoneauth_is_no_traceback_but_ours_are(raised, kind):
    """keystoneauth finds only when it logs in that no password is set, and raises this."""
    with pytest.raises(kind, match=re.escape(str(raised))):
        ask(raised)


@pytest.mark.parametrize(("given", "seconds"), [(None, 60.0), (20.0, 20.0)])
def test_a_request_has_a_timeout_if_its_session_has_none(given, seconds):
    door = Door(Answer(200, {"resource_providers": []}), Session(timeout=given))
    http.PlacementAPI(door).request("GET", "/resource_providers")
    assert [options["timeout"] for options in door.given] == [seconds]


def test_a_callers_request_id_is_in_each_call():
    api = http.PlacementAPI(door := Door(Answer(200, {"resource_providers": []})))
    api.tagged("req-1").request("GET", "/resource_providers")
    api.request("GET", "/resource_providers")
    headers = [options["headers"] for options in door.given]
    assert headers == [{"X-Openstack-Request-Id": "req-1"}, {}]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("Sat, 21 Nov 2026 08:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 07:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("9999999", None),
        ("Sat, 99 Nov 2026 08:00:30 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header, seconds, monkeypatch):
    now = datetime(2026, 11, 21, 8, tzinfo=UTC).timestamp()
    monkeypatch.setattr(time, "time", lambda: now)
    err = refused(503, b"", **{"retry-after": header})
    assert isinstance(err, Unreachable)
    assert err.retry_after == seconds


def test_an_error_has_placements_status_code_and_detail():
    said = {"errors": [{"status": 409, "code": "placement.concurrent_update", "detail": "late"}]}
    err = refused(409, json.dumps(said).encode())
    assert isinstance(err, Conflict)
    assert (err.status, err.code, err.detail) == (409, "placement.concurrent_update", "late")


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        (400, "", "parent provider UUID does not exist."),
        (400, "", "creating loop in the provider tree is not allowed."),
        (400, "", "Resource provider 1 in inventories not found: No resource provider 1 found."),
        (400, "", "Allocation for resource provider '1' that does not exist."),
        (409, "placement.resource_provider.cannot_delete_parent", "It has child providers."),
    ],
)
def test_what_another_clients_change_of_the_tree_made_wrong_is_a_conflict(status, code, text):
    said = {"errors": [{"status": status, "code": code, "detail": text}]}
    assert isinstance(refused(status, json.dumps(said).encode()), Conflict)


@pytest.mark.parametrize("text", ["1.1_0", " 1.39", "1.-3", "1", "1.2.3", "latest", "", "1.٣"])
def test_a_microversion_is_two_decimal_numbers(text):
    with pytest.raises(ValueError, match="is not a microversion such as '1.39'"):
        parse_microversion(text)


@pytest.mark.parametrize(
    ("status", "said", "kind", "text"),
    [
        (
            401,
            b'{"error": {"code": 401, "title": "Unauthorized"}}',
            AuthenticationFailed,
            "401; Placement does not accept the credentials",
        ),
        (
            403,
            b'{"errors": [{"status": 403, "detail": "Policy forbids it."}]}',
            Forbidden,
            f"403 Policy forbids it; {replies.ROLE}",
        ),
        (
            200,
            b"<html>Welcome</html>",
            WrongForm,
            "200, and the answer of http://10.0.0.1:8778 is not in Placement's format; see what "
            "answers there",
        ),
        *(
            (
                status,
                b"<html>Sorry</html>",
                Unreachable if status == 429 else WrongForm,
                f"{status}, and the answer of http://10.0.0.1:8778 is not in Placement's format; "
                f"{step}",
            )
            for status, step in {
                403: "a gateway or proxy on the way refuses the request: see its rules",
                407: "a proxy wants credentials: see https_proxy, http_proxy and no_proxy",
                413: "a gateway or proxy limits the size of requests: raise its limit",
                429: "a gateway or proxy limits the rate of requests, which are sent again: raise "
                "its limit",
            }.items()
        ),
    ],
)
def test_an_error_names_the_cause_and_the_next_step(status, said, kind, text):
    err = refused(status, said)
    assert type(err) is kind and str(err) == f"GET /resource_providers: {text}"


@pytest.mark.parametrize(
    "said",
    [b"<html>Not Found</html>", b'{"errors": [{"detail": "The resource could not be found."}]}'],
)
def test_a_path_that_is_not_placements_is_told_with_the_next_step(said):
    err = refused(404, said)
    assert isinstance(err, Unreachable) and err.unsent
    assert str(err) == (
        "GET /resource_providers: 404, and the answer of http://10.0.0.1:8778 is not in "
        "Placement's format; is endpoint_override right?"
    )


def test_a_provider_that_is_not_there_is_no_wrong_path():
    detail = "The resource could not be found.\n\n   No resource provider with uuid x found  "
    err = refused(404, json.dumps({"errors": [{"detail": detail}]}).encode())
    assert isinstance(err, NotFound) and "endpoint" not in str(err)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, b"<html>Welcome</html>"),
        (200, b"[" * 1_000_000),
        (200, b'{"generation": 1'),
        (200, b'{"generation": NaN}'),
        (200, b"[]"),
        (200, b"\xff"),
        (200, b""),
        (302, b"moved"),
        (409, b'{"errors": [{"code": [], "detail": 5}]}'),
        (409, b'{"errors": {"detail": "no"}}'),
    ],
)
def test_an_answer_that_is_not_a_json_object_is_in_a_wrong_form(status, said):
    err = refused(status, said)
    assert isinstance(err, WrongForm) and "not in Placement's format" in str(err)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_gateways_page_for_a_placement_that_is_away_is_no_wrong_form(status):
    err = refused(status, b"<html>Bad Gateway</html>")
    assert type(err) is Unreachable and err.unsent == (status in (429, 503))


def test_an_error_whose_code_is_a_list_is_still_read():
    err = refused(409, b'{"errors": [{"code": ["late"], "detail": "conflict"}]}')
    assert isinstance(err, Rejected) and (err.code, err.detail) == (None, "conflict")


def test_an_endpoint_that_the_catalog_lacks_says_which_options_choose_it():
    with pytest.raises(NoEndpoint, match="^GET .* not sent: .* See endpoint_override, region_name"):
        ask(ksa.EndpointNotFound())


@pytest.mark.parametrize("error", [ksa.BadRequest, ksa.Unauthorized, ksa.Forbidden])
def test_what_keystone_refuses_is_no_missing_answer_of_placement(error):
    with pytest.raises(AuthenticationFailed, match="^Keystone refused the credentials: "):
        ask(error("id or name must be present"))


@pytest.mark.parametrize(
    ("inner", "cause"),
    [
        (
            "HTTPConnectionPool(host='10.0.0.1', port=8778): Max retries exceeded (Caused by "
            "NewConnectionError('<urllib3 object>: Failed: [Errno 111] Connection refused'))",
            "Connection refused",
        ),
        (
            "('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))",
            "Connection reset by peer",
        ),
        (
            "('Connection aborted.', RemoteDisconnected('Remote end closed connection'))",
            "('Connection aborted.', RemoteDisconnected('Remote end closed connection'))",
        ),
    ],
)
def test_a_lost_connection_is_told_in_the_systems_words(inner, cause):
    where = "http://10.0.0.1:8778/resource_providers"
    err = ksa.ConnectFailure(f"Unable to establish connection to {where}: {inner}")
    with pytest.raises(Unreachable) as told:
        ask(err)
    assert str(told.value) == (
        "no answer to GET /resource_providers: "
        f"Unable to establish connection to http://10.0.0.1:8778: {cause}"
    )


def test_a_clock_that_was_set_back_by_an_hour_delays_no_request(monkeypatch):
    api = http.PlacementAPI(http.token_adapter("http://placement", "admin"))
    early = time.time() - 3600
    monkeypatch.setattr(time, "time", lambda: early)
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(
        requests.Session, "send", lambda *_, **__: answered({"resource_providers": []})
    )
    assert api.request("GET", "/resource_providers") == {"resource_providers": []}
    assert not slept


def answered(body):
    response = requests.Response()
    response.status_code, response._content = 200, json.dumps(body).encode()
    response.headers["Content-Type"] = "application/json"
    return response
