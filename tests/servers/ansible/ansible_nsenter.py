"""Ansible's way into a container of ``tests/servers/nspawn.py``; a connection plugin, read by Ansible only.

``ansible_connection: ansible_nsenter`` with ``ansible_nsenter_pid``, the pid of the container's PID 1.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ansible.plugins.connection import ConnectionBase  # type: ignore[import-not-found]

DOCUMENTATION = """
name: ansible_nsenter
short_description: Enter a container of this machine by the pid of its PID 1
description: Enter a container of this machine by the pid of its PID 1.
options:
  pid: {description: The pid., vars: [{name: ansible_nsenter_pid}], required: true}
"""


class Connection(ConnectionBase):  # type: ignore[misc]
    """Commands by nsenter; files through /proc."""

    transport = "ansible_nsenter"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run a command; its exit code and output."""
        entered = [
            "nsenter",
            "--all",
            f"--target={self.get_option('pid')}",
            "--",
            "/bin/sh",
            "-c",
            cmd,
        ]
        environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
        }
        done = subprocess.run(entered, input=in_data or b"", capture_output=True, env=environment)
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file into the container."""
        shutil.copyfile(in_path, self._inside(out_path))

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file out of the container."""
        shutil.copyfile(self._inside(in_path), out_path)

    def close(self) -> None:
        """Nothing is open."""
        self._connected = False

    def _inside(self, path: str) -> Path:
        return Path(f"/proc/{self.get_option('pid')}/root") / path.lstrip("/")
