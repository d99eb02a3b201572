"""ROUGE-L between answer and ground truth."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import regex

from rag_assay.evals.metrics.contract import AnsweredCase, AnswerMetric, Score
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.evals.metrics.context import MetricContext

# Scripts that are written without spaces: each of their letters, with its marks, is a token.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_SPACED = rf"[\p{{L}}\p{{N}}]--[{UNSPACED}]"
_TOKEN = regex.compile(rf"[{UNSPACED}]\p{{M}}*|[{_SPACED}][[{_SPACED}]\p{{M}}]*", regex.V1)


def rouge_tokens(text: str) -> list[str]:
    """Return what ROUGE counts as words, in any script; those in ASCII as rouge_score's stemmer leaves them.

    >>> rouge_tokens("Die Fähren fuhren mittags."), rouge_tokens("Паром"), rouge_tokens("正午に")
    (['die', 'fähren', 'fuhren', 'mittag'], ['паром'], ['正', '午', 'に'])
    """
    words = _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())
    return [token for word in words for token in (_stemmed(word) if word.isascii() else (word,))]


@lru_cache(maxsize=50_000)
def _stemmed(word: str) -> tuple[str, ...]:
    """Return the tokens of a word in ASCII; the answers of a grid are made of the same few thousand."""
    return tuple(_ascii().tokenize(word))


@cache
def _ascii() -> Any:
    """Return rouge_score's own tokenizer, which knows no letters but those of ASCII."""
    from rouge_score import tokenizers

    return tokenizers.DefaultTokenizer(use_stemmer=True)


class RougeL(AnswerMetric):
    """F-measure of the longest common subsequence of words (Lin, ACL workshop 2004), by Google's rouge_score.

    For texts in ASCII it is the value of ragas' RougeScore, which knows no other letters: it says 0 of equal
    texts in Cyrillic and cuts German words at their umlauts.
    """

    stem, title = "rouge_l", "ROUGE-L"
    code_version = "2"
    explanation = (
        "F-measure of the longest common subsequence of words of answer and ground truth (rouge_score; "
        "letters, in scripts without spaces)."
    )

    def applies(self, question: dict[str, Any]) -> bool:
        """Return whether there is a ground truth with at least one word."""
        return super().applies(question) and bool(rouge_tokens(question["ground_truth"]))

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        """Score every answer; equal pairs of texts are scored once."""
        pairs = [case.pair for case in cases]
        found = {pair: _f_measure(*pair) for pair in set(pairs)}
        return [Score(Status.OK, found[pair]) for pair in pairs]


def _f_measure(truth: str, answer: str) -> float:
    return float(_scorer().score(truth, answer)["rougeL"].fmeasure)


@cache
def _scorer() -> Any:
    from rouge_score import rouge_scorer, tokenizers

    class Unicode(tokenizers.Tokenizer):
        def tokenize(self, text: str) -> list[str]:
            return rouge_tokens(text)

    return rouge_scorer.RougeScorer(["rougeL"], tokenizer=Unicode())
