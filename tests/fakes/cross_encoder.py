"""A real cross-encoder, tiny and untrained: its weights are seeded, so that its scores stay the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rag_assay.assets.tokenization.words import plain_tokens

POSITIONS = 128
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def build_cross_encoder(
    folder: Path, texts: Iterable[str], outputs: int = 1, seed: int = 7, labels: Sequence[str] = ()
) -> Path:
    """Write a BERT of one layer that knows the words of ``texts``, as sentence-transformers loads it.

    labels: names of its outputs, in their order; unless said, as transformers numbers them
    """
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    words = sorted({word for text in texts for word in plain_tokens(text)})
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *words))}
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        num_labels=len(labels) or outputs,
        initializer_range=0.5,  # large, so that scores differ
    )
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: number for number, label in enumerate(labels)}
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab=vocabulary).save_pretrained(folder)
    return folder


def build_roberta(folder: Path, texts: Iterable[str], positions: int) -> Path:
    """Write a RoBERTa of one layer; its positions begin after the number of its padding token, 1."""
    from transformers import BertTokenizerFast, RobertaConfig, RobertaForSequenceClassification

    folder.mkdir(parents=True, exist_ok=True)
    words = sorted({word for text in texts for word in plain_tokens(text)})
    vocabulary = {
        word: number for number, word in enumerate(("[CLS]", "[PAD]", "[UNK]", "[SEP]", "[MASK]", *words))
    }
    config = RobertaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
        pad_token_id=1,
        num_labels=1,
    )
    RobertaForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab=vocabulary).save_pretrained(folder)
    return folder
