"""A headless Chromium driven over the DevTools protocol, through the pipe it reads commands from (file descriptors 3 and 4)."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PATIENCE = 30.0  # seconds until an answer, or a page, is missing
KEYS = {"Escape": 27, "Enter": 13, "Tab": 9}
# descriptors above 9 cannot be named in a redirection of every shell, so they come through /dev/fd
START = 'exec 3<"/dev/fd/$1" 4>"/dev/fd/$2"; shift 2; exec "$@"'


class BrowserError(RuntimeError):
    """Chromium did not do what it was asked to; str() says what."""


class Browser:
    """One page in a Chromium of its own; a context manager, which ends the whole process group that it started."""

    def __init__(self, binary: str, profile: Path, width: int = 1280, height: int = 800, mobile: bool = False) -> None:
        self.binary, self.profile, self.size, self.mobile = binary, profile, (width, height), mobile
        self.number, self.buffer = 0, b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        reads_from, self.to_browser = os.pipe()
        self.from_browser, writes_to = os.pipe()
        flags = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={self.profile}",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "about:blank",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            ["sh", "-c", START, "sh", str(reads_from), str(writes_to), self.binary, *flags],
            pass_fds=(reads_from, writes_to), start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(self.profile)},
        )  # fmt: skip
        os.close(reads_from)
        os.close(writes_to)
        try:
            target = self._ask("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
            attached = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True}, session=None)
            self.session: str | None = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.ask(f"{domain}.enable")
            width, height = self.size
            self.ask(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": self.mobile},
            )
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        os.close(self.to_browser)
        try:
            self.process.wait(3)  # it ends by itself when the pipe does
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)
        os.close(self.from_browser)

    # --- what a reader does

    def open(self, url: str) -> None:
        """Load a page, and forget what the one before it did."""
        self.events.clear()
        failure = self.ask("Page.navigate", {"url": url}).get("errorText")
        if failure:
            raise BrowserError(f"{url} cannot be opened: {failure}")
        self.wait_for_load()

    def wait_for_load(self) -> None:
        """Until a load event has come since the last call of open()."""
        end = time.monotonic() + PATIENCE
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self._receive(end, "a page's load event")

    def click(self, selector: str) -> None:
        """Press and release the mouse at the middle of the first such element; BrowserError if something else is there."""
        spot = self.evaluate(
            f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            if (!element) return null;
            element.scrollIntoView({{block: "center", inline: "center", behavior: "instant"}});
            const box = element.getBoundingClientRect();
            const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
            return {{x, y, hit: element.contains(document.elementFromPoint(x, y))}};
            }})()"""
        )
        if not spot:
            raise BrowserError(f"the page has no {selector}")
        if not spot["hit"]:
            raise BrowserError(f"the middle of {selector} is covered or out of sight")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            place = {"type": kind, "x": spot["x"], "y": spot["y"]}
            self.ask("Input.dispatchMouseEvent", place | ({} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}))

    def press(self, key: str) -> None:
        """Press and release a key of KEYS."""
        for kind in ("rawKeyDown", "char", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "char" else {}
            if kind != "char" or text:
                self.ask(
                    "Input.dispatchKeyEvent", {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]} | text
                )

    def type(self, text: str) -> None:
        """Write into the element that has the focus."""
        self.ask("Input.insertText", {"text": text})

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, a promise's when it has one."""
        answer = self.ask("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_until(self, expression: str) -> None:
        """Until the expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise BrowserError(f"not true after {PATIENCE:g} s: {expression}")
            time.sleep(0.02)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """A PNG of what is in sight, or of the whole page."""
        answer = self.ask(
            "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole} | (self._whole() if whole else {})
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def _whole(self) -> dict[str, Any]:
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    # --- what the page did

    def requests(self) -> list[str]:
        """The addresses that were asked for since open()."""
        self.ask("Runtime.evaluate", {"expression": "0"})  # events before this answer have arrived
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Exceptions, errors and warnings since open()."""
        self.ask("Runtime.evaluate", {"expression": "0"})
        found = []
        for event in self.events:
            method, wording = event["method"], event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(json.dumps(wording["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and wording["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(wording["args"]))
            elif method == "Log.entryAdded" and wording["entry"]["level"] in ("error", "warning"):
                found.append(wording["entry"]["text"])
        return found

    # --- the protocol

    def ask(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of one DevTools command to the page."""
        return self._ask(method, parameters, self.session)

    def _ask(self, method: str, parameters: dict[str, Any] | None, session: str | None) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters or {}} | ({"sessionId": session} if session else {})
        try:
            data = json.dumps(message).encode() + b"\0"
            while data:
                data = data[os.write(self.to_browser, data) :]
        except BrokenPipeError:
            raise BrowserError(f"chromium ended before {method}") from None
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(end, f"an answer to {method}")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self, end: float, what: str) -> dict[str, Any]:
        """The next message; an event is kept as well."""
        while b"\0" not in self.buffer:
            if not select.select([self.from_browser], [], [], max(0.0, end - time.monotonic()))[0]:
                raise BrowserError(f"{what} did not come within {PATIENCE:g} s")
            data = os.read(self.from_browser, 1 << 16)
            if not data:
                raise BrowserError(f"chromium ended before {what} came")
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message
