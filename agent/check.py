"""``compute-agent --check``: what a start would use, and every error that it would end with.

Nothing is written, locked or logged, so that it can run beside the agent.  Takes one GET of
Placement, with a token of Keystone.  Also the exit codes of a start's errors.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from agent import config
from agent.errors import RegistryError, TransportUnavailable
from agent.nodes.identity import (
    IdentityError,
    IdentityNotReady,
    refuse_unreadable,
    saved_compute_id,
)
from agent.opts import Settings
from agent.placement import Endpoint, adapter_from_conf
from agent.provider_config.files import ProviderFiles, read_files
from agent.reporting import logs
from agent.reporting.condition import with_agents_step
from agent.service import close_driver, open_driver
from agent.state.driver_store import DriverStore
from agent.state.lock import InUse
from agent.threads import NoThread
from drivers.api import DriverContext
from drivers.errors import BadFile, DriverError, DriverNotReady
from drivers.loader import LoadedDriver, load_drivers
from reportclient.errors import OF_OPTIONS, AuthenticationFailed, PlacementError, Unreachable
from reportclient.http import PlacementAPI
from reportclient.plain_text import error_text, plain

FAILED, UNUSABLE = 1, 2
PASSING = (DriverNotReady, IdentityNotReady, InUse, NoThread, RegistryError, Unreachable)
"""Errors that pass by themselves: systemd starts the agent again then."""
LASTING = (
    *(config.ConfigError, logs.LogsUnusable, DriverError, IdentityError, TransportUnavailable),
    *(AuthenticationFailed, PlacementError),
)
"""Errors that an operator has to correct, except those that are also ``PASSING``."""
KINDS = (*PASSING, *LASTING)
_OF_OPTIONS = (*OF_OPTIONS, DriverError, logs.LogsUnusable, TransportUnavailable)
"""Errors of which an option is at fault, and that do not name its file."""


def exit_code(err: Exception) -> int:
    """Return the exit code of an error of ``KINDS``."""
    passes = isinstance(err, PASSING) and not isinstance(err, AuthenticationFailed)
    return FAILED if passes else UNUSABLE


def explained(err: Exception, conf: Any) -> str:
    """Return the text of an error that ends a start, with file and line of the option at fault."""
    if conf is None or not isinstance(err, _OF_OPTIONS) or isinstance(err, DriverNotReady):
        return str(err)
    return config.located(with_agents_step(err), config.files_of(conf))


@dataclass(slots=True)
class Check:
    """The errors of a configuration; what is used is printed as it is found."""

    conf: Any
    errors: list[str] = field(default_factory=list)

    def run(self) -> int:
        """Check everything, print it, and return the exit code."""
        self.used("configuration", ", ".join(map(str, config.files_of(self.conf))) or "no file")
        with self.noting():
            settings = config.settings(self.conf)
            self.used("host", settings.host)
            self._host(settings)
        with self.noting():
            self._placement()
        for warning in config.open_secrets(self.conf):
            self.used("warning", warning)
        for text in dict.fromkeys(self.errors):
            logs.complain(f"compute-agent: {text}")
        return UNUSABLE if self.errors else 0

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note an error that would end a start, and go on."""
        try:
            yield
        except BadFile as err:
            self.errors += map(str, err.diagnostics)
        except KINDS as err:
            self.errors += explained(err, self.conf).splitlines()

    def used(self, what: str, value: str) -> None:
        """Print what a start would use."""
        sys.stdout.write(f"{what}: {plain(value)}\n")

    def _host(self, settings: Settings) -> None:
        path, conf = settings.state_path, self.conf
        store, drivers = DriverStore(path, writing=False), list[LoadedDriver]()
        context = DriverContext(settings.host, path, conf, store=store)
        for number, name in enumerate(settings.drivers):
            with self.noting():
                (loaded,) = load_drivers([name], context)
                drivers.append(loaded)
                nodes = self._nodes(loaded, settings.host, first=number == 0)
                self.used("driver", f"{name}{': nodes ' if nodes else ''}{', '.join(nodes)}")
        lacking = () if len(drivers) == len(settings.drivers) else ("DEFAULT", "compute")
        with self.noting():
            if not lacking:  # a driver that was not loaded names what it read
                config.check_values(conf)
        with self.noting():  # a driver that was not loaded has not registered its options
            config.refuse_unknown(conf, unchecked=lacking)
        with self.noting():
            if settings.transport_url:
                from agent.bus import messaging  # noqa: PLC0415  loaded only with a bus

                messaging.transport(settings.transport_url, conf.config_file or ())
        with self.noting():
            refuse_unreadable(path)
            own = saved_compute_id(path)
            self.used("state_path", f"{path}, compute_id {own or 'not there yet'}")
        with self.noting():
            files = ProviderFiles.from_location(settings.provider_config, path, writing=False)
            entries = read_files(files.location, required=files.required)
            self.used("provider files", f"{len(entries.files)} in {files.location}")

    def _nodes(self, loaded: LoadedDriver, host: str, *, first: bool) -> list[str]:
        """Open and close a driver; return the nodes that the first one names.

        :raises DriverError: it can't start, or its nodes can't be used.
        """
        prefix = f"driver {loaded.name} "
        try:
            open_driver(loaded, host)
            prefix = f"driver {loaded.name}: "
            return loaded.nodes() if first else []
        except DriverError as err:
            raise type(err)(f"{prefix}{err}") from err
        except (Exception, SystemExit) as err:
            what = f"driver {loaded.name} can't name its nodes: {error_text(err)}"
            raise DriverError(what) from err
        finally:
            close_driver(loaded, host, {})

    def _placement(self) -> None:
        adapter = adapter_from_conf(self.conf)
        endpoint = Endpoint(adapter)
        name = quote(self.conf.host)
        PlacementAPI(adapter).request("GET", f"/resource_providers?name={name}")
        endpoint.look()
        self.used("Placement", endpoint.used)
        for condition in endpoint.conditions:
            self.used("warning", condition.sentence)
