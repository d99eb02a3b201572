"""What every chunker keeps to (`assets.chunking.contract`), and proof that a broken one is noticed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assets.chunking import CHUNKERS, Chunker, Material, Span, Tools
from assets.chunking.tokens import TokenWindows
from assets.embedding.tokenizer import Tokenizer, load_tokenizer

ROOT = Path(__file__).parents[2]

# ------------------------------------------------------------------------------------------- texts

PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "tokens": [
        {"size": 8},
        {"size": 8, "overlap": 7},
        {"size": 16, "overlap": 5},
        {"size": 128, "overlap": 42},
    ],
    "document": [{}],
}
CASES = [(kind, parameters) for kind in CHUNKERS for parameters in PARAMETERS.get(kind, [])]

PROSE = (
    "Article 5(2)\n\nEach Member State shall notify the Commission by 31 December 2024, at the latest.\n"
    "Die Übertragungsnetzbetreiber übermitteln den Straßenlärmbericht – „vollständig“ – bis zum 1. März.\n\n"
) * 6
TEXTS = {
    "empty": "",
    "blank": " \n\t \r\n\u00a0\u2003",
    "one word": "Harbour",
    "prose": PROSE,
    "CRLF": PROSE.replace("\n", "\r\n"),
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪👍🏽" * 40,
    "right to left": "הספרייה פתוחה בכל יום, حتى الساعة الثامنة مساءً. " * 20,
    "Chinese and Japanese": "第五條 成員國應當通知委員會。ページを読み込みます。" * 30,
    "Korean": "회원국은 위원회에 통지하여야 한다. " * 30,
    "Thai, which has no spaces": "รัฐสมาชิกต้องแจ้งคณะกรรมาธิการ" * 80,
    "combining marks": "a\u0301\u0308 Z\u0335\u0321\u0353a\u0334\u0301lgo \u0301 e\u0301" * 50,
    "control characters": "one\x00two \x1c\x1d three\x85four \x0b\x0c\u200b\ufeff\u2028\u2029 five\ufffd"
    * 20,
    "characters that the tokenizer deletes": "\u200b\u200d\ufeff" * 30,
    "100 kB of one letter": "x" * 100_000,
    "100 kB without a space": "Aufenthaltsgenehmigung" * 4_546,
    "a long word between short ones": f"before {'ab1' * 900} after",
    "a long run of separators inside a word": f"a{chr(0x1C) * 5_000}b",
    "a word of many tokens": "see 0x" + "9f3ac1e7" * 12 + " for more",
    "added tokens": "[CLS] is [SEP] or[MASK]not",
}


def cut(chunker: Chunker, text: str, tokenizer: Tokenizer) -> list[Span]:
    return chunker.split(Material(text), Tools(tokenizer))


def made(kind: str, parameters: dict[str, Any]) -> Chunker:
    chunker = BROKEN[kind] if kind in BROKEN else CHUNKERS[kind]
    return chunker(**parameters)


# ------------------------------------------------------------------------------------------- the contract


def check_offsets(text: str, spans: list[Span], _chunker: Chunker, _tokenizer: Tokenizer) -> None:
    for span in spans:
        assert type(span.start) is int
        assert type(span.end) is int
        assert 0 <= span.start < span.end <= len(text)
        assert text[span.start : span.end].strip(), "a chunk without text"


def check_coverage(text: str, spans: list[Span], _chunker: Chunker, _tokenizer: Tokenizer) -> None:
    covered = np.zeros(len(text), bool)
    for span in spans:
        covered[span.start : span.end] = True
    lost = [position for position in np.flatnonzero(~covered) if not text[position].isspace()]
    assert not lost, f"lost from position {lost[0]}: {text[lost[0] : lost[0] + 20]!r}"


def check_limit(text: str, spans: list[Span], chunker: Chunker, tokenizer: Tokenizer) -> None:
    alone = tokenizer.count([text[span.start : span.end] for span in spans])
    assert [span.n_tokens for span in spans] == alone, (
        "n_tokens is not what the chunk has when it is embedded"
    )
    limit = getattr(chunker, "size", None) or getattr(chunker, "limit", None)
    assert limit is None or max(alone, default=0) <= limit


def check_order(_text: str, spans: list[Span], _chunker: Chunker, _tokenizer: Tokenizer) -> None:
    assert [span.start for span in spans] == sorted(span.start for span in spans)
    places = [(span.start, span.end) for span in spans]
    assert len(set(places)) == len(places), "the same chunk twice"


def check_repeatable(text: str, spans: list[Span], chunker: Chunker, tokenizer: Tokenizer) -> None:
    assert cut(chunker, text, tokenizer) == spans


CHECKS: dict[str, Callable[[str, list[Span], Chunker, Tokenizer], None]] = {
    "offsets": check_offsets,
    "coverage": check_coverage,
    "limit": check_limit,
    "order": check_order,
    "repeatable": check_repeatable,
}


def hold(chunker: Chunker, text: str, tokenizer: Tokenizer) -> list[Span]:
    """Cut ``text`` and hold the result to every check."""
    spans = cut(chunker, text, tokenizer)
    for check in CHECKS.values():
        check(text, spans, chunker, tokenizer)
    return spans


def failed_checks(chunker: Chunker, texts: list[str], tokenizer: Tokenizer) -> set[str]:
    """The names of the checks that some text makes fail."""
    failed = set()
    for text in texts:
        spans = cut(chunker, text, tokenizer)
        for name, check in CHECKS.items():
            try:
                check(text, spans, chunker, tokenizer)
            except AssertionError:
                failed.add(name)
    return failed


# ------------------------------------------------------------------------------------------- the suite


@pytest.fixture(scope="module")
def folder(weights: Callable[[str], Path]) -> Path:
    return weights("all-MiniLM-L6-v2")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return load_tokenizer(folder)


pytestmark = pytest.mark.models
per_case = pytest.mark.parametrize(("kind", "parameters"), CASES, ids=[f"{k}-{p}" for k, p in CASES])
quickly = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_every_registered_chunker_is_held_to_the_contract() -> None:
    assert set(PARAMETERS) == set(CHUNKERS), "a chunker without parameters here would not be tested"


@pytest.mark.parametrize("name", TEXTS)
@per_case
def test_the_contract_on_difficult_texts(
    kind: str, parameters: dict[str, Any], name: str, tokenizer: Tokenizer
) -> None:
    spans = hold(made(kind, parameters), TEXTS[name], tokenizer)
    assert bool(spans) == bool(TEXTS[name].strip())


ALPHABETS = {
    "any": st.characters(exclude_categories=["Cs"]),
    "emoji": st.sampled_from("😀👍🏽🇩🇪\u200d\ufe0f👩🚀🏳🌈#⃣ "),
    "right to left": st.sampled_from("אבגדהםןףץ\u05b8\u05b4ابتثجم\u064b\u0651\u200f\u202e ,؟\n"),
    "line ends": st.sampled_from("ab.,\r\n\t \u0085\u2028"),
    "combining": st.sampled_from("aeoZ\u0301\u0308\u0335\u0345\u302e\u0f71\u0f72각ǖ中 "),
    "control": st.characters(categories=["Cc", "Cf", "Zs", "Zl", "Zp"], include_characters="abc"),
    "CJK": st.sampled_from("中文字法律條約々〆ひらカナ한글。、「」 \u3000"),
    "long words": st.sampled_from("abcXYZ0189-"),
}


@pytest.mark.parametrize("name", ALPHABETS)
@per_case
def test_the_contract_on_any_unicode(
    kind: str, parameters: dict[str, Any], name: str, tokenizer: Tokenizer
) -> None:
    chunker = made(kind, parameters)

    @quickly
    @given(st.text(ALPHABETS[name], max_size=300))
    def holds(text: str) -> None:
        hold(chunker, text, tokenizer)

    holds()


def in_second_process(jobs: list[tuple[str, dict[str, Any]]], folder: Path) -> list[list[list[list[int]]]]:
    """The spans of every text for each of several chunkers, cut by another process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.contracts.test_chunkers", str(folder)],
        input=json.dumps(jobs),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


