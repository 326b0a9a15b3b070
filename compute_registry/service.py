"""compute-registry: serves the service records over RPC and, if configured, over REST.

It keeps nothing in memory but the heartbeats of a second, so any number of instances may share one
database; the broker distributes the calls.  Exit codes: 0 stopped; 1 no thread could be started; 2
the configuration is unusable.
"""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from agent import version
from agent.bus import messaging
from agent.bus.rpcapi import ComputeAgentAPI
from agent.bus.server import RpcServer
from agent.bus.signing import Operator
from agent.config import ConfigError, files_of, hide_secrets, located, open_secrets
from agent.errors import MessagingError, RegistryError, RegistryUnavailable
from agent.opts import monitoring_settings
from agent.registry import wire
from agent.reporting import guru, logs
from agent.reporting.systemd import Systemd
from agent.retrying import until_it_works
from agent.threads import NoThread, keep_running
from compute_registry import config
from compute_registry.control import Control
from compute_registry.database.fleet_database import FleetDatabase
from compute_registry.endpoint import RegistryEndpoint, RegistryPermissions
from compute_registry.heartbeats import ECHO_TIMEOUT, Echo, Heartbeats
from compute_registry.opts import ServerSettings, server_settings
from compute_registry.store import SqlRegistry
from compute_registry.web import application, listen

if TYPE_CHECKING:
    from compute_registry.metrics import RegistryMonitoring

LOG = logging.getLogger(__name__)
FAILED, UNUSABLE = 1, 2
REPEATING = (
    *("compute_registry.heartbeats", "compute_registry.store.records"),
    *("compute_registry.keystone", "compute_registry.web", "waitress", "waitress.queue"),
)
"""Loggers that write a line for each failed batch of heartbeats, each refused root, each token that
can't be checked, each request that ends with an unexpected error, and each that waits for a
thread."""
LONGEST_PAUSE = 15.0
"""Seconds between two attempts to reach the database, at most."""
AGENT_WITHIN = 3.0
"""Seconds that a request over HTTP waits for an agent: it may hang, or wait for Placement, and
follows its record all the same."""
STOP_WITHIN = 10.0
"""Seconds to wait for running calls when the process stops."""


