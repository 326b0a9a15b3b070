"""What 10,000 hosts ask of Placement at the default settings, in virtual time and without I/O.

Each host is a ``Schedule``, asked at the ticks of a period as the tracker asks it; what is counted
are the requests that follow.  The seed is fixed: the numbers are the same in each run.
"""

import random
from collections import Counter
from math import ceil, inf

import pytest

from agent import config
from agent.switching.host_status import FIRST_RETRY, LATER_RETRY
from benchmarks.fleet.virtual import overload as run_overload
from reportclient.errors import Unreachable
from reportclient.schedule import LONGEST, Schedule, Times

HOSTS = 10_000
AWAY = Unreachable("no answer")
PROVIDERS = 33
VERIFICATION = 2
"""Requests: the tree, and what shares with it, as where there are aggregates."""
HOUR, BIN = 3600, 10
TWO_PERIODS = 120


def defaults():
    return config.settings(config.load_config(["--config-file", "/dev/null"]))


class Host:
    def __init__(self, rng, settings, starts):
        self.times, self.interval = settings.rules, settings.interval
        self.schedule = Schedule(uniform=rng.uniform)
        self.certain = False
        self.tick = starts + rng.uniform(0, settings.spread(None))

    def until(self, end, away, asked):
        """Its periods up to then; ``asked`` counts requests by the second."""
        while self.tick < end:
            requests = self.period(self.tick, away=away(self.tick))
            if requests:
                asked[int(self.tick)] += requests
            self.tick += self.interval * max(1, self.quiet_ticks())

    def quiet_ticks(self):
        """Periods until something is due; nothing but time changes what they ask."""
        due = (
            min(self.schedule.verify_at, self.schedule.audit_at)
            if self.certain
            else self.schedule.rest_until
        )
        return ceil((due - self.tick) / self.interval) if due > self.tick else 1

    def period(self, now, *, away):
        if self.schedule.waits_for(now) or (self.certain and not self.schedule.is_due(now)):
            return 0
        if away:
            self.schedule.unanswered(AWAY, now, self.times, pending=not self.certain)
            return 1
        audit = now >= self.schedule.audit_at
        self.schedule.verified(now, self.times)
        self.schedule.answered()
        self.certain = True
        return VERIFICATION + (3 * PROVIDERS if audit else 0)


class Fleet:
    def __init__(self, starts=0.0):
        rng, settings = random.Random(14), defaults()
        self.hosts = [Host(rng, settings, starts) for _ in range(HOSTS)]
        self.asked = Counter()

    def until(self, end, away=lambda _: False):
        for host in self.hosts:
            host.until(end, away, self.asked)
        return self

    def rate(self, start, end):
        return sum(self.asked[second] for second in range(start, end)) / (end - start)

    def worst_minute(self, start, end):
        return max(self.rate(at, at + 60) for at in range(start, end - 59))

    def bins(self, start, end):
        return [self.rate(at, at + BIN) for at in range(start, end, BIN)]


class Disabled:
    """A host that an operator disables: its trait is written by the switch, by a retry of
    ``HostStatus``, or by a period, whichever comes first while Placement is there.
    """

    def __init__(self, host, at):
        self.host, self.retry_at, self.asked_at, self.written_at = host, at, at, None

    def until(self, end, away, asked):
        """``asked`` counts requests by the second."""
        host = self.host
        while self.written_at is None and min(host.tick, self.retry_at) < end:
            now = min(host.tick, self.retry_at)
            if now == host.tick:
                tries = not host.schedule.waits_for(now)
                host.tick += host.interval
            else:
                again = now > self.asked_at and host.schedule.silent
                tries = not (again and host.schedule.may_wait_for_period(now, host.times))
                first = now == self.asked_at
                self.retry_at += random.uniform(0, FIRST_RETRY if first else LATER_RETRY)
            if tries:
                asked[int(now)] += self.tried(now, away=away(now))
        host.until(end, away, asked)

    def tried(self, now, *, away):
        """A 503 leaves the view certain: what is not due to be verified is just written."""
        schedule, times = self.host.schedule, self.host.times
        verifies = schedule.is_due(now)
        if away:
            schedule.unanswered(AWAY, now, times, pending=not verifies)
            return 1
        self.written_at = now
        schedule.answered()
        if not verifies:
            return 1
        schedule.verified(now, times)
        return VERIFICATION + 1


def autocorrelation(values, lag):
    mean = sum(values) / len(values)
    off = [value - mean for value in values]
    both = sum(a * b for a, b in zip(off, off[lag:], strict=False))
    return both / sum(a * a for a in off)


