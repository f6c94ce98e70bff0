"""A headless Chromium, driven by its DevTools protocol: open a page, press keys, click, ask what stands there.

Source: https://chromedevtools.github.io/devtools-protocol/
"""

import asyncio
import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Resolves with the value of an expression as soon as it is true; rejects after a minute, and says what it was.
_UNTIL = """new Promise((done, fail) => {
  const end = Date.now() + 60000;
  (function look() {
    let value, problem = "";
    try { value = (%s); } catch (error) { problem = String(error); }
    if (value) done(value);
    else if (Date.now() > end) fail(new Error("never true: " + %s + " " + problem));
    else setTimeout(look, 15);
  })();
})"""
_MOST_PAGES = 5  # that one wait may see
KEYS = {
    "Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowUp": (38, ""), "ArrowDown": (40, ""),
    "ArrowLeft": (37, ""), "ArrowRight": (39, ""), "Home": (36, ""), "End": (35, ""), "1": (49, "1"), "2": (50, "2"),
}  # fmt: skip


@contextmanager
def started(folder: Path) -> Iterator[str]:
    """A browser with an empty profile in *folder*; yields the address of its protocol."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    assert program, "no Chromium here: install one (Debian: sudo apt-get install chromium), or run `make browser`"
    flags = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
    ]
    quiet = [
        "--disable-extensions",
        "--disable-background-networking",
        "--no-first-run",
        "--mute-audio",
        "--log-level=3",
    ]
    where = [f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank"]
    command = [program, *flags, *quiet, *where]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stderr
        try:
            listening = next((line for line in process.stderr if b"DevTools listening on " in line), None)
            assert listening, "Chromium ended before it listened"
            yield listening.decode().split("listening on ")[1].strip()
        finally:
            process.kill()


class PageLeft(AssertionError):
    """The tab went to another page while an expression ran in it."""


def _problem(said: str) -> AssertionError:
    has_left = "navigated" in said or "context was destroyed" in said or "Cannot find context" in said
    return (PageLeft if has_left else AssertionError)(said)


_IS_LIVE = "document.readyState === 'complete' && document.body.dataset.live === 'yes'"


class Tab:
    """One page. What its console complains of is in *problems*, what it asked the network for in *requests*."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._last, self._session = socket, 0, ""
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(
        cls,
        session: aiohttp.ClientSession,
        protocol: str,
        url: str,
        *,
        width: int = 1280,
        height: int = 800,
        scheme: str = "light",
        is_ready: str = _IS_LIVE,
    ) -> "Tab":
        """A tab with the page at *url*, once the expression *is_ready* is true in it."""
        tab = cls(await session.ws_connect(protocol, max_msg_size=0))
        context = await tab.send("Target.createBrowserContext", disposeOnDetach=True)
        made = await tab.send("Target.createTarget", url="about:blank", browserContextId=context["browserContextId"])
        attached = await tab.send("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        tab._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM", "Accessibility", "Network"):
            await tab.send(f"{domain}.enable")
        await tab.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        # Of many tabs only one is in front, and which one is known late on a busy machine; the others get no focus.
        await tab.send("Emulation.setFocusEmulationEnabled", enabled=True)
        await tab.resize(width, height)
        await tab.send("Page.navigate", url=url)
        await tab.until(is_ready)
        return tab

    async def close(self) -> None:
        await self._socket.close()
        await self._reader

    async def resize(self, width: int, height: int) -> None:
        """As many CSS pixels as that; below 700 a phone, which is touched."""
        is_phone = width < 700
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone
        )
        await self.send("Emulation.setTouchEmulationEnabled", enabled=is_phone)

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._last] = answer
        body = {"id": self._last, "method": method, "params": params}
        await self._socket.send_json({**body, "sessionId": self._session} if self._session else body)
        return await answer

    async def _read(self) -> None:
        async for frame in self._socket:
            body = json.loads(frame.data)
            if (waiting := self._waiting.pop(body.get("id", 0), None)) is not None:
                if "error" in body:
                    waiting.set_exception(_problem(str(body["error"])))
                else:
                    waiting.set_result(body["result"])
            elif body.get("method") == "Runtime.exceptionThrown":
                self.problems.append(str(body["params"]["exceptionDetails"].get("exception", {}).get("description")))
            elif body.get("method") == "Network.requestWillBeSent":
                self.requests.append(body["params"]["request"]["url"])
            elif body.get("method") == "Log.entryAdded" and body["params"]["entry"]["level"] == "error":
                self.problems.append(f"{body['params']['entry']['text']} {body['params']['entry'].get('url', '')}")

    async def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; waits for a promise."""
        done = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        problem = done.get("exceptionDetails", {})
        assert not problem, problem.get("exception", {}).get("description") or problem
        return done["result"].get("value")

    async def until(self, expression: str) -> Any:
        """The value of *expression* as soon as it is true; also when the tab goes to another page meanwhile."""
        for _ in range(_MOST_PAGES):
            with suppress(PageLeft):
                return await self.run(_UNTIL % (expression, json.dumps(expression)))
        raise AssertionError(f"the tab went from page to page: {expression}")

    async def click(self, selector: str) -> None:
        """Click in the middle of what *selector* finds, which must lie on top there."""
        found = json.dumps(selector)
        spot = await self.until(f"""(() => {{
            const node = document.querySelector({found});
            node.scrollIntoView({{block: "nearest"}});
            const box = node.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
            const top = document.elementFromPoint(x, y);
            return (node === top || node.contains(top)) && {{x, y}};
        }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **spot)

    async def type(self, text: str) -> None:
        """Text into whatever has the focus."""
        await self.send("Input.insertText", text=text)

    async def press(self, key: str, *, alt: bool = False, shift: bool = False) -> None:
        code, text = KEYS[key]
        common: dict[str, Any] = {"key": key, "code": f"Digit{key}" if key.isdigit() else key}
        common |= {"windowsVirtualKeyCode": code, "modifiers": alt * 1 + shift * 8}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        await self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    async def choose_files(self, selector: str, *paths: Path) -> None:
        root = await self.send("DOM.getDocument")
        node = await self.send("DOM.querySelector", nodeId=root["root"]["nodeId"], selector=selector)
        await self.send("DOM.setFileInputFiles", nodeId=node["nodeId"], files=[str(path) for path in paths])

    async def picture(self) -> bytes:
        """What stands on the screen, as PNG."""
        return base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])
