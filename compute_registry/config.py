"""Reads the configuration of compute-registry."""

from collections.abc import Sequence

from oslo_config import cfg

from agent.bus.signing import host_key
from agent.config import ConfigError, check_values, parse, with_line
from agent.metrics import opts as metrics_opts
from agent.registry.checks import is_host
from agent.registry.opts import AUDIT, AUDIT_GROUP, GROUP, REGISTRY, RegistryConfigError, settings
from agent.reporting import logs
from reportclient.http import register_opts as register_placement

PROG = "compute-registry"
STANDALONE: list[cfg.Opt] = [
    cfg.StrOpt("state-path", default="/var/lib/compute-agent", help="Directory for the database."),
    cfg.StrOpt(
        "transport_url",
        default="",
        secret=True,
        help="The message bus, such as rabbit://user:password@host:5672/.",
    ),
    cfg.StrOpt("control_exchange", default="nova", help="The exchange that agents listen on."),
]
COMMAND_LINE: list[cfg.Opt] = [
    cfg.StrOpt(
        "host-key-of",
        metavar="HOST",
        help="Print the host_key of this host's agent, by [registry] master_key, and end.",
    ),
]


def load(args: Sequence[str]) -> cfg.ConfigOpts:
    """Parse the command line and the configuration files, and check every value.

    :raises RegistryConfigError: they can't be used.
    """
    conf = cfg.ConfigOpts()
    conf.register_opts(REGISTRY, GROUP)
    conf.register_opts(AUDIT, AUDIT_GROUP)
    conf.register_opts(STANDALONE)
    register_placement(conf, mutable=False)
    conf.register_opts(metrics_opts.MONITORING, metrics_opts.GROUP)
    conf.register_cli_opts(COMMAND_LINE)
    logs.register(conf)
    try:
        parse(conf, args, prog=PROG)
        check_values(conf)
        settings(conf)
        metrics_opts.settings(conf)
    except (ConfigError, ValueError) as err:
        raise RegistryConfigError(str(err)) from err
    return conf


def read_again(conf: cfg.ConfigOpts, args: Sequence[str]) -> None:
    """Read the files again; options that may change while it runs get their new values.

    :raises RegistryConfigError: they can't be used; nothing is changed.
    """
    load(args)
    try:
        conf.mutate_config_files()
    except (cfg.Error, ValueError) as err:
        raise RegistryConfigError(with_line(str(err))) from err


def key_of(conf: cfg.ConfigOpts) -> str:
    """Return the key of a hypervisor.

    :raises RegistryConfigError: there is no master key, or no service can have this name.
    """
    if not is_host(conf.host_key_of):
        raise RegistryConfigError(f"--host-key-of {conf.host_key_of!a}: not a valid host name")
    if not conf[GROUP].master_key:
        raise RegistryConfigError("[registry] master_key is not set: there is nothing to sign with")
    return host_key(conf[GROUP].master_key, conf.host_key_of)
