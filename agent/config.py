"""Configuration files: oslo.config in, frozen settings out.

An invalid configuration file is refused at start; the error names the file, the line and the
option.
"""

import difflib
import io
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, TypeAlias

from oslo_config import cfg

from agent import opts, placement, version
from agent.registry.opts import RegistryConfigError
from agent.reporting import logs
from drivers.opts import register, where_read

PROJECT = "compute-agent"
DEFAULT = "DEFAULT"
NAMES_OF_OTHERS = {
    "DEFAULT": frozenset({"rpc_response_timeout", "long_rpc_timeout"}),
    "devices": frozenset({"enabled_vgpu_types"}),
    "libvirt": frozenset({"cpu_model", "cpu_power_management_strategy", "rbd_connect_timeout"}),
    "placement": frozenset({"user_name", "user_domain_name", "access_token", "access_token_type"}),
}
"""Options of other services in the same file, and older names of ours, that resemble ours and are
no typos, by group."""
SHIPPED = frozenset({"libvirt", "pci", "devices", "workarounds", "image_cache"})
"""Groups of the libvirt driver; others may be those of a driver that is not loaded any more."""


ALIKE, ALIKE_SHORT = 0.8, 0.75
"""Least similarity (``difflib`` ratio) of a typo to the name that is meant; the second: of names
with fewer than six letters."""
_VALUE = re.compile(r"option (\S+) in (\S+)")
_ARGUMENT = re.compile(r"argument --(\S+): (.*)")
_SECTION = re.compile(r"\s*\[([^]]+)\]")
_SECRET_NAME = re.compile("password|secret|(access|auth)[-_]token", re.IGNORECASE)
_SECRET_PART = re.compile(
    r"://[^/?#]*:[^/?#@,]+@|://.*[?&][^=&]*(?:pass|secret|token)[^=&]*=[^&]", re.IGNORECASE
)
"""A URL with the password of a user of any host, or with one in its query."""


class ConfigError(Exception):
    """The configuration is invalid; the text names the file, the line and the option."""


def load_config(args: Sequence[str], *, command_line: Sequence[cfg.Opt] = ()) -> cfg.ConfigOpts:
    """Parse the command line and the configuration files.

    ``command_line`` are the options of a service that logs; commands have none.

    :raises ConfigError: naming the file, the line and the option.
    """
    conf = cfg.ConfigOpts()
    register(conf, opts.list_opts())
    placement.register_opts(conf)
    conf.register_cli_opts([*command_line, *_settable_by_argument()])
    if command_line:
        logs.register(conf)
    parse(conf, args, prog=PROJECT)
    return conf


def read_again(conf: cfg.ConfigOpts, args: Sequence[str]) -> None:
    """Read the configuration files again and update the mutable options in ``conf``.

    oslo.config logs the options that changed, and those that changed and need a restart.

    :raises ConfigError: the files are invalid; ``conf`` stays as it was.
    """
    reread = load_config(args, command_line=opts.COMMAND_LINE)
    settings(reread)
    refuse_typos(conf)
    try:
        conf.mutate_config_files()
    except (cfg.Error, ValueError) as err:
        raise ConfigError(with_line(str(err))) from err


def settings(conf: cfg.ConfigOpts) -> opts.Settings:
    """Return the agent's settings.  :raises ConfigError: an option has an invalid value."""
    check_values(conf)
    try:
        return opts.settings(conf)
    except (RegistryConfigError, ValueError) as err:
        raise ConfigError(with_line(str(err))) from err


