"""The hypervisor of ``tools/lab.sh``, which somebody has started."""

from pathlib import Path

from tests.servers.process import completed

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "lab.sh"
CARD = "0000:42:00.0"
"""Where the card is that can be plugged in; QEMU's e1000e."""
GPU = "0000:21:00.0"
NODE = "lab"
"""The name that its libvirt tells."""


class Lab:
    """It is left running; ``unplug`` and ``revive`` make of it what it was."""

    def uri(self) -> str:
        return self._script("uri").strip()

    def plug(self) -> None:
        self._script("plug")

    def unplug(self) -> None:
        """Returns when the hypervisor's kernel has given the card up, after some seconds."""
        self._script("unplug")

    def run(self, command: str) -> str:
        """What a command says that is run in it as root.

        :raises AssertionError: the command failed; with what it said.
        """
        return self._script("run", command)

    def read(self, path: str) -> str:
        return self.run(f"cat {path}").strip()

    def revive(self) -> None:
        """A stopped libvirtd goes on; one that was killed is started again by itself."""
        self.run("pkill -CONT -x libvirtd; :")

    def _script(self, *arguments: str) -> str:
        found = completed(str(SCRIPT), *arguments)
        assert found.returncode == 0, f"{arguments}: {found.stdout}{found.stderr}"
        return found.stdout
