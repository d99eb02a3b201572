from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from rag_assay.assets.chunking import CHUNKERS
from rag_assay.assets.chunking.structure import Structure
from rag_assay.assets.chunks import Chunks
from rag_assay.assets.documents import Documents
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.engine.definition import partition_mappings, partitions
from rag_assay.assets.pages import Pages
from rag_assay.assets.recipes.build_half import Build, BuildHalf, Chunking
from rag_assay.assets.tokenization.tokenizer import tokenizer_of
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home
from tests.fakes.other_tokenizers import KINDS

HALF: dict[str, Any] = {
    "sources": {
        "blog": {"spider": "blog", "start": ["https://blog.example/"]},
        "memos": {"reader": "folder", "path": "memos"},
        "unused": {"reader": "folder", "path": "unused"},
    },
    "corpus": {"name": "town", "sources": ["blog", "memos"]},
    "chunkings": {"t16": {"tokens": {"size": 16, "overlap": 4}}, "whole": {"document": {}}},
    "embedders": {"minilm": {"model": "all-MiniLM-L6-v2"}},
}


def half(**changes: Any) -> BuildHalf:
    return BuildHalf.model_validate({**HALF, **changes})


def test_a_build_half_is_read() -> None:
    found = half()
    assert found.chunkings["t16"].chunker.kind == "tokens"
    assert found.chunkings["t16"].chunker.size == 16
    assert found.chunkings["whole"].chunker.split is not None
    assert found.embedders["minilm"].max_tokens == 256


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chunkings": {"t": {}}}, "give exactly one of"),
        ({"chunkings": {"t": {"tokens": {"size": 16}, "document": {}}}}, "give exactly one of"),
        ({"chunkings": {"t": {"tokenz": {"size": 16}}}}, "Extra inputs are not permitted"),
        (
            {"chunkings": {"t": {"tokens": {"size": 16, "overlap": 16}}}},
            "overlap (16) must be smaller than size (16)",
        ),
        ({"chunkings": {"t": {"tokens": {"size": 7}}}}, "greater than or equal to 8"),
        ({"chunkings": {"T 16": {"document": {}}}}, "should match pattern"),
        ({"chunkings": {"a.b": {"document": {}}}}, "should match pattern"),
        ({"chunkings": {}}, "at least 1 item"),
        (
            {"corpus": {"name": "town", "sources": ["blg"]}},
            "unknown source 'blg'; did you mean `blog`?",
        ),
        ({"embedders": {"e": {"model": "all-MiniLM-L6-v3"}}}, "unknown embedding model 'all-MiniLM-L6-v3'"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        half(**changes)
    assert message in str(caught.value)


def chunking(**spec: Any) -> str:
    return str(Chunking.model_validate(spec).identity())


def test_a_chunking_is_its_parameters_and_its_tokenizer() -> None:
    usual = chunking(tokens={"size": 16, "overlap": 0})
    assert chunking(tokens={"size": 16}) == usual, "a default that is written out changes nothing"
    others = [
        chunking(tokens={"size": 17}),
        chunking(tokens={"size": 16, "overlap": 1}),
        chunking(document={}),
        chunking(tokens={"size": 16}, tokenizer="all-mpnet-base-v2"),
    ]
    assert len({usual, *others}) == 5


def test_a_tokenizer_may_lie_in_a_folder_or_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: Callable[[str], Path]
) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    folder = tmp_path / "model@2"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text(KINDS["byte-level BPE"]().to_str())
    spec = {"tokens": {"size": 16}, "tokenizer": str(folder)}
    before = chunking(**spec)
    assert tokenizer_of(str(folder), Home(tmp_path / "home"), print).count(["中"]) == [3]
    (folder / "tokenizer.json").write_text(KINDS["SentencePiece BPE"]().to_str())
    assert chunking(**spec) != before, "another tokenizer is another chunking"
    hub = [chunking(tokens={"size": 16}, tokenizer=f"owner/name@{digit * 40}") for digit in "ab"]
    assert len({before, *hub}) == 3


@pytest.mark.parametrize("name", ["bert", "owner/name", "owner/name@main"])
def test_a_tokenizer_that_is_not_known_is_refused(name: str) -> None:
    with pytest.raises(
        ValidationError, match=r"(unknown embedding model|give `revision`).*owner/name@commit"
    ):
        Chunking.model_validate({"tokens": {"size": 16}, "tokenizer": name})


