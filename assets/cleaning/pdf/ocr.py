"""Words of scanned pages, by Tesseract."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from statistics import median
from threading import BoundedSemaphore
from typing import Any

from rag_assay.assets.cleaning.pdf.glyphs import GlyphRun, PageText
from rag_assay.assets.cleaning.unicode import tidy
from rag_assay.warehouse.extras import MissingPackageError

_DPI = 300  # what Tesseract was trained with
_MOST_DOTS = 40_000_000  # of one page: a sheet of A2
_SECONDS = 300  # for one page; usual are 2 to 4
_SAME_SIZE = 0.2  # share by which measured sizes of letters of one size differ
_BOX = re.compile(r"bbox (-?\d+) (-?\d+) (-?\d+) (-?\d+)")
_SIZE = re.compile(r"x_size ([\d.]+)")
_DESCENT = re.compile(r"x_descenders ([\d.]+)")


@cache
def tesseract(languages: str) -> str:
    """Return the version of Tesseract, which knows languages such as `deu+eng`.

    Raises:
        MissingPackageError: it is not installed, or without one of them.
    """
    install = "apt install tesseract-ocr" + "".join(f" tesseract-ocr-{one}" for one in languages.split("+"))
    if shutil.which("tesseract") is None:
        raise MissingPackageError(f"`ocr: {languages}` needs Tesseract; on Debian: {install}")
    known = _run("--list-langs").decode().splitlines()[1:]  # below a heading
    if missing := [one for one in languages.split("+") if one not in known]:
        raise MissingPackageError(
            f"`ocr: {languages}`: Tesseract lacks the language {', '.join(missing)}; on Debian: {install}"
        )
    return " ".join(_run("--version").decode().split()[:2])


at_once = os.cpu_count() or 1  # pages; the processes that clean side by side set 1
pages_told: ContextVar[Callable[[int, int], None]] = ContextVar("pages_told", default=lambda _done, _of: None)
"""Told of each scanned page that is begun: its number, and how many pages the file has."""


@contextmanager
def scan_reader(languages: str) -> Iterator[Callable[[Any, int, int], Future[PageText]]]:
    """Yield what begins to read a scanned page of PDFium. Its lines are one piece each; `unread` says why
    there are none. Pages are read side by side, up to `at_once`; the next one waits before its picture is
    drawn, so memory is bounded.

    Raises:
        MissingPackageError: Tesseract is not installed, or without a language.
    """
    free, pages = BoundedSemaphore(at_once), 0
    with ThreadPoolExecutor(at_once) as threads:

        def begin(page: Any, number: int, last: int) -> Future[PageText]:
            nonlocal pages
            tesseract(languages)
            free.acquire()
            pages = last
            pages_told.get()(number, last)
            try:
                width, height = page.get_size()
                scale = min(_DPI / 72, (_MOST_DOTS / max(width * height, 1)) ** 0.5)
                dots = page.render(scale=scale, grayscale=True).to_numpy()
                head = f"P5 {dots.shape[1]} {dots.shape[0]} 255\n".encode()
                found = threads.submit(_read, head + dots.tobytes(), height, scale, languages)
            except BaseException:
                free.release()
                raise
            found.add_done_callback(lambda _: free.release())
            return found

        yield begin
    if pages:
        pages_told.get()(pages, pages)


def _read(picture: bytes, height: float, scale: float, languages: str) -> PageText:
    from lxml import etree

    try:
        hocr = _run("stdin", "stdout", "-l", languages, "hocr", given=picture)
    except subprocess.TimeoutExpired:
        return PageText([], 0.0, height, unread=f"Tesseract took longer than {_SECONDS} s")
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip()
        return PageText([], 0.0, height, unread=f"Tesseract failed: {said[:200]}")
    pieces = []
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    for line in etree.fromstring(hocr, parser).iter("{*}span"):
        box, size = (pattern.search(line.get("title", "")) for pattern in (_BOX, _SIZE))
        text = " ".join(tidy("".join(line.itertext())).split())
        if box is None or size is None or not text:  # a word
            continue
        left, _, right, bottom = (int(edge) / scale for edge in box.groups())
        descent = _DESCENT.search(line.get("title", ""))
        baseline = height - bottom + (float(descent[1]) / scale if descent else 0)
        pieces.append(GlyphRun(text, left, right, baseline, float(size[1]) / scale, 400))
    return PageText(pieces, 0.0, height, unread=None if pieces else "Tesseract found no text")


def even_sizes(pieces: Sequence[GlyphRun]) -> None:
    """Give lines of nearly the same size one size: first those of the text, then larger and smaller ones."""
    if not pieces:
        return
    usual = median(piece.size for piece in pieces for _ in piece.text)
    groups: list[list[GlyphRun]] = []
    for piece in sorted(pieces, key=lambda one: one.size):
        first = groups[-1][0].size if groups else 0.0
        if abs(piece.size - usual) <= _SAME_SIZE * usual:
            piece.size = round(usual, 1)
        elif groups and piece.size <= (1 + _SAME_SIZE) * first:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    for group in groups:
        size = round(median(piece.size for piece in group), 1)
        for piece in group:
            piece.size = size


def _run(*arguments: str, given: bytes = b"") -> bytes:
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # documents are cleaned by several processes
    command = ["tesseract", *arguments]
    done = subprocess.run(
        command, input=given, capture_output=True, timeout=_SECONDS, env=environment, check=True
    )
    return done.stdout
