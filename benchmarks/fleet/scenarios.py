"""The scenarios of the fleet, in order; each waits until all data is correct again."""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from agent.errors import RegistryError
from agent.registry.checks import StatusChange
from benchmarks.fleet import alone
from benchmarks.fleet.centre import PERIOD, Centre
from benchmarks.fleet.extrapolated import agent_calls
from benchmarks.fleet.large_host import TOTALS
from benchmarks.fleet.measured import Measured, comb, measured, until, worst
from tests.servers.databases import MariaDB
from tests.servers.fleet_hosts import name_of
from tests.servers.rabbitmq import RabbitMQ

SECOND_RELEASE = "CUSTOM_RELEASE_2"
DISABLED = "COMPUTE_STATUS_DISABLED"
OPERATORS = 4
LATEST = 15.0
"""Seconds after ``service_down_time`` in which a silent host has to count as down: a thread that
ended begins again within 5 s, and meanwhile no host gets more silent."""
CHANGED = (
    "SELECT count(*) FROM inventories i JOIN resource_classes c ON c.id = i.resource_class_id "
    "WHERE c.name = 'VCPU' AND i.total = :total"
)


@dataclass
class Scenarios:
    """Runs the scenarios on one fleet."""

    centre: Centre
    quiet_minutes: int = 15
    """Length of the quiet time, in the agents' time."""
    only: str = ""
    """The name of the one method that is run after the boot of the site; empty: all are."""

    def run(self) -> Iterator[Measured]:
        """Run all scenarios."""
        yield self.site_boots()
        if self.only:
            yield getattr(self, self.only)()
            return
        yield self.quiet()
        yield self.rack_boots()
        yield self.placement_back()
        yield self.broker_back()
        yield self.database_back()
        yield self.thread_ended()
        yield self.changes()
        yield self.release()
        yield self.switched("all hosts are disabled", disabled=True)
        yield self.switched("all hosts are enabled", disabled=False)

    @property
    def minute(self) -> int:
        """An agents' minute in real seconds."""
        return max(1, PERIOD // self.centre.shape.compressed)

    def measured(self, name: str, hosts: int = 0) -> AbstractContextManager[Measured]:
        """Measure a scenario of ``hosts`` hosts, by default of those that are up."""
        return measured(self.centre, name, hosts or self.centre.shape.known, self.minute)

    def site_boots(self) -> Measured:
        """Start all known hosts at once, as after a power failure: Placement has their trees."""
        shape = self.centre.shape
        with self.measured("a site boots") as scenario:
            self.centre.fleet.start_known()
            scenario.right_after = self._until_all_ok(shape.known)
            time.sleep(2 * self.minute)
        return scenario

    def quiet(self) -> Measured:
        """Wait while nothing changes."""
        with self.measured("a quiet hour") as scenario:
            time.sleep(self.quiet_minutes * self.minute)
        scenario.also["highest autocorrelation of its load"] = round(comb(scenario.timeline), 2)
        return scenario

    def rack_boots(self) -> Measured:
        """Start the hosts of the rack, which Placement does not have yet."""
        shape = self.centre.shape
        with self.measured("a rack boots, cold", shape.rack) as scenario:
            self.centre.fleet.start_rack()
            scenario.right_after = ready = self._until_all_ok(shape.hosts)
        needed = self._writes_alone()
        scenario.also["seconds that the same writes take from a bare client"] = needed
        scenario.also["ready after so many times that"] = round(ready / needed, 2)
        return scenario

    def _writes_alone(self) -> float:
        writes = self.centre.fleet.written()
        with alone.another_placement(self.centre) as url:
            began = time.monotonic()
            alone.send(url, writes)
            return round(time.monotonic() - began, 1)

    def placement_back(self) -> Measured:
        """Stop Placement for ten minutes, in each of which 1 % of the hosts change."""
        with self.measured("Placement is back after ten minutes") as scenario:
            self.centre.placement.away = True
            for _ in range(10):
                self.centre.fleet.send({"change": 0.01})
                time.sleep(self.minute)
            away = len(scenario.timeline)
            self.centre.placement.away = False
            scenario.right_after = until(self._all_changed)
            time.sleep(2 * self.minute)
        later = statistics.mean(scenario.timeline[away // 2 : away])
        scenario.also["requests a second in the second half of it"] = round(later, 1)
        back = worst(scenario.timeline[away:], self.minute)
        scenario.also["requests a second in the worst minute after it"] = round(back, 1)
        return scenario

    def broker_back(self) -> Measured:
        """Kill the broker and start it again a heartbeat later."""
        return self._back("the broker is back", self.centre.broker)

    def database_back(self) -> Measured:
        """Kill the registry's database and start it again a heartbeat later."""
        return self._back("the registry's database is back", self.centre.registry_db)

    def _back(self, name: str, server: RabbitMQ | MariaDB) -> Measured:
        beat = self.centre.shape.heartbeat
        with self.measured(name) as scenario:
            server.kill9()
            time.sleep(beat)
            server.start()
            began = time.time()
            scenario.right_after = until(
                partial(self._all_beat_since, began), 10.0 * beat + 60, 1.0
            )
        return scenario

    def thread_ended(self) -> Measured:
        """End the registry's thread of heartbeats while the hosts of one process are silent."""
        down_after = 6 * self.centre.shape.heartbeat
        silent = {name_of(number) for number in self.centre.fleet.blocks()[0]}
        false: dict[str, set[str]] = {"down": set(), "up": set()}
        with self.measured("the registry's thread of heartbeats ended") as scenario:
            self.centre.end_heartbeats()
            self.centre.fleet.stop_first(stopped=True)
            began = time.monotonic()
            while (passed := time.monotonic() - began) < 2 * down_after + LATEST:
                up = self._up(down_after)
                false["down"] |= {host for host in up if not up[host]} - silent
                if passed > down_after + LATEST:
                    false["up"] |= {host for host in silent if up[host]}
                time.sleep(1.0)
            self.centre.fleet.stop_first(stopped=False)
            scenario.right_after = until(lambda: all(self._up(down_after).values()))
        log = self.centre.registry.log
        scenario.also["threads that began again"] = log.count("Thread heartbeats failed")
        scenario.also |= {f"hosts with a false {state}": len(false[state]) for state in false}
        return scenario

    def _up(self, down_after: float) -> dict[str, bool]:
        records = self.centre.client.list_services()
        return {record.host: record.is_up(down_after) for record in records}

    def changes(self) -> Measured:
        """Remove a VCPU of 1 % of the hosts each minute, or add it again."""
        with self.measured("1 % of hosts change each minute") as scenario:
            for _ in range(5):
                self.centre.fleet.send({"change": 0.01})
                time.sleep(self.minute)
            scenario.right_after = until(self._all_changed)
        return scenario

    def release(self) -> Measured:
        """Change one trait of every host, as an upgrade of the agents may."""
        with self.measured("a release changes one trait on every host") as scenario:
            hosts = self.centre.shape.hosts
            self.centre.fleet.send({"release": SECOND_RELEASE})
            scenario.right_after = until(lambda: self.centre.with_trait(SECOND_RELEASE) == hosts)
        needed = 2 * hosts  # one creates the trait, one sets it
        scenario.also["writes sent for each write needed"] = round(scenario.writes / needed, 2)
        due = scenario.seconds * self.centre.shape.compressed * agent_calls(hosts, 1)
        scenario.also["verifications that were due meanwhile"] = round(due)
        scenario.also["calls given up"] = scenario.given_up
        return scenario

    def switched(self, name: str, *, disabled: bool) -> Measured:
        """Disable or enable all hosts in the registry; the hosts follow their records."""
        hosts = range(self.centre.shape.hosts)
        with self.measured(name) as scenario:
            with ThreadPoolExecutor(OPERATORS) as operators:
                list(operators.map(partial(self._switch, disabled=disabled), hosts))
            wanted = len(hosts) if disabled else 0
            scenario.right_after = until(lambda: self.centre.with_trait(DISABLED) == wanted)
        return scenario

    def _switch(self, number: int, *, disabled: bool) -> None:
        until(self._accepted(name_of(number), disabled=disabled), 60.0)

    def _accepted(self, host: str, *, disabled: bool) -> Callable[[], bool]:
        def once() -> bool:
            try:
                self.centre.client.set_status(StatusChange(host, disabled=disabled))
            except RegistryError:
                return False
            return True

        return once

    def _until_all_ok(self, hosts: int) -> float:
        return until(
            lambda: (
                sum(hosts_of_process["well"] for hosts_of_process in self.centre.fleet.states())
                >= hosts
            )
        )

    def _all_changed(self) -> bool:
        wanted = sum(hosts_of_process["changed"] for hosts_of_process in self.centre.fleet.states())
        return bool(self.centre.count(CHANGED, total=TOTALS["VCPU"] - 1) == wanted)

    def _all_beat_since(self, began: float) -> bool:
        try:
            seen = [each.last_seen for each in self.centre.client.list_services()]
            return all(each is not None and each.timestamp() >= began for each in seen)
        except RegistryError:
            return False
