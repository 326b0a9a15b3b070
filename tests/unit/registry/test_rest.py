"""os-services as HTTP has it, over a registry in memory."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg
from oslo_log.formatters import ContextFormatter
from oslo_log.log import register_options
from werkzeug.test import Client

from agent.registry.checks import HeartbeatMessage
from compute_registry.control import Control
from compute_registry.rest.policy import allowed_by_policy
from compute_registry.web import RequestIds, registry_app
from tests.registries import registry_at
from tests.servers.process import completed
from tests.servers.reference import reference_python
from tests.unit.registry.fakes import Agents, OneRecord, record

UUID = record().uuid
OTHER = "00000000-0000-0000-0000-000000000000"


class Api:
    def __init__(self, **fields: object) -> None:
        self.log: list[object] = []
        self.registry = OneRecord(record(**fields), self.log)
        self.agents = Agents(self.log)
        self.control = Control(self.registry, self.agents)
        self.application: Any = RequestIds(registry_app(self.control))

    def __call__(
        self, method: str, path: str, body: Any = None, version: str | None = None, **headers: str
    ) -> tuple[int, Any]:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        if version:
            headers["HTTP_OPENSTACK_API_VERSION"] = f"compute {version}"
        answer = Client(self.application).open(
            path, method=method, data=text, environ_overrides=headers
        )
        self.headers = answer.headers
        return answer.status_code, json.loads(answer.data) if answer.data else None


def test_clients_find_out_which_versions_there_are() -> None:
    api = Api()
    status, found = api("GET", "/")
    version = found["versions"][0]
    assert (status, version["id"], version["min_version"], version["version"]) == (
        *(200, "v2.1", "2.1"),
        "2.104",
    )
    assert api("GET", "/v2.1")[1]["version"] == api("GET", "/v2.1/")[1]["version"]


@pytest.mark.parametrize(
    ("version", "id_", "forced_down"),
    [(None, 1, False), ("2.1", 1, False), ("2.10", 1, False), ("2.11", 1, True), ("2.52", 1, True)]
    + [("2.53", UUID, True), ("latest", UUID, True)],
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
    said = {None: "2.1", "latest": "2.104"}.get(version, version)
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
    ("version", "status"),
    [("2.105", 406), ("2.0", 406), ("3.1", 406), ("two", 400), ("2.01", 400)]
    + [(f"2.{'9' * 5000}", 400), ("2.\N{SUPERSCRIPT TWO}", 400)],
)
def test_versions_that_are_not_served_are_refused(version: str, status: int) -> None:
    found, said = Api()("GET", "/v2.1/os-services", version=version)
    assert found == status
    if status == 406:  # the name of the error as in Nova
        assert "use 2.1 to 2.104" in said["computeFault"]["message"]


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


def test_an_attached_host_is_refused_with_novas_command() -> None:
    api = Api(attached=True)
    status, said = api("PUT", f"/v2.1/os-services/{UUID}", {"status": "disabled"}, version="2.53")
    assert status == 409
    assert "openstack compute service set --disable host1 nova-compute" in json.dumps(said)
    assert api.log == []


def test_one_call_changes_status_reason_and_forced_down() -> None:
    api = Api()
    body = {"status": "disabled", "disabled_reason": "why", "forced_down": True}
    status, found = api("PUT", f"/v2.1/os-services/{UUID}", body, "2.53")
    assert (status, found["service"]["disabled_reason"]) == (200, "why")
    assert (found["service"]["state"], found["service"]["forced_down"]) == ("down", True)
    assert ("record", "host1", True, "why") in api.log


@pytest.mark.parametrize(
    "body",
    [
        *({}, [], b"{", b""),
        *({"status": status} for status in ("off", None)),
        *({"forced_down": value} for value in ("maybe", 1, None, [], {"on": True})),
        *(
            {"status": "disabled", "disabled_reason": text}
            for text in ("", None, "x" * 256, "AUTO: x")
        ),
        {"disabled_reason": "why"},
        {"status": "enabled", "disabled_reason": "why"},
        {"status": "enabled", "disabled_reason": "why", "forced_down": True},
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
        ("GET", f"/v2.1/os-services/{OTHER}", 404),
        ("PUT", f"/v2.1/os-services/{OTHER}", 404),
        ("DELETE", f"/v2.1/os-services/{OTHER}", 404),
        ("GET", "/v2.1/os-services/nobody", 400),
        ("PUT", "/v2.1/os-services/nobody", 400),
        ("DELETE", "/v2.1/os-services/1", 400),
        ("GET", "/v2.1/os-hypervisors", 404),
        ("POST", "/v2.1/os-services", 405),
        ("PUT", "/v2.1/os-services", 405),
        ("PUT", "/v2.1/os-services/enable", 400),
    ],
)
def test_what_is_not_there_is_said(method: str, path: str, status: int) -> None:
    assert Api()(method, path, {"forced_down": True}, "2.53")[0] == status


def test_a_service_is_deleted_without_a_body_in_the_answer() -> None:
    api = Api()
    assert api("DELETE", f"/v2.1/os-services/{UUID}", version="2.53") == (204, None)
    assert api.log == [("delete", "host1")]


# -- before 2.53; Horizon and Terraform's provider use 2.1

HOST = {"host": "host1", "binary": "nova-compute"}


@pytest.mark.parametrize("version", ["2.1", "2.53"])
def test_a_reason_is_answered_as_it_is_stored_which_no_terminal_obeys(
    version: str, tmp_path: Path
) -> None:
    store = registry_at(tmp_path)
    host = store.heartbeat(HeartbeatMessage("host1", "a1", None, ()))
    api = Api()
    api.application = registry_app(Control(store, None))
    reason = {"disabled_reason": "\u202eksid\u200b \x1b[2J\nnew"}
    action, body = ("disable-log-reason", HOST) if version == "2.1" else (host.uuid, {})
    body = body | ({"status": "disabled"} if version == "2.53" else {}) | reason
    code, found = api("PUT", f"/v2.1/os-services/{action}", body, version)
    stored = r"\u202eksid\u200b \x1b[2J new"
    assert (code, found["service"]["disabled_reason"]) == (200, stored)
    [service] = api("GET", "/v2.1/os-services", version=version)[1]["services"]
    assert service["disabled_reason"] == stored


def test_the_older_calls_do_the_same() -> None:
    api = Api()
    for action, more, status in (
        ("disable", {}, "disabled"),
        ("disable-log-reason", {"disabled_reason": "why"}, "disabled"),
        ("enable", {}, "enabled"),
    ):
        code, found = api("PUT", f"/v2.1/os-services/{action}", HOST | more)
        assert (code, found["service"]) == (200, HOST | more | {"status": status})
    assert [entry for entry in api.log if entry[0] != "call"] == [
        ("record", "host1", True, None),
        ("record", "host1", True, "why"),
        ("record", "host1", False, None),
    ]


@pytest.mark.parametrize(
    ("action", "body", "version", "status"),
    [
        ("force-down", HOST | {"forced_down": True}, "2.10", 404),
        ("force-down", HOST, "2.11", 400),
        ("force-down", HOST | {"forced_down": "maybe"}, "2.52", 400),
        ("force-down", HOST | {"forced_down": True, "status": "disabled"}, "2.11", 400),
        ("disable", {"host": "host1"}, "2.1", 400),
        ("disable", HOST | {"host": "other"}, "2.1", 404),
        ("disable", HOST | {"binary": "nova-scheduler"}, "2.1", 400),
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


@pytest.mark.parametrize("version", ["2.11", "2.52"])
def test_before_uuids_a_service_is_forced_down_by_action_deleted_by_number(version: str) -> None:
    api = Api()
    for forced_down in (True, False):
        body = HOST | {"forced_down": forced_down}
        assert api("PUT", "/v2.1/os-services/force-down", body, version) == (200, {"service": body})
    assert api("PUT", "/v2.1/os-services/disable", HOST, version)[0] == 200
    assert api("DELETE", "/v2.1/os-services/2", version=version)[0] == 404
    assert api("DELETE", "/v2.1/os-services/1", version=version) == (204, None)
    changes = [entry for entry in api.log if entry[0] != "call"]
    assert changes == [
        ("forced_down", "host1", True),
        ("forced_down", "host1", False),
        ("record", "host1", True, None),
        ("delete", "host1"),
    ]


@pytest.mark.parametrize("said", ["true", "True", "1", "on", "yes"])
def test_forced_down_may_be_a_text_as_with_nova(said: str) -> None:
    api = Api()
    status, found = api("PUT", f"/v2.1/os-services/{UUID}", {"forced_down": said}, "2.53")
    assert (status, found["service"]["forced_down"]) == (200, True)
    assert api("PUT", f"/v2.1/os-services/{UUID}", {"forced_down": "off"}, "2.90")[0] == 200
    changes = [("forced_down", "host1", True), ("forced_down", "host1", False)]
    assert [one for one in api.log if one[0] == "forced_down"] == changes


# -- later versions


@pytest.mark.parametrize(
    ("path", "version", "status"),
    [
        ("/os-services?mood=fine", "2.74", 200),
        ("/os-services?mood=fine", "2.75", 400),
        ("/os-services?mood", "2.75", 400),
        ("/os-services?host=host1&binary=nova-compute", "2.104", 200),
    ],
)
def test_unknown_query_parameters_are_refused_from_novas_version_on(
    path: str, version: str, status: int
) -> None:
    assert Api()("GET", f"/v2.1{path}", version=version)[0] == status


@pytest.mark.parametrize(
    ("wrong", "status"),
    [({"QUERY_STRING": "host=\xff"}, 400), ({"HTTP_HOST": "[::1"}, 200)]
    + [({"PATH_INFO": "/v2.1/os-services/\xff"}, 400), ({"CONTENT_TYPE": "\xff;="}, 200)],
)
def test_bytes_that_are_no_text_are_refused_as_an_error_of_the_caller(
    wrong: dict[str, str], status: int
) -> None:
    assert Api()("GET", "/v2.1/os-services", version="2.90", **wrong)[0] == status


@pytest.mark.parametrize("body", [b"[" * 60000, b"{" + b'"a":{' * 9000, b"\xff", b"1" * 5000])
def test_a_body_that_no_parser_likes_is_refused(body: bytes) -> None:
    status, said = Api()("PUT", f"/v2.1/os-services/{UUID}", body, "2.90")
    assert status == 400 and said["badRequest"]["message"].startswith("the body ")


ASKED = [
    ("index_response", "GET", "/os-services", "2.1"),
    ("index_response_v253", "GET", "/os-services", "2.53"),
    ("index_response_v269", "GET", "/os-services", "2.104"),
    ("update_response_v253", "PUT", f"/os-services/{UUID}", "2.53"),
    ("update_response_v269", "PUT", f"/os-services/{UUID}", "2.90"),
]
"""Nova's schema, and the request whose answer it describes."""
NOVA_FIELDS = Path(__file__).parent / "data" / "nova-fields.json"
"""By schema, the fields that an answer may have and those that it must have, as Nova has them;
``COMPUTE_AGENT_WRITE_NOVA_FIELDS=yes`` with Nova installed writes it anew."""
NOVA_CHECKS = """
import json, sys
from jsonschema import Draft4Validator
from nova.api.openstack.compute.schemas import services


def fields(schema, at=""):
    for kind in (schema, *schema.get("oneOf", ()), *schema.get("anyOf", ())):
        for name, below in kind.get("properties", {}).items():
            yield f"{at}.{name}", name in kind.get("required", ())
            yield from fields(below, f"{at}.{name}")
        for below in kind.get("patternProperties", {}).values():
            yield f"{at}.*", False
            yield from fields(below, f"{at}.*")
        if isinstance(kind.get("items"), dict):
            yield from fields(kind["items"], at)


found = {}
for name, answer in json.load(sys.stdin):
    schema = getattr(services, name)
    Draft4Validator(schema).validate(answer)
    listed = dict(fields(schema))
    found[name] = {
        "may": sorted(listed), "must": sorted(one for one, must in listed.items() if must)
    }
print(json.dumps(found, indent=1, sort_keys=True))
"""


