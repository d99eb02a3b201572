"""Reader of buckets: S3 and what speaks its protocol, Google Cloud Storage, Azure."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import ClassVar
from urllib.parse import urlsplit

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.files import failed_page
from rag_assay.crawlers.readers.folder import DATA, Folder
from rag_assay.crawlers.readers.remote_copies import copy_of
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.remote.store import DamagedObjectError, ObjectInfo, RemoteStore
from rag_assay.warehouse.source import Source

SCHEMES = ("s3", "gs", "az")


class Bucket(Folder):
    """Objects of a bucket below an address (`s3://bucket/handbook`), read as `folder` reads files.

    A later run fetches only objects whose ETag has changed. Keys come from the environment (`AWS_…`).

    suffixes: endings of the objects that are read, such as `.md`; default: all kinds
    """

    kind: ClassVar[str] = "bucket"

    def read(self, source: Source) -> Iterator[Page]:
        """Raises InputError: `path` is no address of a bucket, or nothing lies there."""
        url = source.path or ""
        if urlsplit(url).scheme not in SCHEMES:
            raise InputError(f"path: a bucket has an address such as s3://bucket/folder, not {url!r}.")
        try:
            objects = RemoteStore(url)
        except InputError as error:
            raise InputError(str(error).replace("ASSAY_HOME: ", "path: ")) from error
        with copy_of(f"bucket {url} {os.environ.get('AWS_ENDPOINT_URL', '')}") as folder:
            failed = _bring(objects, folder, source.limits.page_bytes)
            if failed is None:
                raise InputError(f"path: there are no objects at {url}.")
            files = folder / "files"
            if any(path.is_file() for path in files.rglob("*")):
                yield from super().read(source.model_copy(update={"path": str(files)}))
            yield from failed

    def state(self, source: Source) -> str | None:
        return None


def _bring(objects: RemoteStore, folder: Path, most: int) -> list[Page] | None:
    """Bring the copy up to date; return what is not in it, None for an empty bucket."""
    listing, files = folder / "etags.jsonl", folder / "files"
    files.mkdir(exist_ok=True)
    found = [one for one in objects.list("") if not _is_hidden(one.path)]
    if not found:
        return None
    known = _read(listing)
    wanted: dict[str, ObjectInfo] = {}
    failed: list[Page] = []
    for one in found:
        is_stream = PurePosixPath(one.path.lower().removesuffix(".gz")).suffix in {*DATA, ".parquet"}
        if why := _why_not(one, None if is_stream else most):
            failed.append(failed_page(one.path, why))
        else:
            wanted[one.path] = one
    for path in sorted(known.keys() - wanted.keys()):
        (files / path).unlink(missing_ok=True)
        del known[path]
    _write(listing, known)
    with listing.open("a", encoding="utf-8") as fetched:
        for path, one in wanted.items():
            if known.get(path) == one.etag and one.etag and (files / path).is_file():
                continue
            try:
                (files / path).parent.mkdir(parents=True, exist_ok=True)
                if objects.download(path, files / path, one.size):
                    os.utime(files / path, (one.modified, one.modified))
                    fetched.write(json.dumps([path, one.etag]) + "\n")
                    fetched.flush()
            except (DamagedObjectError, NotADirectoryError, FileExistsError, IsADirectoryError) as error:
                failed.append(failed_page(path, f"cannot be read: {error}"))
    return failed


def _is_hidden(path: str) -> bool:
    parts = (part for part in path.split("/") if part not in {"..", "."})
    return path.endswith("/") or any(part.startswith(".") for part in parts)


def _why_not(one: ObjectInfo, most: int | None) -> str | None:
    parts = one.path.split("/")
    if any(part in {"", ".", ".."} or len(part.encode()) > 240 or "\0" in part for part in parts):
        return "cannot be read: its key is not a valid file name"
    return f"larger than {most} bytes" if most is not None and one.size > most else None


def _read(listing: Path) -> dict[str, str]:
    known: dict[str, str] = {}
    try:
        for line in listing.read_bytes().splitlines():
            path, etag = json.loads(line)
            known[str(path)] = str(etag)
    except (OSError, ValueError, TypeError):  # none yet, or the last line is torn
        pass
    return known


def _write(listing: Path, known: dict[str, str]) -> None:
    with atomic_write(listing) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(pair) + "\n" for pair in known.items())
