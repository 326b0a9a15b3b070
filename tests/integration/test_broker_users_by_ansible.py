"""The module of deploy/ansible that creates the broker's users, on a real RabbitMQ."""

from typing import Any

import pytest

from compute_registry.broker_users import commands
from tests.ansible_modules import load_module
from tests.servers import rabbitmq
from tests.servers.process import completed
from tests.servers.rabbitmq import RabbitMQ

CONTROL = next(rabbitmq.SERVERS.glob("rabbitmq_server-*/sbin/rabbitmqctl"), None)


class Ansible:
    """The part of Ansible that the module uses; ``changed`` and ``calls`` are its answer."""

    def __init__(self, broker: RabbitMQ, params: dict[str, str], *, check_mode: bool) -> None:
        self.broker, self.params, self.check_mode = broker, params, check_mode
        self.said: list[str] = []

    def get_bin_path(self, name: str, required: bool) -> str:
        assert (name, required) == ("rabbitmqctl", True)
        return str(CONTROL)

    def run_command(
        self, command: list[str], data: str | None = None, check_rc: bool = False
    ) -> tuple[int, str, str]:
        assert self.params["password"] not in command, "others see the arguments of a process"
        done = completed(*command, input=data or "", env=self.broker.environment())
        self.said.append(done.stdout + done.stderr)
        assert not (check_rc and done.returncode), self.said
        return done.returncode, done.stdout, done.stderr

    def exit_json(self, *, changed: bool, calls: list[str]) -> None:
        self.changed, self.calls = changed, calls


@pytest.fixture
def broker_user(monkeypatch: pytest.MonkeyPatch) -> Any:
    return load_module("broker_user", monkeypatch)


def test_a_user_is_created_and_mended_and_only_compared_in_check_mode(
    broker: RabbitMQ, broker_user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, vhost = "agent-host.1", "fleet"
    lines = "\n".join(commands(["host.1", "host2"], "nova", vhost))
    broker.control("add_vhost", vhost)

    def play(password: str = "s3cret", *, check: bool = False) -> list[str]:
        params = {"user": user, "password": password, "commands": lines}
        ansible = Ansible(broker, params, check_mode=check)
        monkeypatch.setattr(broker_user, "AnsibleModule", lambda **_: ansible)
        broker_user.main()
        assert ansible.changed == bool(ansible.calls)
        return [call.split()[0] for call in ansible.calls]

    everything = ["add_user", "set_permissions", "set_topic_permissions"]
    assert play(check=True) == play() == everything
    users = broker.control("list_users")
    assert user in users and "agent-host2" not in users
    assert play("another") == ["change_password"]
    broker.control("clear_topic_permissions", "-p", vhost, user)
    broker.control("set_permissions", "-p", vhost, user, ".*", ".*", ".*")
    assert play("another") == everything[1:]