def answers() -> list[tuple[str, Any]]:
    """The schema and the answer of each request of ``ASKED``."""
    api, found = Api(disabled=True, disabled_reason="why"), []
    for schema, method, path, version in ASKED:
        status, answer = api(method, f"/v2.1{path}", {"status": "enabled"}, version)
        assert status == 200, (path, version, answer)
        found.append((schema, answer))
    return found


def fields_of(answer: Any, may: set[str], at: str = "") -> set[str]:
    """Paths such as ``.services.binary``; a name that Nova leaves open is ``*``."""
    if isinstance(answer, list):
        return set[str]().union(*(fields_of(one, may, at) for one in answer))
    if not isinstance(answer, dict):
        return set()
    found = set()
    for name, below in answer.items():
        path = f"{at}.*" if f"{at}.*" in may else f"{at}.{name}"
        found |= {path, *fields_of(below, may, path)}
    return found


@pytest.mark.parametrize(("schema", "answer"), answers(), ids=lambda one: one)
def test_answers_have_the_fields_that_nova_allows_and_demands(schema: str, answer: Any) -> None:
    known = json.loads(NOVA_FIELDS.read_text())[schema]
    found = fields_of(answer, set(known["may"]))
    assert found <= set(known["may"]), "Nova's schema refuses these"
    top = {one.rpartition(".")[0] for one in found} | {""}
    assert {one for one in known["must"] if one.rpartition(".")[0] in top} <= found


