"""Stored pages: bodies by their SHA-256, a manifest for each source, and decoding to text."""

from __future__ import annotations

import codecs
import gzip
import json
import logging
import re
import zlib
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.warehouse.atomic_write import atomic_write, temporary_beside
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest_strings, sha256_bytes
from rag_assay.warehouse.packs import Packs
from rag_assay.warehouse.parquet import frame, read_parquet
from rag_assay.warehouse.remote import mirror_of

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

log = logging.getLogger(__name__)

# ------------------------------------------------------------------------------------------- manifest


_ORIGIN = "origin"

NOT_BEGUN = "no start page: "
"""Outcome of a crawl that got nothing of what it began with, and stored nothing; the reasons follow."""

PASSING = "cannot be read now: "
"""Reason of a page whose file may be readable the next time; the system's words follow."""


def manifest_file(home: Home, source: str) -> Path:
    return home.pages(source) / "manifest.parquet"


def read_manifest(home: Home, source: str, *, gone: bool = False) -> pl.DataFrame:
    """Return the newest state of each page (`schemas.PAGES`) by URL; empty: never crawled."""
    from rag_assay.warehouse.schemas import PAGES

    path = manifest_file(home, source)
    if not path.exists():
        return pl.DataFrame(schema=PAGES)
    manifest = read_parquet(path)
    return manifest if gone else manifest.filter(pl.col("gone_at").is_null())


def write_manifest(home: Home, source: str, manifest: pl.DataFrame, origin: str = "") -> None:
    _write(manifest, manifest_file(home, source), origin)


def _write(manifest: pl.DataFrame, path: Path, origin: str) -> None:
    from rag_assay.warehouse.schemas import PAGES

    rows = manifest.select(list(PAGES)).sort("url")
    with atomic_write(path) as temporary:
        rows.write_parquet(temporary, compression="zstd", metadata={_ORIGIN: origin})


def origin_of(home: Home, source: str) -> str:
    try:
        return pl.read_parquet_metadata(manifest_file(home, source)).get(_ORIGIN, "")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return ""


def keep_manifest(home: Home, source: str, manifest: pl.DataFrame, origin: str) -> None:
    _write(manifest, home.pages(source) / f"{origin}.parquet", origin)


def kept_manifest(home: Home, source: str, origin: str) -> pl.DataFrame:
    from rag_assay.warehouse.schemas import PAGES

    try:
        return read_parquet(home.pages(source) / f"{origin}.parquet", list(PAGES))
    except CorruptFileError:  # or none was kept
        return pl.DataFrame(schema=PAGES)


def can_become(home: Home, source: str, origin: str) -> bool:
    other = origin_of(home, source) not in {"", origin}
    return other and (home.pages(source) / f"{origin}.parquet").exists()


def become(home: Home, source: str, origin: str) -> None:
    keep_manifest(home, source, read_manifest(home, source, gone=True), origin_of(home, source))
    write_manifest(home, source, kept_manifest(home, source, origin), origin)
    share_pages(home, source)


def manifest_digest(manifest: pl.DataFrame) -> str:
    """Digest URL, media type, body and fields of each page that is not gone; fetch times do not count."""
    served = manifest.filter(pl.col("gone_at").is_null())
    rows = served.select("url", "content_type", "sha256", "fields").sort("url").rows()
    return digest_strings(
        part or ""
        for url, content_type, sha256, fields in rows
        for part in (url, media_type(content_type), sha256, fields)
    )


def media_type(content_type: str | None) -> str:
    """Return the media type of a Content-Type header, without its parameters.

    >>> media_type("Text/HTML; charset=utf-8")
    'text/html'
    """
    return (content_type or "").partition(";")[0].strip().lower()


def bring_pages(home: Home, source: str) -> None:
    if mirror := mirror_of(home):
        mirror.pull(f"crawls/{source}", f"pages/{source}")


def share_pages(home: Home, source: str) -> None:
    if mirror := mirror_of(home):
        mirror.push("bodies", f"crawls/{source}", f"pages/{source}")


def bring_bodies(home: Home, manifest: pl.DataFrame) -> None:
    if mirror := mirror_of(home):
        mirror.pull("bodies/packs")
        stored = manifest["sha256"].drop_nulls().unique().to_list()
        packs = _packs(home.packs)
        mirror.bring(home.body(sha256) for sha256 in stored if packs.find(sha256) is None)


# ------------------------------------------------------------------------------------------- bodies


def write_body(home: Home, body: bytes, scratch: Path | None = None) -> str:
    """Store ``body`` once per content and return its SHA-256. Without fsync: reading notices a torn body."""
    sha256 = sha256_bytes(body)
    path = home.body(sha256)
    if path.exists() and _unpacked(path.read_bytes()) == body:
        return sha256
    with temporary_beside(path, scratch) as temporary:
        temporary.write_bytes(gzip.compress(body, compresslevel=6, mtime=0))
        temporary.replace(path)
    return sha256


def read_body(home: Home, sha256: str) -> bytes:
    """Raises CorruptFileError: the file is missing, or holds other bytes than its name says."""
    packed = _packs(home.packs).find(sha256)
    if packed is not None:
        return packed
    path = home.body(sha256)
    if not path.exists() and (mirror := mirror_of(home)):
        mirror.bring([path])
    try:
        body = _unpacked(path.read_bytes())
    except OSError as error:
        raise CorruptFileError(f"{path}: cannot be read ({error}). Crawl its source again.") from error
    if body is None or sha256_bytes(body) != sha256:
        raise CorruptFileError(
            f"{path}: these are not the bytes that were stored. Delete the file and crawl its source again."
        )
    return body


