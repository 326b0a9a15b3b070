"""Reads the configuration of compute-registry."""

from collections.abc import Sequence

from oslo_config import cfg

from agent import placement
from agent.bus.signing import host_key
from agent.config import ConfigError, check_values, parse, with_line
from agent.metrics import opts as metrics_opts
from agent.registry.checks import is_host
from agent.registry.opts import AUDIT, AUDIT_GROUP, GROUP, REGISTRY, RegistryConfigError, settings
from agent.reporting import logs

PROG = "compute-registry"
STANDALONE: list[cfg.Opt] = [
    cfg.StrOpt(
        "state-path", default="/var/lib/compute-agent", help="Directory of the SQLite file."
    ),
    cfg.StrOpt(
        "transport_url",
        default="",
        secret=True,
        help="URL of the message bus, such as rabbit://user:password@host:5672/.",
    ),
    cfg.StrOpt("control_exchange", default="nova", help="The exchange on which agents are called."),
]
COMMAND_LINE: list[cfg.Opt] = [
    cfg.StrOpt(
        "host-key-of",
        metavar="HOST",
        help="Print the host_key of this host's agent, computed from [registry] master_key, and "
        "exit.",
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
    conf.register_opts(STANDALONE)
    placement.register_opts(conf, mutable=False)
    conf.register_opts(metrics_opts.MONITORING, metrics_opts.GROUP)
    conf.register_cli_opts(COMMAND_LINE)
    logs.register(conf)
    try:
        parse(conf, args, prog=PROG)
        check_values(conf)
        settings(conf)
        metrics_opts.settings(conf)
    except (ConfigError, ValueError) as err:
        raise RegistryConfigError(f"{err}; {step}") from err
    return conf


def read_again(conf: cfg.ConfigOpts, args: Sequence[str]) -> None:
    """Read the files again and use the new values of mutable options.

    :raises RegistryConfigError: the configuration is invalid; nothing is changed.
    """
    load_config(args, "correct it, and reload again")
    try:
        conf.mutate_config_files()
    except (cfg.Error, ValueError) as err:
        raise RegistryConfigError(with_line(str(err))) from err


def host_key_for(conf: cfg.ConfigOpts) -> str:
    """Return the host key of the host in ``--host-key-of``.

    :raises RegistryConfigError: master_key is not set, or the host name is invalid.
    """
    if not is_host(conf.host_key_of):
        raise RegistryConfigError(f"--host-key-of {conf.host_key_of!a}: not a valid host name")
    if not conf[GROUP].master_key:
        raise RegistryConfigError("[registry] master_key is not set: it is needed for host keys")
    return host_key(conf[GROUP].master_key, conf.host_key_of)
