from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rag_assay.assets.chunking.tokens import token_windows
from rag_assay.assets.embedding import blocks, cached_embedder, local
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.embedding.local import LocalEmbedder as Embedder
from rag_assay.assets.embedding.local import has_bf16
from rag_assay.assets.embeddings import Embeddings
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext, KeyOutcome
from rag_assay.assets.recipes.build_half import Build, Chunking
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CHUNKS
from rag_assay.warehouse.segments import read_name
from tests.fakes.forking import PROGRAM

pytestmark = pytest.mark.models
ROOT = Path(__file__).parents[3]
MINILM = "all-MiniLM-L6-v2"
TEXTS = [
    "A mooring costs twelve pounds.",
    "Der Fährplan gilt ab Montag.",
    "ferry",
    "A mooring costs twelve pounds.",
]
LONG = "The ferry to the island runs every forty minutes and carries nineteen cars. " * 5


@pytest.fixture(scope="module")
def folder(weights: Callable[[str], Path]) -> Path:
    return weights(MINILM)


@pytest.fixture(scope="module")
def plain(folder: Path) -> Embedder:
    return Embedder(EmbedderRecipe(model=MINILM), folder)


def segments_of(root: Path) -> list[int]:
    """How many vectors each segment of the cache holds."""
    names = (read_name(path.name) for path in (root / "cache" / "vectors").glob("*/*"))
    return [name.rows for name in names if name]


def close(one: object, other: object) -> bool:
    return bool(np.allclose(np.asarray(one), np.asarray(other), atol=1e-5))


def test_vectors_have_length_1_and_say_what_texts_are_alike(plain: Embedder) -> None:
    vectors = plain.embed([*TEXTS, "The price of a berth is 12 pounds."])
    assert vectors.dtype == np.float32
    assert vectors.shape == (5, 384)
    assert close(np.linalg.norm(vectors, axis=1), 1)
    assert close(vectors[0], vectors[3])
    assert vectors[0] @ vectors[4] > 0.5 > vectors[1] @ vectors[4]
    assert plain.embed([]).shape == (0, 384)


def test_truncating_is_leaving_out_the_end(folder: Path, plain: Embedder) -> None:
    short = Embedder(EmbedderRecipe(model=MINILM, max_tokens=16, overflow="truncate"), folder)
    (first, *_) = token_windows(LONG, short.tokenizer, short.room)
    assert (short.room, first.n_tokens) == (14, 14)
    assert close(short.embed([LONG]), plain.embed([LONG[first.start : first.end]]))
    assert not close(short.embed([LONG]), plain.embed([LONG]))


def test_averaging_is_the_mean_of_windows_weighted_by_their_tokens(folder: Path, plain: Embedder) -> None:
    average = Embedder(EmbedderRecipe(model=MINILM, max_tokens=32, overflow="average"), folder)
    text = "one two three four five six seven eight nine ten " * 4 + "eleven"  # 41 words of one token
    spans = token_windows(text, average.tokenizer, 30)
    assert [span.n_tokens for span in spans] == [30, 11]
    first, second = plain.embed([text[span.start : span.end] for span in spans])
    mean = (30 * first + 11 * second) / 41
    assert close(average.embed([text, "ferry"]), [mean / np.linalg.norm(mean), plain.embed(["ferry"])[0]])


def test_recipes_that_share_weights_keep_their_own_limits(folder: Path) -> None:
    long = Embedder(EmbedderRecipe(model=MINILM, max_tokens=256), folder)
    before = long.embed([LONG])
    Embedder(EmbedderRecipe(model=MINILM, max_tokens=16, overflow="truncate"), folder).embed([LONG])
    assert close(long.embed([LONG]), before)


def test_more_tokens_than_the_model_has_positions_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="max_tokens is 513, but the model reads 512 tokens at most"):
        Embedder(EmbedderRecipe(model=MINILM, max_tokens=513), folder)


