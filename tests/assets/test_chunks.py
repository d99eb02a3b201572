from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet
import pytest

from rag_assay.assets import chunks as chunks_stage
from rag_assay.assets.chunking import ChunkerInput, ChunkSpan, Section, Tools, document_chunks
from rag_assay.assets.chunking.document import WholeDocument
from rag_assay.assets.chunking.document_chunks import Earlier, chunk_batches, chunk_documents, chunk_id
from rag_assay.assets.chunking.parent import Parent
from rag_assay.assets.chunking.sections import SectionTree
from rag_assay.assets.chunking.structure import Structure
from rag_assay.assets.chunking.tokens import TokenWindows
from rag_assay.assets.chunks import Chunks
from rag_assay.assets.cleaning import corpus
from rag_assay.assets.cleaning.corpus import corpus_documents, corpus_duplicates
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext, KeyOutcome
from rag_assay.assets.recipes.build_half import Build, Chunking, Corpus
from rag_assay.assets.tokenization.tokenizer import Tokenizer, load_tokenizer
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.errors import AssayError, CorruptFileError
from rag_assay.warehouse.parquet import frame, read_parquet, write_batches, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CHUNKS, DOCUMENTS

pytestmark = pytest.mark.models
TEXT = "Ferries leave hourly. They carry nineteen cars.\n\nTickets are sold on board, for cash or by card."


@pytest.fixture(scope="module")
def tokenizer(weights: Callable[[str], Path]) -> Tokenizer:
    return load_tokenizer(weights("all-MiniLM-L6-v2"))


def document(doc_id: str, text: str, version: str = "v1", **more: Any) -> dict[str, object]:
    return {"doc_id": doc_id, "version": version, "text": text, **more}


def test_chunks_are_stretches_of_their_documents(tokenizer: Tokenizer) -> None:
    documents = frame([document("b", TEXT), document("a", f"Ärger: {TEXT}"), document("c", " ")], DOCUMENTS)
    chunks = chunk_documents(documents, TokenWindows(size=8, overlap=2), Tools(tokenizer))
    assert chunks.columns == list(CHUNKS)
    texts = dict(documents.select("doc_id", "text").iter_rows())
    for row in chunks.iter_rows(named=True):
        assert texts[row["doc_id"]][row["start"] : row["end"]] == row["text"]
        assert tokenizer.count([row["text"]]) == [row["n_tokens"]]
    of_b = chunks.filter(chunks["doc_id"] == "b")
    assert of_b["ordinal"].to_list() == list(range(len(of_b)))
    assert chunks["doc_id"].unique(maintain_order=True).to_list() == ["a", "b"], "a blank one has no chunks"


def test_ids_are_stable_and_differ_for_equal_texts_of_different_documents(tokenizer: Tokenizer) -> None:
    def ids(*documents: dict[str, object]) -> list[str]:
        return chunk_documents(frame(list(documents), DOCUMENTS), WholeDocument(), Tools(tokenizer))[
            "chunk_id"
        ].to_list()

    one = ids(document("a", TEXT), document("b", TEXT))
    assert len(set(one)) == 2, "two documents with the same text are two documents"
    assert ids(document("b", TEXT), document("a", TEXT)) == one, "whatever their order"
    assert ids(document("a", TEXT)) == one[:1]
    assert ids(document("a", TEXT, version="v2")) == one[:1], (
        "another date or title leaves the chunk as it is"
    )
    assert ids(document("a", TEXT + " More.")) != one[:1]
    assert one[0] == chunk_id("a", 0, TEXT)


SECTIONS = (
    Section("Article 2", 2, 50, 100),
    Section("Title I", 1, 0, 100),
    Section("Article 1", 2, 10, 50),
)


@pytest.mark.parametrize(
    ("position", "path"),
    [
        (0, ["Title I"]),
        (10, ["Title I", "Article 1"]),
        (49, ["Title I", "Article 1"]),
        (50, ["Title I", "Article 2"]),
        (100, []),
    ],
)
def test_the_headings_above_a_position(position: int, path: list[str]) -> None:
    assert SectionTree(SECTIONS, 100).headings(position) == path


