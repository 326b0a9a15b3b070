"""The page of the fleet in a real browser: a thousand hosts, one of them in a real Placement."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from compute_registry.database.tables import ROOTS, SERVICES
from driverkit.placement.server import TOKEN
from tests.registries import url_in
from tests.servers import fleet_pages
from tests.servers.browser import Browser
from tests.servers.placement import RealPlacement
from tests.servers.ports import free_port
from tests.servers.registry import RegistryProcess, fetch

pytestmark = pytest.mark.needs("browser")

HOSTS = 1000
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
ROWS = "Array.from(document.querySelectorAll('tbody tr')).filter((row) => !row.hidden)"
NAMES = f"{ROWS}.map((row) => row.querySelector('th').textContent)"
TOO_WIDE = "document.documentElement.scrollWidth > innerWidth"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with Browser() as tab:
        yield tab


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where its page is."""
    directory, port = tmp_path_factory.mktemp("fleet"), free_port()
    with RealPlacement(directory / "placement") as placement:
        made = placement.request("POST", "/resource_providers", json={"name": "host7 <b>&"})
        path = f"/resource_providers/{made['uuid']}/inventories"
        amounts = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
        placement.request("PUT", path, json=amounts)
        more = (
            f"rest_port = {port}\nauth_strategy = noauth\nservice_down_time = 86400\n"
            f"[placement]\nauth_type = admin_token\ntoken = {TOKEN}\nendpoint = {placement.url}\n"
        )
        with RegistryProcess(directory, more=more):
            write_hosts(directory, made["uuid"])
            yield f"http://127.0.0.1:{port}/fleet"


def write_hosts(directory: Path, root: str) -> None:
    hosts = [a_host(number, time.time()) for number in range(HOSTS)]
    engine = sa.create_engine(url_in(directory), connect_args={"timeout": 60})
    with engine.begin() as connection:
        connection.execute(sa.insert(SERVICES), hosts)
        connection.execute(sa.insert(ROOTS).values(root=root, service_id=hosts[7]["id"]))
    engine.dispose()


def a_host(number: int, now: float) -> dict[str, object]:
    disabled = number in (7, 8)
    return {
        "id": number + 1,
        "host": f"host{number}",
        "uuid": f"6810453c-a8bc-5a3d-9e45-{number:012d}",
        "binary": "nova-compute",
        "disabled": disabled,
        "disabled_reason": {7: HOSTILE, 8: "new disks"}.get(number),
        "disabled_at": now - 3 * 86400 if disabled else None,
        "forced_down": number == 9,
        "rpc_version": "6.5",
        "last_seen": now,
        "heard": now,
        "address": f"rack {number // 40}",
        "version": 1,
        "attached": False,
        "agent_version": "",
        "degraded": "",
    }


def test_a_thousand_hosts_are_listed_without_an_error_of_the_browser(
    chromium: Browser, fleet: str
) -> None:
    chromium.open(fleet)
    names = chromium.run(NAMES)
    assert len(names) == HOSTS and names.index("host2") < names.index("host10")
    assert chromium.run("document.title") == "Fleet · compute-registry"
    assert chromium.run("getComputedStyle(document.querySelector('table')).borderCollapse") == (
        "collapse"
    )
    assert chromium.problems == []


def test_a_search_survives_a_refresh_and_no_match_is_a_sentence(
    chromium: Browser, fleet: str
) -> None:
    chromium.open(fleet)
    chromium.type("#q", "Forced")
    chromium.until(f"{ROWS}.length == 1")
    assert chromium.run("document.getElementById('shown').textContent") == "1"
    chromium.open(chromium.run("location.href"))
    assert chromium.run(NAMES) == ["host9"]
    chromium.type("#q", "x")
    chromium.until("document.getElementById('list').textContent.includes('No host has “')")
    assert chromium.problems == []


def test_the_page_is_used_with_the_keyboard(chromium: Browser, fleet: str) -> None:
    chromium.open(fleet)
    chromium.press("/")
    assert chromium.run("document.activeElement.id") == "q"
    for keys, host in ((["ArrowDown"], "host7"), (["ArrowDown"], "host9"), (["ArrowUp"], "host7")):
        for key in keys:
            chromium.press(key)
        assert chromium.run("document.activeElement.textContent") == host
    chromium.press("ArrowUp")
    assert chromium.run("document.activeElement.id") == "q"
    chromium.open(f"{fleet}/host7")
    chromium.press("/", to_another=True)
    chromium.until("document.activeElement.id == 'q'")


