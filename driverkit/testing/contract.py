"""DriverContract: one test for each rule; an author's test class inherits them all."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from driverkit.broken import (
    Broken,
    Hung,
    Inapplicable,
    NotJudged,
    explained,
    not_judged,
)
from driverkit.judges import backend, kept, periods, reshapes, scale, shape, strangers
from driverkit.judges.backend import LoseBackend
from driverkit.judges.reshapes import ReshapeCase
from driverkit.judges.scale import MakeBigDriver
from driverkit.rulebook import RULES
from driverkit.stage import MakeDriver, Stage
from drivers.api import DriverContext
from drivers.loader import call_timeout
from reportclient.errors import PlacementError
from reportclient.http import API

Test = TypeVar("Test", bound=Callable[..., None])
Fixture = TypeVar("Fixture")


class RuleFailed(pytest.fail.Exception):  # type: ignore[misc,name-defined]  # made by a decorator
    """A failed test; ``verdict`` and ``seen`` for those who make a table of it.

    ``hangs``: nothing more can be asked of the driver.
    """

    def __init__(self, text: str, verdict: str, seen: str, *, hangs: bool = False) -> None:
        super().__init__(text, pytrace=False)
        self.hangs = hangs
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
                hangs = isinstance(err, Hung)
                failure = RuleFailed(explained(rule, str(err)), "broken", str(err), hangs=hangs)
            except NotJudged as err:
                failure = RuleFailed(not_judged(rule, err), "not judged", str(err))
            except PlacementError as err:
                why = NotJudged(f"Placement does not let the driver's tree be read: {err}")
                failure = RuleFailed(not_judged(rule, why), "not judged", str(why))
            except Inapplicable as err:
                pytest.skip(f"{name}: {err}")
            else:
                return
            raise failure

        judged.driver_rule = rule  # type: ignore[attr-defined]  # for the table of verdicts
        return judged  # type: ignore[return-value]  # it takes what the test takes

    return decorate


def given(fixture: str, value: Fixture | None) -> Fixture:
    """What the author's fixture gives.  :raises Inapplicable: there is none."""
    if value is None:
        raise Inapplicable(f"no fixture {fixture} is given (docs/driver-kit.rst)")
    return value


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

    # What the kit can't do by itself; a fixture that is left out skips its rules.

    @pytest.fixture
    def lose_backend(self) -> LoseBackend | None:
        """A callable that breaks the backend; it may return another one, that mends it."""
        return None

    @pytest.fixture
    def lose_device(self) -> Callable[[], Any] | None:
        """A callable that makes a device vanish from the backend."""
        return None

    @pytest.fixture
    def make_big_driver(self) -> MakeBigDriver | None:
        """As ``make_driver``, with 1,000 devices, or with as many as it is called with."""
        return None

    @pytest.fixture
    def reshape_case(self) -> ReshapeCase | None:
        """A tree in a shape that the driver reported once, and allocations on it."""
        return None

    @pytest.fixture
    def driver_stage(
        self, make_driver: MakeDriver, driver_context: DriverContext, driver_placement: API
    ) -> Iterator[Stage]:
        """Where the driver is put to work."""
        within = call_timeout(driver_context.conf)
        stage = Stage(driver_placement, driver_context, make_driver, within)
        yield stage
        stage.close()

    @judges("answers")
    def test_the_driver_answers(self, driver_stage: Stage) -> None:
        shape.answers(driver_stage)

    @judges("closes")
    def test_it_can_be_closed_whatever_happened(self, driver_stage: Stage) -> None:
        shape.closes(driver_stage)

    @judges("node-names")
    def test_nodes_keep_their_names(self, driver_stage: Stage) -> None:
        shape.node_names(driver_stage)

    @judges("root-stays")
    def test_the_root_stays(self, driver_stage: Stage) -> None:
        shape.root_stays(driver_stage)

    @judges("valid")
    def test_placement_takes_names_and_amounts(self, driver_stage: Stage) -> None:
        shape.valid(driver_stage)

    @judges("status-trait")
    def test_the_status_trait_is_the_agents(self, driver_stage: Stage) -> None:
        shape.status_trait(driver_stage)

    @judges("own-names")
    def test_names_are_its_own(self, driver_stage: Stage) -> None:
        shape.own_names(driver_stage)

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

    @judges("strangers-providers")
    def test_strangers_providers_stay(self, driver_stage: Stage) -> None:
        strangers.providers(driver_stage)

    @judges("strangers-traits")
    def test_strangers_traits_stay(self, driver_stage: Stage) -> None:
        strangers.traits(driver_stage)

    @judges("strangers-aggregates")
    def test_strangers_aggregates_stay(self, driver_stage: Stage) -> None:
        strangers.aggregates(driver_stage)

    @judges("drift")
    def test_what_was_taken_away_is_put_back(self, driver_stage: Stage) -> None:
        strangers.drift(driver_stage)

    @judges("tree-not-kept")
    def test_the_tree_is_not_kept(self, driver_stage: Stage) -> None:
        kept.tree_not_kept(driver_stage)

    @judges("documented-errors")
    def test_errors_are_the_documented_ones(self, driver_stage: Stage) -> None:
        kept.documented_errors(driver_stage)

    @judges("reshape-needed")
    def test_reshape_is_needed_only_when_something_moves(self, driver_stage: Stage) -> None:
        reshapes.needed(driver_stage)

    @judges("reshape-needed")
    def test_reshape_is_not_needed_again(
        self, driver_stage: Stage, reshape_case: ReshapeCase | None
    ) -> None:
        reshapes.needed_once(driver_stage, given("reshape_case", reshape_case))

    @judges("reshape-asked")
    def test_reshape_is_asked_for_in_the_old_shape(
        self, driver_stage: Stage, reshape_case: ReshapeCase | None
    ) -> None:
        reshapes.asked(driver_stage, given("reshape_case", reshape_case))

    @judges("reshape-totals")
    def test_reshape_keeps_what_consumers_have(
        self, driver_stage: Stage, reshape_case: ReshapeCase | None
    ) -> None:
        reshapes.totals(driver_stage, given("reshape_case", reshape_case))

    @judges("foreign-allocations")
    def test_allocations_are_left_alone_while_nothing_moves(self, driver_stage: Stage) -> None:
        reshapes.foreign(driver_stage)

    @judges("foreign-allocations")
    def test_foreign_allocations_are_left_alone(
        self, driver_stage: Stage, reshape_case: ReshapeCase | None
    ) -> None:
        reshapes.foreign_in_a_reshape(driver_stage, given("reshape_case", reshape_case))

    @judges("lost-backend")
    def test_a_lost_backend_is_not_ready(
        self, driver_stage: Stage, lose_backend: LoseBackend | None
    ) -> None:
        backend.lost(driver_stage, given("lose_backend", lose_backend))

    @judges("starts-without-backend")
    def test_it_starts_without_its_backend(
        self, driver_stage: Stage, lose_backend: LoseBackend | None
    ) -> None:
        backend.starts_without(driver_stage, given("lose_backend", lose_backend))

    @judges("lost-device")
    def test_a_lost_device_is_gone(
        self, driver_stage: Stage, lose_device: Callable[[], Any] | None
    ) -> None:
        backend.lost_device(driver_stage, given("lose_device", lose_device))

    @judges("time")
    def test_a_thousand_devices_take_bounded_time(
        self, driver_stage: Stage, make_big_driver: MakeBigDriver | None
    ) -> None:
        scale.bounded_time(driver_stage, given("make_big_driver", make_big_driver))

    @judges("memory")
    def test_a_thousand_devices_take_bounded_memory(
        self, driver_stage: Stage, make_big_driver: MakeBigDriver | None
    ) -> None:
        scale.bounded_memory(driver_stage, given("make_big_driver", make_big_driver))

    @judges("steady-memory")
    def test_quiet_periods_leave_no_memory(self, driver_stage: Stage) -> None:
        scale.steady_memory(driver_stage)
