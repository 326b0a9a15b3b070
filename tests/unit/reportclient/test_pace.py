"""What 10,000 hosts ask of Placement at the default settings, in virtual time and without I/O.

Each host is a ``Pace``, asked at the ticks of a period as the tracker asks it; what is counted
are the requests that follow.  The seed is fixed: the numbers are the same in each run.
"""

import random
from collections import Counter
from math import ceil

import pytest

from agent import config
from reportclient.pace import LONGEST, Pace, Times

HOSTS = 10_000
PROVIDERS = 33
VERIFICATION = 2
"""Requests: the tree, and what shares with it, as where there are aggregates."""
HOUR, BIN = 3600, 10
TWO_PERIODS = 120


def defaults():
    return config.settings(config.load(["--config-file", "/dev/null"]))


class Host:
    def __init__(self, rng, settings, starts):
        self.times, self.interval = settings.rules.times, settings.interval
        self.pace = Pace(uniform=rng.uniform)
        self.certain = False
        self.pace.audits(starts, self.times)
        self.tick = starts + rng.uniform(0, settings.first_within)

    def until(self, end, away, asked):
        """Its periods up to then; ``asked`` counts requests by the second."""
        while self.tick < end:
            requests = self.period(self.tick, away=away(self.tick))
            if requests:
                asked[int(self.tick)] += requests
            self.tick += self.interval * max(1, self.quiet_ticks())

    def quiet_ticks(self):
        """Periods until something is due; nothing but time changes what they ask."""
        due = min(self.pace.verify_at, self.pace.audit_at) if self.certain else self.pace.rest_until
        return ceil((due - self.tick) / self.interval) if due > self.tick else 1

    def period(self, now, *, away):
        if self.pace.rests(now) or (self.certain and not self.pace.is_due(now, self.times)):
            return 0
        if away:
            self.pace.unanswered(now, self.times, certain=self.certain)
            return 1
        audit = self.pace.audits(now, self.times)
        self.pace.verified(now, self.times)
        self.pace.answered()
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


def autocorrelation(values, lag):
    mean = sum(values) / len(values)
    off = [value - mean for value in values]
    both = sum(a * b for a, b in zip(off, off[lag:], strict=False))
    return both / sum(a * a for a in off)


def comb(values, longest):
    """The largest autocorrelation at any lag from one period on."""
    return max(autocorrelation(values, lag) for lag in range(60 // BIN, longest // BIN))


@pytest.fixture(scope="module")
def started_together():
    """All of them started at the same moment, and two hours of peace since."""
    return Fleet().until(2 * HOUR)


def test_a_quiet_hour_costs_placement_less_than_40_requests_a_second(started_together):
    assert started_together.rate(HOUR, 2 * HOUR) < 40


def test_no_minute_costs_more_than_200_a_second_though_all_start_at_once(started_together):
    assert started_together.worst_minute(0, 2 * HOUR) < 200
    assert started_together.worst_minute(300, 2 * HOUR) < 80


def test_an_hour_after_they_all_started_at_once_nothing_is_left_of_it(started_together):
    values = started_together.bins(HOUR, 2 * HOUR)
    assert comb(values, 1800) < 0.25
    in_step = [33 + 60 * (number % 60 == 0) for number in range(len(values))]
    assert comb(in_step, 1800) > 0.8, "this is what a comb looks like"


BACK = 2 * HOUR
"""Placement answers nobody from the end of the first hour until then."""


@pytest.fixture(scope="module")
def placement_was_away():
    return Fleet().until(4 * HOUR, away=lambda now: HOUR <= now < BACK)


def test_a_placement_that_answers_nobody_is_asked_once_in_five_minutes(placement_was_away):
    floor = HOSTS / (60 * LONGEST)
    assert placement_was_away.rate(HOUR + 1200, BACK) < floor
    assert placement_was_away.worst_minute(HOUR, BACK) < 1.6 * floor, "never much more than quiet"


def test_it_comes_back_without_a_spike_and_without_a_comb(placement_was_away):
    assert placement_was_away.worst_minute(BACK, 4 * HOUR) < 100
    assert comb(placement_was_away.bins(3 * HOUR, 4 * HOUR), 1800) < 0.25


def test_hosts_that_boot_while_it_is_away_ask_at_each_second_period_and_are_ready_within_two():
    back = 600
    fleet = Fleet().until(back + TWO_PERIODS + 1, away=lambda now: now < back)
    assert fleet.rate(300, back) < 1.05 * HOSTS / TWO_PERIODS
    assert all(host.certain for host in fleet.hosts)
    assert fleet.worst_minute(0, back + 121) < 200


def test_one_lost_answer_costs_a_verification_one_period_or_two():
    times, pace = defaults().rules.times, Pace()
    pace.verified(0.0, times)
    pace.unanswered(1000.0, Times(), certain=True)
    assert 1030 <= pace.verify_at <= 1090
    pace.answered()
    pace.unanswered(2000.0, Times(), certain=True)
    assert 2030 <= pace.verify_at <= 2090


def test_the_first_failure_of_who_has_something_to_write_is_tried_in_the_next_period():
    pace = Pace()
    pace.unanswered(1000.0, Times(), certain=False)
    assert not pace.rests(1001.0)
    for _ in range(20):
        pace.unanswered(1000.0, Times(), certain=False)
        assert pace.rests(1061.0) and not pace.rests(999.0 + TWO_PERIODS)
