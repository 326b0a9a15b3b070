"""A place to work as an author of a driver has it: a virtual environment, and a shell in it."""

import os
import site
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import eventually

COMMANDS = {
    "compute-agent": "from agent.main import main; main()",
    "computectl": "from computectl.app import main; main()",
}


@dataclass
class Author:
    """``directory`` gets the environment; ``cwd`` is where the shell is."""

    directory: Path
    cwd: Path = Path()
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def prepare(self) -> None:
        """An environment of its own, in which everything of this one can be imported."""
        self.cwd = self.directory / "work"
        self.cwd.mkdir()
        venv.create(self._venv, with_pip=False)
        (packages,) = self._venv.glob("lib/python*/site-packages")
        paths = [p for p in sys.path if p.endswith("site-packages")] + site.getsitepackages()
        lines = [f"import site; site.addsitedir({p!r})" for p in dict.fromkeys(paths)]
        (packages / "ours.pth").write_text("\n".join(lines) + "\n")
        for name, code in COMMANDS.items():
            script = self._venv / "bin" / name
            script.write_text(f"#!{self._venv}/bin/python\n{code}\n")
            script.chmod(0o755)

    @property
    def _venv(self) -> Path:
        return self.directory / "venv"

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self._venv / "bin"), os.environ["PATH"]])
        ours = {"PATH": path, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV_"))}
        return {**kept, **ours}

    def run(self, words: str) -> str:
        """What the command prints, errors first; it has to succeed."""
        if words.startswith("cd "):
            self.cwd /= words.removeprefix("cd ")
            return ""
        done = self.shell(words)
        assert done.returncode == 0, f"{words}: {done.stderr}{done.stdout}"
        return done.stderr + done.stdout

    def shell(self, words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            shell=True,
            cwd=self.cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )

    def start(self, words: str, until: Callable[[str], bool], seconds: float = 60.0) -> None:
        """A command that goes on; returns once its output is so."""
        log = self.directory / f"log{len(self.running)}"
        with log.open("wb") as out:
            process = subprocess.Popen(
                words.split(),
                cwd=self.cwd,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                executable=str(self._venv / "bin" / words.split()[0]),
            )
        self.running.append(process)
        eventually(
            lambda: until(log.read_text()), seconds, process=process, otherwise=log.read_text
        )

    def stop(self) -> None:
        """Ctrl-C; what does not end is killed."""
        for process in self.running:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        self.running.clear()
