"""The command compute-agent: creates all parts of the agent and runs it.

Only this module exits the process.  Exit codes: 0 success; 1 ``--once`` could not report
everything, the next start may succeed, or stopping took too long; 2 the configuration, a driver or
the compute_id can't be used, so that systemd does not restart the agent.
"""

from __future__ import annotations

from agent import lean  # isort: skip  before the libraries that it leaves out

import faulthandler
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from importlib import metadata
from typing import TYPE_CHECKING, Any, NoReturn

from agent import config, opts, version
from agent.check import FAILED, KINDS, Check, exit_code, explained
from agent.loop import Loop
from agent.nodes.identity import refuse_unreadable
from agent.nodes.nodes import Nodes
from agent.placement import Endpoint, adapter_from_conf, agent_api
from agent.reload import Reload
from agent.reporting import guru, logs
from agent.reporting.condition import of_disk
from agent.reporting.status import StatusFile
from agent.reporting.systemd import Systemd
from agent.state.driver_store import DriverStore
from agent.state.lock import StateDirectory
from agent.state.saved_root import saved_roots
from agent.switching.switching import switching
from agent.threads import started
from drivers.api import DriverContext
from drivers.loader import load_drivers
from reportclient.http import API

if TYPE_CHECKING:
    from agent.metrics.monitoring import Monitoring

lean.loaded()
LOG = logging.getLogger("compute_agent.service")

DEV = "compute_agent.dev"
"""Group of the entry point for ``--dev``, whose code the daemon does not import."""
SILENT_AFTER = 15.0
"""Seconds without an answer of Placement after which log and status say so; the wait is longer."""
LOOKS_EVERY = 1.0
"""Seconds between two looks of the main thread at what the loop does."""
DRIVER_WITHIN = 3.0
"""Seconds in which a driver's call has to return when the agent stops."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command, and exit."""
    words, conf = list(sys.argv[1:] if args is None else args), None
    with ExitStack() as stack:
        try:
            conf = config.load_config(words)
            code = Check(conf).run() if conf.check else _run(conf, words, stack)
        except KINDS as err:
            logs.complain(f"compute-agent: {explained(err, conf)}")
            code = exit_code(err)
        except KeyboardInterrupt:
            code = FAILED
    sys.exit(code)


def _run(conf: Any, args: list[str], stack: ExitStack) -> int:
    # Until their handlers are installed; SIGHUP ends a run of one period.
    for number in (signal.SIGUSR1, signal.SIGUSR2, *(() if conf.once else (signal.SIGHUP,))):
        signal.signal(number, _log_ignored)
    logs.start(conf, "compute-agent", quiet=conf.dev)  # --dev draws the tree
    config.hide_secrets(conf)
    LOG.info("compute-agent %s", version())
    settings = config.settings(conf)
    path = settings.state_path
    directory = StateDirectory.locked(path)
    stack.callback(directory.close)
    refuse_unreadable(path)
    systemd = Systemd.from_environment()
    loop = Loop()
    store = DriverStore(path)
    context = DriverContext(settings.host, path, conf, loop.refresh, store)
    drivers = load_drivers(settings.drivers, context)
    config.check_values(conf)  # drivers register their options when they are loaded
    config.refuse_unknown(conf)
    dev = _dev(conf, stack)
    adapter = dev.adapter() if dev else adapter_from_conf(conf)
    config.hide_secrets(conf)  # once drivers and auth_type have their options
    for warning in config.open_secrets(conf):
        LOG.warning("%s", warning)
    monitoring = _monitoring(settings)
    api: API = agent_api(adapter, conf, systemd.feed)
    if monitoring is not None:
        api = monitoring.measured(api)
    nodes = Nodes.from_settings(settings, drivers, api)
    nodes.provider_files.load_files()
    switches = switching(settings, nodes, systemd, loop, _transport(settings, conf))
    service = switches.service
    service.endpoint = Endpoint(adapter)
    status_file = StatusFile(path, settings.host, settings.interval, time.time, switches.facts)
    status_file.disk = lambda: [
        *map(of_disk, (*filter(None, [directory.problem]), *store.problems())),
        *nodes.conditions(),
    ]
    service.listeners += [lambda _: directory.check(), status_file]
    switches.on_facts, switches.heartbeat.degraded = status_file.write_service, status_file.problems
    if monitoring is not None:
        monitoring.listen(service, switches, loop, lambda: status_file.written)
        stack.callback(monitoring.stop)
    if dev is not None:
        service.listeners.append(dev.show(nodes, once=conf.once))
    stack.callback(service.close)
    service.open()
    if conf.once:
        switches.read_once()
        return 0 if service.period() and not nodes.provider_files.diagnostics else FAILED
    stack.callback(switches.stop)
    if monitoring is not None:
        monitoring.start()
    switches.start()
    reload = Reload(conf, args, service, loop, status_file, settings, adapter, switches)
    _until_stopped(reload)
    return 0


