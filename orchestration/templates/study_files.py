"""The study and question files that `assay init` writes: small, commented, the questions to be filled in."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rag_assay.assets.cleaning.folder_language import language_of
from rag_assay.evals.metrics.token_budget import FEW_CHARACTERS, equal_budget
from rag_assay.evals.question_sets.question_files import UNFILLED
from rag_assay.orchestration.templates.sources import beir_splits, graded_split, sources_in
from rag_assay.warehouse.errors import InputError

MULTILINGUAL = "multilingual-e5-small"

STUDY = """\
# A study for rag-assay. Check it with `assay check {file}`, run it with `assay run {file}`;
# `--dry-run` shows what that would do.
study: {name}
description: {description}
seed: 7

sources:
{sources}

corpus: {{name: {name}, sources: [{source_names}]}}

chunkings: # windows in tokens of the embedder, and how much neighbours share
  tokens-128-42: {{tokens: {{size: 128, overlap: 42}}{tokenizer}}}
  tokens-256-85: {{tokens: {{size: 256, overlap: 85}}{tokenizer}}}
  # sections: {{structure: {{limit: 256, prefix_heading: true}}{tokenizer}}}   # docs/grid.md has eight ways

embedders:
  {embedder}

retrievers:
  bm25: {{bm25: {{k: 50}}}} # words are read by the language of the documents
  dense: {{dense: {{k: 50}}}}
  hybrid: {{hybrid: {{k: 50}}}} # the scores of both, added
  # What a question says of dates and names narrows the documents (docs/grid.md), and the neighbours
  # of what is found are delivered with it (docs/grid.md):
  # narrowed: [{{time_frame: {{}}}}, {{entities: {{}}}}, {{dense: {{k: 50}}}}, {{neighbours: {{n: 1}}}}]

{questions_part}"""

QUESTIONS_PART = """\
generators:
  extractive: {{extractive: {{context_tokens: {budget}}}}} # every pipeline reads equally much
  # A model of your own, through LiteLLM; set the provider's key in the environment:
  # gpt: {{llm: {{model: openai/gpt-4o-mini, temperature: 0, context_tokens: {budget}}}}}

# restrict: {{gpt: {{retrievers: [hybrid], sample: 20}}}}   # ask a costly model a sample, in some cells only
# budget: {{usd: 5}}

questions:
  - file: {questions}

# The first metric ranks the pipelines: how much of the evidence is {length},
# however long the chunks are. Metrics at a fixed number of passages (@5) favour long chunks.
metrics: [evidence_coverage@{budget}tokens, ndcg@10, mrr@10, recall@10, {similarity}, rouge_l,
  retrieval_latency]
"""

GRADED = """\
questions: # graded documents, without answers: retrieval alone is measured
  - beir: {{path: {path}, split: {split}}}
{train}
metrics: [ndcg@10, recall@{budget}tokens, mrr@10, recall@10, recall@100, hit_rate@10, retrieval_latency]
"""

QUESTIONS = """\
# Questions about {what}. Twenty or more tell cells apart; a handful does not.
# Those that begin with "{unfilled}" are not asked.
question_set: {name}
language: en
questions:
  - id: {name}-01
    type: normal              # normal | yes_no | hypothetical | complex | multi_hop
    question: {unfilled}a question that the documents answer.
    ground_truth: {unfilled}its answer, in a sentence.
    # evidence:               # where the answer stands: retrieval metrics need it
    #   - url: {url}
    #     quote: "words that stand on that page, exactly"
    # time_frame: {{from: 2020-01-01, to: 2020-12-31}}   # where it asks for what was published in a window
  - id: {name}-02
    answerable: false         # no document answers it
    question: {unfilled}a question that sounds as if the documents answered it.
