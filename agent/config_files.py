"""Configuration files: their paths, the lines of options, and readable passwords."""

import io
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from oslo_config import cfg

DEFAULT = "DEFAULT"
_VALUE = re.compile(r"option (\S+) in (\S+)")
_ARGUMENT = re.compile(r"argument --(\S+): (.*)")
_SECTION = re.compile(r"\s*\[([^]]+)\]")
_SECRET = re.compile(
    r"^(?:\w*(?:password|secret|access_token|auth_token)\w*)\s*[=:]\s*\S"
    r"|^\w+\s*[=:]\s*\w[\w+.-]*://[^/\s:@]*:[^/\s@]+@",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that sets a password, or a URL that contains one."""


class WrongValue(Exception):
    """A file can't be read or has an invalid value; the text names the file."""


def parse(conf: cfg.ConfigOpts, args: Sequence[str], **options: Any) -> None:
    """Parse arguments and configuration files into ``conf``.

    ``options`` are passed on to oslo.config (``project``, ``prog``, ``version``).  For an invalid
    value in a file of an option that is an argument as well, oslo.config would end the process;
    here that is an exception, since a running agent rereads its files.

    :raises WrongValue: a file can't be read or has an invalid value.
    """
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            conf(list(args), **options)
    except OSError as err:
        raise WrongValue(f"{err.filename}: {err.strerror}" if err.filename else str(err)) from err
    except UnicodeDecodeError as err:
        named = files_named(args, options["project"], options["prog"])
        culprit = next(_not_utf8(named), "a file")
        raise WrongValue(f"{culprit} is not UTF-8 text: {err}") from err
    except SystemExit as end:
        wrong = _ARGUMENT.fullmatch(printed.getvalue().strip())
        if end.code != 1 or wrong is None:
            sys.stderr.write(printed.getvalue())
            raise
        files = files_named(args, options["project"], options["prog"])
        places = (f"{file}, line {n}" for file in files if (n := line_of(file, None, wrong[1])))
        where = next(places, "the configuration")
        text = f"Value for option {wrong[1]} in {where} is not valid: {wrong[2]}"
        raise WrongValue(text) from None


def files_named(args: Sequence[str], project: str, prog: str) -> Iterator[Path]:
    """Yield the configuration files that exist, the last first; they need not be parsed yet."""
    paths = [Path(re.sub(r"^--config-(file|dir)=", "", argument)) for argument in args]
    for path in (*reversed(paths), *map(Path, cfg.find_config_files(project, prog))):
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from sorted(path.glob("*.conf"), reverse=True)


def _not_utf8(files: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that are not UTF-8; oslo.config's error does not name them."""
    for path in files:
        try:
            path.read_text(encoding="utf-8")
        except OSError:
            continue
        except UnicodeDecodeError:
            yield path


def check_values(conf: cfg.ConfigOpts) -> None:
    """Check the value of every registered option.

    :raises cfg.ConfigFileValueError: a value is invalid.
    :raises WrongValue: a value refers to an option that does not exist.
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
        raise WrongValue(f"{option_place(conf, option, group)}: {text}") from None


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
    """Return an error text of oslo.config, "… option NAME in FILE …", with the line added."""
    match = _VALUE.search(text)
    line = None if match is None else line_of(Path(match[2]), None, match[1])
    if match is None or line is None:
        return text
    return f"{text[: match.end()]}, line {line}{text[match.end() :]}"


def line_of(file: Path, group: str | None, name: str | None) -> int | None:
    """Return the line of an option, or with ``name`` ``None`` of a group's header.

    With ``group`` ``None`` the option may be in any group.  The last occurrence counts.
    """
    option = re.escape(name or "").replace("_", "[-_]")
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


def open_secrets(files: Iterable[Path]) -> Iterator[str]:
    """Yield a warning, with the next step, for each file with a password that all may read."""
    for path in files:
        try:
            mode = path.stat().st_mode
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        secret = _SECRET.search(text)
        if mode & stat.S_IROTH and secret:
            line = text[: secret.start()].count("\n") + 1
            yield f"{path}:{line} has a password, and every user may read it: chmod o-r {path}"
