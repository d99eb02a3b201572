"""Guessed passwords: counted over all sessions, slower with each, and logged without the password."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag_assay.orchestration.authentication import (
    FORGOTTEN,
    FREE,
    FREE_IN_ALL,
    LOGGED,
    LONGEST,
    LONGEST_IN_ALL,
    SecretVerifier,
    TooManyAttemptsError,
)
from rag_assay.orchestration.web.sign_in import PasswordGate

PASSWORD = "right"  # noqa: S105 -- of these tests alone


class Clocked:
    """A gate and its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.gate = PasswordGate(PASSWORD, lambda: self.now)

    def guess(self, address: str | None = "192.0.2.1", password: str = "wrong") -> float:  # noqa: S107
        """Return the seconds that it is locked for; 0: it was compared."""
        try:
            assert (self.gate.enter(password, address) is not None) == (password == PASSWORD)
        except TooManyAttemptsError as error:
            return error.seconds
        return 0


def test_sessions_of_one_address_count_together_and_at_once() -> None:
    clocked = Clocked()
    with ThreadPoolExecutor(16) as pool:
        waits = list(pool.map(lambda _: clocked.guess(), range(1_200)))
    assert waits.count(0) == FREE
    assert clocked.guess(password=PASSWORD) == 1, "the right one is not told from others meanwhile"
    assert clocked.guess("192.0.2.2", PASSWORD) == 0, "another address goes in"


def test_the_wait_doubles_up_to_its_longest() -> None:
    clocked = Clocked()
    for _ in range(FREE):
        assert clocked.guess() == 0
    waits = []
    for _ in range(14):
        waits.append(clocked.guess())
        clocked.now += waits[-1]
        assert clocked.guess() == 0
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == LONGEST
    clocked.now += LONGEST
    assert clocked.guess(password=PASSWORD) == 0
    assert [clocked.guess() for _ in range(FREE)] == [0] * FREE, "the right password clears the count"


def test_an_address_is_forgotten_after_a_while() -> None:
    clocked = Clocked()
    for _ in range(FREE - 1):
        clocked.guess()
    clocked.now += FORGOTTEN + 1
    assert [clocked.guess() for _ in range(FREE)] == [0] * FREE
    assert clocked.guess() == 1


def test_many_addresses_count_together() -> None:
    clocked = Clocked()
    waits = [clocked.guess(f"198.51.100.{number}") for number in range(FREE_IN_ALL + 1)]
    assert waits == [0] * FREE_IN_ALL + [1]
    ticket = Clocked().gate.enter(PASSWORD)
    assert ticket is not None
    for number in range(20):
        clocked.now += LONGEST_IN_ALL
        assert clocked.guess(f"203.0.113.{number}") == 0
    assert clocked.guess("203.0.113.99", PASSWORD) == LONGEST_IN_ALL


@pytest.mark.parametrize(
    ("first", "second"),
    [("2001:db8::1", "2001:db8::ffff"), ("::ffff:192.0.2.1", "192.0.2.1"), ("x\nforged", "<b>")],
)
def test_addresses_of_one_client_are_one(first: str, second: str) -> None:
    clocked = Clocked()
    for _ in range(FREE):
        clocked.guess(first)
    assert clocked.guess(second) == 1


def test_who_is_in_stays_in_while_others_guess() -> None:
    clocked = Clocked()
    ticket = clocked.gate.enter(PASSWORD, "192.0.2.1")
    for _ in range(FREE + 1):
        clocked.guess()
    assert ticket is not None
    assert clocked.gate.knows(ticket)


def test_failures_are_logged_without_the_password_and_not_endlessly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clocked = Clocked()
    with caplog.at_level(logging.WARNING, "assay.pages"):
        for number in range(40):
            clocked.guess(f"192.0.2.{number}", "hunter2")
        assert len(caplog.records) == LOGGED
        clocked.now += 60
        clocked.guess("bad\naddress", "hunter2")
    last = caplog.messages[-1]
    assert "the app" in last
    assert f"{40 - LOGGED} not logged" in last
    assert "hunter2" not in caplog.text
    assert not any("\n" in one for one in caplog.messages)


class ClockedToken:
    """A token that clients send with each request, and its clock."""

    def __init__(self) -> None:
        self.now, self.log = 0.0, list[str]()
        self.verifier = SecretVerifier(
            PASSWORD,
            "token",
            server="this server",
            log=self.log.append,
            with_each_request=True,
            clock=lambda: self.now,
        )

    def status(self, given: str = PASSWORD, address: str = "192.0.2.1") -> int:
        try:
            return 200 if self.verifier.is_right(given, address) else 401
        except TooManyAttemptsError:
            return 429


def test_an_address_that_has_the_token_is_answered_though_others_guess_from_there() -> None:
    clocked = ClockedToken()
    assert clocked.status() == 200
    assert [clocked.status("wrong") for _ in range(FREE + 2)] == [401] * FREE + [429] * 2
    assert [clocked.status(), clocked.status("wrong")] == [200, 429], "the right token clears no count"
    clocked.now += FORGOTTEN
    for _ in range(14):  # guessed on and on
        clocked.now += LONGEST
        assert clocked.status("wrong") in {401, 429}
    assert clocked.status() == 429, "it has not had the token for an hour"
    clocked.now += LONGEST
    assert clocked.status() == 200


def test_a_lock_of_all_addresses_is_none_for_those_that_have_the_token() -> None:
    clocked = ClockedToken()
    assert clocked.status(address="203.0.113.1") == 200
    guesses = [clocked.status("wrong", f"198.51.100.{n}") for n in range(FREE_IN_ALL + 1)]
    assert guesses == [401] * FREE_IN_ALL + [429]
    assert clocked.status(address="203.0.113.2") == 429
    assert clocked.status(address="203.0.113.1") == 200
    assert len(clocked.log) == LOGGED
