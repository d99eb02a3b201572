"""The context relevance of the paper on RAGAS: the share of the passages' sentences that are relevant."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.judging.contract import JudgeCase, Judgement, Statement
from rag_assay.evals.judging.frames import frame_text
from rag_assay.evals.judging.ragas.calls import CaseCalls, MetricCalls, StoppedError
from rag_assay.evals.judging.ragas.metrics import MOST_SENTENCE_CALLS, REASON_TOKENS, SENTENCES, prompt
from rag_assay.warehouse.inference.structured import schema_only
from rag_assay.warehouse.recipe import Strict

NAME = "relevant_sentence_ratio"


class RelevantSentences(Strict):
    """The model's reply: numbers of sentences, from 1."""

    relevant: Annotated[tuple[Annotated[int, Field(ge=1)], ...], schema_only(maxItems=1)]


class _Sentence(NamedTuple):
    passage: int
    text: str


def sentence_ratio(case: JudgeCase, calls: CaseCalls) -> Judgement:
    """Return |relevant sentences| / |sentences of the passages| (Es et al., 2023, section 3).

    The paper has the model copy the relevant sentences out of the passages; here it names their numbers, so
    that each is one that is there. Many sentences are asked about in several calls.
    """
    own = MetricCalls(calls)
    sentences = [
        _Sentence(number, passage.text[start:end])
        for number, passage in enumerate(case.passages, 1)
        for start, end in sentence_places(passage.text)
    ]
    size = max(SENTENCES, -(-len(sentences) // MOST_SENTENCE_CALLS))
    found: list[Statement] = []
    try:
        for start in range(0, len(sentences), size):
            batch = sentences[start : start + size]
            relevant = _relevant(case.question, batch, own)
            found += [
                Statement(
                    f"passage {one.passage}", one.text, _word(number in relevant), float(number in relevant)
                )
                for number, one in enumerate(batch, 1)
            ]
    except StoppedError:
        return own.judgement(None, None)
    if not found:
        return own.judgement(None, "the passages hold no sentence")
    counted = sum(one.value or 0 for one in found)
    reason = f"{counted:.0f} of {len(found)} sentences of the passages are relevant"
    return own.judgement(counted / len(found), reason, tuple(found))


def _relevant(question: str, batch: list[_Sentence], calls: MetricCalls) -> frozenset[int]:
    numbered = [frame_text(one.text, "sentence", number=number) for number, one in enumerate(batch, 1)]

    def check(reply: RelevantSentences) -> None:
        unknown = sorted(number for number in reply.relevant if number > len(batch))
        if unknown:
            raise ValueError(f"there are {len(batch)} sentences, and none with the number {unknown[0]}")

    sentences = "\n".join(["<sentences>", *numbered, "</sentences>"])
    reply = calls.ask(
        prompt("relevant_sentences").messages(
            {"sentences": sentences, "question": frame_text(question, "question")}
        ),
        RelevantSentences,
        bounds={
            "RelevantSentences.relevant": {
                "maxItems": len(batch),
                "items": {"type": "integer", "minimum": 1, "maximum": len(batch)},
            }
        },
        max_tokens=REASON_TOKENS + 6 * len(batch),
        check=check,
    )
    return frozenset(reply.relevant)


def _word(relevant: bool) -> str:
    return "relevant" if relevant else "irrelevant"
