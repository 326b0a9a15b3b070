"""Reads the configuration of compute-registry."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from oslo_config import cfg

from agent import placement
from agent.bus.signing import host_key
from agent.config import ConfigError, check_values, mutate, parse, refuse_unknown
from agent.opts import DEFAULT, MONITORING, REGISTRY, monitoring_settings
from agent.registry.checks import is_host
from agent.reporting import logs
from agent.state.files import describe_error, replace
from compute_registry.broker_users import commands
from compute_registry.opts import REGISTRY as OWN
from compute_registry.opts import server_settings

PROG = "compute-registry"
SHARED = frozenset({"transport_url", "control_exchange"})
"""Options of [DEFAULT] that an agent has, too."""
AUDIT: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Emit a CADF event for each REST request and its answer, by keystonemiddleware; "
        "[audit_middleware_notifications] sets the destination. Without events, the log still "
        "has each change with its caller.",
    ),
    cfg.StrOpt(
        "audit_map_file",
        default="/etc/compute-registry/api_audit_map.conf",
        help="File that maps the API's paths to the names in these events.",
    ),
    cfg.StrOpt(
        "ignore_req_list",
        default="",
        help="HTTP methods for which no event is emitted, such as GET,HEAD.",
    ),
]
COMMAND_LINE: list[cfg.Opt] = [
    cfg.StrOpt(
        "host-keys",
        metavar="DIR",
        help="Write DIR/HOST.conf with the host_key of each host whose name is in standard input, "
        "computed from the first [registry] master_key, and exit.",
    ),
    cfg.BoolOpt(
        "broker-users",
        default=False,
        help="Print the calls of rabbitmqctl that create the users of the registry, of operators, "
        "and of the agent of each host whose name is in standard input, and exit.",
    ),
]


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``[(group, options)]``, for the sample configuration."""
    return [*_own_opts(), *placement.list_opts(mutable=False)]


def _own_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("registry", [*REGISTRY, *OWN]), ("audit", AUDIT), ("monitoring", MONITORING)]


def load_config(
    args: Sequence[str], step: str = "correct it, or give another file with --config-file"
) -> cfg.ConfigOpts:
    """Parse the command line and the configuration files, and check every value.

    ``step`` ends the text of an error.

    :raises ConfigError: they can't be used.
    """
    conf = cfg.ConfigOpts()
    for group, options in _own_opts():
        conf.register_opts(options, group)
    conf.register_opts([option for option in DEFAULT if option.name in SHARED])
    placement.register_opts(conf, mutable=False)
    conf.register_cli_opts(COMMAND_LINE)
    logs.register(conf)
    try:
        parse(conf, args, prog=PROG)
        check_values(conf)
        server_settings(conf)
        monitoring_settings(conf)
        refuse_unknown(conf, unchecked={"DEFAULT"})  # the file may be that of an agent, too
    except (ConfigError, ValueError) as err:
        raise ConfigError(f"{err}; {step}") from err
    return conf


def reload(conf: cfg.ConfigOpts, args: Sequence[str]) -> None:
    """Read the files again and use the new values of mutable options.

    :raises ConfigError: the configuration is invalid; nothing is changed.
    """
    load_config(args, "correct it, and reload again")
    try:
        mutate(conf)
    except ConfigError as err:
        raise ConfigError(str(err)) from err


def for_hosts(conf: cfg.ConfigOpts, hosts: Sequence[str]) -> Iterable[str | Path]:
    """Write the configuration with its key for each host, or return commands for broker users.

    Return the files of ``--host-keys``, or the calls of rabbitmqctl of ``--broker-users``.

    :raises ConfigError: master_key is not set, a host name is invalid, or a file can't be
        written; after an invalid name no file is written.
    """
    for host in hosts:
        if not is_host(host) or "/" in host:
            option = "--broker-users" if conf.host_keys is None else "--host-keys"
            raise ConfigError(f"{option}: {host!a} is not a valid host name")
    if conf.host_keys is None:
        vhost = unquote(urlsplit(conf.transport_url).path.removeprefix("/"))
        return commands(hosts, conf.control_exchange, vhost or "/")
    master_keys, paths = server_settings(conf).master_key, []
    if not master_keys:
        raise ConfigError("[registry] master_key is not set: it is needed for host keys")
    try:
        Path(conf.host_keys).mkdir(mode=0o700, parents=True, exist_ok=True)
        for host in hosts:
            paths.append(Path(conf.host_keys, f"{host}.conf"))
            text = f"[registry]\nhost_key = {host_key(master_keys[0], host)}\n"
            replace(paths[-1], text.encode(), mode=0o600)
    except OSError as err:
        raise ConfigError(f"--host-keys {conf.host_keys}: {describe_error(err)}") from err
    return paths
