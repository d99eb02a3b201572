"""Small tokenizers of every family that embedding models use, trained on the spot."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

from tokenizers import Regex, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Raw

from rag_assay.assets.tokenization.tokenizer import Tokenizer

TEXT = [
    "Each Member State shall notify the Commission by 31 December 2024, at the latest (Article 5).",
    "Die Übertragungsnetzbetreiber übermitteln den Straßenlärmbericht vollständig bis zum 1. März.",
    "unbundling notwithstanding electricity ferries harbour 2019/944 中文法律條約 הספרייה حتى الساعة",
]
QWEN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
ENDS = [("<s>", 1), ("</s>", 2)]


def _wordpiece() -> Raw:
    """BERT's, cased."""
    raw = Raw(models.WordPiece(unk_token="[UNK]"))  # noqa: S106 -- not a password
    raw.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]"]
    raw.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=250, special_tokens=special))
    ends = [("[CLS]", 1), ("[SEP]", 2)]
    raw.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return raw


def _byte_level() -> Raw:
    """RoBERTa's: a word with a space before it has other tokens than without."""
    raw = Raw(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(vocab_size=350, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet),
    )
    raw.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True)
    return raw


def _byte_level_by_pattern() -> Raw:
    """Qwen's and ModernBERT's: line ends are tokens of their own, and nothing is added."""
    raw = _byte_level()
    raw.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(QWEN), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    raw.post_processor = processors.ByteLevel(trim_offsets=False)
    return raw


def _unigram() -> Raw:
    """XLM-R's and T5's: words begin with a sign; NFKC makes several characters of one."""
    raw = Raw(models.Unigram())
    raw.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    special = ["<unk>", "<s>", "</s>"]
    raw.train_from_iterator(
        TEXT,
        trainers.UnigramTrainer(vocab_size=200, special_tokens=special, unk_token="<unk>"),  # noqa: S106
    )
    raw.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ENDS)
    return raw


def _one_word() -> Raw:
    """Llama's: nothing parts a text before it is tokenised; unknown characters become bytes."""
    raw = Raw(models.BPE(byte_fallback=True, unk_token="<unk>"))  # noqa: S106
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", *(f"<0x{number:02X}>" for number in range(256))]
    raw.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=500, special_tokens=special))
    raw = Raw.from_str(json.dumps({**json.loads(raw.to_str()), "pre_tokenizer": None}))
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=ENDS[:1])
    return raw


KINDS: dict[str, Callable[[], Raw]] = {
    "WordPiece, cased": _wordpiece,
    "byte-level BPE": _byte_level,
    "byte-level BPE by a pattern": _byte_level_by_pattern,
    "SentencePiece Unigram": _unigram,
    "SentencePiece BPE": _one_word,
}


@cache
def other_tokenizer(kind: str) -> Tokenizer:
    """Return a tokenizer of one of KINDS."""
    return Tokenizer(KINDS[kind]())
