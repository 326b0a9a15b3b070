"""A server that has nothing to do uses no CPU time to find that out."""

from types import SimpleNamespace

from agent.bus.listener import WAKES_EVERY, wait_for_messages


def test_a_server_waits_for_the_next_message_rather_than_a_millisecond() -> None:
    waited: list[float] = []
    connection = SimpleNamespace(consume=waited.append)
    polled = SimpleNamespace(conn=SimpleNamespace(connection=connection))
    wait_for_messages(SimpleNamespace(_poll_style_listener=polled))
    connection.consume(timeout=0.001)
    assert waited == [WAKES_EVERY]
    wait_for_messages(SimpleNamespace())  # another driver's
