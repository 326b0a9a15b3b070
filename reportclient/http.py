"""The door to Placement: a request in, a value or a typed error out.

Retries of connections are keystoneauth's; everything else raises, and the caller
decides.  What bounds a request in time and size is in ``transport``.
"""

import contextlib
import copy
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading, session, token_endpoint

from reportclient.errors import AuthenticationFailed, TooNew, TooOld, Unreachable
from reportclient.microversion import parse_microversion
from reportclient.replies import GROUP, answer, first_error, shown
from reportclient.transport import LIMIT, Refused, Transport

NEWEST = "1.39"
OLDEST = "1.30"
TIMEOUT = 30.0
"""Seconds for one answer where ``[placement] timeout`` is not set."""

UPGRADES_SEEN_WITHIN = 3600.0
"""Seconds after which a Placement that was too old is taken for a newer one again."""

_AT_ONCE = contextlib.nullcontext()
"""In place of the adapter's own pace, which is kept by the clock of the wall: once that was set
back, each request slept as long as it had been wrong."""

_ERRNO = re.compile(r"(?:\[Errno -?\d+\] |Error\(\d+, ')([^'\")\]]+)")
_MICROVERSION = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}")
_POOL = re.compile(r": \w*Pool\(")
"""Where urllib3 begins to speak of its connections, ours included."""


class API(Protocol):
    """The interface of Placement that the report client needs; the fake has it, too."""

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """Send a request.  ``needs`` is the oldest microversion that supports it.

        :raises reportclient.errors.PlacementError: one of its kinds.
        """


class PlacementAPI:
    """Placement over HTTP."""

    def __init__(
        self,
        adapter: ksa_adapter.Adapter,
        *,
        on_answer: Callable[[], None] | None = None,
        max_version: str | None = None,
    ) -> None:
        self.adapter = adapter
        self._on_answer = on_answer
        self._newest = min(max_version or NEWEST, NEWEST, key=parse_microversion)
        self._version = self._newest
        self._newest_again = 0.0
        self._headers: dict[str, str] = {}

    def tagged(self, request_id: str | None) -> "PlacementAPI":
        """The same, with a request id of the caller's (``req-`` and a UUID) in each call."""
        headers = {"X-Openstack-Request-Id": request_id} if request_id else {}
        other = copy.copy(self)
        vars(other).update(_headers=headers)
        return other

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`API`.  A server that is older is spoken to in its own version."""
        if self._version != self._newest and time.monotonic() > self._newest_again:
            self._version = self._newest
        self._refuse_too_old(f"{method} {path}", needs)
        response = self._send(method, path, json)
        if response.status_code == 406 and self._settle_for_less(response):
            self._refuse_too_old(f"{method} {path}", needs)
            response = self._send(method, path, json)
        if response.status_code == 406:
            self._refuse_too_new(f"{method} {shown(path)}", response)
        return answer(method, path, response)

    def _send(self, method: str, path: str, json: Any) -> Any:
        try:
            response = self.adapter.request(
                path,
                method,
                json=json,
                headers=dict(self._headers),  # keystoneauth adds its own to them
                raise_exc=False,
                redirect=False,
                microversion=self._version,
                log=False,
                rate_semaphore=_AT_ONCE,
            )
        except (ksa.Unauthorized, ksa.AuthPluginException, ksa.MissingAuthMethods) as err:
            raise AuthenticationFailed(f"Keystone refused [{GROUP}] credentials: {err}") from err
        except (ksa.ClientException, ksa.RetriableConnectionFailure, OSError) as err:
            why = _reason(err).replace(path, "") if len(path) > 1 else _reason(err)
            raise Unreachable(f"no answer to {method} {shown(path)}: {why}") from err
        except Exception as err:
            if type(err) is not Exception:  # as plugins raise it for options that are not set
                raise
            raise AuthenticationFailed(f"[{GROUP}] can't be used to log in: {err}") from err
        if self._on_answer is not None:
            self._on_answer()
        return response

    def _settle_for_less(self, response: Any) -> bool:
        newest = _version(response, "max_version")
        if newest is None or parse_microversion(newest) >= parse_microversion(self._version):
            return False
        self._version = newest
        self._newest_again = time.monotonic() + UPGRADES_SEEN_WITHIN
        return True

    def _refuse_too_new(self, what: str, response: Any) -> None:
        oldest = _version(response, "min_version")
        if oldest is not None and parse_microversion(oldest) > parse_microversion(self._version):
            text = f"{what}: Placement speaks microversions from {oldest} on only"
            raise TooNew(f"{text}, and compute-agent speaks them up to {self._version}")

    def _refuse_too_old(self, what: str, needs: str | None) -> None:
        least = max(needs or OLDEST, OLDEST, key=parse_microversion)
        if parse_microversion(self._version) < parse_microversion(least):
            text = f"{what} needs microversion {least}; Placement has {self._version}"
            raise TooOld(text, speaks=self._version)


def _version(response: Any, key: str) -> str | None:
    """Return the microversion that a 406 names under ``key``, if Placement sent it."""
    said = first_error(response).get(key)
    return said if isinstance(said, str) and _MICROVERSION.fullmatch(said) else None


def as_api(adapter: Any, max_version: str | None = None) -> API:
    """The door over a keystoneauth adapter; what is one already stays as it is."""
    if isinstance(adapter, ksa_adapter.Adapter):
        return PlacementAPI(adapter, max_version=max_version)
    api: API = adapter
    return api


def _reason(err: Exception) -> str:
    """The cause without the libraries' names around it: the address, and what the system said."""
    if isinstance(err, ksa.UnknownConnectionError) and isinstance(err.original, Refused):
        return str(err.original)
    if isinstance(err, ksa.CatalogException):
        return f"{err} See [{GROUP}] endpoint_override, region_name and valid_interfaces."
    said, *rest = _POOL.split(str(err), maxsplit=1)
    inner = rest[0] if rest else ""
    said, _, cut = said.partition(": (")
    cause = _ERRNO.search(inner or cut)
    return f"{said}: {cause[1]}" if cause else said + (cut and f": ({cut}")


