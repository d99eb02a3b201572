"""Checks Office and EPUB files (ZIP archives of XML) and says why one cannot be used."""

from __future__ import annotations

import re
import warnings
import zlib
from io import BytesIO
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

MAX_UNPACKED = 300_000_000  # bytes of all parts together
MAX_PARTS = 20_000
_OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # the container of Office before 2007, and of encrypted files
_XML = (".xml", ".rels", ".opf", ".ncx", ".xhtml")
_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."


class Kind(NamedTuple):
    """One kind of package: what people call it, its media type, and a part that each of them has."""

    name: str
    media_type: str
    part: str


KINDS = {
    ".docx": Kind("DOCX", f"{_OFFICE}wordprocessingml.document", "[Content_Types].xml"),
    ".epub": Kind("EPUB", "application/epub+zip", "META-INF/container.xml"),
    ".odp": Kind("ODP", f"{_OPEN}presentation", "content.xml"),
    ".ods": Kind("ODS", f"{_OPEN}spreadsheet", "content.xml"),
    ".odt": Kind("ODT", f"{_OPEN}text", "content.xml"),
    ".pptx": Kind("PPTX", f"{_OFFICE}presentationml.presentation", "[Content_Types].xml"),
    ".xlsx": Kind("XLSX", f"{_OFFICE}spreadsheetml.sheet", "[Content_Types].xml"),
}
VARIANTS = {
    **dict.fromkeys((".docm", ".dotm", ".dotx"), ".docx"),
    **dict.fromkeys((".potm", ".potx", ".ppsm", ".ppsx", ".pptm"), ".pptx"),
    **dict.fromkeys((".xlsm", ".xltm", ".xltx"), ".xlsx"),
}
"""Endings of files with macros, templates and slide shows -> that of the kind that they are read as."""
_VARIANT = re.compile(
    rb"application/vnd\.(?:ms-(?:word|excel|powerpoint)\.\w+\.macroEnabled\w*"
    rb"|openxmlformats-officedocument\.\w+\.(?:template|slideshow))\.main\+xml"
)


def why_not(body: bytes, kind: Kind) -> str | None:
    """Return why a file cannot be used: encrypted, truncated, damaged, a bomb, of another kind; or None."""
    if body.startswith(_OLD):
        return "encrypted, or of an Office before 2007: save it again, without a password"
    if not body.startswith(b"PK"):
        return f"not {_a(kind.name)} file"
    try:
        with ZipFile(BytesIO(body)) as archive:
            return _why_unreadable(archive, kind)
    except BadZipFile:
        return "truncated or damaged: its list of parts cannot be read"
    except (zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError) as error:
        return f"damaged: {error}"


def as_plain(body: bytes, kind: Kind) -> bytes:
    """Return a variant as the plain kind, the only one that python-docx and python-pptx open."""
    with ZipFile(BytesIO(body)) as archive:
        written = archive.read(kind.part)
        types = _VARIANT.sub(f"{kind.media_type}.main+xml".encode(), written)
        if types == written:
            return body
        plain = BytesIO()
        with ZipFile(plain, "w") as copy:
            for name in dict.fromkeys(archive.namelist()):
                copy.writestr(name, types if name == kind.part else archive.read(name))
    return plain.getvalue()


def load_workbook(body: bytes, *, data_only: bool) -> Any:
    """Return openpyxl's read-only workbook. Its warnings, which name no file, are not shown."""
    import openpyxl

    warnings.filterwarnings("ignore", module="openpyxl")
    return openpyxl.load_workbook(BytesIO(body), read_only=True, data_only=data_only)


def _why_unreadable(archive: ZipFile, kind: Kind) -> str | None:
    parts = archive.infolist()
    if len(parts) > MAX_PARTS:
        return f"more than {MAX_PARTS} parts: {len(parts)}"
    if sum(part.file_size for part in parts) > MAX_UNPACKED:
        return f"unpacks to more than {MAX_UNPACKED // 1_000_000} MB"
    if any(part.flag_bits & 1 for part in parts):
        return "encrypted: it asks for a password"
    if kind.part not in archive.namelist():
        return f"not {_a(kind.name)} file: it has no {kind.part}"
    for part in parts:
        # Entities nest a small file into gigabytes; Office's standard forbids what declares them.
        if part.filename.lower().endswith(_XML) and b"<!ENTITY" in archive.read(part).replace(b"\0", b""):
            return f"it declares XML entities, in {part.filename}"
    return None


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'EOX' else 'a'} {name}"
