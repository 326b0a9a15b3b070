"""The project as the manuals install it, under a real systemd: units, their state, their log."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.servers.nspawn import CHECKOUT, LIBRARIES, PYTHON, REPOSITORY, Container
from tests.waiting import eventually

UNITS = REPOSITORY / "etc" / "systemd"
PROGRAMS = "/opt/compute-agent/bin"
# What stands in the installed place is the same as after pip install.
INSTALLED = f"""
mkdir -p {PROGRAMS} /opt/compute-agent/share/compute-agent /etc/sysusers.d
ln -s {CHECKOUT}/etc/compute-agent /opt/compute-agent/share/compute-agent/etc
ln -s {CHECKOUT}/etc/systemd /opt/compute-agent/share/compute-agent/systemd
"""
QUICK = "Environment=PYTHONDONTWRITEBYTECODE=1\nRestartSec=200ms\n"


@dataclass
class SystemdHost:
    """One container in which one program is installed; services are it by other names."""

    container: Container
    program: str
    """Of the distribution: the name of its unit too."""

    @property
    def unit(self) -> Path:
        """The unit that is shipped."""
        return UNITS / f"{self.program}.service"

    def install(self, module: str, manual: Path, block: str) -> None:
        """Put a program there that calls ``module``'s main, and do what the manual says."""
        self.container.run("sh", "-ec", INSTALLED)
        self.container.write(f"{PROGRAMS}/{self.program}", _launcher(module), 0o755)
        self.container.run("sh", "-ec", commands(manual, block))

    def add_service(self, name: str, config: str, text: str, drop_in: str = QUICK) -> None:
        """The shipped unit under another name, with a configuration and a state of its own."""
        self.container.write(config, text)
        self.container.write(f"/etc/systemd/system/{name}.service", self.unit.read_text())
        command = f"{PROGRAMS}/{self.program} --config-file {config}"
        self.container.write(
            f"/etc/systemd/system/{name}.service.d/test.conf",
            f"[Service]\nExecStart=\nExecStart={command}\nStateDirectory={name}\n{drop_in}",
        )

    def start(self, *names: str) -> None:
        """All at once; none is waited for."""
        self.container.run("systemctl", "daemon-reload")
        self.container.run("systemctl", "start", "--no-block", *names)

    def show(self, name: str, key: str) -> str:
        return self.container.run("systemctl", "show", name, "--value", "-p", key)

    def log(self, name: str) -> str:
        return self.container.run("journalctl", "-u", name, "-o", "cat", "--no-pager")

    def until(self, name: str, condition: Callable[[], object], seconds: float = 120.0) -> None:
        """Wait for it; what the service logged explains why it did not come."""

        def otherwise() -> str:
            return f"{name}: {self.show(name, 'StatusText')}\n{self.log(name)[-4000:]}"

        eventually(condition, seconds, otherwise=otherwise)

    def until_active(self, name: str) -> None:
        self.until(name, lambda: self.show(name, "ActiveState") == "active")

    def until_status(self, name: str, start: str) -> None:
        self.until(name, lambda: self.show(name, "StatusText").startswith(start))


def commands(manual: Path, block: str) -> str:
    """The commands of the block that a page calls ``block``."""
    found = re.search(rf":name: {block}\n\n((?:    .*\n|\n)+)", manual.read_text())
    assert found, f"{manual} has no block {block}"
    return found[1]


def _launcher(module: str) -> str:
    return (
        f"#!/bin/sh\nexport LD_LIBRARY_PATH={PYTHON}/lib "
        f"PYTHONPATH={CHECKOUT}:{LIBRARIES}${{PYTHONPATH:+:$PYTHONPATH}}\n"
        f"exec {PYTHON}/bin/python3.{sys.version_info.minor} "
        f'-c "from {module} import main; main()" "$@"\n'
    )