def token_adapter(url: str, token: str) -> ksa_adapter.Adapter:
    """An adapter for a Placement at ``url`` without Keystone, which takes a fixed ``token``."""
    auth = token_endpoint.Token(url, token)
    return ksa_adapter.Adapter(
        bounded_session(session.Session(auth, timeout=TIMEOUT)), service_type=GROUP
    )


def bounded_session(made: session.Session, limit: int = LIMIT) -> session.Session:
    """The same session, with bounds to each of its requests from now on, log-ins included.

    ``limit`` is in bytes of one answer.  A request that goes beyond them raises ``Unreachable``
    in :class:`PlacementAPI`.
    """
    for scheme in ("http://", "https://"):
        made.session.mount(scheme, Transport(limit))
    return made


def adapter_from_conf(conf: Any, limit: int = LIMIT) -> ksa_adapter.Adapter:
    """An adapter from the options of ``[placement]`` (see :func:`register_opts`), for the client.

    ``limit`` is in bytes of one answer.

    :raises AuthenticationFailed: they don't fit.
    """
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        if auth is None:
            raise AuthenticationFailed(f"[{GROUP}] auth_type is not set: how to log in is unknown")
        made = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
        made.timeout = made.timeout or TIMEOUT
        bounded_session(made, limit)
        return loading.load_adapter_from_conf_options(conf, GROUP, session=made)
    except ksa.ClientException as err:
        raise AuthenticationFailed(f"[{GROUP}] {err}") from err
    except (AttributeError, RecursionError):  # of oslo.config; its text has a part of the value
        wrong = ", ".join(_referring_to_nothing(conf[GROUP]))
        if not wrong:
            raise
        text = f"[{GROUP}] {wrong}: a $ begins the name of an option that is not there"
        raise AuthenticationFailed(f"{text}: write $$ for a $") from None


def _referring_to_nothing(group: Any) -> Iterator[str]:
    for name in group:
        try:
            group[name]
        except (AttributeError, RecursionError):
            yield name


def register_opts(conf: Any, *, mutable: bool = True) -> None:
    """Register ``[placement]`` with keystoneauth's own options.

    ``mutable``: who has registered them calls :func:`update_timeout` when they have changed.
    """
    loading.register_auth_conf_options(conf, GROUP)
    conf.register_opts(_session_options(mutable=mutable), GROUP)
    loading.register_adapter_conf_options(conf, GROUP)
    conf.set_default("service_type", GROUP, group=GROUP)
    conf.set_default("valid_interfaces", ["internal", "public"], group=GROUP)


def update_timeout(adapter: ksa_adapter.Adapter, conf: Any) -> None:
    """From the next request on, that of the options as they are now."""
    adapter.session.timeout = conf[GROUP].timeout or TIMEOUT


def _session_options(*, mutable: bool) -> list[Any]:
    options: list[Any] = loading.get_session_conf_options()
    for option in options:
        option.mutable = mutable and option.dest == "timeout"
    return options


def conf_options() -> list[Any]:
    """The same options, for the sample configuration."""
    return [
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
        *_session_options(mutable=True),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
