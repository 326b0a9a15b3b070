#!/usr/bin/python
"""Ansible module: a user of RabbitMQ, as compute-registry --broker-users prints it."""

from __future__ import annotations

import json
import shlex
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: broker_user
short_description: Create a user of RabbitMQ, and set its password and permissions
options:
  user: {type: str, required: true, description: The name of the user.}
  password: {type: str, required: true, description: The password of the user.}
  commands:
    type: str
    required: true
    description: What compute-registry --broker-users printed. Commands for other users are ignored.
"""
LISTS = {
    "set_permissions": ("list_user_permissions", ("configure", "write", "read")),
    "set_topic_permissions": ("list_user_topic_permissions", ("exchange", "write", "read")),
}
"""Commands that set permissions: the one that lists them, and its fields."""


class Broker:
    """The broker of the machine, by ``rabbitmqctl``."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.program = module.get_bin_path("rabbitmqctl", required=True)

    def listed(self, *command: str) -> list[dict[str, Any]]:
        """Return the rows of a list."""
        text = self.call("--quiet", "--formatter", "json", *command)
        rows: list[dict[str, Any]] = json.loads(text)
        return rows

    def call(self, *command: str, stdin: str | None = None) -> str:
        """Return the output of a command, which has to succeed."""
        text: str = self.module.run_command([self.program, *command], data=stdin, check_rc=True)[1]
        return text

    def accepts(self, user: str, password: str) -> bool:
        """Return whether the user has this password."""
        command = [self.program, "authenticate_user", user]
        return self.module.run_command(command, data=password)[0] == 0


def calls(broker: Broker, user: str, password: str, commands: str) -> list[list[str]]:
    """Return the calls of ``rabbitmqctl`` whose result the broker does not have yet."""
    exists = user in {row["user"] for row in broker.listed("list_users")}
    needed = []
    if not exists:
        needed.append(["add_user", user])
    elif not broker.accepts(user, password):
        needed.append(["change_password", user])
    for line in commands.splitlines():
        _, verb, *words = shlex.split(line)
        vhost, words = (words[1], words[2:]) if words[0] == "-p" else ("/", words)
        if verb not in LISTS or words[0] != user:
            continue
        command, fields = LISTS[verb]
        rows = broker.listed(command, user) if exists else []
        wanted = {"vhost": vhost, **dict(zip(fields, words[1:], strict=True))}
        if not any(wanted.items() <= row.items() for row in rows):
            needed.append([verb, "-p", vhost, *words])
    return needed


def main() -> None:
    """Read the arguments, call ``rabbitmqctl`` where something differs, say whether it did."""
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
            "commands": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    broker, password = Broker(module), module.params["password"]
    needed = calls(broker, module.params["user"], password, module.params["commands"])
    if not module.check_mode:
        for call in needed:
            broker.call(*call, stdin=None if call[0] in LISTS else password)
    module.exit_json(changed=bool(needed), calls=[shlex.join(call) for call in needed])


if __name__ == "__main__":
    main()