def main(args: Sequence[str] | None = None) -> None:
    """Run compute-registry; the console script."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    arguments, conf = list(sys.argv[1:] if args is None else args), None
    try:
        conf = config.load_config(arguments)
        if conf.host_keys is not None or conf.broker_users:
            lines = config.for_hosts(conf, sys.stdin.read().split())
            sys.stdout.writelines(f"{line}\n" for line in lines)
            return
        logs.start(conf, config.PROG)
        hide_secrets(conf)
        logs.limit_repeats(*REPEATING)
        LOG.info("%s %s", config.PROG, version())
        systemd, settings = Systemd.from_environment(), server_settings(conf)
        process = _Process(conf, arguments, settings, stop, systemd)
        signal.signal(signal.SIGHUP, lambda *_: process.reload_requested.set())
        signal.signal(signal.SIGUSR2, lambda _, frame: guru.dump(conf, frame))
        process.run()
    except (ConfigError, logs.LogsUnusable, RegistryError, MessagingError) as err:
        text = str(err) if conf is None else located(str(err), files_of(conf))
        logs.complain(f"{config.PROG}: {text}")
        sys.exit(UNUSABLE)
    except NoThread as err:
        logs.complain(f"{config.PROG}: {err}")
        os._exit(FAILED)  # systemd starts it again
    logging.shutdown()
    # sys.exit would wait for threads that wait for an unreachable broker.
    os._exit(0)


@dataclass(slots=True)
class _Process:
    """An instance of compute-registry, from its start to its stop."""

    conf: Any
    args: Sequence[str]
    """The arguments of the command line."""
    settings: ServerSettings
    stop: threading.Event
    systemd: Systemd
    monitoring: "RegistryMonitoring | None" = None
    reload_requested: threading.Event = field(default_factory=threading.Event)
    rpc: RpcServer | None = None
    control: Control | None = None
    store: SqlRegistry | None = None
    agents: ComputeAgentAPI | None = None
    echo: Echo | None = None

    def run(self) -> None:
        """Serve until ``stop`` is set."""
        settings = self.settings
        if not self.conf.transport_url and not settings.rest_port:
            raise ConfigError(
                "neither RPC nor REST is configured: set transport_url or [registry] rest_port"
            )
        database = FleetDatabase.from_url(settings.connection)
        with ExitStack() as stack:
            stack.callback(database.dispose)
            transport = self._transport()
            store = self.store = SqlRegistry(database, settings.down_after)
            self._monitor(store, stack)  # shows the wait for the database
            self._wait_for_database(database)
            if self.stop.is_set():
                return
            if transport is not None:
                self._serve_rpc(store, transport, stack)
            if settings.rest_port:
                self._serve_rest(store, stack)
            hide_secrets(self.conf)  # Keystone's options are registered now
            for warning in open_secrets(self.conf):
                LOG.warning("%s", warning)
            LOG.info("Serving the service records in %s", database.safe_url)
            self.systemd.ready(f"serving {database.safe_url}")
            while not self.stop.wait(min(1.0, (self.systemd.watchdog or 15.0) / 3)):
                self.systemd.feed()
                if self.reload_requested.is_set():
                    self._reload()
            self.systemd.stopping()
        LOG.info("Stopped")

    def _reload(self) -> None:
        """Read the files again; an invalid configuration changes nothing."""
        self.reload_requested.clear()
        self.systemd.reloading()
        try:
            config.reload(self.conf, self.args)
            settings = server_settings(self.conf)
            for part in (self.store, self.control):
                if part is not None:
                    part.down_after = settings.down_after
            if self.agents is not None:
                self._use_keys(_operator(settings))
        except ConfigError as err:
            text = "The configuration was not reloaded, the previous one stays in use: %s"
            LOG.warning(text, err)
        except Exception:
            LOG.exception("The configuration was not reloaded")
        self.systemd.reloaded()

    def _broker(self) -> str:
        """Return the problem of the connection to the broker; empty if there is none."""
        if not self.conf.transport_url:
            return ""
        if self.rpc is None or self.echo is None or self.rpc.problem():
            return "no connection to the message broker: RPC calls do not arrive"
        silent = "the message broker delivers no messages: RPC calls do not arrive"
        return "" if self.echo.is_received() else silent

    def _use_keys(self, operator: Operator | None) -> None:
        if self.rpc is not None and self.agents is not None:
            self.rpc.permit = None if operator is None else RegistryPermissions(operator)
            self.agents.sign_as(operator)

    def _transport(self) -> Any:
        """Return the message bus, ``None`` without one.

        :raises ConfigError: neither master_key nor unsigned_calls is set.
        """
        if not self.conf.transport_url:
            return None
        transport = messaging.transport(self.conf.transport_url, self.conf.config_file or ())
        if _operator(self.settings) is None:
            LOG.warning(
                "Calls over the message bus are not signed ([registry] unsigned_calls): anyone "
                "with a credential of the broker can disable, force down and delete every host"
            )
        return transport

    def _wait_for_database(self, database: FleetDatabase) -> None:
        """Create the tables once the database answers, or stop; log each new reason."""

        def log(error: str) -> None:
            LOG.warning("Waiting for the database: %s", error)
            self.systemd.status(f"waiting for {database.safe_url}")

        until_it_works(database.prepare, self.stop, log, LONGEST_PAUSE, RegistryUnavailable)

    def _monitor(self, store: SqlRegistry, stack: ExitStack) -> None:
        """Serve metrics and health, if [monitoring] enables them."""
        settings = monitoring_settings(self.conf)
        if settings.is_on:
            from compute_registry.metrics import RegistryMonitoring  # noqa: PLC0415  only if enabled

            self.monitoring = RegistryMonitoring(settings, store, self._broker)
            self.monitoring.start()
            stack.callback(self.monitoring.stop)

    def _serve_rpc(self, store: SqlRegistry, transport: Any, stack: ExitStack) -> None:
        exchange = self.conf.control_exchange
        agents = ComputeAgentAPI(transport, exchange=exchange, timeout=AGENT_WITHIN)
        name = f"{socket.gethostname()}:{os.getpid()}"
        topic = messaging.Target(exchange=wire.EXCHANGE, topic=wire.TOPIC)
        own = topic(namespace=wire.NAMESPACE, version=wire.VERSION)
        echo = Echo(messaging.RpcClient(transport, own, ECHO_TIMEOUT), name)
        endpoint = RegistryEndpoint(store, on_echo=echo.receive)
        server = RpcServer(transport, topic(server=name), [endpoint])
        server.outcome_of, server.at_once = wire.outcome, frozenset({"keep_alive", "echo"})
        if self.monitoring is not None:
            server.on_answered = self.monitoring.count_call
        self.rpc, self.agents, self.echo = server, agents, echo
        self._use_keys(_operator(self.settings))
        server.start()
        heartbeats = Heartbeats(store, endpoint.received, agents, self._broker, echo.send)
        keep_running(partial(heartbeats.run, self.stop), "heartbeats", self.stop)
        stack.callback(heartbeats.record)
        stack.callback(server.stop, STOP_WITHIN)

    def _serve_rest(self, store: SqlRegistry, stack: ExitStack) -> None:
        settings = self.settings
        self.control = Control(store, self.agents, settings.down_after)
        server = listen(application(self.control, self.conf, settings), settings)
        address = settings.rest_bind, settings.rest_port, settings.auth_strategy
        LOG.info("Serving os-services on http://%s:%s (%s)", *address)
        keep_running(server.run, "rest", self.stop)
        stack.callback(server.close)


def _operator(settings: ServerSettings) -> Operator | None:
    """Return the holder of the master keys; ``None``: calls are not signed.

    :raises ConfigError: neither master_key nor unsigned_calls is set.
    """
    if settings.master_key:
        return Operator(settings.master_key)
    if not settings.unsigned_calls:
        raise ConfigError(
            "[registry] master_key is not set: anyone with a credential of the broker could "
            "disable and delete every host. Set it to the output of `openssl rand -hex 32` and "
            "give each agent its host_key (--host-keys DIR), or set [registry] "
            "unsigned_calls = true"
        )
    return None