"""


def write_study(
    target: str,
    output: Path,
    taken: Callable[[], Collection[str]] = tuple,
    *,
    force: bool = False,
    name: str | None = None,
) -> list[Path]:
    """Write a study file for a folder or URL, and a question file beside it; return both paths.

    Args:
        target: the folder or URL.
        output: the study file; paths in it are relative to its folder.
        taken: names of other studies, called once the folder of the file is a project folder.
        force: replace files.
        name: of the study. Default: that of the folder or host.
    """
    questions = output.with_name(output.name.removesuffix(".yaml") + ".questions.yaml")
    splits = None if "://" in target else beir_splits(Path(target).expanduser())
    files = [output] if splits else [output, questions]
    for path in files:
        if path.exists() and not force:
            raise InputError(
                f"{path} exists already; replace it with --force, or write another file with --output"
            )
    called, what, sources, url = describe_source(target, name=name, base=output.absolute().parent)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.touch()
    name = free_name(called, taken())
    parts = by_language(target)
    if splits:
        asked = _graded(_path(Path(target), output.absolute().parent), splits, parts["budget"])
    else:
        asked = QUESTIONS_PART.format(questions=questions.name, **parts)
    output.write_text(
        STUDY.format(
            name=name,
            description=quote_yaml(f"Which chunking and retriever find the answers in {what}?"),
            file=output,
            questions_part=asked,
            **source_fields({key.replace(called, name, 1): source for key, source in sources.items()}),
            **parts,
        )
    )
    if not splits:
        write_questions(questions, name, what, url)
    return files


def write_questions(path: Path, name: str, what: str, url: str) -> None:
    path.write_text(QUESTIONS.format(name=name, what=what, url=url, unfilled=UNFILLED), "utf-8")


def source_fields(sources: Mapping[str, str]) -> dict[str, str]:
    """Return what the templates of studies say of sources; sources: name -> what a study file says of it."""
    lines = "\n".join(f"  {key}: {source}" for key, source in sources.items())
    return {"sources": lines, "source_names": ", ".join(sources)}


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that no other study has for itself, its corpus or its sources.

    >>> free_name("docs", {"docs", "docs-2-pages"})
    'docs-3'
    """
    return next(one for one in numbered(name) if not {one, f"{one}-pages"} & set(taken))


def numbered(name: str, sign: str = "-") -> Iterator[str]:
    """Yield a name, then the name with the numbers from 2 on."""
    yield name
    yield from (f"{name}{sign}{number}" for number in count(2))


def _path(path: Path, base: Path | None) -> str:
    there = path.expanduser().resolve()
    return quote_yaml(Path(os.path.relpath(there, base.resolve())).as_posix() if base else str(there))


def _graded(path: str, splits: list[str], budget: int) -> str:
    split = graded_split(splits)
    train = f"  # - {{beir: {{path: {path}, split: train, name: train}}, use: train}} # to choose weights\n"
    train = train if "train" in splits and split != "train" else ""
    return GRADED.format(path=path, split=split, budget=budget, train=train)


def language_of_target(target: str) -> str | None:
    found = Path(target).expanduser()
    return language_of(found) if found.exists() else None


