"""Plain text and Markdown: a document a file, or a passage a line."""

from __future__ import annotations

from collections.abc import Iterator

from crawlers.items import Page
from crawlers.reading import folder
from crawlers.reading.files import UNREADABLE, files_of, lines_of, opened, unreadable
from crawlers.reading.passages import Passages
from warehouse.pages import decode
from warehouse.source import Source

SUFFIXES = (".txt", ".md")


def read(source: Source) -> Iterator[Page]:
    """Yield one page a file, or with `lines` one a line that is not blank.

    Raises:
        InputError: the path is missing, or holds no such file.
    """
    if not source.lines:
        yield from folder.read_kinds(source, SUFFIXES)
        return
    passages = Passages(source)
    for name, path in files_of(source, SUFFIXES):
        try:
            with opened(path) as file:
                for number, line in lines_of(file, source.limits.page_bytes):
                    if line is None:
                        yield passages.too_long(name, number)
                    elif text := decode(line)[0].strip():
                        yield passages.page(name, number, text)
        except UNREADABLE as error:
            yield unreadable(name, error)