def test_everything_that_changes_a_vector_changes_the_revision() -> None:
    recipe = EmbedderRecipe(model=MINILM)
    changed: list[dict[str, object]] = [
        {"max_tokens": 128},
        {"overflow": "average"},
        {"model": "all-mpnet-base-v2"},
        {"dtype": "bf16"},
        {"normalise": False},
    ]
    revisions = {recipe.model_copy(update=change).revision() for change in [{}, *changed]}
    assert len(revisions) == 6
    for name, value in {
        "query_prefix": "q: ",
        "batch_size": 3,
        "device": "cpu",
        "passage_prompt": "p",
    }.items():
        assert recipe.model_copy(update={name: value}).revision() == recipe.revision(), name
    assert recipe.model_copy(update={"query_prompt": "query"}).query_revision() != recipe.query_revision()
    assert recipe.model_copy(update={"passage_prompt": "p"}).passage_revision() != recipe.passage_revision()


def test_what_is_stored_of_a_chunk_names_the_prompt_and_the_tokenizer() -> None:
    prompted = EmbedderRecipe(model=MINILM, passage_prompt="similarities")
    assert prompted.passage_revision() != EmbedderRecipe(model=MINILM, similarities=True).passage_revision()
    counted = [
        EmbedderRecipe.model_validate({"model": "openai/any", "api": {"tokenizer": tokenizer}})
        for tokenizer in (None, MINILM, "all-mpnet-base-v2")
    ]
    assert len({recipe.revision() for recipe in counted}) == 1, "the vectors are the server's"
    assert len({recipe.passage_revision() for recipe in counted}) == 3, "which chunks fit is not"


@pytest.mark.parametrize("indexed", [True, False])
def test_how_questions_are_embedded_counts_where_some_are_indexed(indexed: bool) -> None:
    asked = {"document": {}, "enrich": {"model": "openai/any", "questions": 2, "index": indexed}}
    found = []
    for prefix in ("", "query: "):
        stage = Embeddings(
            Build(
                chunkings={"t": Chunking.model_validate(asked)},
                embedders={"e": EmbedderRecipe(model=MINILM, query_prefix=prefix)},
                indexes={"c.t.e": ("c", "t", "e")},
            )
        )
        found.append(stage.recipes("c.t.e"))
    assert (found[0] != found[1]) == indexed
    assert found[0]["embedder.e"] == found[1]["embedder.e"]


def test_other_files_in_the_same_folder_are_another_model(tmp_path: Path, folder: Path) -> None:
    """In one process too, and where size and time of the files are the same."""
    mine = tmp_path / "mine"
    shutil.copytree(folder, mine)
    recipe, home = EmbedderRecipe(model=str(mine)), Home(tmp_path)
    before = CachedEmbedder(recipe, home).passages(["ferry"])
    path = mine / "model.safetensors"
    status, content = path.stat(), bytearray(path.read_bytes())
    content[-4:] = b"\0\0\0\x3f"  # one weight becomes 0.5
    for at in range(len(content) - 4_000_000, len(content) - 4, 4):
        content[at + 3] ^= 0x80  # and a million change their sign
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = CachedEmbedder(recipe, home).passages(["ferry"])
    assert after.computed == 1, "another revision"
    assert not close(before.vectors, after.vectors), "by the weights that are there now"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("model.safetensors", b"torn", "the model cannot be loaded"),
        ("config.json", b"{", "the model cannot be loaded"),
        ("tokenizer.json", b"{", "not a readable tokenizer"),
    ],
)
def test_a_broken_model_is_named(
    name: str, content: bytes, reason: str, tmp_path: Path, folder: Path
) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(folder, mine)
    (mine / name).write_bytes(content)
    with pytest.raises(InputError, match=f"mine.*{reason}"):
        CachedEmbedder(EmbedderRecipe(model=str(mine)), Home(tmp_path)).passages(["ferry"])


