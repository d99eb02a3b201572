"""A classifier of entailment with a real model, tiny and untrained: what counts is what it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import JudgeCase, JudgeContext, Judgements
from rag_assay.evals.judging.entailment.hypotheses import windows
from rag_assay.evals.judging.entailment_classifier import LABELS, EntailmentClassifier
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.cross_encoder import POSITIONS, build_cross_encoder

WORDS = (
    "the ferry sails at noon and costs five six euro when does it sail dogs are free ends every day old quay"
)
CASE = JudgeCase(
    "It is old. When does it sail?",
    "en",
    "The ferry sails at noon every day. It costs five euro, and dogs are free.",
    ground_truth="The ferry sails at noon for six euro.",
    passages=(
        Passage("The old ferry sails at noon. It costs six euro."),
        Passage(" "),
        Passage("Dogs are free."),
    ),
)
OTHERS = (
    replace(CASE, answer="Dogs sail the old quay every day."),
    replace(CASE, ground_truth="At the quay dogs are free, and it ends.", passages=(Passage("noon " * 40),)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_cross_encoder(tmp_path_factory.mktemp("model"), [WORDS], labels=LABELS))


def judged(judge: EntailmentClassifier, *cases: JudgeCase) -> list[Judgements]:
    with Gateway(Home(Path("/nowhere"))) as gateway:
        return judge.judge(cases, JudgeContext(gateway, lambda texts: np.zeros((len(texts), 1))))


def probabilities(folder: str, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
    """By the model itself, one pair after another."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        scores = [model(**tokenizer(*pair, return_tensors="pt")).logits[0] for pair in pairs]
    return [[float(one) for one in torch.softmax(score, 0)] for score in scores]


def test_values_are_means_of_the_models_probabilities(folder: str) -> None:
    (found,) = judged(EntailmentClassifier(model=folder), CASE)
    answer = ["The ferry sails at noon every day.", "It costs five euro, and dogs are free."]
    truth = "The ferry sails at noon for six euro."
    context = "The old ferry sails at noon. It costs six euro. Dogs are free."
    asked = "When does it sail?"
    pairs = {
        "faithfulness": [(context, one) for one in answer],
        "precision": [(f"{asked} {truth}", one) for one in answer],
        "recall": [(f"{asked} {answer[0]} {answer[1]}", truth)],
    }
    assert list(found) == list(pairs)
    for name, some in pairs.items():
        expected = [row[0] for row in probabilities(folder, some)]
        assert found[name].value == pytest.approx(sum(expected) / len(expected), abs=1e-4)
        assert [one.value for one in found[name].statements] == pytest.approx(expected, abs=1e-4)
    assert [one.of for one in found["faithfulness"].statements] == [
        "answer, sentence 1",
        "answer, sentence 2",
    ]
    assert {one.usd for one in found.values()} == {0.0}
    assert all((one.seconds or 0) > 0 for one in found.values())


def test_the_order_of_labels_is_that_of_the_models_config(tmp_path: Path, folder: str) -> None:
    order = ("Contradiction", "ENTAILMENT", "neutral")
    turned = str(build_cross_encoder(tmp_path / "turned", [WORDS], labels=order))
    pair = (
        "The old ferry sails at noon. It costs six euro. Dogs are free.",
        "The ferry sails at noon every day.",
    )
    [row] = probabilities(turned, [pair])
    for judge in (
        EntailmentClassifier(model=turned),
        EntailmentClassifier(model=folder, labels=("contradiction", "entailment", "neutral")),
    ):
        (found,) = judged(judge, CASE)
        [first, _] = found["faithfulness"].statements
        assert first.value == pytest.approx(row[1], abs=1e-4)
        assert first.verdict == order[int(np.argmax(row))].lower()
        assert first.reason == f"entailment {row[1]:.2f}, neutral {row[2]:.2f}, contradiction {row[0]:.2f}"


def test_a_long_premise_is_read_in_windows_and_the_best_counts(folder: str) -> None:
    sentences = [
        f"The ferry costs {one} euro at noon and dogs are free every day." for one in ("five", "six") * 12
    ]
    case = replace(CASE, answer="Dogs sail at noon every day.", passages=(Passage(" ".join(sentences)),))
    (found,) = judged(EntailmentClassifier(model=folder, metrics=("faithfulness",)), case)
    room = POSITIONS - 3 - 7  # [CLS], twice [SEP], and the tokens of the answer
    per_window = room // 14
    parts = [" ".join(sentences[at : at + per_window]) for at in range(0, len(sentences) - 1, per_window - 1)]
    expected = [
        row[0] for row in probabilities(folder, [(part, "Dogs sail at noon every day.") for part in parts])
    ]
    [statement] = found["faithfulness"].statements
    assert statement.value == pytest.approx(max(expected), abs=1e-4)
    assert (statement.reason or "").endswith(f", in window {int(np.argmax(expected)) + 1} of {len(parts)}")


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_a_batch_says_what_each_case_says_alone(folder: str, batch_size: int) -> None:
    def essence(found: Sequence[Judgements]) -> list[dict[str, object]]:
        return [{n: (one.status, one.value, one.statements) for n, one in of.items()} for of in found]

    alone = [judged(EntailmentClassifier(model=folder, batch_size=1), case)[0] for case in (CASE, *OTHERS)]
    together = judged(EntailmentClassifier(model=folder, batch_size=batch_size), CASE, *OTHERS)
    assert essence(together) == essence(alone)


