"""BLEU of an answer against the ground truth."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import regex

from rag_assay.evals.metrics.contract import AnsweredCase, AnswerMetric, Score
from rag_assay.evals.metrics.rouge import UNSPACED
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.evals.metrics.context import MetricContext

ORDER = 4  # longest n-gram, in tokens
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_13A = (
    (re.compile(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])"), r" \1 "),  # punctuation of ASCII
    (re.compile(r"([^0-9])([\.,])"), r"\1 \2 "),  # full stop and comma, unless a digit stands before …
    (re.compile(r"([\.,])([^0-9])"), r" \1 \2"),  # … or behind
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),  # a dash behind a digit
)
_LETTER = regex.compile(rf"([{UNSPACED}]\p{{M}}*)")


def bleu_tokens(text: str) -> list[str]:
    """Return the tokens of mteval-v13a, which WMT and sacrebleu use; letters of scripts without spaces alone.

    >>> bleu_tokens("The fee (2024) is 1,500 euro."), bleu_tokens("正午に")
    (['The', 'fee', '(', '2024', ')', 'is', '1,500', 'euro', '.'], ['正', '午', 'に'])
    """
    line = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, sign in _ENTITIES:
        line = line.replace(entity, sign)
    line = " " + _LETTER.sub(r" \1 ", line) + " "
    for pattern, spaced in _13A:
        line = pattern.sub(spaced, line)
    return line.split()


def bleu(truth: str, text: str) -> float:
    """Return the BLEU of one text, from 0 to 1: brevity penalty x geometric mean of the n-gram precisions.

    Orders that the text is too short for are left out; a precision of 0 counts as half of the smallest one
    that there could be, the next as a quarter, and so on (Chen & Cherry, WMT 2014, smoothing 3).

    >>> round(bleu("the ferry leaves at noon", "the ferry leaves at dawn"), 4)  # (4/5 3/4 2/3 1/2)^(1/4)
    0.6687
    """
    read, written = bleu_tokens(truth), bleu_tokens(text)
    if not read or not written:
        return 0.0
    logs, halved = [], 1.0
    for n in range(1, min(ORDER, len(written)) + 1):
        found = _ngrams(written, n)
        total = found.total()
        right = (found & _ngrams(read, n)).total()
        if n == 1 and not right:
            return 0.0
        if not right:
            halved /= 2
        logs.append(math.log(right / total if right else halved / total))
    penalty = min(0.0, 1 - len(read) / len(written))
    return min(1.0, math.exp(penalty + sum(logs) / len(logs)))


def _ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[place : place + n]) for place in range(len(tokens) - n + 1))


class Bleu(AnswerMetric):
    """BLEU of the whole answer (Papineni et al., ACL 2002), the same number as sacrebleu's `sentence_bleu`.

    ragas' BleuScore compares the answer's first sentence only, with each sentence of the ground truth, and
    gives 0 to a right answer of fewer than four tokens; here both are one text each, of any length.
    """

    stem, title = "bleu", "BLEU"
    explanation = (
        "Geometric mean of the shares of the answer's 1- to 4-grams that stand in the ground truth, lower "
        "for an answer that is shorter (sacrebleu's sentence BLEU: 13a, exponential smoothing)."
    )

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        """Score every answer; equal pairs of texts are scored once."""
        pairs = [case.pair for case in cases]
        found = {pair: bleu(*pair) for pair in set(pairs)}
        return [Score(Status.OK, found[pair]) for pair in pairs]
