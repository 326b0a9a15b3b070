"""Judges: the same host gives the same tree in each period, process, order and thread."""

from concurrent.futures import ThreadPoolExecutor

from driverkit.broken import Broken, Inapplicable, NotJudged, broken_by_errors
from driverkit.differences import differences, first_lines, sentences
from driverkit.stage import Root, Stage
from drivers.loaded import LoadedDriver
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot

PERIODS = 3
AT_ONCE = 8
ROUNDS = 3


def second_period(stage: Stage) -> None:
    """Judge whether a second period has nothing to write."""
    loaded, roots = stage.reported()
    when = "in the next period, with nothing changed,"
    for root in roots:
        for _ in range(PERIODS):
            _expect_nothing_to_write(root, loaded, when, "the period before")


def agree(stage: Stage) -> None:
    """Judge whether two drivers report the same, each starting with an empty tree."""
    loaded, other = stage.open(), stage.open()
    for root in stage.roots(loaded):
        desired = root.desired(loaded)
        theirs = again(root, other, "called after another driver of the same host")
        expect_same(root, desired, theirs, "the report of one driver, then of the other")


def restart(stage: Stage) -> None:
    """Judge whether a fresh driver changes nothing in what the first one has reported."""
    _, roots = stage.reported()
    after = stage.open()
    when = "a fresh driver, called with the tree that another one has reported,"
    for root in roots:
        _expect_nothing_to_write(root, after, when, "the driver before the restart")


def any_order(stage: Stage) -> None:
    """Judge the reverse order of nodes, and of providers in the tree."""
    first, second, other = stage.open(), stage.open(), stage.open()
    roots = stage.roots(first)
    forwards = [_alike(root, first, second) for root in roots]
    backwards = [
        again(root, other, "called for the nodes in reverse order") for root in reversed(roots)
    ]
    for root, desired, later in zip(roots, forwards, reversed(backwards), strict=True):
        expect_same(root, desired, later, "called for the nodes in order, then in reverse order")
        tree = ProviderTree(Snapshot.build(reversed(list(desired.walk()))))
        root.update_provider_tree(other, tree)
        expect_same(
            root, desired, tree.freeze(), "the reported tree, then the same tree in another order"
        )


def any_thread(stage: Stage) -> None:
    """Judge a driver that is opened in one thread and called in others."""
    loaded = stage.open()
    for root in stage.roots(loaded):
        desired = _alike(root, loaded, loaded)
        for _ in range(2):
            elsewhere = LoadedDriver.from_driver(loaded.name, loaded.driver, stage.within)
            later = again(root, elsewhere, "in another thread")
            expect_same(root, desired, later, "in one thread, then in another one")


def _alike(root: Root, loaded: LoadedDriver, other: LoadedDriver) -> Snapshot:
    """Return the tree that both drivers report.  :raises NotJudged: their trees differ."""
    first, second = root.desired(loaded), root.desired(other)
    if differences(first, second):
        raise NotJudged(f"node {root.node}: two equal calls report different trees")
    return first


def thread_safe(stage: Stage) -> None:
    """Judge calls for all nodes at once, several times."""
    loaded = stage.open()
    if not loaded.driver.thread_safe:
        raise Inapplicable("to judge it, set thread_safe = True in the driver's class")
    roots = stage.roots(loaded)
    if len(roots) < 2:
        raise Inapplicable("to judge it, let make_driver create a driver of two nodes or more")
    alone = [root.desired(loaded) for root in roots]

    def report_together(root: Root) -> Snapshot:
        return again(root, loaded, "called for several nodes at once")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(ROUNDS):
            together = list(pool.map(report_together, roots))
            for root, desired, later in zip(roots, alone, together, strict=True):
                expect_same(
                    root, desired, later, "called for one node at a time, then for all at once"
                )


def again(root: Root, loaded: LoadedDriver, when: str) -> Snapshot:
    """Return the tree that the driver reports.  :raises Broken: it raises an exception."""
    with broken_by_errors(f"node {root.node}: {when} "):
        return root.desired(loaded)


def _expect_nothing_to_write(root: Root, loaded: LoadedDriver, when: str, since: str) -> None:
    with broken_by_errors(f"node {root.node}: {when} "):
        plan = root.decided(loaded).plan
    if plan:
        raise Broken(
            f"node {root.node}: since {since}, although nothing has changed on the host:\n"
            f"{first_lines(sentences(plan, root.view.snapshot))}"
        )


def expect_same(root: Root, first: Snapshot, second: Snapshot, how: str) -> None:
    """Expect that the trees are equal.  :raises Broken: with the differences."""
    if lines := differences(first, second):
        raise Broken(f"node {root.node}: {how}:\n{first_lines(lines)}")
