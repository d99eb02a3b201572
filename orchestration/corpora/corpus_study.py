"""The study of a corpus: one way to cut, embed and index it; its retrievers search the same index."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, Self

from rag_assay.assets.tokenization.stems import LANGUAGES
from rag_assay.evals.metrics.token_budget import equal_budget
from rag_assay.orchestration.corpora.records import QUESTIONS, CorpusSettings, NamedCorpus, slug
from rag_assay.orchestration.templates.sources import beir_splits, graded_split
from rag_assay.orchestration.templates.study_files import (
    describe_source,
    language_of_target,
    quote_yaml,
    source_fields,
    write_questions,
)
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import sha256_text

PAGES = 500  # of a site
SIZE = 254  # tokens of a chunk: what all-MiniLM-L6-v2 reads as published, but for its two special tokens
KNOWN = ("hybrid", "bm25", "dense")  # retrievers that every corpus has whose meanings are indexed
BY_MEANING = {"hybrid", "dense"}
MINILM = "all-MiniLM-L6-v2"  # whose tokens are counted unless a chunking names another model
EMBEDDERS = {"minilm": MINILM, "e5": "multilingual-e5-small", "mpnet": "all-mpnet-base-v2"}

GRADED_METRICS = "ndcg@10, mrr@10, recall@10, hit_rate@10, retrieval_latency"
METRICS = "ndcg@10, mrr@10, hit_rate@10, rouge_l, retrieval_latency"
TEMPLATE = """\
# What `assay corpus build` builds and `assay corpus query` asks. It may be changed: the next build heeds it.
# It is a study like any other: with questions in {questions}, `assay run {study}` measures it.
study: {study}
description: {description}
seed: 7

sources:
{sources}

corpus: {{name: {study}, sources: [{source_names}]}}

chunkings: # windows in tokens of the embedder
  tokens-{size}: {{tokens: {{size: {size}}}{tokenizer}}}

embedders:
{embedders}

retrievers: # the first one answers; all search the same index
{retrievers}

generators: # the first one answers
{generators}

questions:
  - {asked}

