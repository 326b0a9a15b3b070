"""Configuration: oslo.config in, frozen settings out.

An invalid configuration file is refused at start; the error names the file, the line and the
option.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from oslo_config import cfg

from agent import opts
from agent.config_files import (
    WrongValue,
    check_values,
    files_of,
    line_of,
    parse,
    with_line,
)
from agent.metrics import opts as metrics_opts
from agent.metrics.opts import MonitoringSettings
from agent.period.rules import Rules
from agent.registry import opts as registry_opts
from agent.registry.opts import RegistrySettings
from agent.reporting import logs
from agent.version import version
from drivers.opts import register, where_read
from reportclient import http
from reportclient.replies import GROUP
from reportclient.schedule import PERIOD

PROJECT = "compute-agent"
NAMES_OF_OTHERS = {
    "DEFAULT": frozenset({"rpc_response_timeout", "long_rpc_timeout"}),
    "libvirt": frozenset({"cpu_model", "rbd_connect_timeout"}),
    "placement": frozenset({"user_name", "user_domain_name", "access_token", "access_token_type"}),
}
"""By group: options of other services in the same file that resemble ours and are no typos."""


ALIKE, ALIKE_SHORT = 0.8, 0.75
"""Least similarity (``difflib`` ratio) of a typo to the name that is meant; the second: of names
with fewer than six letters."""


class ConfigError(Exception):
    """The configuration is invalid; the text names the file, the line and the option."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The agent's own settings; times in seconds, ``None`` for never."""

    host: str
    state_path: Path
    drivers: tuple[str, ...]
    interval: float | None
    first_within: float
    at_once: bool
    shutdown_within: float
    rules: Rules
    bulk_chunk: int
    registry: RegistrySettings
    provider_config: Path = Path(opts.PROVIDER_CONFIG_LOCATION)
    transport_url: str = ""
    exchange: str = "nova"
    monitoring: MonitoringSettings = field(default_factory=MonitoringSettings)


def load(args: Sequence[str], *, command_line: Sequence[cfg.Opt] = ()) -> cfg.ConfigOpts:
    """Parse the command line and the configuration files.

    ``command_line`` are the options of a service that logs; commands have none.

    :raises ConfigError: naming the file, the line and the option.
    """
    conf = cfg.ConfigOpts()
    register(conf, opts.list_opts())
    http.register_opts(conf)
    conf.register_cli_opts([*command_line, *_settable_by_argument()])
    if command_line:
        logs.register(conf)
    try:
        parse(conf, args, project=PROJECT, prog=PROJECT, version=version())
    except cfg.ConfigFilesNotFoundError as err:
        raise ConfigError(f"no such configuration file: {', '.join(err.config_files)}") from err
    except (cfg.Error, WrongValue) as err:
        raise ConfigError(" ".join(str(err).split())) from err
    return conf


def read_again(conf: cfg.ConfigOpts, args: Sequence[str]) -> None:
    """Read the configuration files again and update the mutable options in ``conf``.

    oslo.config logs the options that changed, and those that changed and need a restart.

    :raises ConfigError: the files are invalid; ``conf`` stays as it was.
    """
    reread = load(args, command_line=opts.COMMAND_LINE)
    settings(reread)
    refuse_typos(conf)
    try:
        conf.mutate_config_files()
    except (cfg.Error, ValueError) as err:
        raise ConfigError(with_line(where_read(str(err)))) from err


def settings(conf: cfg.ConfigOpts) -> Settings:
    """Return the agent's settings.  :raises ConfigError: an option has an invalid value."""
    try:
        check_values(conf)
        return _settings(conf)
    except WrongValue as err:
        raise ConfigError(str(err)) from err
    except (cfg.ConfigFileValueError, registry_opts.RegistryConfigError, ValueError) as err:
        raise ConfigError(with_line(where_read(str(err)))) from err


