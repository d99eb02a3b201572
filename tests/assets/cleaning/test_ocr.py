"""Scanned pages of PDFs, read by the real Tesseract."""

from __future__ import annotations

import shutil
import threading
from io import BytesIO
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pytest

from rag_assay.assets.cleaning.batches import Cleaning, Known
from rag_assay.assets.cleaning.draft import UnusablePage
from rag_assay.assets.cleaning.page_cleaner import page_key
from rag_assay.assets.cleaning.pdf import clean_pdf, ocr
from rag_assay.assets.documents import Documents
from rag_assay.assets.recipes.build_half import Build
from rag_assay.crawlers.crawl import crawl
from rag_assay.warehouse.extras import MissingPackageError
from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from tests.assets.cleaning.pdf_writer import BOLD, Sheet, pdf
from tests.assets.cleaning.test_pdf import FERRY, HARBOUR, PILOTS, sections

needs_tesseract = pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")


def chapters() -> list[Sheet]:
    first, second = Sheet(), Sheet()
    for sheet, title, texts in (
        (first, "Of the harbour", (HARBOUR, PILOTS)),
        (second, "The ferry", (FERRY,)),
    ):
        sheet.put(60, 780, title, 20, BOLD)
        y = 740.0
        for text in texts:
            y = sheet.flow(60, y, text, 80) - 14
    return [first, second]


def scanned(body: bytes) -> bytes:
    """The same file with pictures of its pages in place of their text."""
    document, scan = pdfium.PdfDocument(body), pdfium.PdfDocument.new()
    for page in document:
        width, height = page.get_size()
        image = pdfium.PdfImage.new(scan)
        image.set_bitmap(page.render(scale=200 / 72, grayscale=True))
        image.set_matrix(pdfium.PdfMatrix().scale(width, height))
        sheet = scan.new_page(width, height)
        sheet.insert_obj(image)
        sheet.gen_content()
    return saved(scan)


def saved(document: pdfium.PdfDocument) -> bytes:
    out = BytesIO()
    document.save(out)
    return out.getvalue()


@needs_tesseract
def test_a_scan_gives_the_paragraphs_and_headings_of_the_text() -> None:
    body = scanned(pdf(*chapters()))
    with pytest.raises(UnusablePage, match="images only; the source option `ocr` reads them"):
        clean_pdf(body)
    draft = clean_pdf(body, "eng")
    assert draft.text == f"Of the harbour\n\n{HARBOUR}\n\n{PILOTS}\n\nThe ferry\n\n{FERRY}"
    assert sections(draft) == [(1, "Of the harbour"), (1, "The ferry")]
    assert draft.metadata["ocr_pages"] == [1, 2]
    assert draft.metadata["ocr"].startswith("tesseract ")
    assert "scanned_pages" not in draft.metadata


@needs_tesseract
def test_only_pages_that_are_scans_are_recognized_and_blank_ones_stay_scans() -> None:
    text, scan = (pdfium.PdfDocument(one(pdf(*chapters()))) for one in (bytes, scanned))
    grey = Sheet()
    grey.picture(595, 842)
    whole = pdfium.PdfDocument.new()
    for part, pages in ((text, [0]), (scan, [1]), (pdfium.PdfDocument(pdf(grey)), [0])):
        whole.import_pages(part, pages)
    draft = clean_pdf(saved(whole), "eng")
    assert draft.text == f"Of the harbour\n\n{HARBOUR}\n\n{PILOTS}\n\nThe ferry\n\n{FERRY}"
    assert (draft.metadata["ocr_pages"], draft.metadata["scanned_pages"]) == ([2], [3])
    assert draft.metadata["ocr_unread"] == {"3": "Tesseract found no text"}
    assert "ocr" not in clean_pdf(pdf(*chapters()), "eng").metadata


