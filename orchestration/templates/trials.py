"""The study that `assay try` runs: a small grid over a folder or site, on questions made from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

from rag_assay.assets.embedding.local import has_bf16
from rag_assay.evals.question_sets.question_files import UNFILLED, yaml_text
from rag_assay.evals.systems.http_system import spec_of_url
from rag_assay.orchestration.templates.sources import beir_splits, graded_split
from rag_assay.orchestration.templates.study_files import (
    by_language,
    describe_source,
    numbered,
    quote_yaml,
    short_name,
    source_fields,
    write_questions,
)
from rag_assay.warehouse.paths import Home

MANY = 300_000  # words of a corpus, from which on it is cut in one way alone so that a trial ends in minutes
PAGES = 200  # of a site
TARGET, STUDY, MADE = "target.txt", "study.yaml", "made.questions.yaml"

TRIAL = """\
# What `assay try` runs. It may be changed: the next `assay try` of the same folder or site runs it so.
study: {study}
description: {description}
seed: 7

sources:
{sources}

corpus: {{name: {study}, sources: [{source_names}]}}

chunkings: # windows in tokens of the embedder
  tokens-256: {{tokens: {{size: 256, overlap: 0}}{tokenizer}}}
  tokens-128: {{tokens: {{size: 128, overlap: 0}}{tokenizer}}}

embedders:
  {embedder}

retrievers:
  bm25: {{bm25: {{k: 50}}}}
  dense: {{dense: {{k: 50}}}}
  hybrid: {{hybrid: {{k: 50}}}}
{asked}"""
SECOND = re.compile("^  tokens-128: .*\n", re.MULTILINE)
ANSWERED = "  extractive: {chunkings: [tokens-256], retrievers: [bm25, hybrid], others: rankings}\n"
MADE_QUESTIONS = """
generators:
  extractive: {{extractive: {{context_tokens: {answered_tokens}}}}}

restrict: # the pipelines that answer; the others are compared by their rankings
{answered}
questions:
  - file: {file}

metrics: [evidence_coverage@{budget}tokens, ndcg@10, mrr@10, hit_rate@5, rouge_l, retrieval_latency]
"""
GRADED = """
questions: # the folder's own
  - beir: {{path: {path}, split: {split}}}

metrics: [ndcg@10, recall@{budget}tokens, mrr@10, recall@10, hit_rate@10, retrieval_latency]
"""


SYSTEMS = re.compile(r"^systems: # of `assay try --system`\n(?:  .*\n)*", re.MULTILINE)


class TrialFiles(NamedTuple):
    """Files of a trial; questions: where made questions are, None: the folder has its own."""

    study: Path
    questions: Path | None

    @property
    def is_asked(self) -> bool:
        return self.questions is None or UNFILLED not in self.questions.read_text(encoding="utf-8")

    def cut_once(self) -> bool:
        text = self.study.read_text(encoding="utf-8")
        once = SECOND.sub("", text, count=1)
        self.study.write_text(once, encoding="utf-8")
        return once != text

    def measure(self, url: str) -> None:
        spec = indent(yaml_text({"system": spec_of_url(url)}), "  ")
        block = f"systems: # of `assay try --system`\n{spec}"
        text = SYSTEMS.sub("", self.study.read_text(encoding="utf-8"))
        self.study.write_text(text.replace("\nquestions:", f"\n{block}\nquestions:", 1), encoding="utf-8")

    def answer(self, chunking: str, retrievers: Sequence[str]) -> None:
        text = self.study.read_text(encoding="utf-8")
        places = f"chunkings: [{chunking}], retrievers: [{', '.join(retrievers)}]"
        chosen = f"  extractive: {{{places}, others: rankings}} # chosen by their rankings\n"
        self.study.write_text(text.replace(ANSWERED, chosen, 1), encoding="utf-8")


def trial_of(target: str, where: Home) -> TrialFiles:
    called = target if "://" in target else str(Path(target).expanduser().resolve())
    splits = None if "://" in target else beir_splits(Path(called))
    folder = _folder(where, short_name(target), called)
    found = TrialFiles(folder / STUDY, None if splits else folder / MADE)
    if found.study.exists() and (found.questions is None or found.questions.exists()):
        return found
    name, what, sources, url = describe_source(target, name=f"try-{folder.name}", pages=PAGES)
    written = by_language(target)
    budget = written["budget"]
    asked = MADE_QUESTIONS.format(file=MADE, answered=ANSWERED, budget=budget, answered_tokens=budget // 2)
    if splits:
        asked = GRADED.format(path=quote_yaml(called), split=graded_split(splits), budget=budget)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TARGET).write_text(called, encoding="utf-8")
    if found.questions:
        write_questions(found.questions, name, what, url)
    found.study.write_text(
        TRIAL.format(
            study=name,
            description=quote_yaml(f"Which chunk size and retriever find the answers in {what}?"),
            **source_fields(sources),
            asked=asked,
            tokenizer=written["tokenizer"],
            embedder=_quick(written["embedder"]),
        ),
        encoding="utf-8",
    )
    return found


def _quick(embedder: str) -> str:
    """Compute in bf16 where the processor does, in half the time: a trial runs where its file was written."""
    if not has_bf16():
        return embedder
    return f"{embedder.removesuffix('}')}, dtype: bf16}} # as fast again, on a processor that has it"


def _folder(where: Home, name: str, target: str) -> Path:
    folders = (where.root / "tries" / one for one in numbered(name))
    kept = (one / TARGET for one in folders)
    return next(one.parent for one in kept if not one.exists() or one.read_text(encoding="utf-8") == target)