def _settings(conf: cfg.ConfigOpts) -> Settings:
    seconds = conf.update_resources_interval
    interval = None if seconds < 0 else float(seconds or PERIOD)
    if conf.registry.access == "rpc" and not conf.transport_url:
        raise ConfigError("[registry] access = rpc needs transport_url")
    refresh = conf.compute.resource_provider_association_refresh
    if not conf.host.strip():
        raise ConfigError("host is empty: name this service, or leave the option out")
    if not conf.compute.owner_trait:
        raise ConfigError("[compute] owner_trait is empty: name a trait, or leave the option out")
    if not conf.compute_driver:
        raise ConfigError("compute_driver is empty: name a driver, or leave the option out")
    return Settings(
        host=conf.host,
        state_path=Path(conf.state_path).absolute(),
        drivers=tuple(conf.compute_driver),
        interval=interval,
        at_once="dev" in conf and conf.dev,
        first_within=min(conf.periodic_fuzzy_delay, 2 * (interval or 0.0)),
        shutdown_within=float(conf.graceful_shutdown_timeout),
        rules=Rules(
            owner_traits=tuple(conf.compute.owner_trait),
            verify_every=float(refresh) if refresh else None,
            audit_every=float(conf.compute.audit_interval) or None,
            reshape_when_running=conf.compute.reshape_when_running,
            at_once=conf.placement.max_concurrency,
            nodes_at_once=conf.compute.max_concurrent_nodes,
            remove_after=_seconds(conf.compute.vanished_node_delay),
            attached=conf.compute.root_provider == "attach",
            remove_child_after=_seconds(conf.compute.removed_child_delay),
            period=interval or PERIOD,
        ),
        bulk_chunk=conf.compute.bulk_inventory_writes,
        registry=registry_opts.settings(conf),
        provider_config=Path(conf.compute.provider_config_location),
        transport_url=conf.transport_url,
        exchange=conf.control_exchange,
        monitoring=metrics_opts.settings(conf),
    )


def _seconds(value: int) -> float | None:
    return None if value < 0 else float(value)


def _settable_by_argument() -> list[cfg.Opt]:
    return [option for option in opts.DEFAULT if option.dest in {"state_path", "compute_driver"}]


def refuse_typos(conf: cfg.ConfigOpts) -> None:
    """Refuse unknown options and groups that resemble an option or group of the agent.

    Other unknown names are ignored: the file may be shared with other services.

    :raises ConfigError: naming the file, the line and the name that is probably meant.
    """
    own = {group for group, _ in opts.list_opts()} | {GROUP}
    for path in files_of(conf):
        for meant, error in _typos(path, conf):
            if meant in own:
                raise ConfigError(error)


def doubtful_groups(conf: cfg.ConfigOpts) -> list[str]:
    """Return a warning for each unknown group that resembles a driver's.

    That is no error: the group may be that of a driver that is not loaded any more.
    """
    own = {group for group, _ in opts.list_opts()} | {GROUP}
    typos = [typo for path in files_of(conf) for typo in _typos(path, conf)]
    return [text for meant, text in typos if meant not in own]


Written: TypeAlias = dict[tuple[str, str], list[str]]
"""``{(group, option): values}``; the values are the unparsed text of the files."""


def as_written(conf: cfg.ConfigOpts) -> Written:
    """Return the values of all configuration files, as text.

    Options that have a command line argument are left out: the argument overrides the files.
    """
    written: Written = {}
    for path in files_of(conf):
        for section, values in _sections(path).items():
            for name, raw in values.items():
                written.setdefault((section, name.replace("-", "_")), []).extend(raw)
    for option in _settable_by_argument():
        written.pop(("DEFAULT", option.dest), None)
    return written


def _typos(path: Path, conf: cfg.ConfigOpts) -> Iterator[tuple[str, str]]:
    """Yield the group that is meant (``DEFAULT`` for a mistyped option), and the error text."""
    ours = _registered(conf)
    for section, options in _sections(path).items():
        near = difflib.get_close_matches(section, ours, 1, ALIKE)
        if section not in ours:
            if near:
                where = line_of(path, section, None)
                yield near[0], f"{path}:{where}: no group [{section}]; is [{near[0]}] meant?"
            continue
        for name in options:
            for text in _option_typo(path, section, name, ours[section]):
                yield "DEFAULT", text


def _sections(path: Path) -> dict[str, dict[str, list[str]]]:
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(path), sections).parse()
    return sections


def _option_typo(path: Path, section: str, name: str, known: set[str]) -> Iterator[str]:
    plain = name.replace("-", "_")
    if plain in known or plain in NAMES_OF_OTHERS.get(section, ()):
        return
    near = difflib.get_close_matches(plain, known, 1, ALIKE_SHORT if len(plain) < 6 else ALIKE)
    if near:
        where = line_of(path, section, name)
        yield f"{path}:{where}: no option {name} in [{section}]; is {near[0]} meant?"


def _registered(conf: cfg.ConfigOpts) -> dict[str, set[str]]:
    groups = {"DEFAULT": {name.replace("-", "_") for name in conf}}
    for name in conf:
        if isinstance(conf[name], cfg.ConfigOpts.GroupAttr):
            groups["DEFAULT"].discard(name)
            groups[name] = {option.replace("-", "_") for option in conf[name]}
    return groups
