"""Words of scanned pages, by Tesseract."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from statistics import median
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


def read_scan(page: Any, languages: str) -> PageText:
    """Return the lines of a scanned page of PDFium, each one piece; `unread` says why there are none.

    Raises:
        MissingPackageError: Tesseract is not installed, or without a language.
    """
    from lxml import etree

    tesseract(languages)
    width, height = page.get_size()
    scale = min(_DPI / 72, (_MOST_DOTS / max(width * height, 1)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True)
    dots = bitmap.to_numpy()
    head = f"P5 {dots.shape[1]} {dots.shape[0]} 255\n".encode()
    try:
        hocr = _run("stdin", "stdout", "-l", languages, "hocr", given=head + dots.tobytes())
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