metrics: [{metrics}]
"""


class CorpusOptions(NamedTuple):
    """What a person says of a corpus that is built; None, or False: nothing.

    embedder: a short name, a folder, or a model of the hub
    retriever: the kind that answers first
    generator: a kind, or a model
    words: it is searched by words alone
    """

    embedder: str | None = None
    retriever: str | None = None
    generator: str | None = None
    words: bool = False

    def checked(self) -> Self:
        if self.words and self.embedder:
            raise InputError("--words and --embedder exclude each other: words are searched without a model")
        if self.words and self.retriever in BY_MEANING:
            raise InputError(
                f"--words and --retriever {self.retriever} exclude each other: it searches by meaning"
            )
        return self


def choices_of(target: str, said: CorpusOptions) -> CorpusSettings:
    language = language_of_target(target)
    by_language = "minilm" if language in {None, "en"} else "e5"
    return CorpusSettings(
        language=language,
        embedder=_model(said.embedder or by_language),
        dtype="fp32" if said.words else _dtype(),
        retriever=said.retriever or KNOWN[0],
        generator=said.generator or "extractive",
        search="words" if said.words else "meaning",
    )


def merge_choices(choices: CorpusSettings, said: CorpusOptions) -> CorpusSettings:
    found: dict[str, str | None] = {"retriever": said.retriever, "generator": said.generator}
    if said.words:
        found["search"] = "words"
    elif said.embedder:
        found["embedder"] = _model(said.embedder)
        if choices.search != "meaning":
            found |= {"search": "both", "dtype": _dtype()}
    return choices.model_copy(update={name: value for name, value in found.items() if value})


def short_name_of(choices: CorpusSettings) -> str:
    return next((name for name, model in EMBEDDERS.items() if model == choices.embedder), choices.embedder)


def _model(said: str) -> str:
    here = Path(said).expanduser()
    return EMBEDDERS.get(said) or (str(here.resolve()) if here.is_dir() else said)


def is_edited(corpus: NamedCorpus) -> bool:
    try:
        return sha256_text(corpus.study.read_text("utf-8")) != corpus.written
    except OSError:
        return False  # it is gone, and is written again


def write_study(corpus: NamedCorpus, choices: CorpusSettings) -> NamedCorpus:
    study = f"corpus-{corpus.folder.name}"
    _name, what, sources, url = describe_source(corpus.target, name=study, pages=PAGES)
    splits = None if corpus.is_site else beir_splits(Path(corpus.target))
    budget = equal_budget(choices.language)
    if splits:
        graded = f"beir: {{path: {quote_yaml(corpus.target)}, split: {graded_split(splits)}}}"
        asked = {"questions": "the folder's own", "asked": graded, "metrics": GRADED_METRICS}
    else:
        metrics = f"evidence_coverage@{budget}tokens, {METRICS}"
        asked = {"questions": QUESTIONS, "asked": f"file: {QUESTIONS}", "metrics": metrics}
    text = TEMPLATE.format(
        study=study,
        description=quote_yaml(f"The corpus {corpus.name}: {what}"),
        **source_fields(sources),
        size=SIZE,
        tokenizer="" if choices.embedder == MINILM else f", tokenizer: {quote_yaml(choices.embedder)}",
        embedders="\n".join(f"  {line}" for line in _embedders(choices)),
        retrievers="\n".join(_retrievers(choices)),
        generators="\n".join(_generators(choices.generator, budget)),
        **asked,
    )
    questions = corpus.folder / QUESTIONS
    if not splits and not questions.exists():
        write_questions(questions, study, what, url)
    with atomic_write(corpus.study) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return corpus.model_copy(update={"choices": choices, "written": sha256_text(text)})


def _embedders(choices: CorpusSettings) -> list[str]:
    language = LANGUAGES.get(choices.language or "en")
    words = f"words: {{hashing: {{language: {language or 'null'}}}}} # without a model"
    return [
        *([_model_line(choices)] if choices.search != "words" else []),
        *([words] if choices.search != "meaning" else []),
    ]


def _model_line(choices: CorpusSettings) -> str:
    known = {model: name for name, model in EMBEDDERS.items()}
    model, _, revision = choices.embedder.partition("@")
    name = known.get(model) or slug(Path(model).name)
    fields = {
        "model": quote_yaml(model),
        "revision": quote_yaml(revision) if revision else "",
        "dtype": choices.dtype if choices.dtype != "fp32" else "",
    }
    return f"{name}: {{{', '.join(f'{key}: {value}' for key, value in fields.items() if value)}}}"


def _retrievers(choices: CorpusSettings) -> list[str]:
    known = {kind: f"{{{kind}: {{k: 50}}}}" for kind in KNOWN}
    first = choices.retriever
    if choices.search == "words":
        known = {"bm25": known["bm25"]}
        first = "bm25" if first in BY_MEANING else first
    if first not in known:
        if not first.replace("_", "").isalnum():
            raise InputError(
                f"{first!r} is not a kind of retriever; `assay components retrievers` lists them"
            )
        known[first] = f"{{{first}: {{}}}}"
    return [f"  {name}: {known[name]}" for name in sorted(known, key=lambda one: one != first)]


def _generators(first: str, budget: int) -> list[str]:
    extractive = f"  extractive: {{extractive: {{context_tokens: {budget}}}}}"
    if first == "extractive":
        return [extractive]
    from rag_assay.warehouse.inference import models

    name = first.removeprefix("local/")
    is_local = first.startswith("local/") or (name in models.REGISTRY and "/" not in first)
    model, few = (
        (f"local/{name}", ", passages: 3, max_tokens: 160")
        if is_local
        else (first, f", context_tokens: {budget}")
    )
    return [f"  model: {{llm: {{model: {quote_yaml(model)}, temperature: 0{few}}}}}", extractive]


def _dtype() -> Literal["fp32", "bf16"]:
    """Return what the embedder computes in: bf16 where this machine's processor does, in half the time."""
    from rag_assay.assets.embedding.local import has_bf16

    return "bf16" if has_bf16() else "fp32"