def test_a_sentence_that_leaves_no_room_is_no_number(folder: str) -> None:
    long = replace(CASE, answer="The ferry sails at noon. " + "ferry " * 80 + "ends.")
    (found,) = judged(EntailmentClassifier(model=folder, longest=1_000), replace(long, answer="ferry " * 120))
    assert (found["faithfulness"].status, found["faithfulness"].value) == (Status.TRUNCATED, None)
    assert "sentence 1 of the answer has 120 of the 125 tokens" in (found["faithfulness"].reason or "")
    assert found["recall"].status is Status.OK, "as a premise it is read in windows"
    (found,) = judged(EntailmentClassifier(model=folder), long)
    assert found["faithfulness"].status is Status.OK


def test_what_a_model_is_found_by(tmp_path: Path, folder: str) -> None:
    same, other = (
        str(build_cross_encoder(tmp_path / name, [WORDS], seed=seed, labels=LABELS))
        for name, seed in (("same", 7), ("other", 8))
    )
    first, second, third = (EntailmentClassifier(model=one).dependencies(7) for one in (folder, same, other))
    assert first == second != third
    (before,) = judged(EntailmentClassifier(model=same), CASE)
    Path(same, "model.safetensors").write_bytes(Path(other, "model.safetensors").read_bytes())
    (after,) = judged(EntailmentClassifier(model=same), CASE)
    assert before["recall"].value != after["recall"].value, "new weights in an old place are read anew"


def test_what_is_no_classifier_of_entailment(tmp_path: Path, folder: str) -> None:
    numbered = str(build_cross_encoder(tmp_path / "numbered", [WORDS], outputs=3))
    with pytest.raises(ValidationError, match=r"are LABEL_0, LABEL_1, LABEL_2 by its config\.json"):
        EntailmentClassifier(model=numbered)
    assert EntailmentClassifier(model=numbered, labels=LABELS).labels == LABELS
    with pytest.raises(ValidationError, match="names each of entailment, neutral, contradiction once"):
        EntailmentClassifier(model=numbered, labels=("neutral", "neutral", "entailment"))
    with pytest.raises(ValidationError, match="needs its `revision`"):
        EntailmentClassifier(model="cross-encoder/nli-deberta-v3-base")
    with pytest.raises(ValidationError, match="there is no folder"):
        EntailmentClassifier(model=str(tmp_path / "nowhere"))
    two = str(build_cross_encoder(tmp_path / "two", [WORDS], labels=("entailment", "not_entailment")))
    with pytest.raises(ValidationError, match="are entailment, not_entailment"):
        EntailmentClassifier(model=two)
    (found,) = judged(EntailmentClassifier(model=two, labels=LABELS), CASE)
    assert {(one.status, one.reason) for one in found.values()} == {
        (Status.ERROR, f"{two} gives 2 scores for a pair; a classifier of entailment gives three")
    }


def test_torn_weights_are_a_reason_and_no_number(tmp_path: Path) -> None:
    folder = build_cross_encoder(tmp_path / "torn", [WORDS], labels=LABELS)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1_000])
    (found,) = judged(EntailmentClassifier(model=str(folder)), CASE)
    assert {one.status for one in found.values()} == {Status.ERROR}
    assert all("cannot be loaded" in (one.reason or "") for one in found.values())


def words_of(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


@given(
    st.lists(
        st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=20).map(" ".join), min_size=1, max_size=12
    ),
    st.integers(0, 8).map(lambda n: " ".join("q" * n)),
    st.integers(4, 40),
)
def test_windows_hold_all_of_it_and_none_is_too_long(texts: list[str], lead: str, room: int) -> None:
    found = windows(lead, texts, room, words_of)
    assert max(words_of(found)) <= room
    kept = [word for one in found for word in one.split() if word != "q"]
    whole = [word for text in texts for word in text.split()]
    rest = iter(kept)
    assert all(word in rest for word in whole), "every word, in its order"
    if words_of([" ".join([lead, *texts])])[0] <= room and len(lead.split()) <= room // 2:
        assert found == [" ".join([lead, *texts]).strip()]


def test_a_word_longer_than_a_window_is_cut() -> None:
    found = windows("", ["x" * 100], 16, lambda texts: [len(text) for text in texts])
    assert "".join("".join(found).split()) == "x" * 100
