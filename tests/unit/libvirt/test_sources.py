import pytest

from drivers.errors import DriverNotReady
from drivers.libvirt.facts.fact import Sources


def refuse():
    raise DriverNotReady("out of luck")


def test_a_source_that_never_answered_is_an_error_or_what_stands_for_it():
    sources = Sources(None)
    with pytest.raises(DriverNotReady, match="out of luck"):
        sources.fetch("memory", refuse)
    assert sources.fetch_or_default("disk", refuse, None) is None
    assert set(sources.failed()) == {"memory", "disk"}


def test_nothing_is_an_answer_too():
    sources = Sources(None)
    assert sources.fetch("disk", lambda: None) is None
    assert sources.fetch("disk", refuse) is None


def test_how_long_each_took_is_known():
    times = iter([0.0, 2.0, 2.0, 2.5])
    sources = Sources(None, lambda: next(times))
    sources.fetch("memory", lambda: 8)
    sources.fetch("memory", refuse)
    assert sources.durations() == {"memory": 0.5}


def test_errors_of_our_own_making_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        Sources(None).fetch_or_default("memory", lambda: 1 // 0, None)
