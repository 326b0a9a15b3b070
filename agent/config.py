"""Configuration files: oslo.config in, frozen settings out.

An invalid configuration file is refused at start; the error names the file and the option.  So is
an option that nothing reads, in a group that the agent or one of its drivers has.
"""

import argparse
import difflib
import io
import re
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from oslo_config import cfg

from agent import opts, placement, version
from agent.reporting import logs
from drivers.opts import register, where_read

PROJECT = "compute-agent"
DEFAULT = "DEFAULT"
OF_MESSAGING = (
    *("executor_thread_pool_size", "rpc_ping_enabled", "rpc_response_timeout"),
    "rpc_thread_pool_size",
)
"""Options of ``[DEFAULT]`` that oslo.messaging reads by itself."""
OF_REGISTRY = (
    *("connection", "unsigned_calls", "rest_bind", "rest_port", "trusted_proxy", "auth_strategy"),
)
"""Options of ``[registry]`` that only compute-registry reads, which may be given the same file."""
NO_DATABASE = (
    "[registry] connection: only compute-registry opens a database; set [registry] access = rpc "
    "and transport_url, or remove the option"
)
"""The error of a host without a registry whose files have the option."""
SIMILAR = 0.8
"""From which similarity (difflib) an unknown name is a misspelt one of ours: none of the groups of
Nova and of the libraries is, and no option of a driver in [DEFAULT]."""
_PARSED_LINE = re.compile(r"(at \S+:\d+, (?:No ':' or '='[^:]+|[^:]+)):.*", re.DOTALL)
"""oslo.config's error about a line that is no option: it shows the line, which may be a secret."""
_SECRET_NAME = re.compile("password|secret|(access|auth)[-_]token", re.IGNORECASE)
_SECRET_PART = re.compile(
    r"://[^/?#]*:[^/?#@,]+@|://.*[?&][^=&]*(?:pass|secret|token)[^=&]*=[^&]", re.IGNORECASE
)
"""A URL with the password of a user of any host, or with one in its query."""
_SECRET_QUERY = re.compile(r"[?&][^=&]*(?:pass|secret|token)[^=&]*=([^&]+)", re.IGNORECASE)


class ConfigError(Exception):
    """The configuration is invalid; the text names the file and the option."""


def load_config(args: Sequence[str]) -> cfg.ConfigOpts:
    """Parse the arguments and the configuration files of the agent, or of a command beside it.

    :raises ConfigError: naming the file and the option.
    """
    conf = cfg.ConfigOpts()
    register(conf, opts.list_opts())
    placement.register_opts(conf)
    arguments = [each for each in opts.DEFAULT if each.dest in {"state_path", "compute_driver"}]
    conf.register_cli_opts([*opts.COMMAND_LINE, *arguments])
    logs.register(conf)
    parse(conf, args, prog=PROJECT)
    return conf


def reload(conf: cfg.ConfigOpts, args: Sequence[str]) -> None:
    """Read the configuration files again and update the mutable options in ``conf``.

    oslo.config logs the options that changed, and those that changed and need a restart.

    :raises ConfigError: the files are invalid; ``conf`` stays as it was.
    """
    settings(load_config(args))
    refuse_unknown(conf)
    mutate(conf)


def mutate(conf: cfg.ConfigOpts) -> None:
    """Update the mutable options in ``conf``.  :raises ConfigError: a value is invalid."""
    hide_secrets(conf)  # oslo.config logs each option that changed with both values
    try:
        conf.mutate_config_files()
    except (cfg.Error, ValueError) as err:
        raise ConfigError(located(where_read(str(err)), files_of(conf))) from err


