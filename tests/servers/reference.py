"""A virtual environment with Nova, of which only tests and benchmarks make use.

``benchmarks/run.sh`` and ``tools/test.sh`` make it; ``COMPUTE_AGENT_REFERENCE_VENV`` names
another place.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]


def reference_python() -> Path | None:
    """The interpreter, or ``None`` if the environment is not there."""
    named = os.environ.get("COMPUTE_AGENT_REFERENCE_VENV", str(REPOSITORY / ".venv-nova"))
    python = Path(named) / "bin" / "python"
    return python if python.exists() and (Path(named) / ".installed").exists() else None


class NovaBeside:
    """Nova's tracker in a process of its own, period by period."""

    def __init__(self, python: Path, url: str, log: Path) -> None:
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [str(python), "-W", "ignore", "-m", "tests.integration.nova_beside", url],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.wish: dict[str, Any] = {
            "vcpus": 8,
            "traits": [],
            "children": 1,
            "disabled": False,
            "pci": False,
        }

    def period(self, later: float = 400.0) -> None:
        """By default so much later that Nova reads its associations again."""
        error = self.error_of_period(later)
        assert error is None, f"{error}\n{self._log.read_text()}"

    def error_of_period(self, later: float) -> str | None:
        """What Nova's period ended with, ``None`` if all is well."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({**self.wish, "later": later}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, self._log.read_text()
        error: str | None = json.loads(answer)["error"]
        return error

    def stop(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)
