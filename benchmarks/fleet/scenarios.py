"""What happens to the fleet, one after the other; each waits until all is right again."""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from agent.registry.errors import RegistryError
from benchmarks.fleet import alone
from benchmarks.fleet.centre import PERIOD, Centre
from benchmarks.fleet.large_host import TOTALS
from benchmarks.fleet.measured import Measured, comb, measured, until, worst
from tests.servers.databases import DatabaseServer
from tests.servers.fleet_hosts import name_of
from tests.servers.rabbitmq import RabbitMQ

SECOND_RELEASE = "CUSTOM_RELEASE_2"
DISABLED = "COMPUTE_STATUS_DISABLED"
OPERATORS = 4
CHANGED = (
    "SELECT count(*) FROM inventories i JOIN resource_classes c ON c.id = i.resource_class_id "
    "WHERE c.name = 'VCPU' AND i.total = :total"
)


@dataclass
class Scenarios:
    """Of one run."""

    centre: Centre
    quiet_minutes: int = 15
    """In the agents' time."""

    def run(self) -> Iterator[Measured]:
        """All of them."""
        yield self.site_boots()
        yield self.quiet()
        yield self.rack_boots()
        yield self.placement_back()
        yield self.broker_back()
        yield self.database_back()
        yield self.changes()
        yield self.release()
        yield self.switched("all hosts are disabled", disabled=True)
        yield self.switched("all hosts are enabled", disabled=False)

    @property
    def minute(self) -> int:
        """One of the agents, in seconds on the wall."""
        return max(1, PERIOD // self.centre.shape.compressed)

    def measured(self, name: str, hosts: int = 0) -> AbstractContextManager[Measured]:
        """A scenario, of the hosts that are up unless it says otherwise."""
        return measured(self.centre, name, hosts or self.centre.shape.known, self.minute)

    def site_boots(self) -> Measured:
        """All at once, after a power failure: their trees are in Placement."""
        shape = self.centre.shape
        with self.measured("a site boots") as found:
            self.centre.fleet.start_known()
            found.right_after = self._all_well(shape.known)
            time.sleep(2 * self.minute)
        return found

    def quiet(self) -> Measured:
        """Nothing happens."""
        with self.measured("a quiet hour") as found:
            time.sleep(self.quiet_minutes * self.minute)
        found.also["highest autocorrelation of its load"] = round(comb(found.timeline), 2)
        return found

    def rack_boots(self) -> Measured:
        """Hosts of which Placement has never heard."""
        shape = self.centre.shape
        with self.measured("a rack boots, cold", shape.rack) as found:
            self.centre.fleet.start_rack()
            found.right_after = ready = self._all_well(shape.hosts)
        needed = self._writes_alone()
        found.also["seconds that the same writes take from a bare client"] = needed
        found.also["ready after so many times that"] = round(ready / needed, 2)
        return found

    def _writes_alone(self) -> float:
        writes = self.centre.fleet.written()
        with alone.another_placement(self.centre) as url:
            began = time.monotonic()
            alone.send(url, writes)
            return round(time.monotonic() - began, 1)

    def placement_back(self) -> Measured:
        """After ten minutes in which one host in a hundred changed in each."""
        with self.measured("Placement is back after ten minutes") as found:
            self.centre.placement.away = True
            for _ in range(10):
                self.centre.fleet.say({"change": 0.01})
                time.sleep(self.minute)
            away = len(found.timeline)
            self.centre.placement.away = False
            found.right_after = until(self._all_changed)
            time.sleep(2 * self.minute)
        later = statistics.mean(found.timeline[away // 2 : away])
        found.also["requests a second in the second half of it"] = round(later, 1)
        back = worst(found.timeline[away:], self.minute)
        found.also["requests a second in the worst minute after it"] = round(back, 1)
        return found

    def broker_back(self) -> Measured:
        """Killed, and away for a heartbeat."""
        return self._back("the broker is back", self.centre.broker)

    def database_back(self) -> Measured:
        """The same."""
        return self._back("the registry's database is back", self.centre.registry_db)

    def _back(self, name: str, server: RabbitMQ | DatabaseServer) -> Measured:
        beat = self.centre.shape.heartbeat
        with self.measured(name) as found:
            server.kill9()
            time.sleep(beat)
            server.start()
            began = time.time()
            found.right_after = until(partial(self._all_beat_since, began), 10.0 * beat + 60, 1.0)
        return found

    def changes(self) -> Measured:
        """A VCPU goes, or comes back."""
        with self.measured("1 % of hosts change each minute") as found:
            for _ in range(5):
                self.centre.fleet.say({"change": 0.01})
                time.sleep(self.minute)
            found.right_after = until(self._all_changed)
        return found

    def release(self) -> Measured:
        """As when an agent is upgraded that reports one trait otherwise."""
        with self.measured("a release changes one trait on every host") as found:
            hosts = self.centre.shape.hosts
            self.centre.fleet.say({"release": SECOND_RELEASE})
            found.right_after = until(lambda: self.centre.with_trait(SECOND_RELEASE) == hosts)
        return found

    def switched(self, name: str, *, disabled: bool) -> Measured:
        """By operators, in the registry; the hosts follow their records."""
        hosts = range(self.centre.shape.hosts)
        with self.measured(name) as found:
            with ThreadPoolExecutor(OPERATORS) as operators:
                list(operators.map(partial(self._switch, disabled=disabled), hosts))
            wanted = len(hosts) if disabled else 0
            found.right_after = until(lambda: self.centre.with_trait(DISABLED) == wanted)
        return found

    def _switch(self, number: int, *, disabled: bool) -> None:
        until(self._accepted(name_of(number), disabled=disabled), 60.0)

    def _accepted(self, host: str, *, disabled: bool) -> Callable[[], bool]:
        def once() -> bool:
            try:
                self.centre.client.set_status(host, disabled=disabled)
            except RegistryError:
                return False
            return True

        return once

    def _all_well(self, hosts: int) -> float:
        return until(lambda: sum(one["well"] for one in self.centre.fleet.look()) >= hosts)

    def _all_changed(self) -> bool:
        wanted = sum(one["changed"] for one in self.centre.fleet.look())
        return bool(self.centre.count(CHANGED, total=TOTALS["VCPU"] - 1) == wanted)

    def _all_beat_since(self, began: float) -> bool:
        try:
            seen = [each.last_seen for each in self.centre.client.list_services()]
            return all(each is not None and each.timestamp() >= began for each in seen)
        except RegistryError:
            return False
