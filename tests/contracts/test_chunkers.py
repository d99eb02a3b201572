"""What every chunker keeps to (`assets.chunking.contract`), and proof that a broken one is noticed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from rag_assay.assets.chunking import CHUNKERS, Chunker, ChunkerInput, ChunkSpan, Section, Tools
from rag_assay.assets.chunking.tokens import TokenWindows
from rag_assay.assets.tokenization.tokenizer import Tokenizer, load_tokenizer
from tests.fakes.named import named
from tests.fakes.other_tokenizers import KINDS, other_tokenizer

ROOT = Path(__file__).parents[2]

# ------------------------------------------------------------------------------------------- texts

PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "tokens": [
        {"size": 8},
        {"size": 8, "overlap": 7},
        {"size": 16, "overlap": 5},
        {"size": 128, "overlap": 42},
    ],
    "recursive": [
        {"size": 8, "overlap": 3},
        {"size": 1000, "overlap": 100},
        {"unit": "tokens", "size": 16, "overlap": 5},
        {"unit": "tokens", "size": 8, "overlap": 0, "separators": [". ", "-", "e"]},
    ],
    "sentences": [{"size": 8, "overlap": 1}, {"size": 32, "overlap": 0}, {"size": 64, "overlap": 3}],
    "structure": [
        {"limit": 16, "prefix_heading": True},
        {"limit": 64, "overlap": 20},
        {"limit": 64, "prefix_heading": True, "merge_below": 32},
    ],
    "semantic": [
        {"limit": 16, "buffer": 0, "breakpoint": "gradient"},
        {"limit": 64},
        {"limit": 128, "buffer": 1, "breakpoint": "interquartile", "amount": 0.5},
    ],
    "document": [{}],
    "sentence_window": [{"limit": 16, "neighbours": 2}, {"limit": 64, "neighbours": 0}],
    "parent": [{"size": 8, "overlap": 3, "parent_size": 20}, {"size": 32, "overlap": 0, "parent_size": 100}],
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
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪👍🏽" * 15,
    "right to left": "הספרייה פתוחה בכל יום, حتى الساعة الثامنة مساءً. " * 10,
    "Chinese and Japanese": "第五條 成員國應當通知委員會。ページを読み込みます。" * 15,
    "Korean": "회원국은 위원회에 통지하여야 한다. " * 20,
    "Thai, which has no spaces": "รัฐสมาชิกต้องแจ้งคณะกรรมาธิการ" * 30,
    "combining marks": "a\u0301\u0308 Z\u0335\u0321\u0353a\u0334\u0301lgo \u0301 e\u0301" * 20,
    "control characters": "one\x00two \x1c\x1d three\x85four \x0b\x0c\u200b\ufeff\u2028\u2029 five\ufffd" * 8,
    "characters that the tokenizer deletes": "\u200b\u200d\ufeff" * 30,
    "20 kB of one letter": "x" * 20_000,
    "20 kB without a space": "Aufenthaltsgenehmigung" * 910,
    "a long word between short ones": f"before {'ab1' * 300} after",
    "a long run of separators inside a word": f"a{chr(0x1C) * 5_000}b",
    "a word of many tokens": "see 0x" + "9f3ac1e7" * 12 + " for more",
    "added tokens": "[CLS] is [SEP] or[MASK]not",
    "lone surrogates": "one \ud800 two\udfff three \ud83d\ud83d " * 30,
}


def material_of(text: str) -> ChunkerInput:
    """The text with sections that depend on it alone: nested, some of them tiny, cutting words apart."""
    roll, length = random.Random(len(text)), len(text)
    sections = []
    for number in range(min(12, length // 20)):
        begin, end = sorted(roll.sample(range(length + 1), 2))
        sections.append(Section(f"Title {number} " + "on and on " * roll.choice((0, 1, 9)), 1, begin, end))
        middle = (begin + end) // 2
        sections.append(Section(f"Article {number}", 2, begin, middle))
        sections.append(Section(f"Article {number}a", 2, middle, end))
    return ChunkerInput(text, tuple(sections))


def vectors(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Unit vectors that depend on each text alone, the same in every process."""
    hashes = [sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    found = np.stack([np.frombuffer(one, np.uint8)[:16] for one in hashes])
    centred = found.astype(np.float32) - 127.5
    return centred / np.linalg.norm(centred, axis=1, keepdims=True)


def tools_of(tokenizer: Tokenizer) -> Tools:
    return Tools(tokenizer, vectors)


def cut(chunker: Chunker, text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
    return chunker.split(material_of(text), tools_of(tokenizer))


def made(kind: str, parameters: dict[str, Any]) -> Chunker:
    chunker = BROKEN[kind] if kind in BROKEN else CHUNKERS[kind]
    return chunker(**parameters)


# ------------------------------------------------------------------------------------------- the contract


def check_offsets(text: str, spans: list[ChunkSpan], _chunker: Chunker, _tokenizer: Tokenizer) -> None:
    for span in spans:
        assert type(span.start) is int
        assert type(span.end) is int
        assert 0 <= span.start < span.end <= len(text)
        assert text[span.start : span.end].strip(), "a chunk without text"


def check_gaps(text: str, spans: list[ChunkSpan], _chunker: Chunker, _tokenizer: Tokenizer) -> None:
    """Only white space lies before the first chunk, between two, and after the last: the text is covered."""
    places = [(0, 0), *((span.start, span.end) for span in spans), (len(text), len(text))]
    for (_, end), (begin, _) in pairwise(places):
        gap = text[end:begin]
        assert not gap.strip(), f"lost from position {end}: {gap[:20]!r}"


def check_limit(text: str, spans: list[ChunkSpan], chunker: Chunker, tokenizer: Tokenizer) -> None:
    alone = tokenizer.count([span.prefix + text[span.start : span.end] for span in spans])
    assert [span.n_tokens for span in spans] == alone, (
        "n_tokens is not what the chunk has when it is embedded"
    )
    longest, size = max(alone, default=0), getattr(chunker, "size", None)
    if getattr(chunker, "unit", "tokens") == "characters":
        longest = max((span.end - span.start for span in spans), default=0)
    assert size is None or longest <= size
    limit = getattr(chunker, "limit", None)
    assert limit is None or longest + tokenizer.special_tokens <= limit


def check_order(_text: str, spans: list[ChunkSpan], _chunker: Chunker, _tokenizer: Tokenizer) -> None:
    assert [span.start for span in spans] == sorted(span.start for span in spans)
    ends = [span.end for span in spans]
    assert ends == sorted(set(ends)), "a chunk twice, or inside its neighbour"


def check_context(text: str, spans: list[ChunkSpan], _chunker: Chunker, _tokenizer: Tokenizer) -> None:
    for span in spans:
        if span.context is not None:
            start, end = span.context
            assert type(start) is int
            assert type(end) is int
            assert 0 <= start <= span.start < span.end <= end <= len(text), "its context does not hold it"


def check_prefix(_text: str, spans: list[ChunkSpan], _chunker: Chunker, tokenizer: Tokenizer) -> None:
    prefixes = {span.prefix for span in spans}
    assert all(prefix == "" or prefix.endswith("\n") for prefix in prefixes), "it would run into the text"
    limit = max((span.n_tokens for span in spans), default=0)
    assert max(tokenizer.count(sorted(prefixes)), default=0) <= limit


def check_repeatable(text: str, spans: list[ChunkSpan], chunker: Chunker, tokenizer: Tokenizer) -> None:
    assert cut(chunker, text, tokenizer) == spans


CHECKS: dict[str, Callable[[str, list[ChunkSpan], Chunker, Tokenizer], None]] = {
    "offsets": check_offsets,
    "gaps": check_gaps,
    "limit": check_limit,
    "order": check_order,
    "context": check_context,
    "prefix": check_prefix,
    "repeatable": check_repeatable,
}


def hold(chunker: Chunker, text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
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
quickly = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_every_registered_chunker_is_held_to_the_contract() -> None:
    assert set(PARAMETERS) == set(CHUNKERS), "a chunker without parameters here would not be tested"


@per_case
def test_the_contract_on_difficult_texts(kind: str, parameters: dict[str, Any], tokenizer: Tokenizer) -> None:
    for name, text in TEXTS.items():
        with named(name):
            assert bool(hold(made(kind, parameters), text, tokenizer)) == bool(text.strip())


ALPHABETS = {
    "any": st.characters(exclude_categories=["Cs"]),
    "emoji": st.sampled_from("😀👍🏽🇩🇪\u200d\ufe0f👩🚀🏳🌈#⃣ "),
    "right to left": st.sampled_from("אבגדהםןףץ\u05b8\u05b4ابتثجم\u064b\u0651\u200f\u202e ,؟\n"),
    "line ends": st.sampled_from("ab.,\r\n\t \u0085\u2028"),
    "combining": st.sampled_from("aeoZ\u0301\u0308\u0335\u0345\u302e\u0f71\u0f72각ǖ中 "),
    "control": st.characters(categories=["Cc", "Cf", "Zs", "Zl", "Zp"], include_characters="abc"),
    "CJK": st.sampled_from("中文字法律條約々〆ひらカナ한글。、「」 \u3000"),
    "long words": st.sampled_from("abcXYZ0189-"),
    "sentence marks": st.sampled_from('aB1.!?…:„“"() \n'),
}


@pytest.mark.parametrize("name", ALPHABETS)
def test_the_contract_on_any_unicode(name: str, tokenizer: Tokenizer) -> None:
    chunkers = [(kind, parameters, made(kind, parameters)) for kind, parameters in CASES]

    @quickly
    @given(st.text(ALPHABETS[name], max_size=300))
    def holds(text: str) -> None:
        for kind, parameters, chunker in chunkers:
            note(f"{kind} {parameters}")
            hold(chunker, text, tokenizer)

    holds()


LONG_TEXTS = {
    "200 kB without a space": "Aufenthaltsgenehmigung" * 9_091,
    "200 kB of emoji": "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪👍🏽" * 2_780,
    "200 kB right to left": "הספרייה פתוחה בכל יום, حتى الساعة الثامنة مساءً. " * 2_300,
    "200 kB of CRLF": "A line of an old file.\r\n" * 8_200,
}
LARGE: dict[str, dict[str, Any]] = {
    "tokens": {"size": 256, "overlap": 85},
    "recursive": {"size": 1000, "overlap": 100},
    "parent": {"size": 128, "overlap": 42, "parent_size": 1024},
}


@pytest.mark.parametrize("name", LONG_TEXTS)
@pytest.mark.parametrize("kind", CHUNKERS)
def test_the_contract_on_long_texts(kind: str, name: str, tokenizer: Tokenizer) -> None:
    chunker, text = made(kind, LARGE.get(kind, {})), LONG_TEXTS[name]
    spans = cut(chunker, text, tokenizer)
    for name_of_check, check in CHECKS.items():
        if name_of_check != "repeatable":  # shown on shorter texts
            check(text, spans, chunker, tokenizer)
    if kind != "document":
        assert max(span.end - span.start for span in spans) < 20_000, "some chunk nobody can read"


OTHER_TOKENIZERS = sorted(KINDS)
SHORT = [text for text in TEXTS.values() if len(text) < 20_000]


def in_second_process(jobs: list[tuple[str, dict[str, Any]]], folder: Path) -> Any:
    """The spans of every text for each of several chunkers, cut by another process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.contracts.test_chunkers", str(folder)],
        input=json.dumps(jobs),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=280,  # a busy machine; pytest's own limit is 300
    )
    return json.loads(done.stdout)


def as_json(jobs: list[tuple[str, dict[str, Any]]], tokenizer: Tokenizer) -> Any:
    found = [[cut(made(*job), text, tokenizer) for text in SHORT] for job in jobs]
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("other", OTHER_TOKENIZERS)
def test_the_contract_in_the_tokens_of_other_embedders(other: str) -> None:
    tokenizer = other_tokenizer(other)
    for kind, parameters in dict(reversed(CASES)).items():  # the first of each
        chunker = made(kind, parameters)
        for text in SHORT:
            with named(f"{kind} {parameters}: {text[:40]!r}"):
                spans = cut(chunker, text, tokenizer)
                for name, check in CHECKS.items():
                    if name != "repeatable":  # shown in the tokens of one, and by a second process
                        check(text, spans, chunker, tokenizer)


@pytest.mark.parametrize("other", OTHER_TOKENIZERS)
def test_windows_in_the_tokens_of_other_embedders_overlap_and_are_full(other: str) -> None:
    tokenizer, chunker = other_tokenizer(other), TokenWindows(size=64, overlap=21)
    text = " ".join(PROSE.split())
    words = tokenizer.words(text)
    spans = chunker.split(ChunkerInput(text), tools_of(tokenizer))
    assert len(spans) >= 5
    before = np.concatenate([[0], np.cumsum(words.tokens)])
    for left, right in pairwise(spans):
        assert not text[left.end - 1 : left.end + 1].isalnum(), "cut within a word"
        assert left.n_tokens > 64 - 24, "no word of the text has more tokens"
        first, after = np.searchsorted(words.starts, [right.start, left.end])
        assert before[after] - before[first] >= 21, "as they stand in the text"


def test_a_second_process_cuts_alike(folder: Path, tokenizer: Tokenizer) -> None:
    one_of_each_kind = list(dict(CASES).items())
    assert in_second_process(one_of_each_kind, folder) == as_json(one_of_each_kind, tokenizer)


# ------------------------------------------------------------------------------------------- token windows


def shared_tokens(text: str, left: ChunkSpan, right: ChunkSpan, tokenizer: Tokenizer) -> int:
    return tokenizer.count([text[right.start : left.end]])[0] if right.start < left.end else 0


def check_overlap(text: str, spans: list[ChunkSpan], chunker: TokenWindows, tokenizer: Tokenizer) -> None:
    """Neighbours share `overlap` tokens, or as many words as fit beside the next word. No word may be cut."""
    words = tokenizer.words(text)
    for left, right in pairwise(spans):
        if shared_tokens(text, left, right, tokenizer) >= chunker.overlap:
            continue
        before = int(words.starts[words.starts < right.start][-1])
        after = int(words.ends[words.starts >= left.end][0])
        assert tokenizer.count([text[before:after]])[0] > chunker.size, f"{left} and {right} could share more"


def check_short_runs(text: str, spans: list[ChunkSpan], chunker: TokenWindows, tokenizer: Tokenizer) -> None:
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

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        text, tokenizer = material.text, tools.tokenizer
        return self.spoil(cut(TokenWindows(size=16, overlap=4), text, tokenizer), text, tokenizer)

    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return spans


class DropsTail(Windows):
    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return spans[:-1] if len(spans) > 1 else spans


class StartsOneLate(Windows):
    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return [ChunkSpan(start + 1, end, n) for start, end, n, *_ in spans if start + 1 < end]


class EndsOneLate(Windows):
    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return [ChunkSpan(start, end + 1, n) for start, end, n, *_ in spans]


class TooLong(Windows):
    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        longer = TokenWindows(size=17, overlap=4)
        return cut(longer, text, tokenizer)


class Miscounts(Windows):
    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return [ChunkSpan(start, end, len(text[start:end].split())) for start, end, *_ in spans]


class SwapsOrder(Windows):
    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return [*spans[1:2], *spans[:1], *spans[2:]]


class Repeats(Windows):
    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return [*spans, *spans[-1:]]


class Blank(Windows):
    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return spans or ([ChunkSpan(0, len(text), 0)] if text else [])


TURNS = count()


class Rolls(Windows):
    """Cuts otherwise at each call."""

    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return cut(TokenWindows(size=8 + next(TURNS) % 9, overlap=4), text, tokenizer)


class HashSeeded(Windows):
    """Cuts alike in one process, but not in two: `hash` of a string is salted."""

    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return cut(TokenWindows(size=8 + hash(text) % 9, overlap=4), text, tokenizer)


class Nests(Windows):
    """A chunk, and its own second half."""

    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        first, *others = spans or [ChunkSpan(0, 0, 0)]
        half = recounted(text, (first.start + first.end) // 2, first.end, tokenizer)
        return [first, half, *others] if spans and half.n_tokens else spans


class ContextBeside(Windows):
    """Delivers the chunk before it."""

    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        before = [spans[:1], *([span] for span in spans)]
        return [
            span._replace(context=(one.start, one.end))
            for (one, *_), span in zip(before, spans, strict=False)
        ]


class ContextBeyond(Windows):
    """Delivers some characters that no text has."""

    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return [span._replace(context=(span.start, span.end + 9)) for span in spans]


class PrefixUncounted(Windows):
    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return [span._replace(prefix="Article 5\n") for span in spans]


class PrefixTooLong(Windows):
    """Counts its prefix, but does not make room for it."""

    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        return [span._replace(prefix="Article 5\n", n_tokens=span.n_tokens + 2) for span in spans]


class PrefixRunsOn(Windows):
    """Its prefix ends in the middle of a word."""

    def spoil(self, spans: list[ChunkSpan], text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
        places = [(span.start, (span.start + span.end) // 2) for span in spans]
        return [recounted(text, *place, tokenizer)._replace(prefix="Ar") for place in places]


class IgnoresSpecialTokens(Windows):
    """Fills its limit, and the embedder adds two tokens to that."""

    size: Any = None
    limit: int = 16


def recounted(text: str, start: int, end: int, tokenizer: Tokenizer) -> ChunkSpan:
    return ChunkSpan(start, end, tokenizer.count([text[start:end]])[0])


BROKEN: dict[str, type[Windows]] = {
    one.__name__: one
    for one in (
        *(DropsTail, StartsOneLate, EndsOneLate, TooLong, Miscounts, IgnoresSpecialTokens),
        *(SwapsOrder, Repeats, Nests, Blank, Rolls, HashSeeded),
        *(ContextBeside, ContextBeyond, PrefixUncounted, PrefixTooLong, PrefixRunsOn),
    )
}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("DropsTail", "gaps"),
        ("StartsOneLate", "gaps"),
        ("EndsOneLate", "offsets"),
        ("TooLong", "limit"),
        ("Miscounts", "limit"),
        ("IgnoresSpecialTokens", "limit"),
        ("SwapsOrder", "order"),
        ("Repeats", "order"),
        ("Nests", "order"),
        ("Blank", "offsets"),
        ("Rolls", "repeatable"),
        ("ContextBeside", "context"),
        ("ContextBeyond", "context"),
        ("PrefixUncounted", "limit"),
        ("PrefixTooLong", "limit"),
        ("PrefixRunsOn", "prefix"),
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

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
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
