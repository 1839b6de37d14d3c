"""A real Chromium, driven by its DevTools protocol through a pipe, with the standard library.

Messages are JSON, each ended by a zero byte, on the descriptors 3 and 4 of the browser.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from select import select
from time import monotonic, sleep
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_SECONDS = 20.0


def found() -> str:
    """The path of Chromium; empty if it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), "")


class Chromium:
    """A browser with one page."""

    def __init__(self) -> None:
        self._home = tempfile.mkdtemp(prefix="holdfast-chromium-")
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()

        self._process = subprocess.Popen(
            [
                "bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}',
                found(), "--headless=new", "--no-sandbox", "--remote-debugging-pipe",
                "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                "--disable-extensions", "--disable-background-networking", "--mute-audio",
                f"--user-data-dir={self._home}", "about:blank",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(to_read, to_write), start_new_session=True,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._rest = b""
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and all its processes."""
        self._process.kill()
        try:
            os.killpg(self._process.pid, 9)
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait(10)
        os.close(self._in)
        os.close(self._out)
        end = monotonic() + 10
        while os.path.exists(self._home) and monotonic() < end:
            shutil.rmtree(self._home, ignore_errors=True)
            sleep(0.01)

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The protocol

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method, and wait for its answer. Events meanwhile are kept in `events`."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        end = monotonic() + PATIENCE_SECONDS
        while True:
            told = self._next(end)
            if told.get("id") == self._number:
                assert "error" not in told, f"{method}: {told['error']}"
                result: dict[str, Any] = told["result"]
                return result
            self.events.append(told)

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select([self._in], [], [], max(0.0, end - monotonic()))
            assert ready, f"Chromium sent nothing for {PATIENCE_SECONDS} s"
            some = os.read(self._in, 1 << 20)
            assert some, "Chromium is gone"
            self._rest += some
        text, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(text)
        return told

    # The actions of a person

    def open(self, url: str) -> None:
        """Open an address, and wait until the page is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'", "the page is loaded")

    def value(self, script: str) -> Any:
        """The value of an expression in the page, after waiting for a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str, what: str, seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait until an expression is true."""
        end = monotonic() + seconds
        while not (found := self._calmly(script)):
            assert monotonic() < end, f"after {seconds} s it is not true that {what}: {script}"
            sleep(0.02)
        return found

    def _calmly(self, script: str) -> Any:
        """The value of an expression that may fail while the page is still loading."""
        return self.value(f"(() => {{ try {{ return {script} }} catch {{ return null }} }})()")

    def press(self, *keys: str) -> None:
        """Press keys, as on a keyboard."""
        for key in keys:
            told: dict[str, Any] = {"key": key}
            if len(key) == 1:
                told["text"] = key
            if key == "Enter":
                told["text"] = "\r"
            told["windowsVirtualKeyCode"] = _CODES.get(key, ord(key.upper()[0]))
            self.call("Input.dispatchKeyEvent", type="keyDown", **told)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, as with a mouse."""
        spot = self.until(
            f"(() => {{ const e = document.querySelector({selector!r});"
            " e.scrollIntoView({ block: 'nearest', inline: 'nearest' });"
            " const r = e.getBoundingClientRect();"
            " return r.width ? [r.x + r.width / 2, r.y + r.height / 2] : null })()",
            f"there is {selector}",
        )
        for type in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=type, x=spot[0], y=spot[1], button="left",
                clickCount=1,
            )  # fmt: skip

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip

    def scheme(self, name: str) -> None:
        """Set whether the person prefers dark or light."""
        self.call(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    def picture(self, file: Path) -> None:
        """Save a screenshot."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def complaints(self) -> list[str]:
        """The errors of the page: exceptions, and actions that the browser refused."""
        self.call("Runtime.evaluate", expression="0")
        found = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"]))
            elif event.get("method") == "Log.entryAdded":
                entry = event["params"]["entry"]
                if entry["level"] == "error":
                    found.append(f"{entry['text']} {entry.get('url', '')}")
        return found


_CODES = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37,
          "ArrowRight": 39, "Home": 36, "End": 35, "PageDown": 34, "Tab": 9, "/": 191}  # fmt: skip