EVERY_CHUNKING = """
tokens-128-42: {tokens: {size: 128, overlap: 42}}
characters: {recursive: {size: 1000, overlap: 100}}
paragraphs: {recursive: {unit: tokens, size: 256, overlap: 50, separators: ["\\n\\n", "\\n", ". ", " "]}}
sentences: {sentences: {size: 256, overlap: 1}}
articles: {structure: {limit: 256, prefix_heading: true}}
small-articles: {structure: {limit: 256, overlap: 32, merge_below: 64}}
topics: {semantic: {embedding_model: all-mpnet-base-v2, buffer: 2, breakpoint: percentile, amount: 90}}
slopes: {semantic: {breakpoint: gradient}}
whole: {document: {}}
windows: {sentence_window: {neighbours: 3}}
parents: {parent: {size: 128, overlap: 42, parent_size: 1024}}
defaults: {parent: {}, tokenizer: all-mpnet-base-v2}
"""


def test_every_chunking_can_be_written() -> None:
    chunkings = half(chunkings=yaml.safe_load(EVERY_CHUNKING)).chunkings
    assert {one.chunker.kind for one in chunkings.values()} == set(CHUNKERS)
    assert len({one.identity() for one in chunkings.values()}) == len(chunkings)
    assert chunkings["articles"].chunker == Structure(limit=256, prefix_heading=True)
    assert chunkings["topics"].chunker.embedding_model == "all-mpnet-base-v2"
    assert chunkings["paragraphs"].chunker.separators == ("\n\n", "\n", ". ", " ")


def test_the_model_of_a_semantic_chunking_is_part_of_it() -> None:
    usual = chunking(semantic={})
    assert chunking(semantic={"embedding_model": "all-MiniLM-L6-v2"}) == usual
    assert chunking(semantic={"embedding_model": "all-mpnet-base-v2"}) != usual


def test_code_that_changed_is_another_chunking(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Chunking.model_validate({"tokens": {"size": 16}})
    before = recipe.identity()
    monkeypatch.setattr(type(recipe.chunker), "code_version", "next")
    assert recipe.identity() != before


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build.of([(half(), ["town.t16.minilm", "town.whole.minilm"], tmp_path)])


def test_only_what_is_used_is_built(build: Build, tmp_path: Path) -> None:
    assert sorted(build.sources) == ["blog", "memos"]
    assert build.sources["memos"].path == str(tmp_path / "memos"), "beside the study file"
    assert sorted(build.chunk_sets) == ["town.t16", "town.whole"]
    assert build.indexes["town.t16.minilm"] == ("town", "t16", "minilm")


def test_chunks_map_to_the_documents_of_their_corpus(build: Build) -> None:
    chunks, documents = Chunks(build), Documents(build)
    assert [need.key for need in chunks.needs("town.t16")] == ["blog", "memos"]
    up, down = partitions(documents), partitions(chunks)
    subset = down.subset_with_partition_keys(["town.whole"])
    found = partition_mappings(chunks)["documents"].get_upstream_mapped_partitions_result_for_partitions(
        subset, down, up
    )
    assert set(found.partitions_subset.get_partition_keys()) == {"blog", "memos"}


def test_a_chunking_makes_stale_what_hangs_on_it(build: Build) -> None:
    chunks = Chunks(build)
    assert list(chunks.recipes("town.t16")) == ["chunking.t16"]
    assert chunks.recipes("town.t16")["chunking.t16"] != chunks.recipes("town.whole")["chunking.whole"]


def test_a_source_is_where_its_pages_come_from_not_when(build: Build, tmp_path: Path) -> None:
    def recipe(**changes: Any) -> str:
        source = build.sources["blog"].model_copy(update=changes)
        return Pages(Build(sources={"blog": source})).recipes("blog")["source.blog"]

    assert recipe(delay=9.0, schedule="0 1 * * *", contact="me@example.org") == recipe()
    assert recipe(start=("https://blog.example/2024/",)) != recipe()
    with pytest.raises(AssayError, match="there is no "):
        Pages(build).recipes("memos")
    (tmp_path / "memos").mkdir()
    (tmp_path / "memos" / "a.txt").write_text("one")
    before = Pages(build).recipes("memos")
    (tmp_path / "memos" / "b.txt").write_text("two")
    assert Pages(build).recipes("memos") != before, "a file came"


def test_an_embedder_that_names_no_model_is_refused() -> None:
    with pytest.raises(ValidationError, match="unknown embedding model"):
        EmbedderRecipe(model="smollm2-135m-instruct")