def settings(conf: cfg.ConfigOpts) -> opts.Settings:
    """Return the agent's settings.  :raises ConfigError: an option has an invalid value."""
    check_values(conf)
    in_files = [name for path in files_of(conf) for name in sections(path).get("registry", ())]
    if conf.registry.access == "direct" and "connection" in in_files:
        raise ConfigError(located(NO_DATABASE, files_of(conf)))
    try:
        return opts.settings(conf)
    except ValueError as err:
        raise ConfigError(located(where_read(str(err)), files_of(conf))) from err


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
        for directory in conf.config_dirs or conf.config_dir or ():
            list(Path(directory).expanduser().iterdir())  # for oslo.config it would be empty
    except cfg.ConfigFilesNotFoundError as err:
        raise ConfigError(f"no such configuration file: {', '.join(err.config_files)}") from err
    except (cfg.ConfigFilesPermissionDeniedError, PermissionError) as err:
        paths = ", ".join([err.filename] if isinstance(err, OSError) else err.config_files)
        step = f"run it as root, or as the user of {prog}, who has to be able to read it"
        raise ConfigError(f"no permission to read {paths}: {step}") from err
    except cfg.Error as err:
        text = where_read(" ".join(str(err).split()))
        text = _PARSED_LINE.sub(r"\1", text)
        raise ConfigError(located(text, _given(args, prog))) from err
    except OSError as err:
        raise ConfigError(f"{err.filename}: {err.strerror}" if err.filename else str(err)) from err
    except UnicodeDecodeError as err:
        files = (each for each in _given(args, prog) if err.object in each.read_bytes())
        raise ConfigError(located(f"the file is not UTF-8 text: {err}", files)) from err
    except SystemExit as end:
        if end.code != 1:
            sys.stderr.write(printed.getvalue())
            raise
        text = printed.getvalue().strip().removeprefix("argument --")
        text = f"a configuration file has an invalid value of option {text}"
        raise ConfigError(located(text, _given(args, prog))) from None


def _given(args: Sequence[str], prog: str) -> Iterator[Path]:
    """Yield the configuration files of a command line, or the default ones."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("config_file", "config_dir"):
        parser.add_argument(f"--{name.replace('_', '-')}", action="append", dest=name)
    given = parser.parse_known_args(args)[0]
    if given.config_file is None:
        given.config_file = cfg.find_config_files(PROJECT, prog)
    return files_of(given)


_ASSIGNMENT = re.compile(r"(?:\[(?P<group>[^\]]*)\]|(?P<option>[\w-]+)\s*[=:])")


def located(text: str, files: Iterable[Path]) -> str:
    """Return an error's text after file and line of each option that it names, or its files.

    An option is named as ``[group] option``, ``option NAME``, or at the beginning.
    """
    files, places = list(files), list[str]()
    named = text.partition(", whose options are ")[0].replace("-", "_")
    for path in files:
        group = DEFAULT
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if (match := _ASSIGNMENT.match(line)) is None:
                continue
            if match["group"] is not None:
                group = match["group"]
                places += [f"{path}:{number}"] if f"no group [{group}]" in text else []
                continue
            option = re.escape(match["option"].replace("-", "_"))
            begins = rf"(?:^|option |, |\[{re.escape(group)}\] ){option}\b"
            in_group = f"[{group}]" in named or not re.search(r"\[\w+\]( \w|$)", named)
            if in_group and re.search(begins, named):
                places.append(f"{path}:{number}")
    if not files or any(re.search(rf"{re.escape(str(path))}:\d", text) for path in files):
        return text
    return f"{', '.join(places or map(str, files))}: {text}"


def check_values(conf: cfg.ConfigOpts) -> None:
    """Check the value of every option, those of ``auth_type`` included.

    :raises ConfigError: values are invalid, or refer to options that do not exist; names all.
    """
    with suppress(cfg.NoSuchOptError, RecursionError):  # said below
        placement.register_plugin_opts(conf)
    errors = list[str]()
    for group in (DEFAULT, *conf._groups):
        options = conf if group == DEFAULT else conf[group]
        for option in options:
            name = option if group == DEFAULT else f"[{group}] {option}"
            try:
                options[option]
            except (cfg.NoSuchOptError, RecursionError):  # its text has a part of the value
                step = "write $$ for a literal $"
                errors.append(f"{name}: $ refers to an option that does not exist: {step}")
            except (cfg.Error, ValueError) as err:
                text = logs.pattern(_secret_values(conf)).sub("***", where_read(str(err)))
                if _registered(conf, group)[option]["opt"].secret:
                    text = f"{name}: the value is not valid; it is a secret, and not shown"
                errors.append(text)
    if errors:
        raise ConfigError("\n".join(located(text, files_of(conf)) for text in errors))


def refuse_unknown(conf: cfg.ConfigOpts, unchecked: Collection[str] = ()) -> None:
    """Refuse options that nothing reads, and groups whose names resemble those of this program.

    Any other group may be a library's, such as ``[oslo_messaging_rabbit]``.  ``unchecked`` are
    groups in which other programs have options, too: there options that resemble known ones.

    :raises ConfigError: naming the file, and for each group the options, and those that it has.
    """
    known, texts = _known_options(conf), list[str]()
    for group, options in [each for path in files_of(conf) for each in sections(path).items()]:
        names = known.get(group)
        if names is None and group not in (placement.GROUP, conf[placement.GROUP].auth_section):
            near = _similar(group, [*known, placement.GROUP])
            texts += [f"no group [{group}]: is [{each}] meant?" for each in near]
        unknown = [name for name in options if names and name.replace("-", "_") not in names]
        if group in unchecked:
            unknown = [name for name in unknown if _similar(name, names or ())]
        if unknown:
            own = [f"; {it} is one of [{at}]" for it in unknown for at in known if it in known[at]]
            options_of = ", ".join(sorted(names or ()))
            text = f"no option {', '.join(unknown)} in [{group}], whose options are {options_of}"
            texts.append(text + "".join(own))
    if texts:
        raise ConfigError("\n".join(located(text, files_of(conf)) for text in dict.fromkeys(texts)))


def _similar(word: str, names: Iterable[str]) -> list[str]:
    """Return the most similar name, in any case of letters, if one is similar."""
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(word.replace("-", "_").casefold(), folded, 1, SIMILAR)
    return [folded[each] for each in near]


def _known_options(conf: cfg.ConfigOpts) -> dict[str, set[str]]:
    """Return the names that a file may use for options, older ones included, by group."""
    has_all = placement.register_plugin_opts(conf)
    known = {DEFAULT: set(OF_MESSAGING), "registry": set(OF_REGISTRY)}
    for group in (DEFAULT, *conf._groups):
        names = known.setdefault(group, set())
        for option in [each["opt"] for each in _registered(conf, group).values()]:
            older = [each.name for each in option.deprecated_opts if each.group in (None, group)]
            names |= {name.replace("-", "_") for name in (option.name, *older)}
    for group, options in opts.list_opts():
        if group in known:
            known[group].update(option.dest for option in options)
    if not has_all:
        del known[placement.GROUP]
    return known


def sections(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the options of a file and their unparsed values, by group."""
    found: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(path), found).parse()
    return found