def parse(conf: cfg.ConfigOpts, args: Sequence[str], *, prog: str) -> None:
    """Parse the arguments and configuration files of the program ``prog`` into ``conf``.

    For an invalid value in a file of an option that is an argument as well, oslo.config would end
    the process; here that is an exception, since a running agent rereads its files.

    :raises ConfigError: a file does not exist, can't be read or has an invalid value.
    """
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            conf(list(args), project=PROJECT, prog=prog, version=version())
    except cfg.ConfigFilesNotFoundError as err:
        raise ConfigError(f"no such configuration file: {', '.join(err.config_files)}") from err
    except cfg.Error as err:
        raise ConfigError(with_line(" ".join(str(err).split()))) from err
    except OSError as err:
        raise ConfigError(f"{err.filename}: {err.strerror}" if err.filename else str(err)) from err
    except UnicodeDecodeError as err:
        culprit = next(filter(_is_not_utf8, _files_named(args, prog)), "a file")
        raise ConfigError(f"{culprit} is not UTF-8 text: {err}") from err
    except SystemExit as end:
        wrong = _ARGUMENT.fullmatch(printed.getvalue().strip())
        if end.code != 1 or wrong is None:
            sys.stderr.write(printed.getvalue())
            raise
        files = _files_named(args, prog)
        places = (f"{file}, line {n}" for file in files if (n := line_of(file, None, wrong[1])))
        where = next(places, "the configuration")
        text = f"Value for option {wrong[1]} in {where} is not valid: {wrong[2]}"
        raise ConfigError(text) from None


def _files_named(args: Sequence[str], prog: str) -> Iterator[Path]:
    """Yield the configuration files that exist, the last first; they need not be parsed yet."""
    paths = [Path(re.sub(r"^--config-(file|dir)=", "", argument)) for argument in args]
    for path in (*reversed(paths), *map(Path, cfg.find_config_files(PROJECT, prog))):
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from sorted(path.glob("*.conf"), reverse=True)


def _is_not_utf8(path: Path) -> bool:
    """Return whether the file is the one that oslo.config's error does not name."""
    try:
        path.read_text(encoding="utf-8")
    except OSError:
        return False
    except UnicodeDecodeError:
        return True
    return False


def check_values(conf: cfg.ConfigOpts) -> None:
    """Check the value of every registered option.

    :raises ConfigError: a value is invalid, or refers to an option that does not exist.
    """
    for name in conf:
        value = _value(conf, conf, name, DEFAULT)
        if isinstance(value, cfg.ConfigOpts.GroupAttr):
            for option in value:
                _value(conf, value, option, name)


def _value(conf: cfg.ConfigOpts, options: Any, option: str, group: str) -> Any:
    try:
        return options[option]
    except (cfg.NoSuchOptError, RecursionError):  # the error's text has a part of the value
        text = "$ refers to an option that does not exist: write $$ for a literal $"
        raise ConfigError(f"{option_place(conf, option, group)}: {text}") from None
    except (cfg.Error, ValueError) as err:
        raise ConfigError(with_line(str(err))) from err


def refuse_typos(conf: cfg.ConfigOpts) -> None:
    """Refuse options that a file has twice, and unknown names that resemble one of the agent's.

    Other unknown names are ignored: the file may be shared with other services.

    :raises ConfigError: naming the file, the line and the name that is probably meant.
    """
    for meant, error in _typos(conf):
        if meant in _own_groups():
            raise ConfigError(error)
    for path in files_of(conf):
        for section, options in _sections(path).items():
            for name in [name for name, values in options.items() if values[1:]]:
                option = _option(conf, section, name)
                if option is not None and not option.multi:
                    place = f"{path}:{line_of(path, section, name)}"
                    raise ConfigError(
                        f"{place}: {name} is in [{section}] twice: remove one of them"
                    )


def doubtful_groups(conf: cfg.ConfigOpts) -> list[str]:
    """Return a warning for each unknown group that resembles one of a driver that is not ours.

    That is no error: the group may be that of a driver that is not loaded any more.
    """
    return [text for meant, text in _typos(conf) if meant not in _own_groups()]


def _own_groups() -> set[str]:
    return {group for group, _ in opts.list_opts()} | {placement.GROUP} | SHIPPED


