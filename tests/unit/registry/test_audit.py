"""CADF events of the REST interface, where [audit] is enabled."""

from pathlib import Path
from typing import Any

import pytest

from agent.config import ConfigError
from compute_registry import config
from compute_registry.web import with_audit
from tests.unit.registry.test_rest import UUID, Api

MAP = Path(__file__).parents[3] / "etc" / "compute-registry" / "api_audit_map.conf"


def audited(tmp_path: Path, audit_map: Path) -> Any:
    file = tmp_path / "r.conf"
    file.write_text(
        f"[audit]\nenabled = true\naudit_map_file = {audit_map}\nignore_req_list = GET\n"
        "[audit_middleware_notifications]\nuse_oslo_messaging = false\n"
    )
    api = Api()
    api.application = with_audit(api.application, config.load_config(["--config-file", str(file)]))
    return api


def test_a_change_is_an_event_with_who_and_how_it_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    api = audited(tmp_path, MAP)
    who = {"HTTP_X_USER_ID": "u1", "HTTP_X_USER_NAME": "eve", "HTTP_X_PROJECT_ID": "p1"}
    who |= {"HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_AUTH_TOKEN": "secret"}
    assert api("GET", "/v2.1/os-services", version="2.90", **who)[0] == 200
    body = {"status": "disabled"}
    assert api("PUT", f"/v2.1/os-services/{UUID}", body, "2.90", **who)[0] == 200
    events = [each for each in caplog.messages if "Event type" in each]
    assert [each.split(",")[0] for each in events] == [
        "Event type: audit.http.request",
        "Event type: audit.http.response",
    ]
    assert "'name': 'eve'" in events[1] and "'outcome': 'success'" in events[1]
    assert f"/v2.1/os-services/{UUID}" in events[1]


def test_a_map_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="audit_map_file .*/nothing"):
        audited(tmp_path, tmp_path / "nothing")
