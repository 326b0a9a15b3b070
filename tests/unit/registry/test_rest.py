"""os-services as HTTP has it, over a registry in memory."""

from __future__ import annotations

import io
import json
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest

from agent.registry.control import Control
from agent.registry.rest import Discovery, ServicesApplication
from agent.registry.rest_access import OnlyRoles
from agent.registry.rest_services import Services
from tests.unit.registry.fakes import Agents, OneRecord, record

UUID = record().uuid


class Api:
    def __init__(self, **fields: object) -> None:
        self.log: list[object] = []
        self.registry = OneRecord(record(**fields), self.log)
        control = Control(self.registry, Agents(self.log))
        self.application = Discovery(ServicesApplication(Services(control)))

    def __call__(
        self, method: str, path: str, body: Any = None, version: str | None = None, **headers: str
    ) -> tuple[int, Any]:
        path, _, query = path.partition("?")
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path}
        environ |= {"QUERY_STRING": query, "wsgi.input": io.BytesIO(text), **headers}
        environ["CONTENT_LENGTH"] = str(len(text))
        if version:
            environ["HTTP_OPENSTACK_API_VERSION"] = f"compute {version}"
        setup_testing_defaults(environ)
        self.status, self.headers = "", {}

        def start(status: str, headers: list[tuple[str, str]]) -> None:
            self.status, self.headers = status, dict(headers)

        answer = b"".join(self.application(environ, start))
        return int(self.status[:3]), json.loads(answer) if answer else None


def test_clients_find_out_which_versions_there_are() -> None:
    api = Api()
    status, found = api("GET", "/")
    version = found["versions"][0]
    assert (status, version["id"], version["min_version"], version["version"]) == (
        *(200, "v2.1", "2.1"),
        "2.53",
    )
    assert api("GET", "/v2.1")[1]["version"] == api("GET", "/v2.1/")[1]["version"]


@pytest.mark.parametrize(
    ("version", "id_", "forced_down"),
    [(None, 1, False), ("2.10", 1, False), ("2.11", 1, True), ("2.53", UUID, True)]
    + [("latest", UUID, True)],
)
def test_what_is_shown_depends_on_the_version(
    version: str | None, id_: object, forced_down: bool
) -> None:
    api = Api(disabled=True, disabled_reason="why")
    status, found = api("GET", "/v2.1/os-services", version=version)
    (service,) = found["services"]
    assert status == 200
    assert service["id"] == id_
    assert ("forced_down" in service) is forced_down
    assert (service["status"], service["state"]) == ("disabled", "up")
    assert service["disabled_reason"] == "why"
    assert service["updated_at"] == "2030-01-02T03:04:05.000678"
    said = {None: "2.1", "latest": "2.53"}.get(version, version)
    assert api.headers["OpenStack-API-Version"] == f"compute {said}"
    assert api.headers["X-OpenStack-Nova-API-Version"] == said


def test_the_old_header_is_understood_and_others_are_not_ours() -> None:
    api = Api()
    headers = {"HTTP_X_OPENSTACK_NOVA_API_VERSION": "2.53"}
    assert api("GET", "/v2.1/os-services", **headers)[1]["services"][0]["id"] == UUID
    headers = {"HTTP_OPENSTACK_API_VERSION": "identity 3.7, compute 2.53"}
    assert api("GET", "/v2.1/os-services", **headers)[1]["services"][0]["id"] == UUID
    headers = {"HTTP_OPENSTACK_API_VERSION": "placement 1.39"}
    assert api("GET", "/v2.1/os-services", **headers)[1]["services"][0]["id"] == 1


@pytest.mark.parametrize(
    ("version", "status"), [("2.54", 406), ("2.0", 406), ("3.1", 406), ("two", 400), ("2.01", 400)]
)
def test_versions_that_are_not_served_are_refused(version: str, status: int) -> None:
    assert Api()("GET", "/v2.1/os-services", version=version)[0] == status


@pytest.mark.parametrize(
    ("query", "count"),
    [("", 1), ("?host=host1", 1), ("?host=other", 0), ("?binary=nova-compute", 1)]
    + [("?binary=nova-scheduler", 0), ("?host=host1&binary=nova-compute", 1)],
)
def test_lists_are_narrowed_by_host_and_binary(query: str, count: int) -> None:
    assert len(Api()("GET", f"/v2.1/os-services{query}")[1]["services"]) == count


def test_a_project_in_the_path_is_passed_over() -> None:
    path = "/v2.1/0123456789abcdef0123456789abcdef/os-services"
    assert Api()("GET", path)[0] == 200


# -- 2.53