def as_json(jobs: list[tuple[str, dict[str, Any]]], tokenizer: Tokenizer) -> list[list[list[list[int]]]]:
    found = [[cut(made(*job), text, tokenizer) for text in TEXTS.values()] for job in jobs]
    return [[[list(span) for span in spans] for spans in texts] for texts in found]


def test_a_second_process_cuts_alike(folder: Path, tokenizer: Tokenizer) -> None:
    assert in_second_process(CASES, folder) == as_json(CASES, tokenizer)


# ------------------------------------------------------------------------------------------- token windows


def shared_tokens(text: str, left: Span, right: Span, tokenizer: Tokenizer) -> int:
    return tokenizer.count([text[right.start : left.end]])[0] if right.start < left.end else 0


def check_overlap(text: str, spans: list[Span], chunker: TokenWindows, tokenizer: Tokenizer) -> None:
    """Neighbours share `overlap` tokens, or as many words as fit beside the next word. No word may be cut."""
    words = tokenizer.words(text)
    for left, right in pairwise(spans):
        if shared_tokens(text, left, right, tokenizer) >= chunker.overlap:
            continue
        before = int(words.starts[words.starts < right.start][-1])
        after = int(words.ends[words.starts >= left.end][0])
        assert tokenizer.count([text[before:after]])[0] > chunker.size, f"{left} and {right} could share more"


