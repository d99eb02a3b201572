"""Drafts: the text of an answer while the model writes it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from rag_assay.warehouse.cancellation import LOOK, CancelledError, cancel_scope, is_cancelled, stop_sign
from rag_assay.warehouse.encodable import encodable

EVERY = 0.05  # seconds between two drafts: faster than anyone reads
LONGEST = 200_000  # characters of a draft; what comes after them is in the answer alone

Result = TypeVar("Result")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartialAnswer:
    """The text of an answer since its last beginning; ``number`` counts these (attempts, models) from 1."""

    model: str
    number: int
    text: str


class Listener:
    """A listener to the drafts of one answer."""

    def __init__(self, hear: Callable[[PartialAnswer], None]) -> None:
        self._hear = hear
        self._is_gone = False
        self._begun = 0
        self._lock = threading.Lock()

    def begin(self) -> int:
        with self._lock:
            self._begun += 1
            return self._begun

    def tell(self, draft: PartialAnswer) -> None:
        if self._is_gone:
            return
        try:
            self._hear(draft)
        except Exception:
            self._is_gone = True
            log.exception("the listener for drafts failed and gets no more of them")


class _OfThread(threading.local):
    listener: Listener | None = None


_of_thread = _OfThread()


@contextmanager
def on_token(hear: Callable[[PartialAnswer], None]) -> Iterator[None]:
    """Call ``hear`` with drafts of the answer that the calling thread asks for in the block: at once, then
    at most twenty times a second, and with the whole text at the end. Show the answer in place of the draft
    once it is there: refusals and failures are known by it alone.
    """
    with draft_listener(Listener(hear)):
        yield


def listener() -> Listener | None:
    return _of_thread.listener


@contextmanager
def draft_listener(other: Listener | None) -> Iterator[None]:
    before = _of_thread.listener
    _of_thread.listener = other
    try:
        yield
    finally:
        _of_thread.listener = before


class Drafting:
    """The draft of one call, which each attempt begins again; ``ends_by`` is by `monotonic`."""

    def __init__(self, heard_by: Listener, model: str) -> None:
        self.partial = ""
        self.ends_by: float | None = None
        self._listener = heard_by
        self._model = model
        self._number = 0
        self._parts: list[str] = []
        self._length = 0
        self._is_told = True
        self._lock = threading.Lock()
        self.news = threading.Event()
        self._hang_up: Callable[[], None] = lambda: None
        self._is_given_up = False

    def begin(self) -> None:
        with self._lock:
            self._parts, self._length, self._is_told = [], 0, True
            self._hang_up = lambda: None
        self.ends_by = None
        self._number = self._listener.begin()
        self._listener.tell(PartialAnswer(self._model, self._number, ""))

    def is_sent(self, hang_up: Callable[[], None]) -> None:
        with self._lock:
            self._hang_up = hang_up
            is_given_up = self._is_given_up
        if is_given_up:
            hang_up()

    def end(self, *, unwanted: bool = False) -> None:
        with self._lock:
            self._is_given_up = unwanted
            hang_up = self._hang_up
        hang_up()

    def add(self, text: str) -> None:
        if not text or self._length >= LONGEST:
            return
        with self._lock:
            self._parts.append(text[: LONGEST - self._length])
            self._length += len(text)
            self._is_told = False
        self.news.set()

    def tell(self) -> None:
        with self._lock:
            if self._is_told:
                return
            self._is_told = True
            self._parts = ["".join(self._parts)]
            text = self._parts[0]
        self.partial = join_surrogates(text)
        self._listener.tell(PartialAnswer(self._model, self._number, display_text(text)))

    def settle(self, text: str) -> None:
        with self._lock:
            is_told = self._is_told and display_text("".join(self._parts)) == text
            self._is_told = True
        if text and not is_told:
            self._number = self._number or self._listener.begin()
            self._listener.tell(PartialAnswer(self._model, self._number, text[:LONGEST]))


def draft_of(model: str) -> Drafting | None:
    heard_by = listener()
    return None if heard_by is None else Drafting(heard_by, model)


def join_surrogates(text: str) -> str:
    r"""Return a text whose characters beyond U+FFFF came in two halves, as JSON may write them, as one.

    >>> join_surrogates("a\ud83d" + "\ude00b") == "a\U0001f600b"
    True
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def display_text(text: str) -> str:
    r"""Return a draft's text as a reply has it: without white space around it, and without half a character.

    >>> display_text(" He said \ud83d")
    'He said'
    """
    whole = text[:-1] if text and "\ud800" <= text[-1] <= "\udbff" else text
    return encodable(join_surrogates(whole)).strip()


def heard(read: Callable[[], Result], drafting: Drafting) -> Result:
    """Return what ``read`` returns and tell its draft meanwhile; it reads in a thread of its own."""
    drafting.begin()
    is_unwanted = stop_sign()  # as the work of the thread that asks is
    reading: Future[Result] = Future()

    def run() -> None:
        with cancel_scope(is_unwanted):
            try:
                reading.set_result(read())
            except BaseException as error:  # raised again in the thread that asks
                reading.set_exception(error)
        drafting.news.set()

    threading.Thread(target=run, name="draft", daemon=True).start()
    while not reading.done():
        if drafting.news.wait(LOOK):
            drafting.news.clear()
            drafting.tell()
            wait([reading], EVERY)
        if is_cancelled():
            drafting.end(unwanted=True)
            raise CancelledError
        if drafting.ends_by is not None and monotonic() > drafting.ends_by:
            drafting.end()
    drafting.tell()
    return reading.result()
