"""Objects of a workspace on object storage (S3, GCS, Azure), or on a shared disk (`file:///…`)."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import obstore.store
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.full_disk import FULL
from rag_assay.warehouse.identity import sha256_file
from rag_assay.warehouse.locks import locked
from rag_assay.warehouse.paths import check_url

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_RETRIES = re.compile(r"after (\d+) retries")


class RemoteError(AssayError):
    """Object storage did not do what it was asked for, for longer than it is waited for."""


def reason_of(error: Exception) -> str:
    """Return why a request failed: the status and code that the server gave, or what became of it.

    >>> reason_of(Exception("… status code: 503 Service Unavailable: <Code>SlowDown</Code>"))
    'the server answered 503 SlowDown'
    """
    text = str(error)
    status, code, retries = _STATUS.search(text), _CODE.search(text), _RETRIES.search(text)
    tries = f" {int(retries[1]) + 1} times" if retries and retries[1] != "0" else ""
    if status:
        return f"the server answered {status[1]}{f' {code[1]}' if code else ''}{tries}"
    if "kind: Timeout" in text or "timed out" in text:
        return f"the server did not answer in time{tries}"
    if "kind: Connect" in text:
        return f"no server could be reached{tries}"
    if "HTTP error" in text or "kind: Request" in text or "kind: Decode" in text or "error decoding" in text:
        return f"the connection was lost{tries}"
    if any(f"os error {number}" in text for number in FULL):
        return "the disk is full"
    return type(error).__name__


def sentence_of(error: Exception, url: str, doing: str) -> AssayError:
    text = str(error)
    if "NoSuchBucket" in text or "ContainerNotFound" in text:
        return InputError(f"{url}: the bucket does not exist; create it, or correct ASSAY_HOME")
    refused = _STATUS.search(text)
    if refused and refused[1] in {"401", "403"}:
        return InputError(
            f"{url}: {doing} was refused ({reason_of(error)}); check that the keys in the environment "
            "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …) may read, write, list and delete there"
        )
    return RemoteError(
        f"{url}: {doing} failed ({reason_of(error)}); stored results are kept. "
        "Check that the server can be reached (AWS_ENDPOINT_URL, AWS_REGION), then run it again"
    )


def full_disk(error: OSError, file: Path) -> AssayError:
    return AssayError(
        f"{file}: the disk of the scratch folder is full ({error.strerror}); stored results "
        "are intact. Free some space, set ASSAY_SCRATCH to a folder on another disk, or lower "
        "ASSAY_SCRATCH_GB, then run it again"
    )


T = TypeVar("T")
U = TypeVar("U")

PATIENCE = 60.0  # seconds that a request is tried for; `ASSAY_REMOTE_PATIENCE` changes it
PART = 8 * 1024 * 1024  # bytes of a file that are sent or fetched by one request
AT_ONCE = 16  # requests of one batch
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Version:
    """Which content of an object was read: what the server calls it."""

    etag: str
    number: str | None = None


@dataclass(frozen=True)
class ObjectInfo:
    """An object in a listing; ``modified``: seconds since the epoch, by the server's clock."""

    path: str
    size: int
    etag: str
    modified: float


