"""Reads the configuration of compute-registry."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from oslo_config import cfg

from agent import placement
from agent.bus.signing import host_key
from agent.config import ConfigError, check_values, mutate, parse, refuse_unknown
from agent.metrics import opts as metrics_opts
from agent.opts import DEFAULT
from agent.registry.checks import is_host
from agent.registry.opts import AUDIT, AUDIT_GROUP, GROUP, REGISTRY, RegistryConfigError, settings
from agent.reporting import logs
from agent.state.files import describe_error, replace
from compute_registry.broker_users import commands

PROG = "compute-registry"
SHARED = frozenset({"transport_url", "control_exchange"})
"""Options of [DEFAULT] that an agent has, too."""
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


def load_config(
    args: Sequence[str], step: str = "correct it, or give another file with --config-file"
) -> cfg.ConfigOpts:
    """Parse the command line and the configuration files, and check every value.

    ``step`` ends the text of an error.

    :raises RegistryConfigError: they can't be used.
    """
    conf = cfg.ConfigOpts()
    conf.register_opts(REGISTRY, GROUP)
    conf.register_opts(AUDIT, AUDIT_GROUP)
    conf.register_opts([option for option in DEFAULT if option.name in SHARED])
    placement.register_opts(conf, mutable=False)
    conf.register_opts(metrics_opts.MONITORING, metrics_opts.GROUP)
    conf.register_cli_opts(COMMAND_LINE)
    logs.register(conf)
    try:
        parse(conf, args, prog=PROG)
        check_values(conf)
        settings(conf)
        metrics_opts.settings(conf)
        refuse_unknown(conf, unchecked={"DEFAULT"})  # the file may be that of an agent, too
    except (ConfigError, ValueError) as err:
        raise RegistryConfigError(f"{err}; {step}") from err
    return conf


def read_again(conf: cfg.ConfigOpts, args: Sequence[str]) -> None:
    """Read the files again and use the new values of mutable options.

    :raises RegistryConfigError: the configuration is invalid; nothing is changed.
    """
    load_config(args, "correct it, and reload again")
    try:
        mutate(conf)
    except ConfigError as err:
        raise RegistryConfigError(str(err)) from err


def for_hosts(conf: cfg.ConfigOpts, hosts: Sequence[str]) -> Iterable[str | Path]:
    """Write the configuration with its key for each host, or return commands for broker users.

    Return the files of ``--host-keys``, or the calls of rabbitmqctl of ``--broker-users``.

    :raises RegistryConfigError: master_key is not set, a host name is invalid, or a file can't be
        written; after an invalid name no file is written.
    """
    for host in hosts:
        if not is_host(host) or "/" in host:
            option = "--broker-users" if conf.host_keys is None else "--host-keys"
            raise RegistryConfigError(f"{option}: {host!a} is not a valid host name")
    if conf.host_keys is None:
        vhost = unquote(urlsplit(conf.transport_url).path.removeprefix("/"))
        return commands(hosts, conf.control_exchange, vhost or "/")
    master_keys, paths = settings(conf).master_key, []
    if not master_keys:
        raise RegistryConfigError("[registry] master_key is not set: it is needed for host keys")
    try:
        Path(conf.host_keys).mkdir(mode=0o700, parents=True, exist_ok=True)
        for host in hosts:
            paths.append(Path(conf.host_keys, f"{host}.conf"))
            text = f"[{GROUP}]\nhost_key = {host_key(master_keys[0], host)}\n"
            replace(paths[-1], text.encode(), mode=0o600)
    except OSError as err:
        raise RegistryConfigError(f"--host-keys {conf.host_keys}: {describe_error(err)}") from err
    return paths