@lru_cache(maxsize=4)
def _packs(folder: Path) -> Packs:
    return Packs(folder)


def is_whole(home: Home, sha256: str) -> bool:
    try:
        read_body(home, sha256)
    except CorruptFileError:
        return False
    return True


def _unpacked(data: bytes) -> bytes | None:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return None


# ------------------------------------------------------------------------------------------- crawls


def read_crawls(home: Home, source: str, known: Collection[str] = frozenset()) -> pl.DataFrame:
    """Return one row a crawl (`schemas.CRAWLS`), oldest first, but for ``known`` ids."""
    from rag_assay.warehouse.schemas import CRAWLS

    rows = []
    for path in sorted((home.crawls / source).glob("*.json")):
        if path.stem in known:
            continue
        try:
            rows.append(_crawl(json.loads(path.read_bytes())))
        except (ValueError, KeyError, TypeError, RecursionError, pl.exceptions.PolarsError) as error:
            log.warning("%s is not a record of a crawl (%s) and was moved aside", path, error)
            with suppress(OSError):  # it stays, and is passed over the next time too
                path.replace(path.with_suffix(".damaged"))
    return frame(rows, CRAWLS).sort("started_at")


def _crawl(record: Any) -> dict[str, Any]:
    from rag_assay.warehouse.schemas import CRAWLS

    times = {name: datetime.fromisoformat(record[name]) for name in ("started_at", "ended_at")}
    row = {name: record.get(name) for name in CRAWLS} | times
    if not all(isinstance(row[name], str) for name in ("crawl_id", "source", "outcome", "failed")):
        raise TypeError("it does not say which crawl it was")
    if not isinstance(json.loads(row["failed"]), dict):
        raise TypeError("`failed` is not an object")
    frame([row], CRAWLS)
    return row


# ------------------------------------------------------------------------------------------- decoding

_HEAD = 2048  # bytes in which a page declares its own charset (HTML says 1024; real pages are late)
_DECLARED = re.compile(rb"""<(?:meta[^>]+?charset|\?xml[^>]+?encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# What browsers read under these labels (WHATWG encoding standard): supersets of what the label says.
_LABELS = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
_SINGLE_BYTE = re.compile(r"cp125\d|iso8859-\d+|koi8-[ru]|mac-.*|latin.*")
_WESTERN = frozenset(
    "àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿœšžßÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝŒŠŽ„“”‚‘’–—…€£«»‹›©®°·•§´™\u00a0\u00ad"
)
_LIKELY = "cp1252 iso8859_15 cp1250 cp1251 cp1253 cp1254 utf_16 big5 gb18030 cp932".split()  # noqa: SIM905 -- readable


def decode(body: bytes, content_type: str | None = None) -> tuple[str, str]:
    """Return the text of ``body`` and the Python codec that it was read with.

    Tried, each strictly: a byte order mark, the charset of the Content-Type header, the one that the page
    declares, UTF-8, detection. A single-byte charset loses to UTF-8 where the bytes are valid UTF-8 beyond
    ASCII.

    >>> decode("Fußball".encode("utf-8"), "text/html; charset=iso-8859-1")
    ('Fußball', 'utf-8')
    >>> decode("Fußball".encode("cp1252"), "text/html; charset=utf-8")
    ('Fußball', 'cp1252')
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body.decode(name, errors="replace"), name
    for name in [*_candidates(body, content_type), "utf-8"]:
        text = _strictly(body, name)
        if text is not None:
            return text, name
    return _detected(body)


def _candidates(body: bytes, content_type: str | None) -> list[str]:
    """Return the usable codecs that header and page declare; UTF-8 before a single-byte one that hides it."""
    header = re.search(r"charset\s*=\s*[\"']?\s*([\w.:-]+)", content_type or "", re.I)
    declared = _DECLARED.search(body[:_HEAD])
    by_page = _codec(declared[1].decode("ascii")) if declared else None
    if by_page and by_page.startswith(("utf-16", "utf-32")):
        by_page = "utf-8"  # the declaration itself was read as single bytes
    names = [name for name in (_codec(header[1]) if header else None, by_page) if name]
    if names and _SINGLE_BYTE.fullmatch(names[0]) and not body.isascii():
        return ["utf-8", *names]
    return names


def _codec(label: str) -> str | None:
    try:
        name = codecs.lookup(label.lower().removeprefix("unicode-1-1-")).name
    except LookupError:
        return None
    return _LABELS.get(name, name) if _is_charset(name) else None


def _is_charset(name: str) -> bool:
    try:
        return isinstance("html".encode(name).decode(name), str)
    except (LookupError, ValueError, TypeError):  # rot13, base64 and the like are codecs, but no charsets
        return False


def _strictly(body: bytes, name: str) -> str | None:
    try:
        text = body.decode(name)
    except ValueError:
        return None
    return None if "\0" in text else text


def _detected(body: bytes) -> tuple[str, str]:
    text = body.decode("utf-8", errors="replace")
    broken = text.count("\ufffd")
    if len(text) - len(text.encode("ascii", "ignore")) - broken > 10 * broken:
        return text, "utf-8"
    from charset_normalizer import from_bytes

    western = _strictly(body, "cp1252")
    if western is not None and all(sign.isascii() or sign in _WESTERN for sign in set(western)):
        return western, "cp1252"  # for a few accents detection is a lottery between cp1250, cp1252 and others
    best = from_bytes(body, cp_isolation=_LIKELY).best()
    name = best.encoding if best else "utf-8"
    return body.decode(name, errors="replace"), name