def test_one_call_changes_status_reason_and_forced_down() -> None:
    api = Api()
    body = {"status": "disabled", "disabled_reason": "why", "forced_down": True}
    status, found = api("PUT", f"/v2.1/os-services/{UUID}", body, "2.53")
    assert (status, found["service"]["disabled_reason"]) == (200, "why")
    assert (found["service"]["state"], found["service"]["forced_down"]) == ("down", True)
    assert ("record", "host1", True, "why") in api.log


def test_a_host_that_is_up_is_called() -> None:
    api = Api()
    api("PUT", f"/v2.1/os-services/{UUID}", {"status": "disabled"}, "2.53")
    assert api.log == [("record", "host1", True, None), ("call", "host1", False)]


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        b"{",
        b"",
        {"status": "off"},
        {"status": None},
        {"forced_down": "yes"},
        {"forced_down": 1},
        {"disabled_reason": "why"},
        {"status": "enabled", "disabled_reason": "why"},
        {"status": "enabled", "disabled_reason": "why", "forced_down": True},
        {"status": "disabled", "disabled_reason": "x" * 256},
        {"status": "disabled", "binary": "nova-compute"},
    ],
)
def test_a_wrong_body_is_refused_and_changes_nothing(body: object) -> None:
    api = Api()
    status, found = api("PUT", f"/v2.1/os-services/{UUID}", body, "2.53")
    assert status == 400
    assert found["badRequest"]["message"]
    assert api.log == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2.1/servers", 404),
        ("GET", "/v2.1/os-services/nobody", 404),
        ("PUT", "/v2.1/os-services/nobody", 404),
        ("DELETE", "/v2.1/os-services/nobody", 404),
        ("POST", "/v2.1/os-services", 405),
        ("PUT", "/v2.1/os-services", 405),
        ("PUT", "/v2.1/os-services/enable", 404),
    ],
)
def test_what_is_not_there_is_said(method: str, path: str, status: int) -> None:
    assert Api()(method, path, {"forced_down": True}, "2.53")[0] == status


def test_a_service_is_deleted_without_a_body_in_the_answer() -> None:
    api = Api()
    assert api("DELETE", f"/v2.1/os-services/{UUID}", version="2.53") == (204, None)
    assert api("DELETE", "/v2.1/os-services/1") == (204, None)
    assert api.log == [("delete", "host1")] * 2


# -- 2.1 to 2.52

HOST = {"host": "host1", "binary": "nova-compute"}


def test_the_older_calls_do_the_same() -> None:
    api = Api()
    for action, more, status in (
        ("disable", {}, "disabled"),
        ("disable-log-reason", {"disabled_reason": "why"}, "disabled"),
        ("enable", {}, "enabled"),
    ):
        code, found = api("PUT", f"/v2.1/os-services/{action}", HOST | more)
        assert (code, found["service"]) == (200, HOST | more | {"status": status})
    code, found = api("PUT", "/v2.1/os-services/force-down", HOST | {"forced_down": True}, "2.11")
    assert (code, found["service"]) == (200, HOST | {"forced_down": True})
    assert [entry for entry in api.log if entry[0] != "call"] == [
        ("record", "host1", True, None),
        ("record", "host1", True, "why"),
        ("record", "host1", False, None),
        ("forced_down", "host1", True),
    ]


@pytest.mark.parametrize(
    ("action", "body", "version", "status"),
    [
        ("force-down", HOST | {"forced_down": True}, "2.10", 404),
        ("disable", {"host": "host1"}, "2.1", 400),
        ("disable", HOST | {"host": "other"}, "2.1", 404),
        ("disable", HOST | {"binary": "nova-scheduler"}, "2.1", 404),
        ("disable-log-reason", HOST, "2.1", 400),
        ("disable-log-reason", HOST | {"disabled_reason": " "}, "2.1", 400),
        ("disable-log-reason", HOST | {"disabled_reason": "x" * 256}, "2.1", 400),
        ("dance", HOST, "2.1", 404),
    ],
)
def test_wrong_older_calls_are_refused(
    action: str, body: dict[str, object], version: str, status: int
) -> None:
    api = Api()
    assert api("PUT", f"/v2.1/os-services/{action}", body, version)[0] == status
    assert api.log == []


# -- who may


@pytest.mark.parametrize(
    ("roles", "confirmed", "status"),
    [
        ("admin", "Confirmed", 200),
        ("reader, Service", "Confirmed", 200),
        ("member,reader", "Confirmed", 403),
        ("administrator", "Confirmed", 403),
        ("", "Confirmed", 403),
        ("admin", "Invalid", 403),
    ],
)
def test_only_admin_and_service_come_through(roles: str, confirmed: str, status: int) -> None:
    api = Api()
    api.application = OnlyRoles(api.application)
    headers = {"HTTP_X_ROLES": roles, "HTTP_X_IDENTITY_STATUS": confirmed}
    assert api("GET", "/v2.1/os-services", **headers)[0] == status
