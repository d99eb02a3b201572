"""The BEIR benchmarks by name: from a folder of this machine, or downloaded once and checked."""

from __future__ import annotations

import hashlib
import os
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO, NamedTuple

from rag_assay.orchestration.templates.sources import beir_splits
from rag_assay.warehouse.atomic_write import temporary_beside
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home

SITE = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"
MOST = 600_000_000  # bytes of an archive
UNPACKED = 4_000_000_000  # bytes of what is in it
PATIENCE = 60.0  # seconds without a byte
STEP = 1 << 20
Tell = Callable[[str, int, int], None]


class Sum(NamedTuple):
    """The checksum of an archive: SHA-256, or where only that is published MD5."""

    kind: str
    digest: str


SETS = {
    "arguana": Sum("sha256", "cfdf79adce27a401b3cd3ea267903134dbfab2c6afeb95d7fe5724a00bf7557b"),
    "fiqa": Sum("sha256", "32c7df99ed21252fdfb2cf3f5673502a8d245ee0c44c4a133570d92ce2b3ad02"),
    "nfcorpus": Sum("sha256", "efe5be03f8c5b86a5870102d0599d227c8c6e2484328e68c6522560385671b0b"),
    "quora": Sum("sha256", "56aacd9dcc4d9c093b63f175afdda0e21cbc8442ecf6c717d09de7b358d77531"),
    "scidocs": Sum("sha256", "96640201687767c9b1fcc5af7a80b90fb325b37fa25329c2586c25edcfa17ef1"),
    "scifact": Sum("sha256", "536e14446a0ba56ed1398ab1055f39fe852686ecad24a6306c80c490fa8e0165"),
    "trec-covid": Sum("md5", "ce62140cb23feb9becf6270d0d1fe6d1"),
    "webis-touche2020": Sum("md5", "46f650ba5a527fc69e0a6521c5a23563"),
}
"""Those of up to 600,000 documents; of the larger ones a folder can be given."""


def beir_folder(name: str, home: Home, tell: Tell, site: str = SITE) -> Path | None:
    """Return the folder of a BEIR set, from `ASSAY_BEIR`, `<home>/beir` or downloaded; None: no such set."""
    if name not in SETS:
        return None
    kept = home.root / "beir" / name
    said = os.environ.get("ASSAY_BEIR")
    near = [Path(said).expanduser() / name, Path(said).expanduser()] if said else []
    for folder in [*near[:1], *(one for one in near[1:] if one.name == name), kept]:
        if beir_splits(folder) is not None:
            return folder.resolve()
    _download(name, kept, tell, site)
    return kept


def _download(name: str, target: Path, tell: Tell, site: str) -> None:
    address = f"{site}/{name}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary_beside(target.with_suffix(".zip")) as archive:
        try:
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer, archive.open("wb") as file:  # noqa: S310 -- an address of ours
                found = _kept(answer, file, SETS[name].kind, lambda done, of: tell(address, done, of))
        except (urllib.error.URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise AssayError(
                f"{address} cannot be downloaded ({reason}). Where this machine has no internet, download it "
                f"elsewhere, unpack it, and give its folder: assay corpus build FOLDER --name {name}"
            ) from error
        if found != SETS[name].digest:
            raise AssayError(
                f"{address} is not what was published: its {SETS[name].kind.upper()} is {found} instead of "
                f"{SETS[name].digest}; nothing of it was kept"
            )
        _unpack(archive, name, target)


def _kept(answer: IO[bytes], file: IO[bytes], kind: str, tell: Callable[[int, int], None]) -> str:
    digest = hashlib.new(kind, usedforsecurity=False)
    of, done = int(getattr(answer, "length", None) or 0), 0
    while part := answer.read(STEP):
        done += len(part)
        if done > MOST:
            raise AssayError(f"the download has more than {MOST:,} bytes; nothing of it was kept")
        digest.update(part)
        file.write(part)
        tell(done // STEP, max(of, done) // STEP + 1)
    return digest.hexdigest()


def _unpack(archive: Path, name: str, target: Path) -> None:
    fresh = target.with_name(f".{name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as found:
            members = {one.filename: one for one in found.infolist() if not one.is_dir()}
            if sum(one.file_size for one in members.values()) > UNPACKED:
                raise AssayError(f"{name}: unpacked it would have more than {UNPACKED:,} bytes")
            for path, member in members.items():
                inside = Path(path).relative_to(name) if path.startswith(f"{name}/") else None
                if inside is None or ".." in inside.parts or inside.is_absolute():
                    raise AssayError(f"{name}: the archive holds {path!r}, which is not part of the set")
                (fresh / inside).parent.mkdir(parents=True, exist_ok=True)
                with found.open(member) as source, (fresh / inside).open("wb") as file:
                    shutil.copyfileobj(source, file, STEP)
        if beir_splits(fresh) is None:
            raise AssayError(f"{name}: the archive holds no corpus.jsonl")
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise AssayError(f"{name}: the archive is damaged ({error}); nothing of it was kept") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def known_sets() -> str:
    return ", ".join(SETS)
