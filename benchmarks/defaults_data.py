"""Several collections as indexes and questions, for `benchmarks/defaults.py`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from rag_assay.assets.chunking.contract import Tools
from rag_assay.assets.chunking.document_chunks import chunk_documents
from rag_assay.assets.cleaning.article import clean_article
from rag_assay.assets.cleaning.draft import UnusablePage
from rag_assay.assets.cleaning.text_files import clean_beir
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.indexing import index_table
from rag_assay.assets.indexing.index_recipe import read_facts
from rag_assay.assets.recipes.build_half import Chunking
from rag_assay.assets.tokenization.stems import LANGUAGES
from rag_assay.assets.tokenization.tokenizer import load_tokenizer
from rag_assay.crawlers.readers.beir import Beir
from rag_assay.evals.metrics.contract import Gold, RetrievalMetric
from rag_assay.evals.question_sets.evidence import gold_of
from rag_assay.evals.question_sets.readers.beir import read_beir
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_names import BUNDLED
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.inference import models
from rag_assay.warehouse.parquet import frame, read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import DOCUMENTS
from rag_assay.warehouse.source import Source
from rag_assay.warehouse.spans import Span
from tests.fakes.indexing import HeldRows

WHOLE: dict[str, Any] = {"document": {}}
WINDOWS: dict[str, Any] = {"tokens": {"size": 254, "overlap": 0}}
FEWEST = 100  # characters of a news page's text that is asked for


@dataclass(frozen=True)
class Question:
    """A question and what it should find."""

    text: str
    gold: Gold


@dataclass(frozen=True)
class Collection:
    """Documents, cut, and questions.

    name: as the table says it
    language: of documents and questions, as Snowball names it
    """

    name: str
    language: str
    chunks: pl.DataFrame
    questions: list[Question]


@dataclass(frozen=True)
class Queries:
    """A collection in the index of one embedder, its questions embedded."""

    collection: Collection
    index: OpenIndex
    queries: list[Query]

    @cached_property
    def documents(self) -> list[str]:
        """The document of each row."""
        return self.index.chunks["doc_id"].to_list()

    def values(self, rankings: list[Ranking], metric: RetrievalMetric) -> list[float]:
        """Return the product's own metric for each question."""
        ids = self.documents
        return [
            metric.value(question.gold, [Span(ids[row], 0, 1) for row in ranking.rows])
            for ranking, question in zip(rankings, self.collection.questions, strict=True)
        ]


def collections(data: Path, home: Home, *, with_sites: bool = True) -> Iterator[Collection]:
    """Yield every collection; those whose folder is not there are left out.

    with_sites: also the demo's sites, which are crawled
    """
    makers: dict[str, Callable[[Path], Collection]] = {
        "beir-small/cranfield": lambda folder: _beir(folder, "cranfield", "test", home),
        "beir-small/cisi": lambda folder: _beir(folder, "cisi", "test", home),
        # Of SciFact the train questions: nothing is chosen on its test questions.
        "scifact": lambda folder: _beir(folder, "scifact, train", "train", home),
        "xquad": lambda folder: xquad(folder / "xquad.en.json.gz", home),
        "blog-18f": lambda folder: _blog(folder / "posts.jsonl.gz", home),
        "fundus-de": lambda folder: _news(folder, home),
    }
    for name, make in makers.items():
        if (data / name).is_dir():
            yield make(data / name)
    if with_sites:
        yield from _sample_sites(home)


def opened(collection: Collection, embedder: CachedEmbedder, home: Home) -> Queries:
    """Open a collection's index, built first where it is not there, and embed its questions."""
    recipe = embedder.recipe
    place = home.root / "bench" / "defaults" / recipe.passage_revision() / collection.name.replace(" ", "-")
    try:
        read_facts(place)
    except CorruptFileError:
        texts = (collection.chunks["prefix"] + collection.chunks["text"]).to_list()
        print(f"embedding {len(texts)} chunks of {collection.name} by {recipe.model} ...", flush=True)
        index_table.build(place, HeldRows(collection.chunks, embedder.passages(texts).vectors))
    vectors = embedder.queries([question.text for question in collection.questions]).vectors
    queries = [Query(q.text, vector) for q, vector in zip(collection.questions, vectors, strict=True)]
    return Queries(collection, OpenIndex(place), queries)


# Collections -----------------------------------------------------------------------------------------------


