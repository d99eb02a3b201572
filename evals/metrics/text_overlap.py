"""Metrics that compare the text of an answer with the ground truth: exact match, ROUGE-L, BLEU, chrF."""

from __future__ import annotations

import math
import re
import unicodedata
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import regex

from rag_assay.evals.metrics.contract import AnsweredCase, AnswerMetric, Score
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.evals.metrics.context import MetricContext


UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_SPACED = rf"[\p{{L}}\p{{N}}]--[{UNSPACED}]"
_TOKEN = regex.compile(rf"[{UNSPACED}]\p{{M}}*|[{_SPACED}][[{_SPACED}]\p{{M}}]*", regex.V1)


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
    """1 where answer and ground truth are the same text, else 0, as ragas' ExactMatch.

    White space and the Unicode form of a letter make no difference; case and punctuation do.
    """

    stem, title = "exact_match", "Exact match"
    explanation = "1 where the answer is the ground truth, sign for sign but for white space, else 0 (ragas)."

    def value(self, truth: str, text: str) -> float:
        plain = {" ".join(unicodedata.normalize("NFC", one).split()) for one in (truth, text)}
        return float(len(plain) == 1)


CHRF_ORDER = 6  # longest n-gram, in characters
CHRF_RECALL = 2.0  # how many times as much recall counts as precision: beta of the F measure


def chrf(truth: str, text: str) -> float:
    """Return the chrF2 of one text, from 0 to 1: F of the mean n-gram precision and recall of characters.

    White space counts for nothing; orders that one of the texts is too short for are left out.

    >>> round(chrf("noon", "noons"), 4)  # precision 4/5, 3/4, 2/3, 1/2; recall 1 each: 5PR / (4P + R)
    0.9137
    """
    read, written = "".join(truth.split()), "".join(text.split())
    orders = range(1, min(CHRF_ORDER, len(read), len(written)) + 1)
    if not orders:
        return 0.0
    precision = recall = 0.0
    for n in orders:
        found, wanted = _ngrams(written, n), _ngrams(read, n)
        right = (found & wanted).total()
        precision += right / found.total() / len(orders)
        recall += right / wanted.total() / len(orders)
    if not precision + recall:
        return 0.0
    return min(1.0, (1 + CHRF_RECALL**2) * precision * recall / (CHRF_RECALL**2 * precision + recall))


def _ngrams(symbols: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(symbols[place : place + n]) for place in range(len(symbols) - n + 1))


class Chrf(TextMetric):
    """chrF2 of the answer (Popović, WMT 2015), the same number as sacrebleu's `sentence_chrf` and ragas'.

    It needs no words, so it serves any script, and inflected languages better than BLEU.
    """

    stem, title = "chrf", "chrF"
    explanation = (
        "F2 of the n-grams of up to 6 characters that answer and ground truth share (chrF2, as of sacrebleu)."
    )

    def value(self, truth: str, text: str) -> float:
        return chrf(truth, text)


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


class Bleu(TextMetric):
    """BLEU of the whole answer (Papineni et al., ACL 2002), the same number as sacrebleu's `sentence_bleu`.

    ragas' BleuScore compares the answer's first sentence only, with each sentence of the ground truth, and
    gives 0 to a right answer of fewer than four tokens; here both are one text each, of any length.
    """

    stem, title = "bleu", "BLEU"
    explanation = (
        "Geometric mean of the shares of the answer's 1- to 4-grams that stand in the ground truth, lower "
        "for an answer that is shorter (sacrebleu's sentence BLEU: 13a, exponential smoothing)."
    )

    def value(self, truth: str, text: str) -> float:
        return bleu(truth, text)


# Scripts that are written without spaces: each of their letters, with its marks, is a token.


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
    from rouge_score import tokenizers

    return tokenizers.DefaultTokenizer(use_stemmer=True)


class RougeL(TextMetric):
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
        return super().applies(question) and bool(rouge_tokens(question["ground_truth"]))

    def value(self, truth: str, text: str) -> float:
        return float(_scorer().score(truth, text)["rougeL"].fmeasure)


@cache
def _scorer() -> Any:
    from rouge_score import rouge_scorer, tokenizers

    class Unicode(tokenizers.Tokenizer):
        def tokenize(self, text: str) -> list[str]:
            return rouge_tokens(text)

    return rouge_scorer.RougeScorer(["rougeL"], tokenizer=Unicode())
