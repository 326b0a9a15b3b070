"""Users of RabbitMQ for compute-registry --broker-users, each with the least that it needs.

oslo.messaging declares each exchange and queue that it uses, which takes the permission to
configure it.  A queue is bound with the permissions to write it and to read the exchange; the
topic permission says with which routing keys.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from agent.bus.incoming import TOPIC
from agent.registry import wire

REPLIES = "reply_.*"
DEFAULT_EXCHANGE = r"amq\.default"
"""Answers go through it, to the queue that the caller named."""


def commands(hosts: Sequence[str], exchange: str, vhost: str) -> Iterator[str]:
    """Return the calls of rabbitmqctl, for the registry, an operator, and the agent of each host.

    ``exchange``: on which agents are called.
    """
    calls, registry, where = re.escape(exchange), wire.TOPIC, [] if vhost == "/" else ["-p", vhost]
    users: dict[str, Sequence[Sequence[str]]] = {
        "registry": (
            (calls, f"{registry}.*", REPLIES),
            (DEFAULT_EXCHANGE, calls, f"{registry}.*", REPLIES),
            (f"{registry}.*", REPLIES),
        ),
        "operator": (
            (calls, registry, REPLIES),
            (DEFAULT_EXCHANGE, calls, registry, REPLIES),
            (REPLIES,),
        ),
    }
    for host in hosts:
        own = (TOPIC, rf"{TOPIC}\.{re.escape(host)}")
        users[f"agent-{host}"] = (
            (calls, *own, f"{TOPIC}_fanout.*", registry, REPLIES),
            (DEFAULT_EXCHANGE, *own, f"{TOPIC}_fanout_.*", registry, REPLIES),
            (calls, *own, f"{TOPIC}_fanout.*", REPLIES),
        )
    for user, permissions in users.items():
        yield _command("add_user", user)
        yield _command("set_permissions", *where, user, *map(_any_of, permissions))
        if user.startswith("agent-"):
            topics = _any_of(permissions[0][1:3])
            yield _command("set_topic_permissions", *where, user, exchange, "^$", topics)


def _any_of(patterns: Sequence[str]) -> str:
    return f"^({'|'.join(patterns)})$"


def _command(*words: str) -> str:
    return shlex.join(["rabbitmqctl", *words])