def check_short_runs(text: str, spans: list[Span], chunker: TokenWindows, tokenizer: Tokenizer) -> None:
    """Words that have at most `overlap` tokens together stand in one window together."""
    words = tokenizer.words(text)
    for first, start in enumerate(words.starts):
        n_words = int(np.searchsorted(np.cumsum(words.tokens[first:]), chunker.overlap, side="right"))
        if n_words:
            end = words.ends[first + n_words - 1]
            assert any(span.start <= start and end <= span.end for span in spans), text[start:end]


@pytest.mark.parametrize(("size", "overlap"), [(8, 0), (8, 4), (8, 7), (16, 5), (32, 31), (128, 42)])
def test_windows_overlap_as_much_as_they_say(size: int, overlap: int, tokenizer: Tokenizer) -> None:
    chunker = TokenWindows(size=size, overlap=overlap)
    word = st.sampled_from(
        ["a", "the", "Directive", "2019/944", "unbundling", "Übertragungsnetz", ",", "(", "中"]
    )

    @quickly
    @given(st.lists(word, max_size=80).map(" ".join))
    def holds(text: str) -> None:
        if max(tokenizer.words(text).tokens, default=0) > size:
            return  # a word that has to be cut
        spans = cut(chunker, text, tokenizer)
        check_overlap(text, spans, chunker, tokenizer)
        check_short_runs(text, spans, chunker, tokenizer)

    holds()


def test_windows_by_hand(tokenizer: Tokenizer) -> None:
    text = "one two three four five six seven eight nine ten eleven twelve"
    spans = cut(TokenWindows(size=8, overlap=3), text, tokenizer)
    assert [text[span.start : span.end] for span in spans] == [
        "one two three four five six seven eight",
        "six seven eight nine ten eleven twelve",
    ]
    assert [span.n_tokens for span in spans] == [8, 7]


def test_no_window_lies_inside_its_neighbour(tokenizer: Tokenizer) -> None:
    text = "a b c d e f unbundlinguebertragungsnetz g h i"
    spans = cut(TokenWindows(size=12, overlap=8), text, tokenizer)
    assert all(left.end < right.end for left, right in pairwise(spans))


def test_a_window_never_cuts_a_word_that_fits(tokenizer: Tokenizer) -> None:
    text = "Übertragungsnetzbetreiber " * 40
    for span in cut(TokenWindows(size=16, overlap=5), text, tokenizer):
        assert set(text[span.start : span.end].split()) == {"Übertragungsnetzbetreiber"}


