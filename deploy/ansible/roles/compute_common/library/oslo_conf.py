#!/usr/bin/python
"""Ansible module: write a file of oslo.config, and say whether a reload applies the change."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: oslo_conf
short_description: Write a configuration file of oslo.config
options:
  path: {type: path, required: true, description: The file. It is written as a whole.}
  options: {type: dict, required: true, description: Values by group and option.}
  sample:
    type: path
    required: true
    description: The sample configuration, which says what can be changed without a restart.
extends_documentation_fragment: [files]
"""
RETURN = """
restart: {type: bool, returned: always, description: Whether a change needs a restart.}
changed_options: {type: list, returned: always, description: Names of what changed.}
"""

MUTABLE = "# Note: This option can be changed without restarting."
Options = dict[tuple[str, str], str]


def text_of(value: object) -> str:
    """Return a value as oslo.config reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(text_of, value))
    return str(value)


def desired(groups: dict[str, dict[str, object]]) -> Options:
    """Return the options by group and name; one without a value is left out."""
    return {
        (group, name): text_of(value)
        for group, options in groups.items()
        for name, value in options.items()
        if value is not None
    }


def written(options: Options) -> str:
    """Return the file's text."""
    lines = ["# Written by Ansible."]
    for group in dict.fromkeys(["DEFAULT", *sorted({group for group, _ in options})]):
        lines.append(f"\n[{group}]")
        lines += [f"{name} = {value}" for (each, name), value in options.items() if each == group]
    return "\n".join(lines) + "\n"


def current(path: Path) -> Options | None:
    """Return the options of a file, ``None`` if it can't be read as one."""
    parser = configparser.RawConfigParser(strict=False, default_section="no such section")
    try:
        if not parser.read(path):
            return {}
    except configparser.Error:
        return None
    return {
        (group, name): value for group in parser.sections() for name, value in parser[group].items()
    }


def mutable(sample: Path) -> set[tuple[str, str]]:
    """Return the options that the sample says can be changed without a restart."""
    found, group, noted = set(), "DEFAULT", False
    for line in sample.read_text(encoding="utf-8").splitlines() if sample.exists() else []:
        if section := re.match(r"\[(\w+)\]", line):
            group = section[1]
        elif option := re.match(r"#(\w+) =", line):
            if noted:
                found.add((group, option[1]))
            noted = False
        noted = noted or line.startswith(MUTABLE)
    return found


def main() -> None:
    """Run the module."""
    arguments = {
        "path": {"type": "path", "required": True},
        "options": {"type": "dict", "required": True, "no_log": True},
        "sample": {"type": "path", "required": True},
    }
    module = AnsibleModule(arguments, add_file_common_args=True, supports_check_mode=True)
    path = Path(module.params["path"])
    new, old = desired(module.params["options"]), current(path)
    before = {} if old is None else old
    names = sorted(key for key in {*new, *before} if new.get(key) != before.get(key))
    changed = bool(names) or old is None or not path.exists()
    if changed and not module.check_mode:
        temporary = Path(module.tmpdir, "conf")
        temporary.write_text(written(new), encoding="utf-8")
        module.atomic_move(str(temporary), str(path))
    if path.exists():
        attributes = module.load_file_common_arguments(module.params)
        changed = module.set_fs_attributes_if_different(attributes, changed)
    module.exit_json(
        changed=changed,
        restart=old is None or not set(names) <= mutable(Path(module.params["sample"])),
        changed_options=[f"[{group}] {name}" for group, name in names],
    )


if __name__ == "__main__":
    main()
