"""DriverContract: one test for each rule; an author's test class inherits them all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from drivers.api import DriverContext
from drivers.testing import periods
from drivers.testing.broken import Broken, DriverRaised, Inapplicable, explained, not_judged
from drivers.testing.rules import RULES
from drivers.testing.stage import MakeDriver, Stage
from reportclient.http import API

Test = TypeVar("Test", bound=Callable[..., None])


class RuleFailed(pytest.fail.Exception):  # type: ignore[misc,name-defined]  # made by a decorator
    """A failed test; ``verdict`` and ``seen`` for those who make a table of it."""

    def __init__(self, text: str, verdict: str, seen: str) -> None:
        super().__init__(text, pytrace=False)
        self.verdict = verdict
        self.seen = seen


def judges(name: str) -> Callable[[Test], Test]:
    """A test of the rule ``name``: what its judge finds becomes words for the author."""
    rule = RULES[name]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def judged(*args: Any, **fixtures: Any) -> None:
            try:
                test(*args, **fixtures)
            except Broken as err:
                failure = RuleFailed(explained(rule, str(err)), "broken", str(err))
            except DriverRaised as err:
                failure = RuleFailed(not_judged(rule, err), "not judged", str(err))
            except Inapplicable as err:
                pytest.skip(f"{name}: {err}")
            else:
                return
            raise failure

        judged.driver_rule = rule  # type: ignore[attr-defined]  # for the table of verdicts
        return judged  # type: ignore[return-value]  # it takes what the test takes

    return decorate


class DriverContract:
    """Inherit from it in a class whose name begins with ``Test``, and give ``make_driver``."""

    @pytest.fixture
    def make_driver(self) -> MakeDriver:
        """A callable that makes a fresh driver, of the same backend, at each call."""
        pytest.fail(
            f"{type(self).__name__} needs a fixture make_driver that returns a callable: "
            "`def make_driver(self, driver_context): return lambda: MyDriver(driver_context)`",
            pytrace=False,
        )

    @pytest.fixture
    def lose_backend(self) -> Callable[[], Any] | None:
        """A callable that breaks the backend; it may return another one, that mends it."""
        return None

    @pytest.fixture
    def driver_stage(
        self, make_driver: MakeDriver, driver_context: DriverContext, driver_placement: API
    ) -> Iterator[Stage]:
        """Where the driver is put to work."""
        stage = Stage(driver_placement, driver_context, make_driver)
        yield stage
        stage.close()

    @judges("second-period")
    def test_a_second_period_changes_nothing(self, driver_stage: Stage) -> None:
        periods.second_period(driver_stage)

    @judges("agree")
    def test_two_fresh_drivers_agree(self, driver_stage: Stage) -> None:
        periods.agree(driver_stage)

    @judges("restart")
    def test_a_restart_changes_nothing(self, driver_stage: Stage) -> None:
        periods.restart(driver_stage)

    @judges("any-order")
    def test_order_makes_no_difference(self, driver_stage: Stage) -> None:
        periods.any_order(driver_stage)

    @judges("any-thread")
    def test_any_thread_may_ask(self, driver_stage: Stage) -> None:
        periods.any_thread(driver_stage)

    @judges("thread-safe")
    def test_nodes_may_be_asked_at_once_where_the_driver_says_so(self, driver_stage: Stage) -> None:
        periods.thread_safe(driver_stage)
