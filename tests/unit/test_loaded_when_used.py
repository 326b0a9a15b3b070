"""What a way of running does not need, it does not load: memory on every host, and time to start."""

import json
import sys
from pathlib import Path

import os_traits
import pytest

from agent.ownership import policy
from agent.period import traits
from drivers import opts
from reportclient.candidates import request_filter
from tests.servers.process import completed

pytestmark = pytest.mark.slow

BUS = ("oslo_messaging", "kombu", "amqp", "agent.bus.messaging", "agent.switching.rpc")
DATABASE = ("sqlite3", "sqlalchemy", "oslo_db", "compute_registry.database")
FILE = ("sqlite3", "compute_registry.store")
SERVED = ("waitress", "keystonemiddleware", "oslo_policy", "compute_registry.service")
KIT = ("driverkit", "driverkit.scripted")
WORKSHOP = ("placement", "driverkit.dev", "driverkit.placement", "driverkit.contract", "pytest")
FILES = ("jsonschema", "referencing")
YAML = ("yaml", "drivers.yaml_file")
NUMBERS = ("prometheus_client", "agent.metrics.monitoring", "oslo_reports")
# Libraries load these where they are installed.
GUESTS = ("osprofiler", "webob", "charset_normalizer", "chardet", "eventlet")
ASKED = ("reportclient.candidates",)
DRAWING = ("computectl.drawing.text_tree", "computectl.drawing.dot")
COMMANDS = ("cliff", "computectl")
DRIVERS = ("libvirt", "drivers.libvirt", *KIT)
HYPERVISOR = ("drivers.libvirt", "os_traits")

ALONE = "transport_url =\n"
FLEET = "transport_url = rabbit://nobody:x@127.0.0.1:1/\n"
LIBVIRT = "[libvirt]\nconnection_uri = test:///default\n"
NEVER = (*SERVED, *WORKSHOP, *FILES, *DRAWING, *COMMANDS, *NUMBERS, *GUESTS)
ALL = (*BUS, *DATABASE, *SERVED, *WORKSHOP, *FILES)
WAYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "an agent of one host": (ALONE, (*BUS, *DATABASE, *NEVER, *ASKED, *HYPERVISOR)),
    "an agent beneath another service's root": (
        f"{ALONE}[compute]\nroot_provider = attach\n",
        (*BUS, *DATABASE, *NEVER, *ASKED, *HYPERVISOR),
    ),
    "an agent of a fleet": (
        f"{FLEET}[registry]\naccess = rpc\n",
        (*DATABASE, *FILE, *NEVER, *ASKED, *HYPERVISOR),
    ),
    "an agent of a hypervisor": (
        f"{ALONE}compute_driver = libvirt\n{LIBVIRT}",
        (*BUS, *DATABASE, *NEVER, *YAML, *KIT),
    ),
    "computectl --help": (
        ALONE,
        ("computectl.tree", "computectl.shared.commands", "oslo_config", "keystoneauth1"),
    ),
    "computectl status": (ALONE, (*ALL, *DRAWING, *DRIVERS)),
    "computectl tree": (ALONE, (*ALL, *DRIVERS)),
    "computectl plan": (ALONE, (*ALL, "drivers.libvirt")),
    "computectl service list": (ALONE, (*ALL, *DRIVERS)),
}
"""Options of the configuration, and modules that are not needed."""
RUN = """
import importlib, json, sys
module, args = json.loads(sys.argv[1])
try:
    importlib.import_module(module).main(args)
except SystemExit:
    pass
finally:
    sys.stdout.write("\\n" + json.dumps(sorted(name for name in sys.modules if sys.modules[name])))
    sys.stdout.flush()
    import os
    os._exit(0)
"""


def test_traits_named_without_os_traits_are_those_of_os_traits() -> None:
    named = {policy.DISABLED, policy.MANAGED_BY_NOVA, traits.COMPUTE_NODE, traits.DISABLED}
    named |= {opts.OWNER_NOVA, request_filter.DISABLED}
    assert named <= set(os_traits.get_traits())


@pytest.mark.parametrize("way", WAYS)
def test_a_way_of_running_loads_nothing_that_it_does_not_need(way: str, tmp_path: Path) -> None:
    options, unneeded = WAYS[way]
    program, *words = way.split()
    is_agent = program != "computectl"
    module, words = ("agent.main", ["--once"]) if is_agent else ("computectl.app", words)
    loaded = modules_of(module, words, options, tmp_path)
    assert module in loaded
    found = [name for name in unneeded if name in loaded]
    assert not found, f"{way} loads {', '.join(found)}"


def modules_of(module: str, words: list[str], options: str, directory: Path) -> set[str]:
    """After it has run, and met a Placement that is not there."""
    file = directory / "agent.conf"
    file.write_text(
        f"[DEFAULT]\nhost = host1\nstate_path = {directory}\ncompute_driver = fake\n"
        f"{options}"
        "[placement]\nauth_type = admin_token\ntoken = t\nendpoint = http://127.0.0.1:1\n"
    )
    args = json.dumps([module, ["--config-file", str(file), *words]])
    ran = completed(sys.executable, "-c", RUN, args, check=True)
    return set(json.loads(ran.stdout.splitlines()[-1]))