def _transport(settings: opts.Settings, conf: Any) -> Any:
    """Return the message bus; ``None`` without transport_url, and for --once without RPC."""
    if not settings.transport_url or (conf.once and settings.registry.access == "direct"):
        return None
    from agent.bus import messaging  # noqa: PLC0415  loaded only with a bus

    logs.limit_repeats()
    return messaging.transport(settings.transport_url, conf.config_file or ())


def _dev(conf: Any, stack: ExitStack) -> Any:
    """Start the Placement of ``--dev``; return its ``driverkit.dev.Dev``, or ``None``."""
    if not conf.dev:
        return None
    for point in metadata.entry_points(group=DEV):
        return point.load()(conf, stack)
    raise config.ConfigError(f"--dev: {DEV} has no entry point: reinstall compute-agent")


def _monitoring(settings: opts.Settings) -> Monitoring | None:
    """Return metrics and health if they are enabled."""
    if not settings.monitoring.is_on:
        return None
    from agent.metrics.monitoring import Monitoring  # noqa: PLC0415  loaded only if enabled

    return Monitoring(settings.monitoring)


def _log_ignored(number: int, _: object) -> None:
    LOG.info("Ignoring %s", signal.Signals(number).name)


def _until_stopped(reload: Reload) -> None:
    """Run the loop until SIGTERM or SIGINT; SIGHUP reloads, SIGUSR2 writes a report."""
    service, loop, settings = reload.service, reload.loop, reload.settings
    status_file = reload.status_file
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _stop(reload))
    signal.signal(signal.SIGHUP, lambda *_: reload.request())
    signal.signal(signal.SIGUSR2, lambda _, frame: guru.dump(reload.conf, frame))
    first_in = random.uniform(0, settings.spread(reload.switching.heartbeat.hosts))
    if not saved_roots(settings.state_path):
        first_in = 0.0  # a new host: somebody waits for it
    why, ready_at = "the first report is not finished yet", time.monotonic() + opts.READY_WITHIN
    if first_in > opts.READY_WITHIN:
        why, ready_at = f"first report in {first_in:.0f} s", 0.0
    status_file.started(first_in)
    LOG.info("Reporting host %s, the first time in %.0f s", settings.host, first_in)
    # Python handles signals in the main thread, which must not hang in a driver's C code.
    with ThreadPoolExecutor(1, thread_name_prefix="loop") as pool:
        done = pool.submit(loop.run, service.period, settings.interval, first_in)
        # The second of two signals in quick succession does not wake a thread that waits: it is
        # handled at the next look.
        while not wait([done], LOOKS_EVERY).done:
            status_file.note_silence(service.silence(SILENT_AFTER))
            if time.monotonic() >= ready_at:  # also while Placement is away
                service.ready_anyway(why)
        done.result()
    LOG.info("Stopped")


def _stop(reload: Reload) -> None:
    """Stop the loop, and exit after graceful_shutdown_timeout at the latest.

    Exit earlier once a driver's call has not returned for DRIVER_WITHIN: nothing is written then.
    """
    reload.service.systemd.stopping()
    reload.loop.stop()
    stopped, within = time.monotonic(), reload.settings.shutdown_within

    def exit_late() -> None:
        while time.monotonic() < stopped + within:
            if why := reload.service.hanging(stopped, DRIVER_WITHIN):
                _exit_now(0, f"Stopped without waiting: {why}")
            time.sleep(0.1)
        text = f"Not stopped after graceful_shutdown_timeout ({within:g} s): exiting now"
        _exit_now(FAILED, text)

    started(threading.Thread(target=exit_late, name="stop", daemon=True))


def _exit_now(code: int, text: str) -> NoReturn:
    LOG.warning("%s", text)
    faulthandler.dump_traceback(2)
    os._exit(code)
