"""Open the registry of the configuration: this host's document, or compute-registry over RPC."""

import socket
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from agent.bus.caller import Caller
from agent.bus.errors import Sign
from agent.bus.signing import Operator, signed
from agent.registry.checks import LONGEST, Report, StatusChange
from agent.registry.errors import RegistryUnavailable
from agent.registry.opts import RegistrySettings
from agent.registry.record import ServiceRecord


class Registry(Protocol):
    """Service records by host; :class:`agent.registry.client.RegistryClient` describes all this."""

    def list_services(self) -> list[ServiceRecord]:
        """Return all records, sorted by host."""

    def get_service(self, host: str) -> ServiceRecord:
        """Return the record of a host."""

    def heartbeat(self, report: Report) -> ServiceRecord | None:
        """Record that the agent of a host is alive; ``None``: the answer is not awaited."""

    def set_status(self, change: StatusChange) -> ServiceRecord:
        """Disable or enable a host."""

    def set_forced_down(
        self, host: str, *, forced_down: bool, expected_version: int | None = None
    ) -> ServiceRecord:
        """Force a service down, or take that back."""

    def delete(self, host: str, *, uuid: str | None = None) -> None:
        """Delete a record."""


def open_registry(
    settings: RegistrySettings,
    transport: Any,
    caller: Caller | None = None,
    *,
    host: str = "",
    command_on: str = "",
) -> Registry:
    """Return the registry for an agent or a command.

    ``transport`` may be ``None`` where access is direct.  ``caller`` is for the log of
    compute-registry, by default the agent of this machine.  ``host``: an agent's host, whose key
    signs its calls.  ``command_on``: the host on which a command runs; without a master key its
    calls are signed with that host's key, and have the permissions of its agent.

    :raises RegistryUnavailable: there is no message bus.
    """
    if settings.access == "rpc":
        if transport is None:
            raise RegistryUnavailable("[registry] access = rpc needs a transport_url")
        from agent.registry.client import RegistryClient  # noqa: PLC0415  oslo.messaging

        ours = caller or Caller(user="compute-agent", where=socket.gethostname())
        return RegistryClient.over(transport, caller=ours, sign=_sign(settings, host, command_on))
    from agent.registry.host_record import HostRecord  # noqa: PLC0415  not with access = rpc

    return HostRecord(settings.state_path, settings.binary)


def _sign(settings: RegistrySettings, host: str, command_on: str) -> Sign | None:
    if settings.master_key and not (host and settings.host_key):
        return Operator(settings.master_key).sign
    own = host or command_on
    return partial(signed, [settings.host_key], own) if settings.host_key and own else None


BOOT_ID = "/proc/sys/kernel/random/boot_id"


def agent_address(state_path: Path, *, root: Path = Path("/")) -> str:
    """Return the address of an agent: machine name, boot id and state directory.

    It is the same after a restart of the agent.  The boot id tells cloned machines apart.
    """
    try:
        boot = (root / BOOT_ID.lstrip("/")).read_text(encoding="ascii").strip()
    except OSError:
        boot = "?"
    return f"{socket.gethostname()} (boot {boot}, {state_path.absolute()})"[:LONGEST]