@pytest.mark.slow
@pytest.mark.needs("nova")
def test_answers_have_the_shapes_that_nova_has_schemas_for() -> None:
    asked = (reference_python(), "-W", "ignore", "-c", NOVA_CHECKS)
    done = completed(*asked, input=json.dumps(answers()))
    assert done.returncode == 0, done.stderr
    if os.environ.get("COMPUTE_AGENT_WRITE_NOVA_FIELDS"):
        NOVA_FIELDS.write_text(done.stdout)
    assert json.loads(NOVA_FIELDS.read_text()) == json.loads(done.stdout), "Nova's have changed"


# -- what became of the call


def test_the_answer_says_what_became_of_the_call_to_the_agent() -> None:
    api = Api()
    api("PUT", f"/v2.1/os-services/{UUID}", {"status": "disabled"}, "2.53")
    assert api.headers["X-Compute-Agent"] == "called and answered: disabled"
    api = Api(silent_for=100.0)
    api("PUT", f"/v2.1/os-services/{UUID}", {"status": "disabled"}, "2.53")
    assert api.headers["X-Compute-Agent"].startswith("not called: host1 is down")


# -- who may


class Confirmed(Api):
    """Behind a Keystone that has confirmed a token, with a policy file or without."""

    def __init__(self, directory: Path, policy_file: str = "") -> None:
        super().__init__()
        (directory / "policy.yaml").write_text(policy_file)
        (directory / "r.conf").write_text("[DEFAULT]\n")
        conf = cfg.ConfigOpts()
        conf(["--config-file", str(directory / "r.conf")], default_config_dirs=[])
        allowed = allowed_by_policy(conf)
        self.application = RequestIds(registry_app(self.control, allowed))

    def by(self, roles: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        who = {"HTTP_X_ROLES": roles, "HTTP_X_USER_ID": "u1", "HTTP_X_PROJECT_ID": "p1"}
        who |= {"HTTP_X_USER_NAME": "eve", "REMOTE_ADDR": "192.0.2.7"}
        return self(method, path, body, "2.53", **who)


@pytest.mark.parametrize(
    ("roles", "status"),
    [("admin", 200), ("reader,Admin", 200), ("member,reader", 403), ("service", 403)]
    + [("administrator", 403), ("", 403)],
)
def test_only_administrators_come_through(tmp_path: Path, roles: str, status: int) -> None:
    api = Confirmed(tmp_path)
    assert api.by(roles, "GET", "/v2.1/os-services")[0] == status
    body = {"status": "disabled"}
    assert api.by(roles, "PUT", f"/v2.1/os-services/{UUID}", body)[0] == status
    assert bool(api.log) == (status == 200)


def test_a_policy_file_with_novas_rule_names_decides(tmp_path: Path) -> None:
    api = Confirmed(
        tmp_path,
        '"os_compute_api:os-services:list": "role:reader"\n'
        '"os_compute_api:os-services:update": "role:switcher"\n',
    )
    assert api.by("reader", "GET", "/v2.1/os-services")[0] == 200
    assert api.by("reader", "DELETE", f"/v2.1/os-services/{UUID}")[0] == 403
    body = {"status": "disabled"}
    assert api.by("switcher", "PUT", f"/v2.1/os-services/{UUID}", body)[0] == 200
    status, refused = api.by("admin", "PUT", f"/v2.1/os-services/{UUID}", body)
    assert status == 403
    assert "os_compute_api:os-services:update" in refused["forbidden"]["message"]


def test_the_log_has_user_address_and_reason_under_the_request_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    api = Confirmed(tmp_path)
    body = {"status": "disabled", "disabled_reason": "new disks"}
    api.by("admin", "PUT", f"/v2.1/os-services/{UUID}", body)
    request_id = api.headers["X-OpenStack-Request-ID"]
    conf = cfg.ConfigOpts()
    register_options(conf)
    lines = map(ContextFormatter(config=conf).format, caplog.records)
    line = next(each for each in lines if "host1 is disabled now" in each)
    assert set(re.findall(r"req-[-\w]+", line)) == {request_id}
    assert "(new disks)" in line and "by eve (u1)" in line
    assert "from 192.0.2.7" in line
    assert api.agents.about["request_id"] == request_id
    assert api.agents.about["reason"] == "new disks"
    assert api.agents.about["user_name"] == "eve (u1)"
