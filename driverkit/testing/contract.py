"""DriverContract: the base of a driver's test class, with a test for each rule."""

from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import Any

import pytest

from driverkit.broken import (
    Broken,
    Hung,
    Inapplicable,
    NotJudged,
    explained,
    missing,
    not_judged,
)
from driverkit.judges import backend, foreign, periods, reshapes, scale, shape
from driverkit.judges.backend import LoseBackend
from driverkit.judges.reshapes import ReshapeCase
from driverkit.judges.scale import MakeBigDriver
from driverkit.rulebook import RULES
from driverkit.stage import MakeDriver, Stage
from drivers.api import DriverContext
from drivers.loader import call_timeout
from reportclient.errors import PlacementError
from reportclient.http import API


class RuleFailed(pytest.fail.Exception):  # type: ignore[misc,name-defined]  # made by a decorator
    """A failed test, with ``verdict`` and evidence (``seen``) for ``computectl driver check``.

    ``hangs``: the driver hangs, so that no further rule can be checked.
    """

    def __init__(self, text: str, verdict: str, seen: str, *, hangs: bool = False) -> None:
        super().__init__(text, pytrace=False)
        self.hangs = hangs
        self.verdict = verdict
        self.seen = seen


def judged(
    name: str, judge: Callable[..., None], fixture: str | None = None, *, needed: bool = True
) -> Callable[..., None]:
    """Return a test of the rule ``name``: ``judge`` checks it, failures explain the rule.

    ``fixture`` names a fixture of the author that ``judge`` uses; if it is ``needed``, the test is
    skipped without it.
    """
    rule = RULES[name]

    def test(_contract: object, driver_stage: Stage, **given: Any) -> None:
        if fixture and needed and given[fixture] is None:
            pytest.skip(f"{name}: {missing(fixture)}")
        try:
            judge(driver_stage, *given.values())
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

    names = ["_contract", "driver_stage", *([fixture] if fixture else [])]
    parameters = [Parameter(each, Parameter.POSITIONAL_OR_KEYWORD) for each in names]
    test.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # pytest reads it
    test.driver_rule = rule  # type: ignore[attr-defined]  # for the table of verdicts
    return test


class DriverContract:
    """Base of an author's test class ``Test…``, which has to define the fixture ``make_driver``."""

    @pytest.fixture
    def make_driver(self) -> MakeDriver:
        """Return a callable that creates a new driver for the same backend."""
        pytest.fail(
            f"{type(self).__name__} needs a fixture make_driver that returns a callable: "
            "`def make_driver(self, driver_context): return lambda: MyDriver(driver_context)`",
            pytrace=False,
        )

    # Optional fixtures; rules that need a missing fixture are skipped.

    @pytest.fixture
    def lose_backend(self) -> LoseBackend | None:
        """Return a callable that breaks the backend; it may return a callable that repairs it."""
        return None

    @pytest.fixture
    def lose_device(self) -> Callable[[], Any] | None:
        """Return a callable that removes a device from the backend.

        Without it a device is left out of what a DeviceDriver lists.
        """
        return None

    @pytest.fixture
    def make_big_driver(self) -> MakeBigDriver | None:
        """Return a callable that creates a driver with 1,000 devices, or the given number."""
        return None

    @pytest.fixture
    def reshape_case(self) -> ReshapeCase | None:
        """Return a tree in a shape that the driver once reported, and allocations on it."""
        return None

    @pytest.fixture
    def driver_stage(
        self, make_driver: MakeDriver, driver_context: DriverContext, driver_placement: API
    ) -> Iterator[Stage]:
        """The Stage, which runs the driver; all drivers are closed afterwards."""
        within = call_timeout(driver_context.conf)
        stage = Stage(driver_placement, driver_context, make_driver, within)
        yield stage
        stage.close()

    # A test for each rule, with its judge and the fixture that it needs.

    test_the_driver_answers = judged("answers", shape.answers)
    test_it_can_be_closed_whatever_happened = judged("closes", shape.closes)
    test_nodes_keep_their_names = judged("node-names", shape.node_names)
    test_the_root_stays = judged("root-stays", shape.root_stays)
    test_placement_takes_names_and_amounts = judged("valid", shape.valid)
    test_the_status_trait_is_the_agents = judged("status-trait", shape.status_trait)
    test_names_are_its_own = judged("own-names", shape.own_names)
    test_a_second_period_changes_nothing = judged("second-period", periods.second_period)
    test_two_fresh_drivers_agree = judged("agree", periods.agree)
    test_a_restart_changes_nothing = judged("restart", periods.restart)
    test_order_makes_no_difference = judged("any-order", periods.any_order)
    test_any_thread_may_call = judged("any-thread", periods.any_thread)
    test_a_thread_safe_driver_reports_nodes_at_once = judged("thread-safe", periods.thread_safe)
    test_foreign_providers_stay = judged("foreign-providers", foreign.providers)
    test_foreign_traits_stay = judged("foreign-traits", foreign.traits)
    test_foreign_aggregates_stay = judged("foreign-aggregates", foreign.aggregates)
    test_what_was_removed_is_reported_again = judged("drift", foreign.drift)
    test_the_tree_is_not_kept = judged("tree-not-kept", scale.tree_not_kept)
    test_errors_are_the_documented_ones = judged("documented-errors", backend.documented_errors)
    test_reshape_is_needed_only_when_something_moves = judged("reshape-needed", reshapes.needed)
    test_reshape_is_not_needed_again = judged(
        "reshape-needed", reshapes.needed_once, "reshape_case"
    )
    test_reshape_is_needed_in_the_old_shape = judged(
        "reshape-asked", reshapes.asked, "reshape_case"
    )
    test_reshape_keeps_what_consumers_have = judged(
        "reshape-totals", reshapes.totals, "reshape_case"
    )
    test_allocations_are_left_alone_while_nothing_moves = judged(
        "foreign-allocations", reshapes.foreign
    )
    test_foreign_allocations_are_left_alone = judged(
        "foreign-allocations", reshapes.foreign_in_a_reshape, "reshape_case"
    )
    test_a_lost_backend_is_not_ready = judged("lost-backend", backend.lost, "lose_backend")
    test_it_starts_without_its_backend = judged(
        "starts-without-backend", backend.starts_without, "lose_backend"
    )
    test_a_lost_device_is_gone = judged(
        "lost-device", backend.lost_device, "lose_device", needed=False
    )
    test_a_thousand_devices_take_bounded_time = judged(
        "time", scale.bounded_time, "make_big_driver"
    )
    test_a_thousand_devices_take_bounded_memory = judged(
        "memory", scale.bounded_memory, "make_big_driver"
    )
    test_quiet_periods_leave_no_memory = judged("steady-memory", scale.steady_memory)