def test_what_is_disabled_is_one_click_away_and_says_since_when(
    chromium: Browser, fleet: str
) -> None:
    chromium.open(fleet)
    chromium.click("a[href*='show=disabled']")
    assert chromium.run(NAMES) == ["host7", "host8"]
    text = chromium.run(f"{ROWS}[1].textContent")
    assert "(3 d)" in text and "new disks" in text


def test_a_refresh_keeps_the_filter_and_the_switch(chromium: Browser, fleet: str) -> None:
    chromium.open(fleet)
    chromium.type("#q", "rack 24")
    chromium.until(f"{ROWS}.length == 40")
    chromium.run("document.getElementById('refresh').click()")
    chromium.open(chromium.run("location.href"))
    chromium.until(f"{ROWS}.length == 40")
    assert not chromium.run("document.getElementById('refresh').checked")


def test_what_others_wrote_is_text_and_the_tree_a_list(chromium: Browser, fleet: str) -> None:
    chromium.open(fleet)
    chromium.click("a[href='/fleet/host7']")
    assert chromium.run("document.title") == "host7 · compute-registry"
    assert HOSTILE in chromium.run("document.querySelector('dl').textContent")
    assert "host7 <b>&" in chromium.run("document.querySelector('.tree summary').textContent")
    assert chromium.run("document.querySelector('.tree tbody tr + tr th').textContent") == "VCPU"
    assert chromium.problems == []


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_follows_its_colours(
    chromium: Browser, fleet: str, tmp_path: Path, dark: bool
) -> None:
    chromium.shown_as(360, 740, dark=dark)
    for page in (fleet, f"{fleet}/host7", f"{fleet}/nobody"):
        chromium.open(page)
        assert not chromium.run(TOO_WIDE)
        paper = chromium.run("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") is not dark
        chromium.screenshot(tmp_path / "page.png")
        assert (tmp_path / "page.png").stat().st_size > 5000
    chromium.shown_as(1280, 900)


def test_nothing_of_another_site_may_be_loaded_or_run(fleet: str) -> None:
    _, headers, body = fetch(fleet)
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert not re.search(rb"""=\s*["']?https?:""", body)


@pytest.fixture(scope="module")
def scripted() -> Iterator[str]:
    """Where the page of the fleet is that the pictures in the documentation show."""
    with fleet_pages.served() as url:
        yield url


@pytest.mark.parametrize(("width", "height"), fleet_pages.SIZES)
def test_no_name_is_broken_and_no_page_is_wider_than_its_window(
    chromium: Browser, scripted: str, width: int, height: int
) -> None:
    chromium.shown_as(width, height)
    chromium.open(scripted)
    assert not chromium.run(TOO_WIDE)
    links = "Array.from(document.querySelectorAll('tbody th a'))"
    assert chromium.run(f"{links}.every((a) => a.getClientRects().length <= 2)")
    lines = f"{links}.map((a) => Math.round(a.getBoundingClientRect().height))"
    assert len(set(chromium.run(lines))) == 1
    if width > 1000:
        seen = f"{ROWS}.filter((r) => r.getBoundingClientRect().bottom <= innerHeight).length"
        assert chromium.run(seen) >= 20
    chromium.open(f"{scripted}{fleet_pages.HOST}")
    assert not chromium.run(TOO_WIDE)
    chromium.shown_as(1280, 900)


def test_the_table_of_a_tree_has_one_head_and_aligned_columns(
    chromium: Browser, scripted: str
) -> None:
    chromium.open(f"{scripted}{fleet_pages.HOST}")
    assert chromium.run("document.querySelectorAll('.tree thead').length") == 1
    right = "getBoundingClientRect().right"
    cells = "Array.from(document.querySelectorAll('.tree td:nth-child(2):not(.last)'))"
    assert chromium.run(f"new Set({cells}.map((cell) => cell.{right})).size") == 1
