"""Chromium without a window, spoken to over a pipe in its own protocol (CDP): for tests and benchmarks of pages.

Nothing is installed for it: the browser is found by name, or named by ``DISCORANK_BROWSER``.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
_AT_3_AND_4 = (
    "import os,sys; os.dup2(int(sys.argv[1]),3); os.dup2(int(sys.argv[2]),4); "
    "os.execv(sys.argv[3],sys.argv[3:])"
)
KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "Enter": 13}


def browser_path() -> str | None:
    """The browser's program, if there is one."""
    named = os.environ.get("DISCORANK_BROWSER")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A running browser; a context manager that ends it."""

    def __init__(self, path: str) -> None:
        self._folder = TemporaryDirectory(prefix="discorank-browser-")
        ours_read, theirs_write = os.pipe()
        theirs_read, ours_write = os.pipe()
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_read, theirs_write)]
        command = [sys.executable, "-S", "-c", _AT_3_AND_4, *map(str, theirs), path, *FLAGS]
        command += [f"--user-data-dir={self._folder.name}", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, pass_fds=theirs, **quiet)  # type: ignore[call-overload]
        for end in (*theirs, theirs_read, theirs_write):
            os.close(end)
        self._write, self._read = os.fdopen(ours_write, "wb"), os.fdopen(ours_read, "rb")
        self._tail = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._write.close()
        self._read.close()
        self._folder.cleanup()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The result of a command; what the browser tells meanwhile is kept in `events`."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while True:
            answer = self._message()
            if answer.get("id") != self._number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return dict(answer["result"])

    def wait_for(self, method: str, session: str) -> dict[str, Any]:
        """The next event of a kind."""
        while True:
            for i, event in enumerate(self.events):
                if event.get("method") == method and event.get("sessionId") == session:
                    return self.events.pop(i)
            self.events.append(self._message())

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._tail:
            block = self._read.read1(1 << 20)
            if not block:
                raise EOFError("the browser is gone")
            self._tail += block
        message, _, self._tail = self._tail.partition(b"\0")
        return dict(json.loads(message))

    @contextmanager
    def page(
        self,
        file: Path,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
    ) -> Iterator[Page]:
        """A file, opened and loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.size(width, height)
        scheme = "dark" if dark else "light"
        page.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        page.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.call("Page.navigate", url=file.resolve().as_uri())
        self.wait_for("Page.loadEventFired", session)
        yield page
        self.call("Target.closeTarget", targetId=target)


class Page:
    """One page of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command to this page."""
        return self._browser.call(method, self._session, **parameters)

    def size(self, width: int, height: int) -> None:
        """Makes the window so large, in CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression.

        Raises:
            RuntimeError: it throws.
        """
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def press(self, key: str, shift: bool = False) -> None:
        """A key, down and up."""
        about = {
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": KEYS[key],
            "modifiers": 8 if shift else 0,
        }
        if key == "Enter":
            about["text"] = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def screenshot(self, whole: bool = False) -> bytes:
        """A PNG of what is seen, or of the whole page."""
        return b64decode(
            self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        )

    def events(self, method: str) -> list[dict[str, Any]]:
        """What the browser has told of this page."""
        self.run("0")  # all that came before its answer
        own = (event for event in self._browser.events if event.get("sessionId") == self._session)
        return [event["params"] for event in own if event["method"] == method]

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, uncaught exceptions, refusals by the policy."""
        logged = [event["entry"]["text"] for event in self.events("Log.entryAdded")]
        thrown = [
            str(event["exceptionDetails"]) for event in self.events("Runtime.exceptionThrown")
        ]
        return (
            logged
            + thrown
            + [str(event["args"]) for event in self.events("Runtime.consoleAPICalled")]
        )

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        return [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]
