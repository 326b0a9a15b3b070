"""Where an option was set, so that an error about its value names the file and the line."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEFAULT = "DEFAULT"
_VALUE = re.compile(r"option (\S+) in (\S+)")
_SECTION = re.compile(r"\s*\[([^]]+)\]")


def option_place(conf: Any, name: str, group: str = DEFAULT) -> str:
    """``[group] name in FILE, line N``; without what is not known, as for the command line."""
    option = name if group == DEFAULT else f"[{group}] {name}"
    for file in reversed(list(_files(conf))):
        line = _line(file, name, group)
        if line is not None:
            return f"{option} in {file}, line {line}"
    return option


def with_line(text: str) -> str:
    """An error of oslo.config, "… option NAME in FILE …", with the line after the file."""
    found = _VALUE.search(text)
    line = None if found is None else _line(Path(found[2]), found[1], None)
    if found is None or line is None:
        return text
    return f"{text[: found.end()]}, line {line}{text[found.end() :]}"


def _files(conf: Any) -> Iterator[Path]:
    yield from map(Path, conf.config_file or ())
    for directory in conf.config_dir or ():
        yield from sorted(Path(directory).glob("*.conf"))


def _line(file: Path, name: str, group: str | None) -> int | None:
    """The last one counts; ``group`` is ``None`` where it is not known."""
    wanted = re.compile(rf"{re.escape(name).replace('_', '[-_]')}\s*[=:]")
    found, section = None, DEFAULT
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    for number, line in enumerate(lines, start=1):
        header = _SECTION.match(line)
        if header is not None:
            section = header[1]
        elif group in (None, section) and wanted.match(line):
            found = number
    return found
