"""Drives a headless Chromium over its DevTools pipe, with no other package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DEADLINE_S = 120.0


class Browser:
    """A page in Chromium, and what it logs and requests."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._rest, self._last = to, back, b"", 0
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        self._session: str = self._call("Target.attachToTarget", {"targetId": target, "flatten": True}, None)[
            "sessionId"
        ]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the page's session and return its result."""
        return self._call(method, parameters, self._session)

    def open(self, path: Path, width: int, height: int, script: bool = True) -> None:
        """Show a file in a window of this size."""
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=path.resolve().as_uri())
        if script:
            self.wait("document.readyState === 'complete'")
        else:
            time.sleep(1.0)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, of a promise what it resolves to."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + DEADLINE_S
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"{condition} stays false; console: {self.console}"
            time.sleep(0.02)

    def click(self, x: float, y: float) -> None:
        """Click at a point of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Press (``mousePressed``), drag (``mouseMoved``) or release (``mouseReleased``) the left button."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def press(self, key: str, code: int, *, shift: bool = False) -> None:
        """Press a key, with the shift key held or not."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                modifiers=8 * shift,
                **text,
            )

    def picture(self, element: str | None = None) -> bytes:
        """Return the window, or an element of the page by its CSS selector, as PNG."""
        if element is None:
            return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        # a picture beyond the window has no scroll bar, which the page would make room for
        self.evaluate("void (document.documentElement.style.scrollbarWidth = 'none')")
        x, y, width, height = self.evaluate(
            f"(({{x, y, width, height}}) => [x + scrollX, y + scrollY, width, height])"
            f"(document.querySelector({json.dumps(element)}).getBoundingClientRect())"
        )
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        found = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        self.evaluate("void (document.documentElement.style.scrollbarWidth = '')")
        return base64.b64decode(found["data"])

    def _call(self, method: str, parameters: dict[str, Any], session: str | None) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._record(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._back], [], [], DEADLINE_S)[0], "Chromium does not answer"
            part = os.read(self._back, 1 << 16)
            assert part, "Chromium ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _record(self, event: dict[str, Any]) -> None:
        method, found = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.console.append(str([each.get("value") for each in found["args"]]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(str(found["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.console.append(found["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not found["request"]["url"].startswith("data:"):
            self.requests.append(found["request"]["url"])


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless Chromium; it ends with the context."""
    assert CHROMIUM is not None
    read_to, to = os.pipe()
    back, write_back = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe"
        command = f"exec {CHROMIUM} {flags} --user-data-dir={profile} 3<&{read_to} 4>&{write_back}"
        process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(read_to, write_back),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(read_to)
        os.close(write_back)
        try:
            yield Browser(to, back)
        finally:
            process.kill()
            process.wait()
            os.close(to)
            os.close(back)
