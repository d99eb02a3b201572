"""Metrics that compare the text of an answer with the ground truth: exact match, ROUGE-L, BLEU, chrF."""

from __future__ import annotations

import unicodedata
from abc import abstractmethod
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from rag_assay.evals.metrics.contract import AnsweredCase, AnswerMetric, Score
from rag_assay.warehouse.lazy_imports import import_lazily
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    import regex

    from rag_assay.evals.metrics.contract import MetricContext


UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_SPACED = rf"[\p{{L}}\p{{N}}]--[{UNSPACED}]"


@cache
def _token() -> regex.Pattern[str]:
    import regex

    return regex.compile(rf"[{UNSPACED}]\p{{M}}*|[{_SPACED}][[{_SPACED}]\p{{M}}]*", regex.V1)


@cache
def _letter() -> regex.Pattern[str]:
    import regex

    return regex.compile(rf"([{UNSPACED}]\p{{M}}*)")


class TextMetric(AnswerMetric):
    """A number for each pair of ground truth and answer; equal pairs are scored once."""

    @abstractmethod
    def value(self, truth: str, text: str) -> float:
        """Return the number of one pair."""

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        pairs = [case.pair for case in cases]
        found = {pair: self.value(*pair) for pair in set(pairs)}
        return [Score(Status.OK, found[pair]) for pair in pairs]


class ExactMatch(TextMetric):
    """1 where the answer is the ground truth, sign for sign but for white space, else 0 (ragas).

    White space and the Unicode form of a letter make no difference; case and punctuation do.
    """

    stem, title = "exact_match", "Exact match"

    def value(self, truth: str, text: str) -> float:
        plain = {" ".join(unicodedata.normalize("NFC", one).split()) for one in (truth, text)}
        return float(len(plain) == 1)


@cache
def _sacrebleu() -> tuple[Any, Any]:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return BLEU(effective_order=True), CHRF()


class Chrf(TextMetric):
    """F2 of the n-grams of up to 6 characters that answer and ground truth share (chrF2, as of sacrebleu).

    chrF2 of the answer (Popović, WMT 2015), the same number as sacrebleu's `sentence_chrf` and ragas'.

    It needs no words, so it serves any script, and inflected languages better than BLEU.
    """

    stem, title = "chrf", "chrF"

    def value(self, truth: str, text: str) -> float:
        return float(_sacrebleu()[1].sentence_score(text, [truth]).score) / 100


class Bleu(TextMetric):
    """Geometric mean of the shares of the answer's 1- to 4-grams that stand in the ground truth, lower for an
    answer that is shorter (sacrebleu's sentence BLEU: 13a, exponential smoothing).

    BLEU of the whole answer (Papineni et al., ACL 2002), the same number as sacrebleu's `sentence_bleu`.

    ragas' BleuScore compares the answer's first sentence only, with each sentence of the ground truth, and
    gives 0 to a right answer of fewer than four tokens; here both are one text each, of any length. Each
    letter of a script without spaces is a token.
    """

    stem, title = "bleu", "BLEU"

    def value(self, truth: str, text: str) -> float:
        read, written = (_letter().sub(r" \1 ", one) for one in (truth, text))
        return min(1.0, float(_sacrebleu()[0].sentence_score(written, [read]).score) / 100)


def rouge_tokens(text: str) -> list[str]:
    """Return what ROUGE counts as words, in any script; those in ASCII as rouge_score's stemmer leaves them.

    >>> rouge_tokens("Die Fähren fuhren mittags."), rouge_tokens("Паром"), rouge_tokens("正午に")
    (['die', 'fähren', 'fuhren', 'mittag'], ['паром'], ['正', '午', 'に'])
    """
    words = _token().findall(unicodedata.normalize("NFKC", text).casefold())
    return [token for word in words for token in (_stemmed(word) if word.isascii() else (word,))]


@lru_cache(maxsize=50_000)
def _stemmed(word: str) -> tuple[str, ...]:
    return tuple(_ascii().tokenize(word))


@cache
def _ascii() -> Any:
    return _rouge_score().tokenizers.DefaultTokenizer(use_stemmer=True)


class RougeL(TextMetric):
    """F-measure of the longest common subsequence of words of answer and ground truth (rouge_score; letters,
    in scripts without spaces).

    F-measure of the longest common subsequence of words (Lin, ACL workshop 2004), by Google's rouge_score.

    For texts in ASCII it is the value of ragas' RougeScore, which knows no other letters: it says 0 of equal
    texts in Cyrillic and cuts German words at their umlauts.
    """

    stem, title = "rouge_l", "ROUGE-L"
    code_version = "2"

    def applies(self, question: dict[str, Any]) -> bool:
        return super().applies(question) and bool(rouge_tokens(question["ground_truth"]))

    def value(self, truth: str, text: str) -> float:
        return float(_scorer().score(truth, text)["rougeL"].fmeasure)


@cache
def _rouge_score() -> Any:
    # Of nltk it takes a stemmer; the whole of nltk imports scipy, scikit-learn and pandas.
    import_lazily(
        "nltk", *(f"nltk.{part}" for part in ("stem", "stem.api", "stem.porter", "redos", "termsec"))
    )
    from rouge_score import rouge_scorer

    return rouge_scorer


@cache
def _scorer() -> Any:
    rouge_scorer = _rouge_score()
    tokenizer: Any = rouge_scorer.tokenizers.Tokenizer

    class Unicode(tokenizer):
        def tokenize(self, text: str) -> list[str]:
            return rouge_tokens(text)

    return rouge_scorer.RougeScorer(["rougeL"], tokenizer=Unicode())