def test_pickled_weights_are_not_loaded(tmp_path: Path, folder: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(folder, mine)
    (mine / "model.safetensors").rename(mine / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"cannot be loaded.*no file named model\.safetensors"):
        CachedEmbedder(EmbedderRecipe(model=str(mine)), Home(tmp_path)).passages(["ferry"])


def test_an_unknown_model_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"unknown embedding model 'minilm'; known are all-MiniLM-L6-v2"):
        EmbedderRecipe(model="minilm")


def test_the_cache_computes_each_text_once(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights(MINILM)
    embedder = CachedEmbedder(EmbedderRecipe(model=MINILM), Home(tmp_path))
    heard: list[tuple[int, int]] = []
    first = embedder.passages(TEXTS, lambda done, of: heard.append((done, of)))
    assert first.computed == 3, "one of the four comes twice"
    assert heard == [(0, 3), (3, 3)]
    second = embedder.passages(TEXTS)
    assert second.computed == 0
    assert np.array_equal(first.vectors, second.vectors)
    assert embedder.queries(TEXTS[:1]).computed == 0, "without prefixes a question is a text as any other"
    assert embedder.passages([*TEXTS, "new"]).computed == 1
    other = CachedEmbedder(EmbedderRecipe(model=MINILM, max_tokens=128), Home(tmp_path))
    assert other.passages(TEXTS[:1]).computed == 1, "another revision"
    prefixed = CachedEmbedder(EmbedderRecipe(model=MINILM, passage_prefix="passage: "), Home(tmp_path))
    assert prefixed.passages(TEXTS[:1]).computed == 1
    assert embedder.passages([]).vectors.shape == (0, 0)


def test_vectors_come_in_the_order_of_their_texts(
    tmp_path: Path, plain: Embedder, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights(MINILM)
    monkeypatch.setattr(cached_embedder, "FLUSH", 2)
    texts = [LONG[: 7 * n] for n in (9, 1, 30, 4, 17, 2)]
    found = CachedEmbedder(EmbedderRecipe(model=MINILM, batch_size=2), Home(tmp_path)).passages(texts)
    assert close(found.vectors, np.concatenate([plain.embed([text]) for text in texts]))
    assert len(segments_of(tmp_path)) == 3, "a kill costs one batch at most"


# ------------------------------------------------------------------------------------------- the stage


def embedded(tmp_path: Path, recipe: EmbedderRecipe, *texts: str) -> tuple[Embeddings, BuildContext]:
    """The embeddings stage over one set of chunks."""
    build = Build(embedders={"e": recipe}, indexes={"c.t.e": ("c", "t", "e")})
    work = BuildContext(Home(tmp_path))
    rows: list[dict[str, object]] = [
        {"chunk_id": f"c{n}", "text": text, "prefix": "", "title": "Ferry", "keywords": []}
        for n, text in enumerate(texts)
    ]
    if rows:
        rows[0] |= {"title": None, "keywords": ["ferry", "island"]}
    write_parquet(frame(rows, CHUNKS), work.store.folder("chunks", "i") / "chunks.parquet")
    work.store.commit(Artifact("chunks", "c.t", "i", "v"))
    return Embeddings(build), work


def test_a_chunk_that_is_too_long_is_a_failed_check_that_names_chunker_and_model(
    tmp_path: Path, weights: Callable[[str], Path]
) -> None:
    weights(MINILM)
    recipe = EmbedderRecipe(model=MINILM, max_tokens=16)
    stage, work = embedded(tmp_path, recipe, "short", "one two " * 7, LONG)
    stage.build_plan.chunkings["t"] = Chunking.model_validate({"document": {}})
    outcome = build_key(stage, "c.t.e", work)
    assert not outcome.ok
    assert outcome.error is not None
    n_tokens = 14 * 5 + 2  # 13 words and a full stop, five times, with [CLS] and [SEP]
    assert (
        "1 of 3 chunks of the chunking `t` (chunker `document`) are longer than the 16 tokens that the "
        f"embedder `e` ({MINILM}) reads" in outcome.error
    ), "14 + 2 fit"
    assert f"longest: {n_tokens}, special tokens included" in outcome.error
    assert "`overflow: truncate` or `overflow: average`" in outcome.error
    (check,) = outcome.checks
    assert (check.name, check.passed, check.severe) == ("chunks_fit", False, True)
    assert check.description == outcome.error
    assert not list((tmp_path / "embeddings").rglob("*.parquet"))
    assert not segments_of(tmp_path), "nothing was embedded"


def test_the_stage_stores_a_vector_a_chunk(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights(MINILM)
    recipe = EmbedderRecipe(model=MINILM, max_tokens=16, overflow="truncate")
    stage, work = embedded(tmp_path, recipe, "short", LONG, "short")
    outcome = build_key(stage, "c.t.e", work)
    assert outcome.ok, outcome.error
    assert outcome.artifact is not None
    meta = outcome.artifact.meta
    assert (meta["chunks"], meta["embedded_now"], meta["from_cache"], meta["too_long"]) == (3, 2, 0, 1)
    rows = read_parquet(work.store.folder("embeddings", outcome.artifact.identity) / "embeddings.parquet")
    assert rows["chunk_id"].to_list() == ["c0", "c1", "c2"]
    assert rows["vector"].to_numpy().shape == (3, 384)
    assert not build_key(stage, "c.t.e", work).computed


def stored(outcome: KeyOutcome, work: BuildContext) -> pl.DataFrame:
    assert outcome.ok, outcome.error
    assert outcome.artifact is not None
    return read_parquet(work.store.folder("embeddings", outcome.artifact.identity) / "embeddings.parquet")


def test_blocks_of_chunks_are_stored_in_their_order_and_each_text_is_embedded_once(
    tmp_path: Path, plain: Embedder, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights(MINILM)
    monkeypatch.setattr(blocks, "ROWS", 4)
    monkeypatch.setattr(blocks, "READ", 2)
    texts = [f"Ferry number {n % 7} sails." for n in range(18)]
    heard: list[tuple[str, int, int]] = []
    stage, work = embedded(tmp_path, EmbedderRecipe(model=MINILM), *texts)
    work.progress = lambda *said: heard.append(said)
    outcome = build_key(stage, "c.t.e", work)
    rows = stored(outcome, work)
    assert rows["chunk_id"].to_list() == [f"c{n}" for n in range(18)]
    assert close(rows["vector"].to_numpy(), plain.embed(texts))
    assert rows["title_similarity"].is_null().all()
    assert rows["tags_similarity"].is_null().all()
    assert outcome.artifact is not None
    assert (outcome.artifact.meta["embedded_now"], outcome.artifact.meta["from_cache"]) == (7, 0)
    assert {of for _, _, of in heard} == {7}, "how much there is to do is known before the first block"
    assert heard[-1] == ("embedding c.t.e", 7, 7)


def test_similarities_to_title_and_tags_are_cosines(
    tmp_path: Path, plain: Embedder, weights: Callable[[str], Path]
) -> None:
    weights(MINILM)
    texts = ["The ferry is late.", "A heat pump.", "The ferry is late."]
    stage, work = embedded(tmp_path, EmbedderRecipe(model=MINILM, similarities=True), *texts)
    outcome = build_key(stage, "c.t.e", work)
    rows = stored(outcome, work)
    ferry, pump, title, tags = plain.embed([*texts[:2], "Ferry", "ferry, island"])
    assert rows["title_similarity"].to_list() == [
        None,  # no title
        pytest.approx(float(pump @ title), abs=1e-5),
        pytest.approx(float(ferry @ title), abs=1e-5),
    ]
    assert rows["tags_similarity"].to_list() == [pytest.approx(float(ferry @ tags), abs=1e-5), None, None]
    assert rows["title_similarity"][2] > 0.5 > rows["title_similarity"][1]
    with_them = EmbedderRecipe(model=MINILM, similarities=True)
    assert with_them.revision() == EmbedderRecipe(model=MINILM).revision(), "the vectors are the same"
    assert with_them.passage_revision() != EmbedderRecipe(model=MINILM).passage_revision()


def test_the_distance_of_bf16_to_fp32_is_measured_and_stored(
    tmp_path: Path, weights: Callable[[str], Path]
) -> None:
    if not has_bf16():  # not a mark: it would import torch where tests are collected
        pytest.skip("this machine's processor has no bf16")
    weights(MINILM)
    texts = [LONG[: 9 * n] for n in range(1, 8)]
    stage, work = embedded(tmp_path, EmbedderRecipe(model=MINILM, dtype="bf16"), *texts)
    outcome = build_key(stage, "c.t.e", work)
    assert outcome.ok, outcome.error
    assert outcome.artifact is not None
    meta = outcome.artifact.meta
    assert meta["fp32_sample"] == 7
    assert 0.999 <= meta["fp32_cosine_min"] <= meta["fp32_cosine_mean"] < 1, "close, and not the same numbers"
    close_to_fp32 = next(check for check in outcome.checks if check.name == "close_to_fp32")
    assert close_to_fp32.passed
    assert not close_to_fp32.severe


def test_bf16_is_refused_where_the_processor_has_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "has_bf16", lambda: False)
    local._load.cache_clear()
    with pytest.raises(InputError, match=r"does not compute in bf16.*say `dtype: fp32`"):
        Embedder(EmbedderRecipe(model=MINILM, dtype="bf16"), folder)


def test_a_device_that_is_not_there_is_refused(folder: Path) -> None:
    import torch

    if torch.backends.mps.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(InputError, match="`device: mps`: this machine has none"):
        Embedder(EmbedderRecipe(model=MINILM, device="mps"), folder)


KILLED = """
import sys
from pathlib import Path
from rag_assay.assets.embedding import blocks, cached_embedder, local
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.warehouse.paths import Home
cached_embedder.FLUSH = 8
recipe = EmbedderRecipe(model="all-MiniLM-L6-v2", overflow="truncate", batch_size=8)
CachedEmbedder(recipe, Home(Path(sys.argv[1]))).passages([f"Ferry {n} sails. " * 30 for n in range(400)])
"""


def test_a_killed_process_leaves_every_finished_batch(
    tmp_path: Path, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights(MINILM)
    process = subprocess.Popen([sys.executable, "-m", PROGRAM, KILLED, str(tmp_path)], cwd=ROOT)
    deadline = time.monotonic() + 240
    while len(segments_of(tmp_path)) < 3 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    kept = sum(segments_of(tmp_path))
    assert 24 <= kept < 400
    assert kept % 8 == 0, "batches are whole"
    asked: list[str] = []
    monkeypatch.setattr(
        Embedder, "encode", lambda self, texts: asked.extend(texts) or np.ones((len(texts), 384))
    )
    recipe = EmbedderRecipe(model=MINILM, overflow="truncate")
    found = CachedEmbedder(recipe, Home(tmp_path)).passages([f"Ferry {n} sails. " * 30 for n in range(400)])
    assert found.computed == len(asked) == 400 - kept, "no finished batch is computed again"


SLOW = """
import os, signal, sys
from pathlib import Path
import numpy as np
from rag_assay.assets.embedding import cached_embedder
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.warehouse.paths import Home
cached_embedder.FLUSH_SECONDS = 0.0  # as if each step took longer
steps = []
def vectors(self, texts, of):
    steps.append(len(texts))
    if len(steps) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return np.array([[int(text.split()[1]) + 1] * 4 for text in texts], np.float32)
CachedEmbedder._vectors = vectors
recipe = EmbedderRecipe(model="all-MiniLM-L6-v2", overflow="truncate")
CachedEmbedder(recipe, Home(Path(sys.argv[1]))).passages([f"Ferry {n} sails." for n in range(100)])
"""


def test_each_kill_of_a_slow_embedder_is_further_than_the_one_before(
    tmp_path: Path, weights: Callable[[str], Path]
) -> None:
    weights(MINILM)
    kept = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-m", PROGRAM, SLOW, str(tmp_path)], cwd=ROOT, check=False)
        assert done.returncode == -signal.SIGKILL
        kept.append(sum(segments_of(tmp_path)))
    assert kept == [32, 64], "two steps of the 16 texts that are computed together"


SHARED = """
import sys, time
from pathlib import Path
import numpy as np
from rag_assay.assets.embedding import cached_embedder
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.warehouse.paths import Home
cached_embedder.FLUSH = 8
def vectors(self, texts, of):
    time.sleep(0.05)  # as long as a model would take, so that the other process comes to wait
    return np.array([[int(text.split()[1][:-1]) + 1] * 4 for text in texts], np.float32)
CachedEmbedder._vectors = vectors
recipe = EmbedderRecipe(model="all-MiniLM-L6-v2", overflow="truncate", batch_size=8)
found = CachedEmbedder(recipe, Home(Path(sys.argv[1]))).passages([f"Ferry {n}." for n in range(64)])
print(found.computed, *map(int, found.vectors[:, 0]))
"""


def test_two_processes_embed_each_text_once(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights(MINILM)
    command = [sys.executable, "-m", PROGRAM, SHARED, str(tmp_path)]
    running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [list(map(int, process.communicate(timeout=240)[0].split())) for process in running]
    assert sum(computed for computed, *_ in told) == 64, "however they share the work"
    later = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240).stdout
    told.append(list(map(int, later.split())))
    assert told[2][0] == 0, "nothing is lost"
    assert all(vectors == list(range(1, 65)) for _, *vectors in told)


def test_a_model_of_the_registry_brings_its_prefixes_and_its_length() -> None:
    recipe = EmbedderRecipe.model_validate({"model": "multilingual-e5-small"})
    assert (recipe.query_prefix, recipe.passage_prefix, recipe.max_tokens) == ("query: ", "passage: ", 512)
    told = {"model": "multilingual-e5-small", "query_prefix": "", "max_tokens": 128}
    recipe = EmbedderRecipe.model_validate(told)
    assert (recipe.query_prefix, recipe.passage_prefix, recipe.max_tokens) == ("", "passage: ", 128)
    by_name = EmbedderRecipe.model_validate({"model": "multilingual-e5-small", "query_prompt": "query"})
    assert (by_name.query_prefix, by_name.passage_prefix) == ("", "passage: ")
    minilm = EmbedderRecipe.model_validate({"model": "all-MiniLM-L6-v2"})
    assert (minilm.query_prefix, minilm.passage_prefix, minilm.max_tokens) == ("", "", 256)
    again = EmbedderRecipe.model_validate(recipe.model_dump(mode="json"))
    assert again == recipe, "what was said stays said"


@pytest.mark.models
def test_multilingual_e5_finds_german_paragraphs(weights: Callable[[str], Path], tmp_path: Path) -> None:
    weights("multilingual-e5-small")
    embedder = CachedEmbedder(EmbedderRecipe(model="multilingual-e5-small"), Home(tmp_path))
    passages = [
        "Die Fähre verlässt den Hafen am Mittag und legt am Abend wieder an.",
        "Bei Sonnenuntergang wird die Lampe des Leuchtturms entzündet.",
        "Werkstätten am Kai werden von einer Pumpe beheizt, die dem Wasser Wärme entzieht.",
    ]
    questions = ["Wann fährt das Schiff ab?", "Wer macht abends Licht?", "Womit heizen die Betriebe am Ufer?"]
    scores = embedder.queries(questions).vectors @ embedder.passages(passages).vectors.T
    assert scores.argmax(axis=1).tolist() == [0, 1, 2]
    assert np.allclose(np.linalg.norm(embedder.passages(passages).vectors, axis=1), 1, atol=1e-5)
