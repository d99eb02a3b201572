"""How fast the embeddings stage is beside the bare model, what the fast backend gains, what a change costs.

    python -m benchmarks.embeddings [DATA] [--full]

DATA holds `scifact` (../shared/data unless said). Throughput is measured on 192 of its abstracts, cut at 256
tokens: bare `SentenceTransformer.encode` and the stage take turns, and the medians of the ratios are printed,
by the clock and by the processor's time, which other load disturbs less. The study that is run again and
changed holds all 5,183 abstracts, cut at 32 tokens so that its first run is short; `--full` takes all of them
and 256 tokens everywhere, which takes half an hour.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rag_assay.assets.embedding.cached_embedder import FLUSH, CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.embeddings import Embeddings
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.recipes.build_half import Build
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.identity import digest, digest_strings
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.paths import Home, home
from rag_assay.warehouse.schemas import CHUNKS
from rag_assay.warehouse.segments import read_name

MODEL = "all-MiniLM-L6-v2"
FEW, ROUNDS = 192, 3
STUDY = """\
study: bench
sources: {{beir: {{reader: beir, path: {folder}}}}}
corpus: {{name: bench, sources: [beir]}}
chunkings: {{document: {{document: {{}}}}}}
embedders: {{minilm: {{model: all-MiniLM-L6-v2, max_tokens: {tokens}, overflow: truncate}}}}
retrievers: {{bm25: {{bm25: {{k: 10}}}}, dense: {{dense: {{k: 10}}}}}}
questions: [{{beir: {{path: {folder}, split: test}}}}]
metrics: [ndcg@10]
"""

Clock = tuple[float, float]  # seconds by the clock, and of the processor


def abstracts(data: Path) -> list[dict[str, Any]]:
    """Return the passages of scifact."""
    with gzip.open(data / "scifact" / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def timed(work: Callable[[], Any]) -> tuple[Clock, Any]:
    """Return the seconds that something took, and what it gave."""
    begin, cpu = time.perf_counter(), time.process_time()
    result = work()
    return (time.perf_counter() - begin, time.process_time() - cpu), result


def build(root: Path, recipe: EmbedderRecipe, texts: Sequence[str], key: str = "c.t.e") -> dict[str, Any]:
    """Run the embeddings stage over chunks of these texts; return its metadata."""
    names = key.split(".")
    work = BuildContext(Home(root))
    rows: list[dict[str, object]] = [
        {"chunk_id": digest([n, text]), "text": text, "prefix": ""} for n, text in enumerate(texts)
    ]
    version = digest_strings(texts)
    write_parquet(frame(rows, CHUNKS), work.store.folder("chunks", version) / "chunks.parquet")
    work.store.commit(Artifact("chunks", f"{names[0]}.{names[1]}", version, version))
    stage = Embeddings(Build(embedders={names[2]: recipe}, indexes={key: (names[0], names[1], names[2])}))
    outcome = build_key(stage, key, work)
    if outcome.artifact is None or outcome.error:
        raise SystemExit(outcome.error)
    return outcome.artifact.meta


def throughput(texts: list[str], root: Path) -> None:
    """Print the stage's throughput beside that of the bare model, and the fast backend's beside both."""
    from sentence_transformers import SentenceTransformer

    plain = EmbedderRecipe(model=MODEL, overflow="truncate")
    fast = plain.model_copy(update={"dtype": "bf16"})
    bare = SentenceTransformer(str(plain.fetch(home())), local_files_only=True, device="cpu")
    bare.max_seq_length = 256
    try:
        CachedEmbedder(fast, Home(root / "warm")).passages(texts[:32])
    except Exception as error:  # a processor without bf16 says so
        print(f"fast backend: {error}")
        fast = plain
    CachedEmbedder(plain, Home(root / "warm")).passages(texts[:32])
    bare.encode(texts[:32])
    ratios: dict[str, list[Clock]] = {"stage": [], "fast": []}
    rate, least = 0.0, 1.0
    for number in range(ROUNDS):
        alone, vectors = timed(lambda: bare.encode(texts, normalize_embeddings=True))
        stage, _ = timed(lambda n=number: build(root / f"stage-{n}", plain, texts))  # type: ignore[misc]
        quick, found = timed(
            lambda n=number: CachedEmbedder(fast, Home(root / f"fast-{n}")).passages(texts)  # type: ignore[misc]
        )
        ratios["stage"].append((alone[0] / stage[0], alone[1] / stage[1]))
        ratios["fast"].append((alone[0] / quick[0], alone[1] / quick[1]))
        rate = max(rate, len(texts) / alone[0])
        least = min(least, float(np.einsum("ij,ij->i", vectors, found.vectors).min()))
    print(f"bare model: {rate:.0f} texts/s at best, {len(texts)} abstracts cut at 256 tokens, load {_load()}")
    for name, target in (("stage", 0.95), ("fast", 1.8)):
        clock, cpu = (statistics.median(ratio[n] for ratio in ratios[name]) for n in (0, 1))
        rounds = ", ".join(f"{ratio[0]:.2f}" for ratio in ratios[name])
        print(
            f"{name} / bare: {clock:.2f} by the clock ({rounds}), {cpu:.2f} by processor time; "
            f"target >= {target}"
        )
    print(f"fast backend, least cosine to fp32: {least:.5f}; target >= 0.999")


def rebuilds(passages: list[dict[str, Any]], data: Path, root: Path, tokens: int) -> None:
    """Print what `assay run` takes when nothing, and when one document, has changed."""
    folder = root / "beir"
    (folder / "qrels").mkdir(parents=True)
    shutil.copy(data / "scifact" / "qrels" / "test.tsv", folder / "qrels")
    shutil.copy(data / "scifact" / "queries.jsonl", folder)
    path = root / "bench.yaml"
    path.write_text(STUDY.format(folder=folder, tokens=tokens))
    _write(folder, passages)
    environment = {**os.environ, "ASSAY_HOME": str(root / "study"), "ASSAY_MODELS": str(home().models)}
    _say("first run", _run(path, environment), "")
    for _ in range(2):
        _say("unchanged", _run(path, environment), "; target 0 texts, < 3 s")
    changed = [{**passages[0], "text": passages[0]["text"].replace(".", ", as was seen.", 1)}, *passages[1:]]
    _write(folder, changed)
    _say(f"one of {len(passages)} documents changed", _run(path, environment), "; target 1 text, < 6 s")


def _write(folder: Path, passages: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(passage) + "\n" for passage in passages)
    (folder / "corpus.jsonl").write_text(lines, encoding="utf-8")


class Run(NamedTuple):
    """A run of a study: its seconds, those up to its index, those of chunks, embeddings and index alone."""

    seconds: float
    texts: int
    indexed: float | None
    stages: float


def _run(path: Path, environment: dict[str, str]) -> Run:
    """Run a study as a user does, in a process of its own."""
    cache = Path(environment["ASSAY_HOME"]) / "cache" / "vectors"
    before, begin, clock = _vectors(cache), time.perf_counter(), time.time()
    command = [sys.executable, "-m", "rag_assay.orchestration.start", "run", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    indexes = Path(environment["ASSAY_HOME"]) / "indexes"
    times = [file.stat().st_mtime - clock for file in indexes.glob("*/artifact.json")]
    indexed = max((t for t in times if t > 0), default=None)
    lines = (line.split() for line in done.stderr.splitlines() if line.startswith("stage "))
    stages = sum(float(row[-2]) for row in lines if row[4] in {"chunks", "embeddings", "indexes"})
    return Run(seconds, _vectors(cache) - before, indexed, stages)


def _say(what: str, run: Run, target: str) -> None:
    till = (
        f", its index ready after {run.indexed:.1f} s, {run.stages:.1f} s for chunks, embeddings and index"
        if run.indexed
        else ""
    )
    print(
        f"`assay run`, {what}: {run.seconds:.1f} s{till}, {run.texts} texts embedded{target}; load {_load()}"
    )


def _vectors(cache: Path) -> int:
    told = [read_name(path.name) for path in cache.glob("*/*.vectors")]
    return sum(name.rows for name in told if name is not None)


def second_chunking(texts: list[str], root: Path) -> None:
    """Print how much is embedded for a chunking of which 60 % of the chunks were embedded before."""
    recipe = EmbedderRecipe(model=MODEL, max_tokens=32, overflow="truncate")
    build(root, recipe, texts)
    other = [text if n % 5 < 3 else "Another chunk. " + text for n, text in enumerate(texts)]
    meta = build(root, recipe, other, "c.second.e")
    share = 1 - meta["embedded_now"] / len(texts)
    print(f"second chunking, 60 % of its chunks equal: {share:.0%} fewer embeddings; target 60 %")


def killed(texts: list[str], root: Path) -> None:
    """Kill a process in the middle of embedding and print what the next one computes."""
    path = root / "texts.json"
    root.mkdir()
    path.write_text(json.dumps(texts))
    command = [sys.executable, "-m", "benchmarks.embeddings", "--child", str(path), str(root / "home")]
    environment = {**os.environ, "ASSAY_MODELS": str(home().models)}
    child = subprocess.Popen(command, env=environment)
    cache = root / "home" / "cache" / "vectors"
    while len(list(cache.glob("*/*.vectors"))) < 2 and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = _vectors(cache)
    meta = build(root / "home", EmbedderRecipe(model=MODEL, max_tokens=32, overflow="truncate"), texts)
    again = meta["embedded_now"] - (len(set(texts)) - kept)
    print(
        f"killed after {kept} of {len(texts)} texts ({FLUSH} a batch): {meta['embedded_now']} embedded by "
        f"the next run, {again} of them again; target 0"
    )


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def main() -> None:
    """Measure all of it."""
    if "--child" in sys.argv:
        at = sys.argv.index("--child")
        texts = json.loads(Path(sys.argv[at + 1]).read_text())
        recipe = EmbedderRecipe(model=MODEL, max_tokens=32, overflow="truncate")
        build(Path(sys.argv[at + 2]), recipe, texts)
        return
    full = "--full" in sys.argv
    rest = [argument for argument in sys.argv[1:] if argument != "--full"]
    data = Path(rest[0] if rest else "../shared/data").resolve()
    if not (data / "scifact").is_dir():
        raise SystemExit(f"{data} holds no `scifact`: name the folder that does, `make … DATA=folder`")
    os.environ["ASSAY_MODELS"] = str(home().models)
    passages = abstracts(data)
    texts = [f"{passage['title']} {passage['text']}".strip() for passage in passages]
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        root = Path(name)
        os.environ["ASSAY_HOME"] = str(root / "home")
        second_chunking(texts[:500], root / "second")
        killed(texts[:1024], root / "killed")
        throughput(texts if full else texts[:FEW], root)
        rebuilds(passages, data, root, 256 if full else 32)


if __name__ == "__main__":
    main()
