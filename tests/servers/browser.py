"""A real browser for tests: Debian's headless Chromium, spoken to over a pipe."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.servers.process import Server, end
from tests.waiting import eventually

PROGRAMS = ("chromium-headless-shell", "chromium")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
    *("--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-pipe", "about:blank"),
)


def _program() -> str | None:
    return next((found for found in map(shutil.which, PROGRAMS) if found), None)


def missing() -> str | None:
    """Why there is none here, or ``None``."""
    return None if _program() else "no Chromium is installed (chromium-headless-shell)"


class Browser(Server):
    """One tab.  ``problems`` are what its console has said since the last page."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._profile = tempfile.mkdtemp(prefix="browser-", dir="/tmp")
        self._number, self._rest, self._loaded = 0, b"", False

    def start(self) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        command = [str(_program()), *OPTIONS, f"--user-data-dir={self._profile}"]
        # Chromium reads commands from descriptor 3 and writes to 4.
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "TMPDIR": self._profile, "HOME": self._profile},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb", 0)
        self._session: str | None = None
        pages = self._ask("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in pages if one["type"] == "page")
        attached = self._ask("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def stop(self) -> None:
        end(self._process, signal.SIGKILL, group=True)
        self._out.close()
        self._in.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, url: str, **headers: str) -> None:
        """Go there, and wait until the page is there with all its parts."""
        self.problems.clear()
        self._loaded = False
        self._ask("Network.setExtraHTTPHeaders", headers=headers)
        assert "errorText" not in self._ask("Page.navigate", url=url)
        self.until_loaded()

    def until_loaded(self) -> None:
        while not self._loaded:
            self._hear()

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        said = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def click(self, selector: str) -> None:
        """On a link; wait for the page behind it."""
        self._loaded = False
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.until_loaded()

    def type(self, selector: str, text: str) -> None:
        """Keys, one after the other, into a field."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        for key in text:
            self._ask("Input.dispatchKeyEvent", type="char", text=key)

    def press(self, key: str, *, to_another: bool = False) -> None:
        """Press a key; wait for the page that it leads ``to_another``."""
        self._loaded = not to_another
        text = {"text": key} if len(key) == 1 else {}
        self._ask("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._ask("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.until_loaded()

    def shown_as(self, width: int, height: int, *, dark: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot")["data"]))

    def until(self, script: str) -> None:
        """Wait until this is true in the page."""
        eventually(lambda: self.run(script))

    def _ask(self, method: str, **said: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": said}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._number:
                assert "error" not in heard, heard
                result: dict[str, Any] = heard["result"]
                return result

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            some = os.read(self._in.fileno(), 1 << 20)
            assert some, "the browser has ended"
            self._rest += some
        text, _, self._rest = self._rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(text)
        event, said = heard.get("method"), heard.get("params", {})
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Log.entryAdded":
            self.problems.append(said["entry"]["text"])
        elif event == "Runtime.exceptionThrown":
            self.problems.append(str(said["exceptionDetails"]))
        return heard
