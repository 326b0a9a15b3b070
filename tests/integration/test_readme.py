"""What README.rst shows is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.servers.agent import AgentProcess

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.rst").read_text()
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def block(after: str) -> str:
    """The first indented block that begins after these words."""
    lines = README[README.index(after) :].splitlines()[1:]
    found: list[str] = []
    for line in lines:
        if line.startswith("    "):
            found.append(line[4:])
        elif line.strip() and found:
            break
        elif found:
            found.append("")
    return "\n".join(found).strip("\n")


def plain(text: str) -> list[str]:
    lines = UUID.sub("UUID", text).strip("\n").splitlines()
    return [line.rstrip() for line in lines]


def test_the_demo_prints_the_transcript_and_again_writes_nothing(tmp_path):
    agent = AgentProcess(tmp_path, "http://unused")
    agent.write()
    text = f"[DEFAULT]\nhost = host1\nstate_path = {tmp_path}/state\ncompute_driver = fake\n"
    agent.config.write_text(text)
    first = agent.once("--dev")
    assert first.returncode == 0, first.stderr
    begin, end = block("prints what Placement has then:").split("\n…\n")
    lines = plain(first.stdout)
    assert lines[: begin.count("\n") + 1] == plain(begin)
    assert lines[-1:] == plain(end)
    assert "Ask more" not in first.stdout
    second = agent.once("--dev")
    assert second.stdout.rstrip().endswith(block("sends no write::"))


def test_the_driver_in_ten_lines_reports_a_tree(placement, tmp_path):
    code = block(".. code-block:: python")
    assert len(code.splitlines()) <= 11  # with the name of the file
    package, source = tmp_path / "package", tmp_path / "lib"
    package.mkdir()
    (package / "mydriver.py").write_text(code)
    (package / "pyproject.toml").write_text(block(".. code-block:: toml"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--target"]
    subprocess.run([*pip, str(source), "."], cwd=package, check=True, timeout=300)
    agent = AgentProcess(tmp_path, placement.url, compute_driver="mydriver")
    agent.write()
    agent.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(source)])
    said = agent.once()
    assert said.returncode == 0, said.stderr
    disks = os.listdir("/sys/block")
    assert placement.uuids().keys() == {"testhost", *(f"testhost_disk_{d}" for d in disks)}

    (tmp_path / "block" / "only").mkdir(parents=True)
    (source / "mydriver.py").write_text(code.replace("/sys/block", f"{tmp_path}/block"))
    for _ in ("emptied", "deleted"):
        said = agent.once()
        assert said.returncode == 0, said.stderr
    assert placement.uuids().keys() == {"testhost", "testhost_disk_only"}
