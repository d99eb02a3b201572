from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rag_assay.evals.generation.extractive import OVERLAP_WEIGHT, extract, extract_many

Floats = npt.NDArray[np.floating]


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


class Embedding:
    """Texts -> unit vectors from a table; a text that is not in it is at a right angle to all others."""

    def __init__(self, cosines: dict[str, float]) -> None:
        self.cosines = cosines
        self.batches: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Floats:
        self.batches.append(texts)
        cosines = np.array([self.cosines.get(text, 0.0) for text in texts])
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)


QUESTION = "How high is the lighthouse?"
HIGH = "The lighthouse is 54 metres high."
OLD = "It was built in 1874."
CARS = "Cars may drive in winter."
PASSAGES = [f"{OLD} {HIGH}", f"{CARS} {HIGH}"]
COSINES = {QUESTION: 1.0, HIGH: 0.8, OLD: 0.5, CARS: 0.1}


def test_the_best_sentence_is_quoted() -> None:
    assert extract(QUESTION, PASSAGES, Embedding(COSINES), 6, words) == HIGH


def test_more_sentences_come_in_reading_order_each_once() -> None:
    # HIGH (6 words) is the best, OLD (5) the second: together they fill 11 words, in the order of the text.
    assert extract(QUESTION, PASSAGES, Embedding(COSINES), 11, words) == f"{OLD} {HIGH}"
    assert extract(QUESTION, PASSAGES, Embedding(COSINES), 99, words) == f"{OLD} {HIGH} {CARS}"


def test_a_sentence_that_does_not_fit_is_passed_over_for_one_that_does() -> None:
    long = "This is a rather long sentence about old lighthouses in general."
    cosines = {**COSINES, long: 0.7}
    answer = extract(QUESTION, [f"{long} {HIGH} {CARS}"], Embedding(cosines), 11, words)
    assert answer == f"{HIGH} {CARS}"


def test_the_score_is_the_blend_that_is_documented() -> None:
    # Terms of the question: "high", "lighth…". Two sentences; "high" is in one: log(3 / 1.5), "lighth…" in
    # both: log(3 / 2.5). The second holds the common term only.
    first, second = "The lighthouse is high.", "A lighthouse stands here."
    rare, common = np.log(3 / 1.5), np.log(3 / 2.5)
    overlap = common / (rare + common)
    best = (1 - OVERLAP_WEIGHT) * 0.5 + OVERLAP_WEIGHT * overlap
    embedding = Embedding({QUESTION: 1.0, first: -0.9, second: 0.5})
    passages = [f"{first} {second}"]
    assert extract(QUESTION, passages, embedding, 4, words, minimum=best - 1e-4) == second
    assert extract(QUESTION, passages, embedding, 4, words, minimum=best + 1e-4) == ""


def test_a_rare_word_of_the_question_decides_between_equal_cosines() -> None:
    passages = ["The fee is paid in cash. The fee for dogs is paid too. The fee is paid at noon."]
    answer = extract("What fee is paid for dogs?", passages, Embedding({}), 7, words)
    assert answer == "The fee for dogs is paid too."


def test_equal_scores_go_to_what_is_read_first() -> None:
    passages = ["Zebra one. Alpha two.", "Beta three."]
    assert extract("Nothing alike?", passages, Embedding({}), 2, words) == "Zebra one."


def test_noise_in_the_last_bits_breaks_no_tie() -> None:
    def embed(texts: list[str]) -> Floats:
        noise = np.array([[1.0, 0.0] if text.endswith("?") else [0.5, 0.0] for text in texts])
        noise[-1] += 1e-9
        return noise

    assert extract("Nothing alike?", ["One here. Two there."], embed, 2, words) == "One here."


def test_a_part_of_a_sentence_at_the_edge_of_a_chunk_is_not_quoted_beside_it() -> None:
    passages = ["The lighthouse is 54 metres", "is 54 metres high.", HIGH]
    assert extract(QUESTION, passages, Embedding(COSINES), 99, words) == HIGH


def test_a_best_sentence_longer_than_the_budget_is_cut_at_a_word() -> None:
    answer = extract(QUESTION, [HIGH], Embedding(COSINES), 4, words)
    assert answer == "The lighthouse is …"
    assert words([answer]) == [4]
    assert extract(QUESTION, [HIGH], Embedding(COSINES), 1, words) == "The …"


def test_abstaining_needs_a_minimum() -> None:
    embedding = Embedding({QUESTION: 1.0, CARS: 0.1})
    assert extract(QUESTION, [CARS], embedding, 20, words) == CARS
    assert extract(QUESTION, [CARS], embedding, 20, words, minimum=0.3) == ""


def test_passages_without_a_sentence_give_nothing() -> None:
    assert extract(QUESTION, [], Embedding({}), 20, words) == ""
    assert extract(QUESTION, ["", "…"], Embedding({}), 20, words) == ""
    assert extract_many([], Embedding({}), 20, words) == []


def test_many_questions_are_embedded_in_one_batch_each_text_once() -> None:
    embedding = Embedding(COSINES)
    requests = [
        (QUESTION, PASSAGES),
        (QUESTION, PASSAGES),
        ("When was it built?", [PASSAGES[0]]),
        ("Why?", []),
    ]
    answers = extract_many(requests, embedding, 6, words)
    (batch,) = embedding.batches
    assert sorted(batch) == sorted({QUESTION, HIGH, OLD, CARS, "When was it built?", "Why?"})
    assert answers[:2] == [HIGH, HIGH]
    assert answers[3] == ""
    alone = [extract(question, passages, Embedding(COSINES), 6, words) for question, passages in requests]
    assert answers == alone


@pytest.mark.models
def test_a_real_embedder_finds_the_sentence_in_either_language(weights: Callable[[str], Path]) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(weights("all-MiniLM-L6-v2")), device="cpu")

    def embed(texts: list[str]) -> Floats:
        return np.asarray(model.encode(texts, normalize_embeddings=True, show_progress_bar=False))

    english = [
        "The island has 6,000 inhabitants. The tower, built in 1874, is 54 metres high. Cars are banned."
    ]
    german = ["Die Insel hat 6.000 Einwohner. Der Turm wurde am 3. Mai 1874 eröffnet. Autos sind verboten."]
    requests = [("When was the tower built?", english), ("Wann wurde der Turm eröffnet?", german)]
    assert extract_many(requests, embed, 9, words) == [
        "The tower, built in 1874, is 54 metres high.",
        "Der Turm wurde am 3. Mai 1874 eröffnet.",
    ]
