"""A real Keystone for tests: SQLite, Fernet tokens, users and endpoints as a test wants them."""

import importlib.util
import os
import select
import subprocess
import sys
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from keystoneauth1.identity import v3
from keystoneauth1.session import Session

from tests.servers.agent import REPOSITORY
from tests.servers.ports import free_port
from tests.servers.process import Server

PASSWORD = "of-the-administrator"
PROJECT = "service"
REGION = "RegionOne"
CONFIGURATION = """\
[DEFAULT]
log_file = {directory}/keystone.log
[database]
connection = sqlite:///{directory}/keystone.sqlite
[token]
provider = fernet
[fernet_tokens]
key_repository = {directory}/fernet
[fernet_receipts]
key_repository = {directory}/fernet
[credential]
key_repository = {directory}/credential
[cache]
enabled = false
[identity]
password_hash_rounds = 4
"""


def missing() -> str | None:
    """Why it can't run here, or ``None``."""
    return None if importlib.util.find_spec("keystone") else "keystone is not installed"


class Keystone(Server):
    """In ``directory``; its administrator is ``admin``, with ``PASSWORD``, of project ``admin``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.public: str | None = None
        """Where a proxy with TLS has it, if one has."""
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For auth_url."""
        return f"http://127.0.0.1:{self.port}/v3"

    def start(self, timeout: float = 180.0) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "keystone.conf"
        text = CONFIGURATION.format(directory=self.directory)
        if self.public is not None:
            text = text.replace("[database]", f"public_endpoint = {self.public}\n[database]")
        config.write_text(text)
        for keys in ("fernet", "credential"):
            (self.directory / keys).mkdir(mode=0o700, exist_ok=True)
        with (self.directory / "out").open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.servers.keystone_child"]
                + [str(config), str(self.port), PASSWORD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                cwd=REPOSITORY,
            )
        self._wait_until_ready(time.monotonic() + timeout)

    def _wait_until_ready(self, give_up: float) -> None:
        assert self._process is not None
        while True:
            left = max(0.0, give_up - time.monotonic())
            ready, _, _ = select.select([self._process.stdout], [], [], left)
            line = self._process.stdout.readline() if ready else b""
            if line == b"ready\n":
                return
            if not line:
                self.stop()
                raise RuntimeError(
                    f"Keystone did not start: {(self.directory / 'out').read_text()[-2000:]}"
                )

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(60)
            process.stdin.close()
            process.stdout.close()

    def session(self, user: str, password: str, project: str = PROJECT) -> Session:
        auth = v3.Password(
            self.url,
            username=user,
            password=password,
            project_name=project,
            user_domain_id="default",
            project_domain_id="default",
        )
        return Session(auth)

    @cached_property
    def admin(self) -> Session:
        return self.session("admin", PASSWORD, "admin")

    def add_project(self) -> None:
        """The one that users below are in."""
        self._ask("POST", "/projects", {"project": {"name": PROJECT, "domain_id": "default"}})

    def add_user(self, name: str, *roles: str) -> str:
        """Of ``PROJECT``, with these roles there; the password is the name turned round."""
        body = {"name": name, "password": name[::-1], "domain_id": "default"}
        user = self._ask("POST", "/users", {"user": body})["user"]["id"]
        (project,) = self._ask("GET", f"/projects?name={PROJECT}")["projects"]
        for role in roles:
            (found,) = self._ask("GET", f"/roles?name={role}")["roles"]
            self._ask("PUT", f"/projects/{project['id']}/users/{user}/roles/{found['id']}")
        return name[::-1]

    def add_endpoint(self, kind: str, *urls: str) -> None:
        """In the catalogue, for all of its interfaces; each URL in a region of its own."""
        service = self._ask("POST", "/services", {"service": {"type": kind, "name": kind}})
        for number, url in enumerate(urls):
            region = f"{REGION}{number or ''}"
            if number:
                self._ask("POST", "/regions", {"region": {"id": region}})
            for face in ("public", "internal", "admin"):
                body = {"interface": face, "url": url, "service_id": service["service"]["id"]}
                self._ask("POST", "/endpoints", {"endpoint": {**body, "region_id": region}})

    def application_credential(self, user: str, password: str, *roles: str) -> tuple[str, str]:
        """Id and secret of a new one of this user, with these of his roles."""
        session = self.session(user, password)
        body = {"name": f"of-{user}", "roles": [{"name": role} for role in roles]}
        path = f"{self.url}/users/{session.get_user_id()}/application_credentials"
        made = session.post(path, json={"application_credential": body}).json()
        return made["application_credential"]["id"], made["application_credential"]["secret"]

    def environment(self, user: str, password: str, project: str = PROJECT) -> dict[str, str]:
        """For the ``openstack`` command."""
        said = {
            "AUTH_URL": self.url,
            "USERNAME": user,
            "PASSWORD": password,
            "PROJECT_NAME": project,
            "USER_DOMAIN_ID": "default",
            "PROJECT_DOMAIN_ID": "default",
            "IDENTITY_API_VERSION": "3",
            "REGION_NAME": REGION,
        }
        rest = {name: text for name, text in os.environ.items() if not name.startswith("OS_")}
        return {**rest, **{f"OS_{name}": text for name, text in said.items()}}

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self.admin.request(f"{self.url}{path}", method, json=body)
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found


def authtoken(keystone: Keystone, user: str, password: str, cafile: Path | str = "") -> str:
    """The group [keystone_authtoken] of a server that checks tokens, and keeps no answer."""
    url = f"{keystone.public}/v3" if keystone.public else keystone.url
    return (
        f"[keystone_authtoken]\nauth_type = password\nauth_url = {url}\ncafile = {cafile}\n"
        f"www_authenticate_uri = {url}\nusername = {user}\npassword = {password}\n"
        f"project_name = {PROJECT}\nuser_domain_id = default\nproject_domain_id = default\n"
        "token_cache_time = -1\nhttp_connect_timeout = 170\n"
    )
