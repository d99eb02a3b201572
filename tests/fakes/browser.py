"""A real Chromium, and the page Review in it, as a person with a keyboard uses it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import pytest

OF_COLOURS = ("color-contrast", "link-in-text-block")  # rules of axe that depend on the colour scheme
LONGEST = 120_000  # milliseconds: compiling Streamlit's scripts took 12 s at a load of 15 a core
UNREAD = 320  # milliseconds for which a new item takes no key, and some


@contextmanager
def chromium() -> Iterator[Any]:
    """Start Chromium, or skip the test where there is none; give its profile."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("there is no `chromium` here")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with TemporaryDirectory() as folder, sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        start = playwright.chromium.launch_persistent_context
        profile = start(folder, executable_path=found, args=arguments)
        try:
            yield profile
        finally:
            profile.close()


@dataclass
class Tab:
    """A tab of a browser with the page in it, and all that went wrong there.

    errors: of the console, of scripts, and requests that left this machine
    received: what the server sent by its websocket
    """

    page: Any
    errors: list[str] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)

    def open(self, url: str) -> Tab:
        """Go to an address, and wait until the page is there."""
        self.page.goto(url)
        self.page.wait_for_selector(".as-page[data-serial]")
        return self

    @property
    def question(self) -> str:
        """The question that is shown; empty where none is."""
        found = self.page.locator(".as-question")
        return str(found.inner_text()) if found.count() else ""

    @property
    def serial(self) -> str:
        """What tells one view from the next."""
        return str(self.page.locator(".as-page").get_attribute("data-serial"))

    def press(self, key: str) -> Tab:
        """Press a key that the server answers, and wait for the answer."""
        self.page.wait_for_timeout(UNREAD)
        before = self.serial
        self.page.keyboard.press(key)
        return self.wait_for_another(before)

    def wait_for_another(self, serial: str) -> Tab:
        """Wait until another view than that of a serial is there."""
        self.page.wait_for_function(
            "before => document.querySelector('.as-page')?.dataset.serial !== before", arg=serial
        )
        return self

    def scored(self) -> int:
        """Return how many answers the page says are scored."""
        return int(self.page.locator(".as-tally b").inner_text())

    def text(self, selector: str) -> str:
        """Return the text of the first element that fits."""
        return str(self.page.locator(selector).first.inner_text())


@contextmanager
def tab(profile: Any, width: int = 1280, height: int = 860, scheme: str = "light") -> Iterator[Tab]:
    """Open a tab in which no cookie or stored thing of another tab is.

    The only one is in the profile, which keeps compiled scripts: a page costs half of what it does elsewhere.
    """
    is_alone = len(profile.pages) == 1  # the empty one that Chromium begins with
    context = profile if is_alone else profile.browser.new_context()
    context.set_default_timeout(LONGEST)
    found = Tab(context.new_page())
    found.page.set_viewport_size({"width": width, "height": height})
    found.page.emulate_media(color_scheme=scheme)
    found.page.on("console", lambda said: found.errors.append(said.text) if said.type == "error" else None)
    found.page.on("pageerror", lambda error: found.errors.append(str(error)))
    found.page.on("request", lambda request: found.errors.extend(_abroad(request.url)))
    found.page.on("websocket", lambda socket: _listen(socket, found))
    try:
        yield found
    finally:
        if is_alone:
            _clean(found.page)
        else:
            context.close()


def _clean(page: Any) -> None:
    """Close all tabs of a profile, and forget what the page has stored."""
    context, address = page.context, urlsplit(page.url)
    origin = {"origin": f"{address.scheme}://{address.netloc}", "storageTypes": "local_storage,indexeddb"}
    context.new_cdp_session(page).send("Storage.clearDataForOrigin", origin)
    context.clear_cookies()
    context.set_offline(False)
    for one in context.pages[1:]:
        one.close()


def axe_violations(page: Any, rules: Sequence[str] = ()) -> list[str]:
    """Return what axe-core finds serious or critical: rule, element and what is wrong.

    The page's security policy allows no script of ours, so axe is evaluated in it, and not added to it.

    rules: only these; default: all
    """
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    if not page.evaluate("'axe' in window"):
        page.evaluate((files(axe) / "axe.min.js").read_text(encoding="utf-8"))
    options = {"resultTypes": ["violations"], "preload": False, **({"runOnly": list(rules)} if rules else {})}
    found = page.evaluate("options => axe.run(document.body, options)", options)
    return [
        f"{one['id']}: {node['html'][:200]} ({node['failureSummary']})"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]


def _listen(socket: Any, into: Tab) -> None:
    into.errors.extend(_abroad(socket.url))
    socket.on(
        "framereceived",
        lambda frame: into.received.append(frame if isinstance(frame, bytes) else frame.encode()),
    )


def _abroad(url: str) -> list[str]:
    parts = urlsplit(url)
    is_here = parts.scheme in {"data", "blob", "file"} or parts.hostname == "127.0.0.1"
    return [] if is_here else [f"a request left this machine: {url}"]