def comb(values, longest):
    """The largest autocorrelation at any lag from one period on."""
    return max(autocorrelation(values, lag) for lag in range(60 // BIN, longest // BIN))


def test_hosts_that_start_at_once_make_no_spike_and_spread_within_an_hour():
    fleet = Fleet().until(2 * HOUR)
    assert fleet.rate(HOUR, 2 * HOUR) < 40
    assert fleet.worst_minute(0, 2 * HOUR) < 200
    assert fleet.worst_minute(300, 2 * HOUR) < 80
    values = fleet.bins(HOUR, 2 * HOUR)
    assert comb(values, 1800) < 0.25
    in_step = [33 + 60 * (number % 60 == 0) for number in range(len(values))]
    assert comb(in_step, 1800) > 0.8, "this is what a comb looks like"


BACK = 2 * HOUR
"""Placement answers nobody from the end of the first hour until then."""


def test_a_silent_placement_is_asked_every_five_minutes_and_meets_no_spike():
    fleet = Fleet().until(4 * HOUR, away=lambda now: HOUR <= now < BACK)
    floor = HOSTS / (60 * LONGEST)
    assert fleet.rate(HOUR + 1200, BACK) < floor
    assert fleet.worst_minute(HOUR, BACK) < 1.6 * floor, "never much more than quiet"
    assert fleet.worst_minute(BACK, 4 * HOUR) < 100
    assert comb(fleet.bins(3 * HOUR, 4 * HOUR), 1800) < 0.25


def test_hosts_that_boot_while_placement_is_away_are_ready_in_two_periods():
    back = 600
    fleet = Fleet().until(back + TWO_PERIODS + 1, away=lambda now: now < back)
    assert fleet.rate(300, back) < 1.05 * HOSTS / TWO_PERIODS
    assert all(host.certain for host in fleet.hosts)
    assert fleet.worst_minute(0, back + 121) < 200


def test_all_hosts_told_other_intervals_at_the_same_moment_make_no_spike():
    fleet = Fleet().until(HOUR)
    for host in fleet.hosts:
        host.schedule.reset(HOUR, host.times)
        host.tick = HOUR + host.schedule.uniform(0, host.interval)
    fleet.until(2 * HOUR)
    assert fleet.worst_minute(HOUR, 2 * HOUR) < 80


def test_who_is_told_to_verify_no_more_does_not():
    schedule = Schedule()
    schedule.reset(0.0, Times(verify_every=None, audit_every=None))
    assert not schedule.is_due(HOUR)


HEARTBEAT = 10
"""Seconds within which all hosts hear of what an operator did to all of them."""
DISABLED, BACK_SOON = HOUR + 600, HOUR + 1500


def test_hosts_disabled_while_placement_is_away_write_within_two_periods():
    """It answers nobody from the end of the first hour on, and all hosts are disabled soon after."""
    fleet, away, rng = Fleet(), lambda now: HOUR <= now < BACK_SOON, random.Random(7)
    random.seed(7)
    fleet.until(DISABLED, away)
    fleet.hosts = [Disabled(one, DISABLED + rng.uniform(0, HEARTBEAT)) for one in fleet.hosts]
    fleet.until(2 * HOUR, away)
    assert fleet.worst_minute(DISABLED + 60, BACK_SOON) < 200
    assert fleet.rate(DISABLED + 180, BACK_SOON) < 1.05 * HOSTS / TWO_PERIODS
    assert max(one.written_at for one in fleet.hosts) < BACK_SOON + 1.05 * TWO_PERIODS
    assert fleet.worst_minute(BACK_SOON, 2 * HOUR) < 150


def test_one_lost_answer_costs_a_verification_one_period_or_two():
    times, schedule = defaults().rules, Schedule()
    schedule.verified(0.0, times)
    schedule.unanswered(AWAY, 1000.0, Times(), pending=False)
    assert 1030 <= schedule.verify_at <= 1090
    schedule.answered()
    schedule.unanswered(AWAY, 2000.0, Times(), pending=False)
    assert 2030 <= schedule.verify_at <= 2090


def test_a_pending_write_is_tried_in_the_next_period_after_one_failure():
    schedule = Schedule()
    schedule.unanswered(AWAY, 1000.0, Times(), pending=True)
    assert not schedule.waits_for(1001.0)
    schedule.unanswered(AWAY, 1000.0, Times(), pending=True)
    for _ in range(20):
        schedule.unanswered(AWAY, 1000.0, Times(), pending=True)
        assert schedule.waits_for(1061.0) and not schedule.waits_for(999.0 + TWO_PERIODS)


def test_hosts_that_fail_together_do_not_try_in_the_same_period_for_ever():
    rested = 0
    for _ in range(400):
        schedule = Schedule()
        for _ in range(2):
            schedule.unanswered(AWAY, 1000.0, Times(), pending=True)
        rested += schedule.waits_for(1061.0) is not None
    assert 100 < rested < 300


def test_who_tries_again_leaves_it_to_the_periods_unless_none_comes():
    schedule, times = Schedule(), Times()
    for _ in range(3):
        schedule.unanswered(AWAY, 1000.0, times, pending=True)
    assert schedule.may_wait_for_period(1060.0 + 60, times)
    assert not schedule.may_wait_for_period(1000.0 + TWO_PERIODS + 30, times)


@pytest.mark.slow
@pytest.mark.parametrize("most_waiting", [inf, 500], ids=["all wait", "503 beyond 500"])
def test_five_times_placements_load_ends_soon_after_the_bare_writes(most_waiting):
    """Each provider of each host changes within a minute; nothing announces it."""
    overload = run_overload(300, most_waiting)
    assert overload.given_up == 0
    assert sum(overload.done) < 1.2 * overload.writes, "with the verifications that come meanwhile"
    assert overload.worst_minute > 0.9
    assert overload.seconds < overload.bare + TWO_PERIODS
    assert overload.refused or overload.seconds < 1.2 * overload.bare