def files_of(conf: Any) -> Iterator[Path]:
    """Yield the configuration files that ``conf`` was read from."""
    yield from map(Path, conf.config_file or ())
    for directory in conf.config_dir or ():
        yield from sorted(Path(directory).glob("*.conf"))


def open_secrets(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield a warning, with the next step, for each file with a secret that all may read."""
    for path in files_of(conf):
        if path.stat().st_mode & stat.S_IROTH:
            for option, _ in islice(_secrets_in(conf, path), 1):
                text = f"{path} has a password, {option}, and every user may read it"
                yield f"{text}: chmod o-r {path}"


def hide_secrets(conf: cfg.ConfigOpts) -> None:
    """Have the logs hide the values of secret options, those that the files have now included.

    Call it again once drivers and ``auth_type`` have registered their options.
    """
    logs.hide(_secret_values(conf))


def _secret_values(conf: cfg.ConfigOpts) -> Iterator[str]:
    for path in files_of(conf):
        with suppress(OSError, ValueError, cfg.ParseError):  # another function reports it
            for _, value in _secrets_in(conf, path):
                yield from _forms(value)
    for group in (DEFAULT, *conf):
        for name, registered in _registered(conf, group).items():
            if registered["opt"].secret:
                with suppress(cfg.Error, ValueError, RecursionError):
                    value = conf[name] if group == DEFAULT else conf[group][name]
                    for each in value if isinstance(value, list) else [value]:
                        yield from _forms(str(each or ""))


def _forms(value: str) -> Iterator[str]:
    """Yield a secret, its parts if it is a list, or the passwords if it is a URL."""
    yield value
    if "://" not in value:
        yield from (part.strip(" \t'\"") for part in value.split(","))
        return
    users = value.partition("://")[2].rpartition("@")[0]
    yield users.partition(":")[2]  # whatever the password has: a comma, a slash
    yield from (user.partition("@")[0].partition(":")[2] for user in users.split(","))
    yield from _SECRET_QUERY.findall(value)


def _secrets_in(conf: cfg.ConfigOpts, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the secrets in a file as ``[group] option`` and their text.

    Secrets are the options that are registered as such, and parts of URLs.  An option that nobody
    has registered is one by its name.
    """
    for group, options in sections(path).items():
        for name, values in options.items():
            registered = _registered(conf, group).get(name.replace("-", "_"))
            is_secret = registered["opt"].secret if registered else _SECRET_NAME.search(name)
            for value in values:
                if _SECRET_PART.search(value) or (is_secret and value and "://" not in value):
                    yield f"[{group}] {name}", value


def _registered(conf: cfg.ConfigOpts, group: str) -> Mapping[str, Any]:
    """Return the registered options of a group as oslo.config has them; empty without the group."""
    options = conf if group == DEFAULT else conf._groups.get(group)
    return {} if options is None else options._opts
