"""Weights by registry name, hub id or folder: where they come from, and what names them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.inference import models, weights
from rag_assay.warehouse.paths import Home

ROOT = Path(__file__).parents[3]
COMMIT = "c" * 40
FILES = {
    "config.json": b'{"d": 4}',
    "1_Pooling/config.json": b"{}",
    "model.safetensors": bytes(range(256)) * 40,
    "pytorch_model.bin": b"a pickle",
    "onnx/model.onnx": b"another format",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASSAY_MODELS", raising=False)
    made = tmp_path / "mine"
    made.mkdir()
    (made / "config.json").write_bytes(FILES["config.json"])
    (made / "model.safetensors").write_bytes(FILES["model.safetensors"])
    return made


@pytest.mark.parametrize(
    ("model", "revision", "reason"),
    [
        ("minilm", None, r"unknown embedding model 'minilm'; known are all-MiniLM-L6-v2.*or a folder"),
        ("nobody/tiny", None, "is a model of the Hugging Face hub: give `revision`, its commit"),
        ("nobody/tiny", "main", "give `revision`, its commit"),
        ("./mine", COMMIT, "is a folder, which has no revision"),
        ("smollm2-135m-instruct", None, "unknown embedding model"),
    ],
)
def test_what_names_no_model_is_answered_with_what_to_write(
    model: str, revision: str | None, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        weights.place_of(model, revision)


def test_a_registered_model_is_the_same_by_name_and_by_hub_id() -> None:
    model = models.get("all-mpnet-base-v2")
    assert weights.identity(model.name) == weights.identity(model.hub_id, model.revision)
    assert weights.identity(model.hub_id, COMMIT) != weights.identity(model.name)


def test_a_folder_is_known_by_its_files_and_not_by_its_place(folder: Path, tmp_path: Path) -> None:
    first = weights.identity(str(folder))
    assert weights.fetch(str(folder), None, Home(tmp_path)) == folder
    moved = folder.rename(tmp_path / "elsewhere")
    assert weights.identity(str(moved)) == first
    (moved / "README").write_text("new")
    assert weights.identity(str(moved)) != first
    (moved / "README").unlink()
    (moved / ".hidden").write_text("of an editor")
    assert weights.identity(str(moved)) == first


def test_a_folder_is_hashed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = weights.identity(str(folder))
    monkeypatch.setattr(weights, "sha256_file", lambda path: pytest.fail("hashed again"))
    weights._hashed.cache_clear()  # as in another process
    assert weights.identity(str(folder)) == first


def test_a_changed_file_of_the_same_size_is_noticed(folder: Path) -> None:
    first = weights.identity(str(folder))
    (folder / "model.safetensors").write_bytes(FILES["model.safetensors"][::-1])
    os.utime(folder / "model.safetensors", (1, 1))
    second = weights.identity(str(folder))
    assert second != first
    (folder / "model.safetensors").write_bytes(FILES["model.safetensors"])
    os.utime(folder / "model.safetensors", (1, 1))  # as archives do
    assert weights.identity(str(folder)) == first


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no model"):
        weights.identity(str(tmp_path))
    with pytest.raises(InputError, match="is not there"):
        weights.fetch(str(tmp_path / "none"), None, Home(tmp_path))


def test_the_hub_is_not_asked_when_that_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_MODELS", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(AssayError, match=r"not asked, as HF_HUB_OFFLINE is set\. Without the hub: fetch it"):
        weights.fetch("nobody/tiny", COMMIT, Home(tmp_path))


@pytest.fixture
def hub() -> Iterator[str]:
    """A server that speaks as much of the hub's protocol as fetching a commit needs."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            name = path.removeprefix(f"/nobody/tiny/resolve/{COMMIT}/")
            headers = {"X-Repo-Commit": COMMIT}
            if path == f"/api/models/nobody/tiny/revision/{COMMIT}":
                siblings = [{"rfilename": file} for file in FILES]
                body = json.dumps({"id": "nobody/tiny", "sha": COMMIT, "siblings": siblings}).encode()
                headers["Content-Type"] = "application/json"
            elif path.startswith(f"/api/models/nobody/tiny/tree/{COMMIT}"):
                rows = [{"type": "file", "path": f, "size": len(b), "oid": "0"} for f, b in FILES.items()]
                body = json.dumps(rows).encode()
                headers["Content-Type"] = "application/json"
            elif name in FILES:
                body = FILES[name]
                headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()}"'
            else:
                self.send_error(404)
                return
            self.send_response(200)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


FETCH = """
import sys
from pathlib import Path
from rag_assay.warehouse.inference import weights
from rag_assay.warehouse.paths import Home
try:
    print(weights.fetch("nobody/tiny", sys.argv[2], Home(Path(sys.argv[1]))))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def fetched(home: Path, endpoint: str, commit: str = COMMIT) -> str:
    # The hub's client reads its address when it is imported, so each fetch has a process of its own.
    environment = {k: v for k, v in os.environ.items() if k not in {"HF_HUB_OFFLINE", "ASSAY_MODELS"}}
    environment |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(home / "hf"), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-c", FETCH, str(home), commit]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip()


def test_a_commit_is_fetched_from_the_hub_without_pickles(hub: str, tmp_path: Path) -> None:
    folder = Path(fetched(tmp_path, hub))
    assert folder == tmp_path / "models" / "hub" / f"nobody--tiny@{COMMIT}"
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert found == {
        name: FILES[name] for name in ("config.json", "1_Pooling/config.json", "model.safetensors")
    }
    assert fetched(tmp_path, "http://127.0.0.1:9") == str(folder), "the second time nobody is asked"


def test_a_commit_that_the_hub_does_not_have_is_an_error_with_advice(hub: str, tmp_path: Path) -> None:
    said = fetched(tmp_path, hub, "d" * 40)
    assert said.startswith("AssayError: The model 'nobody/tiny' could not be fetched (")
    assert "--local-dir FOLDER" in said
    assert not list((tmp_path / "models" / "hub").glob("nobody*"))
