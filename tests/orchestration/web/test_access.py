"""Who gets to the page: the password, the hosts, and what is left of a server that was killed."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rag_assay.orchestration.web.page_process import Server, Site, free_port
from rag_assay.orchestration.web.sign_in import PasswordGate
from rag_assay.warehouse.errors import AssayError, InputError
from tests.fakes.browser import OF_COLOURS, Tab, axe_violations, tab
from tests.fakes.queues import queue_of
from tests.orchestration.web.conftest import Served

PASSWORD = "Hafen ${HOME} 'ü\""  # noqa: S105 -- of these tests alone


@pytest.fixture(scope="module")
def locked(serve: Callable[..., Served]) -> Served:
    return serve(queue_of(4), PASSWORD)


@pytest.fixture
def at(browser: Any) -> Iterator[Tab]:
    with tab(browser) as found:
        yield found


def give(at: Tab, password: str) -> None:
    at.page.locator("input[type=password]").fill(password)
    at.page.keyboard.press("Enter")


def test_nothing_is_sent_before_the_password_is_right(at: Tab, locked: Served) -> None:
    at.page.goto(locked.url("Ada"))
    for wrong in ("hafen", PASSWORD.lower(), PASSWORD + " ", "0" * 1000):
        give(at, wrong)
        at.page.get_by_text("That is not the password.").wait_for()
        assert at.page.locator("input[type=password]").input_value() == ""
    sent = b"".join(at.received)
    assert b"ferry" not in sent
    assert locked.study.encode() not in sent.replace(b"?study=tiny", b"")  # the address has it anyway
    give(at, PASSWORD)
    at.page.locator(".as-question").wait_for()
    assert "ferry" in at.question
    assert PASSWORD.encode() not in b"".join(at.received)
    assert at.errors == []


def test_the_sign_in_is_readable_in_light_and_dark(at: Tab, locked: Served) -> None:
    at.page.goto(locked.url("Ada"))
    at.page.locator("input[type=password]").wait_for()
    for scheme in ("light", "dark"):
        at.page.emulate_media(color_scheme=scheme)
        at.page.wait_for_timeout(500)  # Streamlit draws its widgets again
        assert axe_violations(at.page, OF_COLOURS) == [], scheme


def test_a_reload_in_the_same_tab_asks_for_no_password_another_tab_does(
    at: Tab, browser: Any, locked: Served
) -> None:
    at.page.goto(locked.url("Ada"))
    give(at, PASSWORD)
    at.page.locator(".as-question").wait_for()
    at.page.reload()
    at.page.locator(".as-question").wait_for()
    with tab(browser) as other:
        other.page.goto(locked.url("Ada"))
        other.page.evaluate("sessionStorage.setItem('assay.ticket', 'made-up')")
        other.page.reload()
        other.page.locator("input[type=password]").wait_for()
        assert b"ferry" not in b"".join(other.received)
    assert at.errors == []


def test_a_ticket_is_good_and_nothing_else() -> None:
    gate = PasswordGate(PASSWORD)
    assert gate.enter("") is None
    ticket = gate.enter(PASSWORD)
    assert ticket
    assert gate.knows(ticket)
    assert not gate.knows(ticket[:-1])
    assert not gate.knows("\ud800")
    assert not PasswordGate(PASSWORD).knows(ticket)
    assert PasswordGate("").is_open
    assert PasswordGate(None).is_open
    assert not gate.is_open


def test_a_server_that_is_killed_and_started_again_has_lost_nothing(
    browser: Any, serve: Callable[..., Served]
) -> None:
    first = serve(queue_of(6, repeats=0.0))
    with tab(browser) as at:
        at.open(first.url("Ada")).press("5").press("3")
        os.kill(first.server.process_id, signal.SIGKILL)
        at.page.wait_for_timeout(500)
        shown = at.question
        at.page.keyboard.press("0")
        at.page.wait_for_function("document.querySelector('.as-notice').textContent.startsWith('No answer')")
        assert at.question == shown
        before = at.serial
        with Server(first.site) as again:
            again.wait_until_ready()
            at.wait_for_another(before)  # it finds the server by itself
            assert (at.question, at.scored()) == (shown, 2)
            at.press("0").press("u").press("5")
        assert [(row["value"], row["status"]) for row in first.rows()] == [
            (5.0, "ok"),
            (3.0, "ok"),
            (0.0, "ok"),
            (None, "withdrawn"),
            (5.0, "ok"),
        ]
        with pytest.raises(AssayError, match="has ended with exit code"):
            first.server.wait()


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
}


def status(served: Served, request: str, headers: dict[str, str]) -> bytes:
    said = {"Host": f"127.0.0.1:{served.site.port}", "Connection": "close", **headers}
    lines = [f"{name}: {value}" for name, value in said.items()]
    with socket.create_connection(("127.0.0.1", served.site.port), timeout=20) as connection:
        connection.sendall("\r\n".join([f"{request} HTTP/1.1", *lines, "", ""]).encode())
        return connection.recv(1024).split()[1]


def test_a_page_of_another_origin_opens_no_session_and_asks_nothing(locked: Served) -> None:
    port = locked.site.port
    for origin, expected in (
        (f"http://127.0.0.1:{port}", b"101"),
        ("http://localhost:9999", b"403"),
        ("http://127.0.0.1:9999", b"403"),
        (f"http://localhost:{port}", b"403"),  # the page at 127.0.0.1 is another one to a browser
        (f"https://127.0.0.1:{port}", b"403"),
        (f"http://127.0.0.1:{port}@evil.example", b"403"),
        ("http://127.0.0.1", b"403"),
        ("http://0.0.0.0:1", b"403"),
        ("null", b"403"),
        ("", b"403"),
    ):
        stream = "GET /_stcore/stream"
        assert status(locked, stream, {**UPGRADE, "Origin": origin}) == expected, origin
        for method in ("GET", "PUT", "POST", "DELETE", "OPTIONS") if expected == b"403" else ("GET", "POST"):
            asked = status(locked, f"{method} /_stcore/upload_file/a/b", {"Origin": origin})
            assert (asked == b"403") == (expected == b"403"), (method, origin)
    here = {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}
    assert status(locked, "GET /_stcore/stream", {**UPGRADE, **here}) == b"101"


def test_it_listens_on_this_machine_alone_and_under_its_own_names(locked: Served) -> None:
    def asked(**headers: str) -> bytes:
        return status(locked, "GET /_stcore/stream", {**UPGRADE, **headers})

    assert asked() == b"101"
    assert asked(Host="evil.example") == b"403"
    assert asked(Origin="http://evil.example") == b"403"
    ours = [one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    for address in {one for one in ours if not str(one).startswith("127.")}:
        with pytest.raises(OSError), socket.create_connection((address, locked.site.port), timeout=5):  # noqa: PT011
            pass


def test_a_port_that_is_taken_is_said_or_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 cannot be used"):
            free_port("127.0.0.1", port)
    assert free_port("127.0.0.1", port) == port
    with pytest.raises(InputError, match="nothing can listen on 203"):
        free_port("203.0.113.9", None)


def test_the_password_is_in_no_command_and_no_option() -> None:
    site = Site("{}", "127.0.0.1", 8501, {"ASSAY_UI_PASSWORD": PASSWORD})
    assert PASSWORD not in " ".join(site.arguments)
    assert site.options["browser.gatherUsageStats"] is False
    assert Site("{}", "::1", 1, {}).url == "http://[::1]:1/"
    assert "server.allowedHosts" not in Site("{}", "0.0.0.0", 1, {}).options  # noqa: S104
