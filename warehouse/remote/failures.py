"""What goes wrong with object storage, as sentences for a person; no key, and no address of a request."""

from __future__ import annotations

import re
from pathlib import Path

from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.full_disk import FULL

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
    """Return the error that a person is told of: which home, what was tried, why it failed, what to do."""
    text = str(error)
    if "NoSuchBucket" in text or "ContainerNotFound" in text:
        return InputError(f"{url}: there is no such bucket; make it, or mend ASSAY_HOME")
    refused = _STATUS.search(text)
    if refused and refused[1] in {"401", "403"}:
        return InputError(
            f"{url}: {doing} was refused ({reason_of(error)}); look whether the keys in the environment "
            "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …) may read, write, list and delete there"
        )
    return RemoteError(
        f"{url}: {doing} failed ({reason_of(error)}); nothing that was stored is lost. "
        "Look whether the server can be reached (AWS_ENDPOINT_URL, AWS_REGION), then run it again"
    )


def full_disk(error: OSError, file: Path) -> AssayError:
    """Return the error that a person is told of where the disk of the scratch folder is full."""
    return AssayError(
        f"{file}: the disk of the scratch folder is full ({error.strerror}); what is stored remotely "
        "is whole. Make room there, let ASSAY_SCRATCH name a folder on another disk, or lower "
        "ASSAY_SCRATCH_GB, then run it again"
    )