def _typos(conf: cfg.ConfigOpts) -> Iterator[tuple[str, str]]:
    """Yield the group that is meant (``DEFAULT`` for a mistyped option), and the error text.

    Groups that differ in case only are mistyped, too: ``[default]`` is not ``[DEFAULT]``.
    """
    ours = {DEFAULT: {name.replace("-", "_") for name in conf}}
    for group in conf:
        if isinstance(conf[group], cfg.ConfigOpts.GroupAttr):
            ours[DEFAULT].discard(group)
            ours[group] = {option.replace("-", "_") for option in conf[group]}
    spelling = {group.lower(): group for group in ours}
    for path in files_of(conf):
        for section, options in _sections(path).items():
            if section not in ours:
                for near in _alike(section.strip().lower(), spelling):
                    where, meant = line_of(path, section, None), spelling[near]
                    yield meant, f"{path}:{where}: no group [{section}]; is [{meant}] meant?"
                continue
            for name in options:
                plain, our_names = name.replace("-", "_"), ours[section]
                if plain in our_names or plain in NAMES_OF_OTHERS.get(section, ()):
                    continue
                for near in _alike(plain, our_names):
                    where = line_of(path, section, name)
                    text = f"{path}:{where}: no option {name} in [{section}]; is {near} meant?"
                    yield DEFAULT, text


def _alike(name: str, ours: Iterable[str]) -> list[str]:
    """Return the name of ``ours`` that is probably meant; empty if none is."""
    alike = ALIKE_SHORT if len(name) < 6 else ALIKE
    return difflib.get_close_matches(name, list(ours), 1, alike)


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


def _sections(path: Path) -> dict[str, dict[str, list[str]]]:
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(path), sections).parse()
    return sections


def _settable_by_argument() -> list[cfg.Opt]:
    return [option for option in opts.DEFAULT if option.dest in {"state_path", "compute_driver"}]


def files_of(conf: Any) -> Iterator[Path]:
    """Yield the configuration files that ``conf`` was read from."""
    yield from map(Path, conf.config_file or ())
    for directory in conf.config_dir or ():
        yield from sorted(Path(directory).glob("*.conf"))


def option_place(conf: Any, name: str, group: str = DEFAULT) -> str:
    """Return ``[group] name in FILE, line N``; without file and line if no file has the option."""
    option = name if group == DEFAULT else f"[{group}] {name}"
    for file in reversed(list(files_of(conf))):
        line = line_of(file, group, name)
        if line is not None:
            return f"{option} in {file}, line {line}"
    return option


def with_line(text: str) -> str:
    """Return an error text of oslo.config as "… option NAME in FILE, line N …"."""
    text = where_read(text)
    match = _VALUE.search(text)
    line = None if match is None else line_of(Path(match[2]), None, match[1])
    if match is None or line is None:
        return text
    return f"{text[: match.end()]}, line {line}{text[match.end() :]}"


def line_of(file: Path, group: str | None, name: str | None) -> int | None:
    """Return the line of an option, or with ``name`` ``None`` of a group's header.

    With ``group`` ``None`` the option may be in any group.  The last occurrence counts.
    """
    option = re.sub("[-_]", "[-_]", re.escape((name or "").replace("-", "_")))
    wanted = re.compile(rf"{option}\s*[=:]") if name else _SECTION
    place, section = None, DEFAULT
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    for number, line in enumerate(lines, start=1):
        header = _SECTION.match(line)
        section = header[1] if header else section
        if group in (None, section) and wanted.match(line):
            place = number
    return place


def open_secrets(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield a warning, with the next step, for each file with a secret that all may read.

    Secrets are the options that are registered as such, and parts of URLs.
    """
    for path in files_of(conf):
        place = _first_secret(conf, path) if path.stat().st_mode & stat.S_IROTH else None
        if place is not None:
            line = line_of(path, *place)
            yield f"{path}:{line} has a password, and every user may read it: chmod o-r {path}"


def _first_secret(conf: cfg.ConfigOpts, path: Path) -> tuple[str, str] | None:
    """Return group and name of the first option in the file whose value is a secret.

    An option that nobody has registered is one by its name.
    """
    for section, options in _sections(path).items():
        for name, values in options.items():
            option = _option(conf, section, name)
            is_secret = _SECRET_NAME.search(name) if option is None else option.secret
            for value in values:
                if _SECRET_PART.search(value) or (is_secret and value and "://" not in value):
                    return section, name
    return None


def _option(conf: cfg.ConfigOpts, group: str, name: str) -> Any:
    """Return an option by its name in a file; ``None`` if nobody registered it."""
    try:
        options = conf if group == DEFAULT else conf._get_group(group)  # noqa: SLF001
        return options._opts[name.replace("-", "_")]["opt"]  # noqa: SLF001
    except (cfg.NoSuchGroupError, KeyError):
        return None
