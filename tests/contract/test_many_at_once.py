"""Big trees: many requests at the same time, and lists of aggregates that are too long for a URL."""

import threading
import uuid

import pytest

from reportclient.apply import MIN_PARALLEL, apply
from reportclient.errors import InUse
from reportclient.http import PlacementAPI, token_adapter
from reportclient.plan import diff
from reportclient.provider_tree import ProviderTree
from reportclient.reader import URL_BYTES, refresh
from reportclient.view import View

ROOT = str(uuid.UUID(int=1))


class Gauge:
    """An API that knows how many requests were under way at the same time."""

    def __init__(self, api):
        self.api, self.now, self.most = api, 0, 0
        self.lock = threading.Lock()

    def request(self, method, path, **options):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            return self.api.request(method, path, **options)
        finally:
            with self.lock:
                self.now -= 1


def big_tree(children=40, below=2):
    tree = ProviderTree()
    tree.new_root("host1", ROOT)
    for number in range(children):
        name = f"card{number}"
        tree.new_child(name, "host1")
        tree.update_inventory(name, {"VGPU": {"total": 1 + number}})
        tree.add_traits(name, "CUSTOM_CARD", f"CUSTOM_KIND_{number % 5}")
        for port in range(below):
            tree.new_child(f"{name}_port{port}", name)
    return tree


def test_many_at_once_end_in_the_same_tree_as_one_by_one(placement):
    api = PlacementAPI(token_adapter(placement.url, "admin"))
    gauge = Gauge(api)
    wish = big_tree().freeze()
    outcome = apply(diff(View().snapshot, wish), View(), gauge, at_once=4)
    assert not outcome.failed
    assert outcome.stopped_by is None
    assert 1 < gauge.most <= 4
    seen = refresh(View(), ROOT, api)
    assert not diff(seen.snapshot, wish)
    assert seen.generations == outcome.view.generations


def test_a_small_plan_is_sent_one_by_one(fake_placement):
    gauge = Gauge(fake_placement)
    tree = ProviderTree()
    tree.new_root("host1", ROOT)
    plan = diff(View().snapshot, tree.freeze())
    assert len(plan) < MIN_PARALLEL
    apply(plan, View(), gauge, at_once=8)
    assert gauge.most == 1


@pytest.mark.parametrize("at_once", [1, 4])
def test_one_refused_operation_holds_none_of_its_neighbours(fake_placement, at_once):
    wish = big_tree().freeze()
    fake_placement.fail_next("PUT", r"/inventories$", InUse("409 in use"))
    outcome = apply(diff(View().snapshot, wish), View(), fake_placement, at_once=at_once)
    assert len(outcome.failed) == 1
    (failed,) = outcome.failed
    missing = diff(outcome.view.snapshot, wish)
    assert [op.uuid for op in missing] == [failed]


def test_aggregates_too_long_for_one_url_are_split_and_none_is_lost(placement):
    api = PlacementAPI(token_adapter(placement.url, "admin"))
    aggregates = [str(uuid.uuid4()) for _ in range(300)]
    tree = ProviderTree()
    tree.new_root("host1", ROOT)
    tree.add_aggregates("host1", *aggregates)
    storage = tree.new_root("storage", str(uuid.uuid4()))
    tree.add_traits(storage, "MISC_SHARES_VIA_AGGREGATE")
    tree.add_aggregates(storage, max(aggregates), min(aggregates))
    apply(diff(View().snapshot, tree.freeze()), View(), api)
    start = placement.mark()
    view = refresh(View(), ROOT, api)
    asked = [r.path for r in placement.since(start) if "member_of" in r.path]
    assert len(asked) == 3
    assert all(len(path.encode()) < URL_BYTES + 200 for path in asked)
    assert view.sharing == {storage}
    start = placement.mark()
    assert refresh(view, ROOT, api).snapshot is view.snapshot
    assert len(placement.since(start)) == 1 + len(asked)