def _beir(folder: Path, name: str, split: str, home: Home) -> Collection:
    pages = Beir().read(Source.model_validate({"reader": "beir", "path": str(folder)}))
    drafts = {page.url: clean_beir(page.body) for page in pages if page.body}
    rows = [_document(url, draft.title, draft.text) for url, draft in drafts.items()]
    questions = [
        Question(row["question"], Gold({item["url"]: int(item["grade"]) for item in row["evidence"]}))
        for row in read_beir(folder, split, "q")
    ]
    return Collection(name, "english", _cut(rows, WHOLE, home), questions)


def xquad(path: Path, home: Home) -> Collection:
    """Read paragraphs as documents; questions ask for their own."""
    code, rows, questions = path.name.split(".")[1], [], []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    for article in articles:
        for number, paragraph in enumerate(article["paragraphs"]):
            name = f"{article['title']}/{number}"
            title = article["title"].replace("_", " ")
            rows.append(_document(name, title, paragraph["context"]) | {"language": code})
            questions += [Question(one["question"], Gold({name: 1})) for one in paragraph["qas"]]
    name = "xquad, paragraphs" if code == "en" else f"xquad, paragraphs {code}"
    return Collection(name, LANGUAGES.get(code, "english"), _cut(rows, WHOLE, home), questions)


def _blog(path: Path, home: Home) -> Collection:
    """Titles ask for their posts, whose text does not say them."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        posts = [json.loads(line) for line in file]
    posts = [post for post in posts if post["body_markdown"].strip()]
    rows = [
        _document(post["id"], None, post["body_markdown"])
        | {"published_at": post["date"], "keywords": post["tags"] or []}
        for post in posts
    ]
    questions = [Question(post["title"], Gold({post["id"]: 1})) for post in posts]
    return Collection("18F blog, titles", "english", _cut(rows, WINDOWS, home), questions)


def _news(folder: Path, home: Home) -> Collection:
    """Headlines ask for their pages, as the cleaner leaves them without the headline."""
    rows, questions = [], []
    for path in sorted(folder.glob("*.html.gz")):
        try:
            draft = clean_article(gzip.decompress(path.read_bytes()), None, f"https://x.example/{path.name}")
        except UnusablePage:
            continue
        text = draft.text.replace(draft.title or "", "").strip()
        if draft.title and len(text) >= FEWEST:
            rows.append(_document(path.name, None, text))
            questions.append(Question(draft.title, Gold({path.name: 1})))
    return Collection("German news, headlines", "german", _cut(rows, WINDOWS, home), questions)


def _sample_sites(home: Home) -> Iterator[Collection]:
    """Crawl the sites of the demo; all of their pages are searched, its questions asked by language."""
    from rag_assay.orchestration.driver import Driver

    study: Study = read_study(BUNDLED / "demo.yaml")
    small = {
        "chunkings": {"tokens-128-42": study.chunkings["tokens-128-42"]},
        "retrievers": {"bm25": study.retrievers["bm25"]},
        **{"generators": {}, "restrict": {}},
    }
    study = study.model_copy(update=small)
    driver = Driver(study, home)
    if not driver.run().ok:
        raise SystemExit("the sample sites could not be crawled and cut")
    store, grid = ArtifactStore(home), Grid([study])

    def read(stage: str, key: str, file: str) -> pl.DataFrame:
        artifact = store.current(stage, key)
        if artifact is None:
            raise SystemExit(f"{stage} {key} was not built")
        return read_parquet(store.folder(stage, artifact.identity) / file)

    (key,) = study.chunk_sets()
    chunks = read("chunks", key, "chunks.parquet")
    asked = pl.concat([read("questions", key, "questions.parquet") for key in grid.set_keys(study.study)])
    for code, language in (("en", "english"), ("de", "german")):
        rows = asked.filter((pl.col("language") == code) & (pl.col("gold") != "none"))
        questions = [Question(row["question"], gold_of(row)) for row in rows.iter_rows(named=True)]
        yield Collection(f"sample sites, {language.capitalize()}", language, chunks, questions)


def _document(name: str, title: str | None, text: str) -> dict[str, object]:
    return {
        **{"doc_id": name, "version": "1", "source": "s", "url": name, "title": title, "text": text},
        **{"language": None, "published_at": None, "authors": [], "keywords": [], "sections": []},
        **{"metadata": "{}", "page_sha256": None},
    }


def _cut(rows: list[dict[str, object]], chunking: dict[str, Any], home: Home) -> pl.DataFrame:
    folder = models.fetch("all-MiniLM-L6-v2", home)
    return chunk_documents(
        frame(rows, DOCUMENTS), Chunking.model_validate(chunking).chunker, Tools(load_tokenizer(folder))
    )
