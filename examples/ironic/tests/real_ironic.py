"""A real Ironic, alone: SQLite, no authentication, hardware that is made up by Ironic itself."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

CONFIGURATION = """\
[DEFAULT]
auth_strategy = noauth
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = no-console
enabled_deploy_interfaces = fake
enabled_firmware_interfaces = no-firmware
enabled_inspect_interfaces = no-inspect
enabled_management_interfaces = fake
enabled_network_interfaces = noop
default_network_interface = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
state_path = {directory}
host = lab
rpc_transport = none
[api]
host_ip = 127.0.0.1
port = {port}
max_limit = 3
[conductor]
automated_clean = false
[database]
connection = sqlite:///{directory}/ironic.sqlite
"""


class RealIronic:
    """``command`` is the path of ``ironic``; its ``ironic-dbsync`` is beside it."""

    def __init__(self, command: Path, directory: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self.log = directory / "ironic.log"
        path = directory / "ironic.conf"
        path.write_text(CONFIGURATION.format(directory=directory, port=self.port))
        configured = ["--config-file", str(path)]
        dbsync = command.with_name("ironic-dbsync")
        subprocess.run(
            [dbsync, *configured, "create_schema"], check=True, capture_output=True, timeout=100
        )
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([command, *configured], stdout=log, stderr=log)
        self._await()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def _await(self) -> None:
        give_up = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/v1", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                assert self.process.poll() is None, self.log.read_text()[-2000:]
                assert time.monotonic() < give_up, self.log.read_text()[-2000:]
                time.sleep(0.1)