def test_a_document_without_sections_has_no_headings() -> None:
    assert SectionTree((), 9).headings(3) == []


def test_what_is_delivered_and_embedded_is_stored(tokenizer: Tokenizer) -> None:
    sections = [{"heading": "Crossing", "level": 1, "start": 0, "end": 47}]
    documents = frame([document("a", TEXT, sections=sections)], DOCUMENTS)
    chunks = chunk_documents(documents, Structure(prefix_heading=True), Tools(tokenizer))
    assert chunks.select("prefix", "text", "gap", "heading_path").rows() == [
        ("Crossing\n", TEXT[:47], "\n\n", ["Crossing"]),
        ("", TEXT[49:], "", []),
    ]
    assert chunks["n_tokens"][0] == tokenizer.count(["Crossing\n" + TEXT[:47]])[0]
    assert chunks.select("context_start", "context_end").rows() == chunks.select("start", "end").rows()
    children = chunk_documents(documents, Parent(size=8, overlap=0, parent_size=200), Tools(tokenizer))
    assert len(children) > 2
    assert set(children.select("context_start", "context_end").rows()) == {(0, len(TEXT))}


def test_documents_are_cut_some_at_a_time(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = frame([document(f"d{n:02}", f"Number {n}. {TEXT}" * (n % 4)) for n in range(20)], DOCUMENTS)
    chunker = TokenWindows(size=8, overlap=2)
    whole = chunk_documents(documents.reverse(), chunker, Tools(tokenizer))
    monkeypatch.setattr(document_chunks, "BATCH_CHARACTERS", 500)
    parts = list(chunk_batches(documents, chunker, Tools(tokenizer)))
    assert len(parts) > 5
    assert pl.concat(parts).equals(whole)
    monkeypatch.setattr(document_chunks, "BATCH_CHARACTERS", 10**9)
    monkeypatch.setattr(document_chunks, "BATCH_DOCUMENTS", 7)
    cut = [part["doc_id"].n_unique() for part in chunk_batches(documents, chunker, Tools(tokenizer))]
    assert cut == [5, 5, 5], "of 7, 7 and 6 documents; each fourth one is blank"


def stored(work: BuildContext, identity: str, *documents: dict[str, object], version: str = "v") -> Artifact:
    folder = work.store.folder("documents", identity)
    write_parquet(frame(list(documents), DOCUMENTS), folder / "documents.parquet")
    return work.store.commit(Artifact("documents", identity, identity, version))


def test_a_corpus_refuses_a_document_that_comes_twice(tmp_path: Path) -> None:
    work = BuildContext(Home(tmp_path))
    one = stored(work, "one", document("a", TEXT), document("b", TEXT))
    other = stored(work, "other", document("b", TEXT, url="https://b.example/"))
    assert corpus_documents([one], work)["doc_id"].to_list() == ["a", "b"]
    with pytest.raises(AssayError, match=r"the document id b .* comes twice"):
        corpus_documents([one, other], work)


def test_copies_are_found_once_for_the_same_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = BuildContext(Home(tmp_path))
    one = stored(work, "one", document("a", TEXT), document("b", TEXT, published_at="2024-05-01"))
    documents = corpus_documents([one], work)
    found = corpus_duplicates([one], documents, 0.9, work)
    assert found.select("doc_id", "duplicate_of").rows() == [("a", "b")]
    monkeypatch.setattr(corpus, "find_duplicates", None)  # a second search would fail
    assert corpus_duplicates([one], documents, 0.9, work).equals(found)


@pytest.mark.parametrize(("near_duplicates", "cut"), [(None, 3), (0.9, 2)])
def test_copies_are_cut_unless_the_corpus_leaves_them_out(
    tmp_path: Path, weights: Callable[[str], Path], near_duplicates: float | None, cut: int
) -> None:
    weights("all-MiniLM-L6-v2")
    work = BuildContext(Home(tmp_path))
    stored(work, "docs", document("a", TEXT), document("b", TEXT), document("c", f"Other words. {TEXT[:40]}"))
    corpus = Corpus(name="town", sources=("docs",), near_duplicates=near_duplicates)
    chunking = Chunking.model_validate({"document": {}})
    plan = Build(corpora={"town": corpus}, chunkings={"whole": chunking}, chunk_sets={"k": ("town", "whole")})
    outcome = build_key(Chunks(plan), "k", work)
    assert outcome.artifact, outcome.error
    folder = work.store.folder("chunks", outcome.artifact.identity)
    assert len(read_parquet(folder / "chunks.parquet")) == outcome.artifact.meta["documents"] == cut
    told = {"exact": 1, "near": 0, "left_out": 3 - cut}
    assert outcome.artifact.meta["duplicates"] == told
    assert read_parquet(folder / "duplicates.parquet").select("doc_id", "duplicate_of").rows() == [("b", "a")]


def built(
    work: BuildContext, chunking: dict[str, Any], *documents: dict[str, object], version: str = "v"
) -> KeyOutcome:
    stored(work, "docs", *documents, version=version)
    plan = Build(
        corpora={"town": Corpus(name="town", sources=("docs",))},
        chunkings={"c": Chunking.model_validate(chunking)},
        chunk_sets={"k": ("town", "c")},
    )
    return build_key(Chunks(plan), "k", work)


def test_batches_are_row_groups_and_change_nothing(
    tmp_path: Path, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights("all-MiniLM-L6-v2")
    documents = [document(f"d{n}", f"Number {n}. {TEXT}") for n in range(6)]
    told: list[tuple[str, int, int]] = []

    def one(folder: str) -> tuple[Artifact, Path]:
        work = BuildContext(Home(tmp_path / folder), lambda *said: told.append(said))
        outcome = built(work, {"tokens": {"size": 16, "overlap": 4}}, *documents)
        assert outcome.artifact, outcome.error
        return outcome.artifact, work.store.folder("chunks", outcome.artifact.identity) / "chunks.parquet"

    whole, whole_file = one("a")
    monkeypatch.setattr(document_chunks, "BATCH_DOCUMENTS", 2)
    parts, parts_file = one("b")
    assert (parts.data_version, parts.meta) == (whole.data_version, whole.meta)
    assert read_parquet(parts_file).equals(read_parquet(whole_file))
    groups = [pyarrow.parquet.ParquetFile(file).num_row_groups for file in (whole_file, parts_file)]
    assert groups == [1, 3]
    assert [said[1:] for said in told if said[0] == "chunking k"] == [(6, 6), (2, 6), (4, 6), (6, 6)]


def test_only_documents_that_changed_are_cut_again(
    tmp_path: Path, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights("all-MiniLM-L6-v2")
    chunking = {"tokens": {"size": 16, "overlap": 4}}
    before = [document(f"d{n}", f"Number {n}. {TEXT}") for n in range(6)]
    after = [
        *before[1:3],
        document("d3", f"Another number. {TEXT}", "v2"),
        *before[4:],
        document("d9", "A new one."),
    ]
    work, cut = BuildContext(Home(tmp_path / "home")), []
    built(work, chunking, *before)
    whole = TokenWindows.split

    def counting(self: TokenWindows, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        cut.append(material.text)
        return whole(self, material, tools)

    monkeypatch.setattr(TokenWindows, "split", counting)
    monkeypatch.setattr(document_chunks, "BATCH_DOCUMENTS", 2)
    outcome = built(work, chunking, *after, version="w")
    assert sorted(cut) == ["A new one.", f"Another number. {TEXT}"]
    fresh = BuildContext(Home(tmp_path / "fresh"))
    anew = built(fresh, chunking, *after, version="w")
    assert outcome.artifact, outcome.error
    assert anew.artifact, anew.error
    assert (outcome.artifact.data_version, outcome.artifact.meta) == (
        anew.artifact.data_version,
        anew.artifact.meta,
    )
    cut.clear()
    built(work, {"tokens": {"size": 12, "overlap": 4}}, *after, version="w")
    assert len(cut) == len(after), "another chunking takes nothing over"


def test_a_corpus_without_text_is_an_error(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights("all-MiniLM-L6-v2")
    outcome = built(BuildContext(Home(tmp_path)), {"document": {}}, document("a", " "))
    assert outcome.error == "chunks of k: the corpus has no text to cut"


def test_semantic_chunks_embed_each_sentence_once(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights("all-MiniLM-L6-v2")
    told: list[str] = []
    work = BuildContext(Home(tmp_path), lambda label, done, of: told.append(label))
    label = "embedding sentences by all-MiniLM-L6-v2"
    text = f"{TEXT} Bake the bread until its crust is brown. Rye needs more water than wheat."
    outcome = built(work, {"semantic": {"buffer": 1, "amount": 50}}, document("a", text), document("b", text))
    assert outcome.artifact, outcome.error
    assert outcome.artifact.meta["chunks"] >= 4
    assert label in told
    told.clear()
    again = built(work, {"semantic": {"buffer": 1, "amount": 60}}, document("a", text), document("b", text))
    assert again.computed
    assert label not in told, "its vectors come from the cache"


def test_the_recipe_of_a_corpus_counts_only_where_it_leaves_copies_out() -> None:
    def recipes(near_duplicates: float | None) -> dict[str, str]:
        return Corpus(name="town", sources=("docs",), near_duplicates=near_duplicates).recipes()

    assert recipes(None) == {}
    assert set(recipes(0.9)) == {"corpus.town"}
    assert recipes(0.9) != recipes(0.8)
    for wrong in (0.0, -0.5, 1.1):
        with pytest.raises(ValueError, match="near_duplicates"):
            recipes(wrong)


def test_of_earlier_chunks_only_those_near_a_batch_are_read(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_chunks, "BATCH_DOCUMENTS", 4)
    documents = frame([document(f"d{n:02}", f"Number {n}. {TEXT}") for n in range(40)], DOCUMENTS)
    chunker, path = TokenWindows(size=8, overlap=2), tmp_path / "chunks.parquet"
    whole = list(chunk_batches(documents, chunker, Tools(tokenizer)))
    write_batches(whole, CHUNKS, path)
    read: list[int] = []

    class Watched(Earlier):
        def _read(self, groups: list[int]) -> pl.DataFrame:
            read.append(len(groups))
            return super()._read(groups)

    changed = documents.with_columns(
        version=pl.when(pl.col("doc_id") == "d05").then(pl.lit("v2")).otherwise("version")
    )
    again = list(chunk_batches(changed, chunker, Tools(tokenizer), Watched(path)))
    assert read == [1] * 10, "ten batches, each of one row group; not the whole file for each"
    assert pl.concat(again).drop("doc_version").equals(pl.concat(whole).drop("doc_version"))
    few = documents.filter(pl.col("doc_id").is_in(["d01", "d17", "d39"]))
    (kept,) = chunk_batches(few, chunker, Tools(tokenizer), Earlier(path))
    assert kept.equals(pl.concat(whole).filter(pl.col("doc_id").is_in(["d01", "d17", "d39"])))
    assert not len(Earlier(path).of(documents.clear()))


def test_earlier_chunks_that_cannot_be_read_are_named(tokenizer: Tokenizer, tmp_path: Path) -> None:
    documents = frame([document("a", TEXT * 50)], DOCUMENTS)
    path = tmp_path / "chunks.parquet"
    write_batches(chunk_batches(documents, WholeDocument(), Tools(tokenizer)), CHUNKS, path)
    earlier = Earlier(path)
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match=r"chunks\.parquet: not a readable Parquet file"):
        earlier.of(documents)


def test_groups_of_sentences_are_embedded_to_their_ends(
    tmp_path: Path, weights: Callable[[str], Path]
) -> None:
    weights("all-MiniLM-L6-v2")
    recipe = Chunking.model_validate({"semantic": {}})
    embed = chunks_stage._tools(recipe, BuildContext(Home(tmp_path))).embed
    assert embed is not None
    long = "The member states shall notify the commission of each measure. " * 30  # 330 tokens
    one, other, short = embed([long + "A ferry sails at noon.", long + "Goals decide a match.", "A ferry."])
    assert one @ other < 0.9999, "what comes after the 256th token counts too"
    assert abs(float(one @ one) - 1) < 1e-5
    assert abs(float(short @ short) - 1) < 1e-5
