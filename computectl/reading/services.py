"""Service records, agents' RPC and Placement, for the ``service`` commands."""

import os
import pwd
import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from agent.bus.caller import Caller
from agent.bus.signing import Operator
from agent.errors import InputRefused, StillUp, UnknownHost
from agent.registry.checks import HeartbeatMessage, StatusChange, degraded_text
from agent.registry.record import Records, Registry, ServiceRecord, rivals
from agent.reporting.condition import with_agents_step
from agent.reporting.status import FILE_NAME, SERVING
from agent.state import files
from agent.switching.heartbeat import agent_address
from agent.switching.host_status import (
    VERSION_6,
    change_saved_status,
    saved_status,
    status_document,
)
from compute_registry.control import Control
from compute_registry.observed_placement import PlacementRoots
from compute_registry.observed_service import ObservedService, observed_services
from computectl.shared.command_session import Session
from computectl.shared.errors import CommandError
from computectl.status import observed_status
from reportclient.errors import PlacementError


@dataclass(frozen=True, slots=True)
class Observed:
    """Services, and Placement's error if it could not be read."""

    services: Sequence[ObservedService]
    placement_error: str | None = None
    done: Sequence[str] = ()
    """Sentences about what the command did."""


@dataclass(frozen=True, slots=True)
class OwnService:
    """The service of a host without a registry, by the files of its agent; see :class:`Records`.

    ``service.json`` has its status, ``status.json`` what is known of the agent.
    """

    session: Session

    def list_services(self) -> list[ServiceRecord]:
        """Return the record.  :raises CommandError: no agent has run here."""
        return [self.get_service(self.session.settings.host)]

    def get_service(self, host: str) -> ServiceRecord:
        """Return the record.

        :raises UnknownHost: it is another host.
        :raises agent.state.document.Unusable: ``service.json`` can't be read.
        :raises CommandError: no agent has run here.
        """
        settings = self.session.settings
        if host != settings.host:
            raise UnknownHost(f"no service has the host name {host}")
        agent, document = observed_status(self.session), status_document(settings.state_path)
        written, service = agent.written, agent.written.service
        status = saved_status(document)
        return ServiceRecord(
            1,
            self.session.compute_id() or "",
            host,
            disabled=bool(status.disabled),
            disabled_reason=status.reason,
            disabled_at=_time(document.path.stat().st_mtime) if status.disabled else None,
            rpc_version=VERSION_6 if service.rpc == SERVING else None,
            last_seen=_time(agent.now if agent.alive else written.updated),
            silent_for=0.0 if agent.alive else None,
            roots=service.roots,
            address=agent_address(settings.state_path),
            version=status.record_version or 1,
            attached=settings.rules.attached,
            agent_version=written.agent_version,
            degraded=degraded_text(written.problems()),
        )

    def set_status(self, change: StatusChange) -> ServiceRecord:
        """Save the status.  :raises agent.state.document.Unusable: that is not possible."""
        change_saved_status(self.session.settings.state_path, change)
        return self.get_service(change.host)

    def set_forced_down(self, host: str, **_: Any) -> ServiceRecord:
        """:raises InputRefused: there is nobody who would see it."""
        raise InputRefused(
            f"{host} has no registry ([registry] access = direct) that could count it as down"
        )

    def delete(self, host: str, **_: Any) -> None:
        """Remove the files of an agent that does not run.  :raises StillUp: it runs."""
        if self.get_service(host).is_up():
            raise StillUp(f"{host} is up: stop its agent")
        state = self.session.settings.state_path
        for path in (status_document(state).path, state / FILE_NAME):
            files.remove(path)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def refuse_taken(session: Session, *roots: str) -> None:
    """Refuse to write to roots (UUIDs) that another host, which is up, has.

    :raises CommandError: there is such a host.
    :raises RegistryError: the registry does not answer.
    """
    settings = session.settings
    if settings.registry.access == "direct":
        return
    report = HeartbeatMessage(settings.host, agent_address(settings.state_path), roots=roots)
    holders = Services(session).fleet.holders(report)
    for why in rivals(holders, report, settings.registry.down_after).values():
        raise CommandError(why, "nothing was changed")


class Services:
    """The configured registry and the agents' RPC, opened when first used."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._settings = session.settings.registry

    @cached_property
    def registry(self) -> Records:
        """Return the registry, or this host's own service.

        :raises RegistryError: the registry can't be opened.
        """
        return OwnService(self._session) if self._settings.access == "direct" else self.fleet

    @cached_property
    def fleet(self) -> Registry:
        """Return the registry of the fleet.  :raises RegistryError: it can't be opened."""
        from agent.registry.client import open_registry  # noqa: PLC0415  oslo.messaging is slow

        own_host = self._session.settings.host
        return open_registry(self._settings, self._transport, self.caller, command_on=own_host)

    @cached_property
    def caller(self) -> Caller:
        """Return the user and machine of this command, for the logs."""
        return Caller(f"req-{uuid.uuid4()}", f"computectl of {_user()}", None, socket.gethostname())

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

        session = self._session
        return messaging.transport(session.settings.transport_url, session.conf.config_file or ())


def _user() -> str:
    """Return the name of the user, also under sudo."""
    try:
        return os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