_NAMES = {"de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "nl": "Dutch", "pl": "Polish"}


def by_language(target: str) -> dict[str, Any]:
    language = language_of_target(target)
    budget = equal_budget(language)
    tokens = "tokens of four characters" if language in FEW_CHARACTERS else "tokens"
    parts = {"budget": budget, "length": f"in the first {budget:,} {tokens} that are read"}
    if language in {None, "en"}:
        minilm = "minilm: {model: all-MiniLM-L6-v2, max_tokens: 512}"
        other = f"e5: {{model: {MULTILINGUAL}}}, and `tokenizer: {MULTILINGUAL}` in the chunkings"
        embedder = f"# for other languages than English: {other}\n  {minilm}"
        return {**parts, "tokenizer": "", "embedder": embedder, "similarity": "semantic_similarity"}
    name = _NAMES.get(str(language), f"the language `{language}`")
    reason = f"# most of the documents are in {name}; all-MiniLM-L6-v2 has read English alone"
    return {
        **parts,
        "tokenizer": f", tokenizer: {MULTILINGUAL}",
        "embedder": f"{reason}\n  e5: {{model: {MULTILINGUAL}}}",
        "similarity": "chrf",
    }


class Described(NamedTuple):
    """What a study says of a folder or site.

    name: for its study, corpus and sources
    what: how it is called
    sources: name -> what a study file says of it
    url: of one of its documents, as an example
    """

    name: str
    what: str
    sources: dict[str, str]
    url: str


def describe_source(
    target: str, *, name: str | None = None, pages: int = 500, base: Path | None = None
) -> Described:
    """Return what a study says of a folder, file or URL.

    Args:
        target: the folder, file or URL.
        name: what its sources are called after; by default the folder or the host.
        pages: of a site, at most.
        base: the folder that paths are relative to; default: they are absolute.
    """
    if target.startswith(("http://", "https://")):
        host = urlsplit(target).hostname
        if not host:
            raise InputError(f"{target!r} is not a URL with a host")
        spider, why = _spider(target, host)
        private = ", allow_private: true" if _is_private(host) else ""
        limits = f"delay: 1.0, limits: {{pages: {pages}}}"
        source = (
            f"{{spider: {spider}, start: [{quote_yaml(target)}]{private}, {limits}}}"
            f"\n  # spider: eurlex | news | blog | site; {why}"
            "\n  # contact: you@example.org goes into the user agent"
        )
        name = name or _slug(host)
        return Described(name, target, {f"{name}-pages": source}, target)
    folder = Path(target).expanduser()
    if not folder.exists():
        raise InputError(f"{target!r} is not a folder, a file or a URL that begins with http:// or https://")
    name = name or _slug(folder.resolve().name)
    sources, url = _sources(folder.resolve(), name, base)
    return Described(name, " ".join(str(folder).split()), sources, url)


def short_name(target: str) -> str:
    """Return what a study of a folder or URL may be called.

    >>> short_name("https://blog.example.org/x/"), short_name("/data/My Notes (2)")
    ('blog-example-org', 'my-notes-2')
    """
    host = urlsplit(target).hostname if "://" in target else None
    return _slug(host or Path(target).expanduser().resolve().name)


def _sources(folder: Path, name: str, base: Path | None) -> tuple[dict[str, str], str]:
    if beir_splits(folder) is not None:
        return {f"{name}-pages": f"{{reader: beir, path: {_path(folder, base)}}}"}, "beir:1"
    found = sources_in(folder)
    if not found.sources:
        why = f" ({'; '.join(found.left_out[:5])})" if found.left_out else ""
        raise InputError(f"{folder} holds no file that can be read{why}")
    sources: dict[str, str] = {}
    for reader, path, columns in found.sources:
        keys = numbered(f"{name}-{'pages' if len(found.sources) == 1 else reader}")
        key = next(one for one in keys if one not in sources)
        named = ", ".join(f"{column}: {quote_yaml(called)}" for column, called in columns.items())
        columns_field = f", columns: {{{named}}}" if named else ""
        sources[key] = f"{{reader: {reader}, path: {_path(path, base)}{columns_field}}}"
    last = next(reversed(sources))
    sources[last] += "".join(f"\n  # left out: {' '.join(reason.split())}" for reason in found.left_out[:10])
    if len(found.left_out) > 10:
        sources[last] += f"\n  # … and {len(found.left_out) - 10} more"
    return sources, url_of(found.url)


def url_of(text: str) -> str:
    return text if re.fullmatch(r"[\w./-]+", text) else quote_yaml(text)


def _spider(url: str, host: str) -> tuple[str, str]:
    from rag_assay.crawlers.spider_choice import spider_for

    if host == "eur-lex.europa.eu" or host.endswith(".eur-lex.europa.eu"):
        return "eurlex", f"{host} is EUR-Lex"
    look = spider_for(url, delay=0.0 if _is_private(host) else 1.0)
    return look.spider, "".join(sign for sign in " ".join(look.why.split()) if sign.isprintable())


def _is_private(host: str) -> bool:
    try:
        return not ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local"))


def quote_yaml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "mine"
