"""Access to Placement: keystoneauth's options in ``[placement]``, the adapter, the breaker."""

import copy
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import discover, loading
from keystoneauth1 import exceptions as ksa

from agent.reporting.condition import Condition, Severity
from reportclient.errors import AuthenticationFailed, Unreachable
from reportclient.http import API, LIMIT, PlacementAPI, bounded_session
from reportclient.model import meant
from reportclient.plain_text import first_few

LOG = logging.getLogger("compute_agent.placement")

GROUP = "placement"
TIMEOUT, LONGEST_WAIT = 300.0, 600.0
"""Seconds that the agent waits for an answer if ``timeout`` is not set, and up to which the wait
doubles while none comes: a busy Placement carries out what it has accepted, so a request that
thousands of hosts give up and send again adds to its load (docs/design.md)."""


def adapter_from_conf(conf: Any, limit: int = LIMIT) -> ksa_adapter.Adapter:
    """Return an adapter from the options of ``[placement]``; see :func:`register_opts`.

    ``conf`` is an oslo.config ``ConfigOpts``, ``limit`` the maximum size of an answer in bytes.

    :raises AuthenticationFailed: the options are incomplete or invalid.
    """
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        if auth is None:
            raise AuthenticationFailed(f"[{GROUP}] auth_type is not set: no way to authenticate")
        _check_values(conf[GROUP])
        loaded = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
        bounded_session(loaded, limit)
        return loading.load_adapter_from_conf_options(conf, GROUP, session=loaded)
    except ksa.NoMatchingPlugin as err:
        name, names = conf[GROUP].auth_type, sorted(loading.get_available_plugin_names())
        raise AuthenticationFailed(
            f"[{GROUP}] auth_type = {name}: no such plugin{meant(name, names)} (there are: "
            f"{', '.join(names)})"
        ) from err
    except (ksa.ClientException, TypeError, ValueError) as err:
        raise AuthenticationFailed(f"[{GROUP}] {err}") from err
    except AttributeError:  # oslo.config's, of a group that does not exist
        section = conf[GROUP].auth_section
        if not section:
            raise
        raise AuthenticationFailed(f"[{GROUP}] auth_section: no group [{section}]") from None


def _check_values(group: Any) -> None:
    """Check what keystoneauth would find out at the first request.

    :raises ValueError: a value can't be used.
    """
    for name in ("min_version", "max_version"):
        try:
            discover.normalize_version_number(getattr(group, name, None) or "1")
        except TypeError as err:
            raise ValueError(f"{name}: {err}") from err
    for name in ("endpoint_override", "endpoint", "auth_url"):
        value = getattr(group, name, None)
        if value and urlsplit(value).scheme not in ("http", "https"):
            raise ValueError(f"{name}: {value!r} is no URL of HTTP")


def register_opts(conf: Any, *, mutable: bool = True) -> None:
    """Register keystoneauth's options in the group ``[placement]``.

    ``conf`` is an oslo.config ``ConfigOpts``.  With ``mutable``, ``timeout`` may change at run
    time: call :func:`update_timeout` after each reload of the configuration.
    """
    loading.register_auth_conf_options(conf, GROUP)
    conf.register_opts(_session_options(mutable=mutable), GROUP)
    loading.register_adapter_conf_options(conf, GROUP)
    conf.set_default("service_type", GROUP, group=GROUP)
    conf.set_default("valid_interfaces", ["internal", "public"], group=GROUP)


def register_plugin_opts(conf: Any) -> bool:
    """Register the options of ``[placement] auth_type``; return whether the group has all now."""
    group = conf[GROUP]
    try:
        if group.auth_type:
            conf.register_opts(loading.get_auth_plugin_conf_options(group.auth_type), GROUP)
    except ksa.NoMatchingPlugin:
        return False  # adapter_from_conf refuses it
    return bool(group.auth_type or group.auth_section)


def agent_api(
    adapter: ksa_adapter.Adapter, conf: Any, on_answer: Callable[[], None] | None = None
) -> PlacementAPI:
    """Return the agent's client, which waits longer for an answer than other programs."""
    update_timeout(adapter, conf)
    return PlacementAPI(adapter, on_answer=on_answer, longest_wait=LONGEST_WAIT)


