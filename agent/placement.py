"""The options of ``[placement]``, which are keystoneauth's, and the adapter that they configure."""

from collections.abc import Iterator
from typing import Any

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading

from reportclient.errors import AuthenticationFailed
from reportclient.http import TIMEOUT, bounded_session
from reportclient.transport import LIMIT

GROUP = "placement"


def adapter_from_conf(conf: Any, limit: int = LIMIT) -> ksa_adapter.Adapter:
    """Return an adapter from the options of ``[placement]``; see :func:`register_opts`.

    ``conf`` is an oslo.config ``ConfigOpts``, ``limit`` the maximum size of an answer in bytes.

    :raises AuthenticationFailed: the options are incomplete or invalid.
    """
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        if auth is None:
            raise AuthenticationFailed(f"[{GROUP}] auth_type is not set: no way to authenticate")
        loaded = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
        loaded.timeout = loaded.timeout or TIMEOUT
        bounded_session(loaded, limit)
        return loading.load_adapter_from_conf_options(conf, GROUP, session=loaded)
    except ksa.ClientException as err:
        raise AuthenticationFailed(f"[{GROUP}] {err}") from err
    except (AttributeError, RecursionError):  # oslo.config; its text has a part of the value
        wrong = ", ".join(_broken_references(conf[GROUP]))
        if not wrong:
            raise
        text = f"[{GROUP}] {wrong}: $ refers to an option that does not exist"
        raise AuthenticationFailed(f"{text}: write $$ for a literal $") from None


def _broken_references(group: Any) -> Iterator[str]:
    for name in group:
        try:
            group[name]
        except (AttributeError, RecursionError):
            yield name


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


def update_timeout(adapter: ksa_adapter.Adapter, conf: Any) -> None:
    """Use the current ``[placement] timeout`` from the next request on."""
    adapter.session.timeout = conf[GROUP].timeout or TIMEOUT


def _session_options(*, mutable: bool) -> list[Any]:
    options: list[Any] = loading.get_session_conf_options()
    for option in options:
        option.mutable = mutable and option.dest == "timeout"
    return options


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options that :func:`register_opts` registers, for oslo.config's generator."""
    options = [
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
        *_session_options(mutable=True),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    return [(GROUP, options)]
