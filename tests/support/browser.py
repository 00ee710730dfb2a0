"""A real browser without a window: Chromium, asked over its debugging protocol through a pipe.

https://chromedevtools.github.io/devtools-protocol/; messages are JSON, each ended by a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
GONE = "Inspected target navigated or closed"
"""What the protocol says of a question that a page left without an answer."""


def chromium() -> str | None:
    """Where Chromium is; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class NavigatedError(Exception):
    """The page that was asked gave way to another before it had answered."""


class Page:
    """One open page; `said` is what its console got, `asked` the addresses it requested."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._left = b""
        self._number = 0
        self._session: str | None = None
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, file: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load a file, in a window of this size, and wait until it is loaded."""
        self.size(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self.said.clear()
        self.asked.clear()
        self._call("Page.navigate", url=file.absolute().as_uri())
        while True:
            if self._next().get("method") == "Page.loadEventFired":
                break

    def size(self, width: int, height: int) -> None:
        """Make the window so large, as a phone's below 600."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives, run by the debugger, which no policy of the page
        forbids. Raises NavigatedError where another page comes meanwhile."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, file: Path) -> None:
        """A picture of the window."""
        shot = self._call("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(shot["data"]))

    def _call(self, method: str, /, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if GONE in answer.get("error", {}).get("message", ""):
                    raise NavigatedError(answer["error"]["message"])
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            part = os.read(self._read, 1 << 16)
            assert part, "the browser has ended"
            self._left += part
        text, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        told = message.get("params", {})
        match message.get("method"):
            case "Runtime.consoleAPICalled":
                self.said.append(str(told["args"]))
            case "Runtime.exceptionThrown":
                self.said.append(str(told["exceptionDetails"]))
            case "Log.entryAdded":
                self.said.append(str(told["entry"]["text"]))
            case "Network.requestWillBeSent":
                self.asked.append(told["request"]["url"])
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A page in a browser of its own, whose profile lies in `folder`."""
    program = chromium()
    assert program is not None
    commands, answers = os.pipe(), os.pipe()

    def place() -> None:
        # The browser reads commands from 3 and writes answers to 4.
        kept = os.dup(commands[0]), os.dup(answers[1])
        os.dup2(kept[0], 3)
        os.dup2(kept[1], 4)

    options = ("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu")
    quiet = ("--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage")
    process = subprocess.Popen(
        [program, *options, *quiet, "--hide-scrollbars", f"--user-data-dir={folder / 'profile'}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=place,
        close_fds=False,
    )
    os.close(commands[0])
    os.close(answers[1])
    try:
        yield Page(commands[1], answers[0])
    finally:
        process.kill()
        process.wait()
        os.close(commands[1])
        os.close(answers[0])
