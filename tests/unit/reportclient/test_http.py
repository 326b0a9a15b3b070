"""The door to Placement, with an adapter that answers as it is told."""

from __future__ import annotations

import json

import pytest

from reportclient import http
from reportclient.errors import TooOld, Unreachable


class Answer:
    def __init__(self, status, body):
        self.status_code, self.content, self.headers = status, json.dumps(body).encode(), {}


class Adapter:
    """An old Placement, until it is upgraded."""

    def __init__(self, newest):
        self.newest, self.asked = newest, []

    def request(self, path, method, *, microversion, **_):
        self.asked.append(microversion)
        if http._number(microversion) > http._number(self.newest):
            error = {"status": 406, "max_version": self.newest, "min_version": "1.0"}
            return Answer(406, {"errors": [error]})
        return Answer(200, {"resource_providers": []})


def test_an_upgraded_placement_is_noticed_without_a_restart(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(http.time, "monotonic", lambda: now[0])
    adapter = Adapter("1.36")
    api = http.PlacementAPI(adapter)
    api.request("GET", "/resource_providers")
    adapter.newest = "1.39"
    api.request("GET", "/resource_providers")
    now[0] = http.UPGRADES_SEEN_WITHIN + 1
    api.request("GET", "/resource_providers")
    assert adapter.asked == ["1.39", "1.36", "1.36", "1.39"]


def test_what_a_placement_below_the_minimum_could_not_do_is_asked_again_later(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(http.time, "monotonic", lambda: now[0])
    adapter = Adapter("1.20")
    api = http.PlacementAPI(adapter)
    for _ in range(3):
        with pytest.raises(TooOld, match=r"1\.30.*1\.20"):
            api.request("GET", "/resource_providers")
    assert len(adapter.asked) == 1
    adapter.newest, now[0] = "1.39", http.UPGRADES_SEEN_WITHIN + 1
    assert api.request("GET", "/resource_providers") == {"resource_providers": []}


def test_a_ca_file_that_is_not_there_is_no_traceback():
    class Broken:
        def request(self, *_, **__):
            raise OSError("Could not find a suitable TLS CA certificate bundle: /etc/none.pem")

    with pytest.raises(Unreachable, match=r"/etc/none\.pem"):
        http.PlacementAPI(Broken()).request("GET", "/")
