"""Service records, agents' RPC and Placement, for the ``service`` commands."""

import os
import pwd
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent.bus.caller import Caller, new_request_id
from agent.bus.signing import Operator
from agent.config import option_place
from agent.registry.access import Registry, open_registry
from agent.registry.control import Control
from agent.registry.observed_service import ObservedService, observed_services
from agent.registry.placement_roots import PlacementRoots
from agent.registry.record import ServiceRecord
from agent.reporting.reports import with_agents_step
from computectl.shared.command_session import Session
from reportclient.errors import PlacementError


@dataclass(frozen=True, slots=True)
class Observed:
    """Services, and Placement's error if it could not be read."""

    services: Sequence[ObservedService]
    placement_error: str | None = None
    done: Sequence[str] = ()
    """Sentences about what the command did."""


class Services:
    """The configured registry and the agents' RPC, opened when first used."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._settings = session.settings.registry

    @cached_property
    def registry(self) -> Registry:
        """Return the registry.  :raises RegistryError: it can't be opened."""
        ours = self._session.settings.host
        return open_registry(self._settings, self._transport, self.caller, command_on=ours)

    @cached_property
    def caller(self) -> Caller:
        """Return the user and machine of this command, for the logs."""
        return Caller(new_request_id(), f"computectl of {_user()}", None, socket.gethostname())

    @property
    def control(self) -> Control:
        """Return what disables and enables hosts; calls agents if a message bus is configured."""
        if self._transport is None:
            return Control(self.registry, None, self._settings.down_after)
        from agent.bus.rpcapi import SIGN_OF_LIFE, ComputeAgentAPI  # noqa: PLC0415  oslo.messaging is slow

        exchange = self._session.conf.control_exchange
        master = self._settings.master_key
        agents = ComputeAgentAPI(
            self._transport,
            exchange=exchange,
            monitor=SIGN_OF_LIFE,
            operator=Operator(master) if master else None,
        )
        return Control(self.registry, agents, self._settings.down_after)

    def observed(self, records: Sequence[ServiceRecord], done: Sequence[str] = ()) -> Observed:
        """Return the records compared with Placement; two GETs."""
        only = records[0].roots[0] if len(records) == 1 == len(records[0].roots) else ""
        try:
            roots, placement_error = PlacementRoots().read(self._session.placement(), only), None
        except PlacementError as err:
            roots, placement_error = None, with_agents_step(err)
        services = observed_services(records, self._settings.down_after, roots)
        return Observed(services, placement_error, done)

    @cached_property
    def _transport(self) -> Any:
        if not self._session.settings.transport_url:
            return None
        from agent.bus import messaging  # noqa: PLC0415  oslo.messaging is slow

        conf = self._session.conf
        return messaging.transport(
            self._session.settings.transport_url,
            conf.config_file or (),
            option=option_place(conf, "transport_url"),
        )


def _user() -> str:
    """Return the name of the user, also under sudo."""
    try:
        return os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
