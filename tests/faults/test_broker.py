"""The message broker: killed, cut off, out of disk, emptied. Reports go on; then calls arrive."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agent.bus.messaging import oslo_messaging
from tests.faults.site import Site
from tests.integration.switched import Caller, eventually, has_trait
from tests.servers.rabbitmq import RabbitMQ

pytestmark = pytest.mark.faults


@contextmanager
def killed(broker: RabbitMQ) -> Iterator[None]:
    broker.kill9()
    yield
    broker.start()


@contextmanager
def frozen(broker: RabbitMQ) -> Iterator[None]:
    broker.send(signal.SIGSTOP)
    yield
    broker.send(signal.SIGCONT)


@contextmanager
def cut_off(broker: RabbitMQ) -> Iterator[None]:
    """A partition: no packet to it or from it arrives, and nobody is told."""
    rules = [
        ["INPUT", "-i", "lo", "-p", "tcp", side, str(broker.port), "-j", "DROP"]
        for side in ("--dport", "--sport")
    ]
    for rule in rules:
        subprocess.run(["iptables", "-I", *rule], check=True)
    try:
        yield
    finally:
        for rule in rules:
            subprocess.run(["iptables", "-D", *rule], check=True)


@contextmanager
def without_disk(broker: RabbitMQ) -> Iterator[None]:
    """Its disk alarm: it takes connections, and blocks whoever publishes."""
    broker.control("set_disk_free_limit", "1000000000000000")
    yield
    broker.control("set_disk_free_limit", "50000000")


@contextmanager
def without_queues(broker: RabbitMQ) -> Iterator[None]:
    for queue in broker.control("list_queues", "name", "--no-table-headers").split():
        broker.control("delete_queue", queue)
    yield


FAULTS = [killed, frozen, cut_off, without_disk, without_queues]


def switched(broker: RabbitMQ, *, enabled: bool) -> bool:
    caller = Caller(broker.url)
    try:
        return caller.set_host_enabled("testhost", enabled, timeout=10) == (
            "enabled" if enabled else "disabled"
        )
    except (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure):
        return False
    finally:
        caller.transport.cleanup()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_reports_go_on_and_calls_arrive_afterwards(site: Site, broker: RabbitMQ, fault) -> None:
    if fault is cut_off and shutil.which("iptables", path="/usr/sbin:/sbin") is None:
        pytest.skip("iptables is not installed")
    site.begin(f"transport_url = {broker.url}\n[registry]\nreport_interval = 1\n")
    eventually(lambda: switched(broker, enabled=False))
    with fault(broker):
        site.changes()
        assert has_trait(site.placement, site.root), "the switch was forgotten"
    eventually(lambda: switched(broker, enabled=True), within=180)
    site.agent.until(lambda: not has_trait(site.placement, site.root))
    eventually(lambda: switched(broker, enabled=False))
    assert has_trait(site.placement, site.root)