class RemoteStore:
    """The objects below a URL, by paths with slashes; thread-safe. Every method raises `AssayError`."""

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        parts = urlsplit(self.url)
        self._folder = Path(unquote(parts.path)) if parts.scheme == "file" else None
        try:
            if self._folder:
                self._objects: Any = obstore.store.LocalStore(self._folder, mkdir=True)
            else:
                self._objects = obstore.store.from_url(
                    self.url, client_options=_client(), retry_config=_retries()
                )
        except Exception as error:
            raise InputError(f"ASSAY_HOME: {self.url} cannot be opened ({reason_of(error)})") from error

    def __repr__(self) -> str:
        return f"RemoteStore({self.url!r})"

    def read(self, path: str) -> bytes | None:
        found = self.read_with_version(path)
        return found and found[0]

    def read_with_version(self, path: str) -> tuple[bytes, Version] | None:
        try:
            with self._explained(f"reading {path}"):
                result = obstore.get(self._objects, path)
                meta = result.meta
                return result.bytes().to_bytes(), Version(meta["e_tag"] or "", meta.get("version"))
        except FileNotFoundError:
            return None

    def create(self, path: str, data: bytes) -> bool:
        """Store an object where there is none; False where there is one with other bytes."""
        try:
            with self._explained(f"writing {path}"):
                obstore.put(self._objects, path, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return self.read(path) == data
        return True

    def replace(self, path: str, data: bytes, version: Version) -> bool:
        """Store an object in place of the version that was read; False where it has changed meanwhile."""
        if self._folder:
            return self._replace_file(path, data, version)
        mode: Any = {"e_tag": version.etag, **({"version": version.number} if version.number else {})}
        try:
            with self._explained(f"writing {path}"):
                obstore.put(self._objects, path, data, mode=mode, use_multipart=False)
        except (PreconditionError, AlreadyExistsError, FileNotFoundError):
            return self.read(path) == data
        return True

    def put(self, path: str, data: bytes) -> str:
        with self._explained(f"writing {path}"):
            return obstore.put(self._objects, path, data, use_multipart=False)["e_tag"] or ""

    def upload(self, file: Path, path: str) -> str:
        """Store a file as an object, part by part; there is none before its last part is. Return its etag."""
        with self._explained(f"writing {path}"):
            many = file.stat().st_size > PART
            stored = obstore.put(
                self._objects, path, file, use_multipart=many, chunk_size=PART, max_concurrency=4
            )
        return stored["e_tag"] or ""

    def download(self, path: str, file: Path, size: int | None = None, sha256: str | None = None) -> bool:
        """False: there is no object. Raises DamagedObjectError: another size or digest."""
        try:
            with (
                self._explained(f"reading {path}"),
                atomic_write(file) as temporary,
                temporary.open("wb") as out,
            ):
                for data in self._parts(path, size):
                    out.write(data)
                out.flush()
                if sha256 and sha256_file(temporary) != sha256:
                    raise DamagedObjectError(f"{self.url}/{path} has other bytes than were written")
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno in FULL:
                raise full_disk(error, file) from error
            raise
        return True

    def _parts(self, path: str, size: int | None) -> Iterator[bytes]:
        found = obstore.get(self._objects, path)
        length = found.meta["size"]
        if size is not None and length != size:
            raise DamagedObjectError(f"{self.url}/{path} has {length} bytes instead of {size}")
        if length <= PART:
            yield found.bytes().to_bytes()
            return
        for at in range(0, length, PART):
            yield obstore.get_range(self._objects, path, start=at, end=min(at + PART, length)).to_bytes()

    def folders(self, prefix: str) -> list[str]:
        with self._explained(f"listing {prefix}/"):
            found = obstore.list_with_delimiter(self._objects, prefix or None)["common_prefixes"]
        return sorted(path.rpartition("/")[2] for path in found)

    def list(self, prefix: str) -> list[ObjectInfo]:
        with self._explained(f"listing {prefix}/"):
            found = [
                ObjectInfo(one["path"], one["size"], one["e_tag"] or "", one["last_modified"].timestamp())
                for batch in obstore.list(self._objects, prefix or None, chunk_size=1000)
                for one in batch
            ]
        return sorted(found, key=lambda one: one.path)

    def delete(self, paths: Iterable[str]) -> None:
        names = list(paths)
        if names:
            with self._explained(f"removing {names[0]}"):
                for name in names if self._folder else ():
                    with suppress(FileNotFoundError):
                        obstore.delete(self._objects, name)
                if not self._folder:
                    obstore.delete(self._objects, names)

    def refuse_unconditional(self) -> None:
        path = f".conditions/{uuid.uuid4().hex}"
        try:
            self.create(path, b"1")
            try:
                heeded = not self.create(path, b"2") and not self.replace(path, b"3", Version('"none"'))
            except NotImplementedError:
                heeded = False
        finally:
            self.delete([path])
        if not heeded:
            raise InputError(
                f"{self.url}: the server overwrites objects in spite of If-None-Match and If-Match, so that "
                "machines would overwrite each other's results; a workspace needs a server "
                "with conditional writes"
            )

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (AlreadyExistsError, PreconditionError, AssayError):
            raise
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise sentence_of(error, self.url, doing) from None
            raise
        except BaseError as error:  # its text may name keys of requests: it is not passed on
            raise sentence_of(error, self.url, doing) from None
        except ValueError as error:
            raise RemoteError(f"{self.url}: {doing}: it is not a valid object name") from error

    def _replace_file(self, path: str, data: bytes, version: Version) -> bool:
        assert self._folder  # noqa: S101 -- for the type
        with locked(self._folder / ".replace.lock"):
            found = self.read_with_version(path)
            if found is None or found[1] != version:
                return found is not None and found[0] == data
            self.put(path, data)
            return True


class DamagedObjectError(AssayError):
    """An object holds other bytes than were written."""


def at_once(work: Callable[[T], U], items: Iterable[T]) -> list[U]:
    todo = list(items)
    if len(todo) < 2:
        return [work(one) for one in todo]
    with ThreadPoolExecutor(min(AT_ONCE, len(todo))) as pool:
        return list(pool.map(work, todo))


def _client() -> ClientConfig:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    config: ClientConfig = {"timeout": timedelta(seconds=min(30.0, _patience())), "connect_timeout": "5s"}
    if urlsplit(endpoint).hostname in _LOOPBACK:
        config["allow_http"] = True
    return config


def _retries() -> RetryConfig:
    return {
        "max_retries": 12,
        "retry_timeout": timedelta(seconds=_patience()),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=8)},
    }


def _patience() -> float:
    try:
        return max(0.1, float(os.environ.get("ASSAY_REMOTE_PATIENCE") or PATIENCE))
    except ValueError as error:
        raise InputError("ASSAY_REMOTE_PATIENCE: a number of seconds is needed") from error
