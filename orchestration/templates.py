"""The study and question files that `assay init` writes: small, commented, and valid as they stand."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from orchestration.template_languages import language_of, lines_for
from warehouse.errors import InputError

STUDY = """\
# A study for rag-assay. Check it with `assay check {file}`, see what it would do with `assay plan {file}`,
# run it with `assay run {file}`.
study: {name}
description: Which chunking and retriever find the answers in {what}?
seed: 7

sources:
  {name}-pages: {source}

corpus: {{name: {name}, sources: [{name}-pages]}}

chunkings: # windows in tokens of the embedder, and how much neighbours share
  tokens-128-42: {{tokens: {{size: 128, overlap: 42}}}}
  tokens-256-85: {{tokens: {{size: 256, overlap: 85}}}}
  # sections: {{structure: {{limit: 256, prefix_heading: true}}}}   # docs/chunking.md has eight ways

embedders:
  {embedder}

retrievers:
  bm25: {bm25}
  dense: {{dense: {{k: 50}}}}
  hybrid: {hybrid} # the scores of both, added
  # What a question says of dates and names narrows the documents (docs/understanding.md), and the neighbours
  # of what is found are delivered with it (docs/retrieval.md):
  # narrowed: [{{time_frame: {{}}}}, {{entities: {{}}}}, {{dense: {{k: 50}}}}, {{neighbours: {{n: 1}}}}]

generators:
  extractive: {{extractive: {{passages: 5, max_tokens: 80}}}}
  # A model of your own, through LiteLLM; set the provider's key in the environment:
  # gpt: {{llm: {{model: openai/gpt-4o-mini, temperature: 0}}}}

# restrict: {{gpt: {{retrievers: [hybrid], sample: 20}}}}   # ask a costly model a sample, in some cells only
# budget: {{usd: 5}}

questions:
  - file: {questions}

# The first metric ranks the cells. Evidence coverage sees where chunks are cut; nDCG and its like hardly do.
metrics: [evidence_coverage@5, ndcg@10, mrr@10, recall@10, semantic_similarity, rouge_l, retrieval_latency]
"""

QUESTIONS = """\
# Questions about {what}. Twenty or more tell cells apart; a handful does not.
question_set: {name}
language: en
questions:
  - id: {name}-01
    type: normal              # normal | yes_no | hypothetical | complex
    question: Replace this by a question that the documents answer.
    ground_truth: Replace this by its answer, in a sentence.
    # evidence:               # where the answer stands: retrieval metrics need it
    #   - url: {url}
    #     quote: "words that stand on that page, exactly"
    # time_frame: {{from: 2020-01-01, to: 2020-12-31}}   # where it asks for what was published in a window
  - id: {name}-02
    answerable: false         # no document answers it
    question: Replace this by a question that sounds as if the documents answered it.
"""


def write_study(target: str, output: Path, *, force: bool = False) -> list[Path]:
    """Write a study file for a folder or URL, and a question file beside it; return both paths.

    Raises:
        InputError: the target is neither, or a file is there already.
    """
    questions = output.with_name(output.name.removesuffix(".yaml") + ".questions.yaml")
    for path in (output, questions):
        if path.exists() and not force:
            raise InputError(
                f"{path} is there already; say --force to replace it, or choose another with --output"
            )
    name, what, source, url = _described(target)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        STUDY.format(
            name=name,
            what=what,
            source=source,
            file=output,
            questions=questions.name,
            **lines_for(_language_of(target)),
        )
    )
    questions.write_text(QUESTIONS.format(name=name, what=what, url=url))
    return [output, questions]


def _language_of(target: str) -> str | None:
    folder = Path(target).expanduser()
    return language_of(folder) if folder.is_dir() else None


def _described(target: str) -> tuple[str, str, str, str]:
    if target.startswith(("http://", "https://")):
        host = urlsplit(target).hostname
        if not host:
            raise InputError(f"{target!r} is no URL with a host")
        spider, why = _spider(target, host)
        private = ", allow_private: true" if _is_private(host) else ""
        source = (
            f"{{spider: {spider}, start: [{_quoted(target)}]{private}, delay: 1.0, limits: {{pages: 500}}}}"
            f"\n  # spider: eurlex | news | blog | site; {why}"
            "\n  # contact: you@example.org goes into the user agent"
        )
        return _slug(host), target, source, target
    folder = Path(target).expanduser()
    if not folder.is_dir():
        raise InputError(f"{target!r} is neither a folder nor a URL that begins with http:// or https://")
    reader = "beir" if any((folder / f"corpus.jsonl{end}").is_file() for end in ("", ".gz")) else "folder"
    return (
        _slug(folder.resolve().name),
        str(folder),
        f"{{reader: {reader}, path: {_quoted(str(folder.resolve()))}}}",
        "a-file.html",
    )


def _spider(url: str, host: str) -> tuple[str, str]:
    """Return the spider that fits a site, and why, in one line."""
    from crawlers.looking import spider_for

    if host == "eur-lex.europa.eu" or host.endswith(".eur-lex.europa.eu"):
        return "eurlex", f"{host} is EUR-Lex"
    look = spider_for(url, delay=0.0 if _is_private(host) else 1.0)
    return look.spider, "".join(sign for sign in " ".join(look.why.split()) if sign.isprintable())


def _is_private(host: str) -> bool:
    """Say whether a site is one of this machine or network: a crawl reaches it only where that is allowed."""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local"))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "mine"