# ------------------------------------------------------------------------------------------- broken chunkers


class Windows(Chunker):
    """A sound base, to be broken: windows of 16 tokens that share 4."""

    size: int = 16

    def split(self, material: Material, tools: Tools) -> list[Span]:
        text, tokenizer = material.text, tools.tokenizer
        return self.spoil(cut(TokenWindows(size=16, overlap=4), text, tokenizer), text, tokenizer)

    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        return spans


class DropsTail(Windows):
    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        return spans[:-1] if len(spans) > 1 else spans


class StartsOneLate(Windows):
    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        return [Span(start + 1, end, n) for start, end, n, *_ in spans if start + 1 < end]


class EndsOneLate(Windows):
    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        return [Span(start, end + 1, n) for start, end, n, *_ in spans]


class TooLong(Windows):
    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        longer = TokenWindows(size=17, overlap=4)
        return cut(longer, text, tokenizer)


class Miscounts(Windows):
    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        return [Span(start, end, len(text[start:end].split())) for start, end, *_ in spans]


class SwapsOrder(Windows):
    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        return [*spans[1:2], *spans[:1], *spans[2:]]


class Repeats(Windows):
    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        return [*spans, *spans[-1:]]


class Blank(Windows):
    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        return spans or ([Span(0, len(text), 0)] if text else [])


class Rolls(Windows):
    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        return cut(TokenWindows(size=random.randint(8, 16), overlap=4), text, tokenizer)


class HashSeeded(Windows):
    """Cuts alike in one process, but not in two: `hash` of a string is salted."""

    def spoil(self, spans: list[Span], text: str, tokenizer: Tokenizer) -> list[Span]:
        return cut(TokenWindows(size=8 + hash(text) % 9, overlap=4), text, tokenizer)


BROKEN: dict[str, type[Windows]] = {
    one.__name__: one
    for one in (
        *(DropsTail, StartsOneLate, EndsOneLate, TooLong, Miscounts),
        *(SwapsOrder, Repeats, Blank, Rolls, HashSeeded),
    )
}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("DropsTail", "coverage"),
        ("StartsOneLate", "coverage"),
        ("EndsOneLate", "offsets"),
        ("TooLong", "limit"),
        ("Miscounts", "limit"),
        ("SwapsOrder", "order"),
        ("Repeats", "order"),
        ("Blank", "offsets"),
        ("Rolls", "repeatable"),
    ],
)
def test_the_suite_notices_a_broken_chunker(name: str, check: str, tokenizer: Tokenizer) -> None:
    texts = [TEXTS[one] for one in ("blank", "prose", "one word")]
    assert check in failed_checks(BROKEN[name](), texts, tokenizer)
    assert not failed_checks(Windows(), texts, tokenizer)


def test_the_suite_notices_a_chunker_that_differs_from_process_to_process(
    folder: Path, tokenizer: Tokenizer
) -> None:
    jobs: list[tuple[str, dict[str, Any]]] = [("HashSeeded", {})]
    assert not failed_checks(HashSeeded(), [PROSE], tokenizer)
    assert in_second_process(jobs, folder) != as_json(jobs, tokenizer)


class NoOverlap(TokenWindows):
    """Says 5 and shares nothing."""

    def split(self, material: Material, tools: Tools) -> list[Span]:
        text, tokenizer = material.text, tools.tokenizer
        return cut(TokenWindows(size=self.size, overlap=0), text, tokenizer)


def test_the_suite_notices_windows_that_share_too_little(tokenizer: Tokenizer) -> None:
    chunker = NoOverlap(size=16, overlap=5)
    spans = cut(chunker, PROSE, tokenizer)
    with pytest.raises(AssertionError, match="could share more"):
        check_overlap(PROSE, spans, chunker, tokenizer)
    with pytest.raises(AssertionError):
        check_short_runs(PROSE, spans, chunker, tokenizer)


if __name__ == "__main__":
    json.dump(as_json(json.load(sys.stdin), load_tokenizer(Path(sys.argv[1]))), sys.stdout)