@needs_tesseract
def test_a_scan_that_cannot_be_read_takes_no_other_page_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    both, (first, second) = pdfium.PdfDocument.new(), chapters()
    for part in (pdf(first), scanned(pdf(second))):
        both.import_pages(pdfium.PdfDocument(part))
    ocr.tesseract("eng")
    monkeypatch.setattr(ocr, "_SECONDS", 0.01)
    draft = clean_pdf(saved(both), "eng")
    assert draft.text == f"Of the harbour\n\n{HARBOUR}\n\n{PILOTS}"
    assert draft.metadata["scanned_pages"] == [2]
    assert draft.metadata["ocr_unread"] == {"2": "Tesseract took longer than 0.01 s"}
    with pytest.raises(UnusablePage, match="PDF: no text: images only; Tesseract took longer than"):
        clean_pdf(scanned(pdf(second)), "eng")


@needs_tesseract
def test_no_word_of_the_heading_above_the_languages_is_one() -> None:
    with pytest.raises(MissingPackageError, match="lacks the language of"):
        ocr.tesseract("of")


@needs_tesseract
def test_a_language_that_tesseract_lacks_is_named_with_its_package() -> None:
    with pytest.raises(
        MissingPackageError, match=r"lacks the language xyz; on Debian: apt install .* tesseract-ocr-xyz"
    ):
        clean_pdf(scanned(pdf(*chapters())), "eng+xyz")


def test_without_tesseract_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ocr.tesseract.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPackageError, match=r"`ocr: eng` needs Tesseract; on Debian: apt install"):
        clean_pdf(scanned(pdf(*chapters())), "eng")


def test_only_documents_of_pdfs_depend_on_it() -> None:
    given: list[dict[str, object]] = [{}, {"ocr": None}, {"ocr": "eng"}, {"ocr": "deu+eng"}]
    sources = [Source.model_validate({"reader": "folder", "path": ".", **more}) for more in given]
    digests = [Documents(Build(sources={"s": one})).recipes("s")["cleaning.s"] for one in sources]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    page = {"url": "a", "content_type": "application/pdf", "sha256": "0", "fields": None}
    html = page | {"content_type": "text/html"}
    assert len({page_key("s", page, None, ocr=one.ocr) for one in sources}) == 3
    assert len({page_key("s", html, None, ocr=one.ocr) for one in sources}) == 1


@pytest.mark.parametrize("languages", ["", "eng+", "eng deu", "../eng", "-l"])
def test_languages_are_names_of_tesseract(languages: str) -> None:
    with pytest.raises(ValueError, match="ocr"):
        Source.model_validate({"reader": "folder", "path": ".", "ocr": languages})


def test_a_scan_that_the_reader_refused_is_read_once_the_source_has_the_option(tmp_path: Path) -> None:
    folder, home = tmp_path / "docs", Home(tmp_path / "home")
    folder.mkdir()
    (folder / "scan.pdf").write_bytes(scanned(pdf(*chapters())))
    found = []
    for more in ({}, {"ocr": "eng"}):
        source = Source.model_validate({"reader": "pdf", "path": str(folder), **more})
        crawl(home, "s", source, print)
        found.append(read_manifest(home, "s")["reason"].to_list())
    assert found == [["no text: images only; the source option `ocr` reads them"], [None]]


@needs_tesseract
def test_scans_are_read_side_by_side_in_order_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, home = tmp_path / "docs", Home(tmp_path / "home")
    folder.mkdir()
    (folder / "scan.pdf").write_bytes(scanned(pdf(*chapters(), chapters()[0])))
    source = Source.model_validate({"reader": "pdf", "path": str(folder), "ocr": "eng"})
    crawl(home, "s", source, print)
    running, most, lock, read = 0, 0, threading.Lock(), ocr._read

    def counted(*arguments: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        try:
            return read(*arguments)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(ocr, "_read", counted)
    texts, told = [], list[tuple[str, int, int]]()
    for at_once in (1, 2):
        most = 0
        told.clear()
        monkeypatch.setattr(ocr, "at_once", at_once)
        cleaning = Cleaning("s", home, None, tmp_path / f"parts{at_once}", ocr="eng")
        (batch,) = cleaning.run(read_manifest(home, "s"), Known(), lambda *one: told.append(one))
        texts.append(batch.documents["text"].to_list())
        assert most == at_once
        scans = [one for one in told if one[0] == "reading scanned pages of s"]
        assert [one[1:] for one in scans] == [(1, 3), (2, 3), (3, 3), (3, 3)]
    assert texts[0] == texts[1]
    assert texts[0][0].count("Of the harbour\n\n") == 2