def update_timeout(adapter: ksa_adapter.Adapter, conf: Any) -> None:
    """Use the current ``[placement] timeout``, or the agent's default, from the next request on."""
    adapter.session.timeout = conf[GROUP].timeout or TIMEOUT


def _session_options(*, mutable: bool) -> list[Any]:
    options: list[Any] = loading.get_session_conf_options()
    timeout = next(each for each in options if each.dest == "timeout")
    timeout.mutable, timeout.type.min = mutable, 0
    timeout.help = (
        "Seconds to wait for an answer of Placement or Keystone. Not set, or 0: 60, and 300 for "
        "the agent, since requests that are given up and sent again add to the load."
    )
    return options


def list_opts(*, mutable: bool = True) -> list[tuple[str, list[Any]]]:
    """Return the options that :func:`register_opts` registers, for oslo.config's generator."""
    options = [
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
        *_session_options(mutable=mutable),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    return [(GROUP, options)]


@dataclass(slots=True)
class Endpoint:
    """The endpoint of Placement in use; ``adapter`` is keystoneauth's, ``None`` without one."""

    adapter: Any = None
    used: str = ""
    """Its URL, with interface and region if the catalogue has it; empty until it is known."""
    conditions: tuple[Condition, ...] = ()
    """A warning if other endpoints match the options as well."""

    def look(self) -> None:
        """Note the endpoint of the last request; sends none."""
        try:
            found = _matching(self.adapter)
            first = found[0]
        except Exception:  # noqa: BLE001  no token yet, or the fault of an auth plugin
            return
        others = {
            each.url: _described(each)
            for each in reversed(found)
            if each.url != first.url
            and (each.region_name != first.region_name or each.interface == first.interface)
        }
        if (used := _described(first)) != self.used:
            LOG.info("Reporting to Placement at %s", used)
        text = f"{used} is used, but the catalogue has {first_few([*others.values()])}, too"
        step = "to choose, set [placement] region_name, valid_interfaces or endpoint_override"
        warning = Condition(text, step, "endpoint of Placement", Severity.WARNING)
        self.used, self.conditions = used, (warning,) if others else ()


def _matching(adapter: Any) -> list[discover.EndpointData]:
    """Return the endpoints that match the adapter's options; the first one is in use."""
    auth, interfaces = adapter.auth or adapter.session.auth, adapter.interface
    if adapter.endpoint_override or not hasattr(auth, "auth_ref"):
        return [discover.EndpointData(catalog_url=adapter.get_endpoint())]
    find = auth.auth_ref.service_catalog.get_endpoint_data_list
    what, where = adapter.service_type, (adapter.region_name, adapter.service_name)
    each_interface = interfaces if isinstance(interfaces, list) else [interfaces]
    return [found for interface in each_interface for found in find(what, interface, *where)]


def _described(endpoint: discover.EndpointData) -> str:
    place = ", ".join(filter(None, (endpoint.interface, endpoint.region_name)))
    return f"{endpoint.url} ({place})" if place else str(endpoint.url)


@dataclass(slots=True)
class Breaker:
    """A circuit breaker around Placement's API, shared by all roots.

    After ``after`` requests in a row without an answer, all further requests of the period fail at
    once with the error of the last one.
    """

    api: API
    after: int
    waiting: dict[object, float] = field(default_factory=dict)
    """When the requests that wait for their answers were sent, in monotonic seconds."""
    _unanswered: int = 0
    _last_error: Unreachable | None = None

    def close(self) -> None:
        """Allow requests again: a new period begins."""
        self._unanswered, self._last_error = 0, None

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        if self._last_error is not None:
            raise copy.copy(self._last_error)  # else each raise adds its frames to the error kept
        key = object()
        self.waiting[key] = time.monotonic()
        try:
            answer = self.api.request(method, path, json=json, needs=needs)
        except Unreachable as err:
            self._unanswered += 1
            if self._unanswered >= self.after:
                self._last_error = copy.copy(err)
            raise
        finally:
            del self.waiting[key]
        self._unanswered = 0
        return answer
