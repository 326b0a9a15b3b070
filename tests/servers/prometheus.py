"""A real Prometheus for tests: Debian's, private, scraping once a second."""

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.servers.ports import free_port
from tests.servers.process import Server, end, launched, wait_for

CONFIGURATION = "global: {scrape_interval: 1s}\nscrape_configs:\n"
JOB = "  - {{job_name: {job}, static_configs: [{{targets: {targets}}}]}}\n"


def missing() -> str | None:
    """Why none can run here, or ``None``."""
    return None if shutil.which("prometheus") else "Debian's prometheus is not installed"


class Prometheus(Server):
    """``ports`` of the loopback address to scrape, by job."""

    def __init__(self, directory: Path, ports: Mapping[str, list[int]]) -> None:
        self.directory, self.port = directory, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        text = CONFIGURATION
        for job, numbers in ports.items():
            targets = [f"127.0.0.1:{port}" for port in numbers]
            text += JOB.format(job=job, targets=json.dumps(targets))
        (directory / "prometheus.yml").write_text(text)

    def start(self, timeout: float = 120.0) -> None:
        options = (
            f"--config.file={self.directory}/prometheus.yml",
            f"--storage.tsdb.path={self.directory}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        )
        self._process = launched(["prometheus", *options], self.directory / "prometheus.log")
        wait_for(self._is_ready, self._process, self._said, timeout)

    def stop(self) -> None:
        end(self._process)

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Its answer now: ``metric`` and ``value`` of each series."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urlencode({'query': query})}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def _is_ready(self) -> bool:
        with suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5).close()
            return True
        return False

    def _said(self) -> str:
        return (self.directory / "prometheus.log").read_text(errors="replace")[-2000:]
