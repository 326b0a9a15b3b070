"""Who is called when a host is switched, and who is not, and what is said about it."""

from dataclasses import replace

import pytest

from agent.errors import Attached, Changed, ReasonRefused, UnknownHost
from agent.registry.record import ServiceRecord
from compute_registry.control import NOBODY, Control
from tests.unit.registry.fakes import Agents, OneRecord, record


def test_an_attached_host_is_disabled_by_nova_and_forced_down_by_us() -> None:
    log: list[object] = []
    control = Control(OneRecord(record(attached=True), log), Agents(log))
    for act, command in (
        (lambda: control.switch("host1", disabled=True), "--disable host1 nova-compute"),
        (lambda: control.switch("host1", disabled=False), "--enable host1 nova-compute"),
    ):
        with pytest.raises(Attached) as refused:
            act()
        assert f"openstack compute service set {command}" in str(refused.value)
    assert log == []
    control.force_down("host1", NOBODY, forced_down=True)
    control.delete("host1", NOBODY)
    assert log == [("forced_down", "host1", True), ("delete", "host1")]


class Busy(OneRecord):
    """A record that other callers change after each of its first ``reads`` reads."""

    reads = 0

    def get_service(self, host: str) -> ServiceRecord:
        read = super().get_service(host)
        if self.reads:
            self.reads -= 1
            self.held = replace(read, version=read.version + 1)
        return read


@pytest.mark.parametrize(
    "change",
    [
        lambda control: control.switch("host1", disabled=True),
        lambda control: control.force_down("host1", NOBODY, forced_down=True),
    ],
)
def test_a_change_names_the_version_that_was_read_and_is_tried_again(change) -> None:
    """So that a message that is delivered late, or twice, does not undo a later change."""
    registry = Busy(record(), log := [])
    registry.reads = 2
    change(Control(registry, None))
    assert len(log) == 1


def test_a_record_that_others_keep_changing_is_an_error() -> None:
    registry = Busy(record(), log := [])
    registry.reads = 1000
    with pytest.raises(Changed, match="host1 has version"):
        Control(registry, None).switch("host1", disabled=True)
    assert log == []


def test_a_host_that_is_up_has_its_record_changed_first_and_is_then_called() -> None:
    log: list[object] = []
    done = Control(OneRecord(record(), log), Agents(log)).switch(
        "host1", disabled=True, reason="new disks"
    )
    assert log == [("record", "host1", True, "new disks"), ("call", "host1", False)]
    assert (done.answer, done.outcome) == ("disabled", "called and answered: disabled")
    assert done.record.disabled


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"silent_for": 61.0}, "host1 is down"),
        ({"forced_down": True}, "forced down"),
        ({"last_seen": None, "silent_for": None}, "never been up"),
        ({"rpc_version": None}, "is not known"),
    ],
)
def test_others_have_only_their_record_changed_and_it_is_said_why(
    fields: dict[str, object], why: str
) -> None:
    log: list[object] = []
    registry = OneRecord(record(**fields), log)
    done = Control(registry, Agents(log)).switch("host1", disabled=True)
    assert log == [("record", "host1", True, None)]
    assert done.answer is None and done.outcome.startswith("not called: ")
    assert why in done.outcome


def test_a_host_is_called_once_it_is_no_longer_forced_down() -> None:
    """Clients that are asked for both enable first, while nobody is called."""
    log: list[object] = []
    registry = OneRecord(record(forced_down=True), log)
    control = Control(registry, Agents(log))
    control.switch("host1", disabled=False)
    assert not control.force_down("host1", NOBODY, forced_down=False).forced_down
    assert log[-1] == ("call", "host1", True)
    control.force_down("host1", NOBODY, forced_down=True)
    assert log.count(("call", "host1", True)) == 1


@pytest.mark.parametrize(
    "fields",
    [{"rpc_version": "5.0"}, {"rpc_version": "10.2"}, {"silent_for": 61.0}],
)
def test_an_agent_that_answers_calls_is_called_by_the_silence_configured(
    fields: dict[str, object],
) -> None:
    control = Control(OneRecord(record(**fields), []), Agents([]), down_after=90.0)
    assert control.switch("host1", disabled=False).answer == "enabled"


def test_a_call_that_fails_leaves_the_record_and_is_reported() -> None:
    log: list[object] = []
    agents = Agents(log, fails=RuntimeError("no answer in 60 s"))
    done = Control(OneRecord(record(), log), agents).switch("host1", disabled=True)
    assert done.answer is None and done.outcome.startswith("called, no answer in 60 s")
    assert done.record.disabled


@pytest.mark.parametrize("version", ["6.5", None])
def test_without_a_message_bus_nobody_is_called_whatever_the_agent_reports(
    version: str | None,
) -> None:
    done = Control(OneRecord(record(rpc_version=version), []), None).switch("host1", disabled=False)
    assert done.outcome.startswith("not called: no message bus")


@pytest.mark.parametrize(
    ("host", "reason", "error"),
    [
        ("nobody", None, UnknownHost),
        *(("host1", text, ReasonRefused) for text in ("x" * 300, "AUTO: libvirt is lost")),
    ],
)
def test_nobody_is_called_when_the_record_can_not_be_changed(
    host: str, reason: str | None, error: type[Exception]
) -> None:
    log: list[object] = []
    with pytest.raises(error):
        Control(OneRecord(record(), log), Agents(log)).switch(host, disabled=True, reason=reason)
    assert log == []
