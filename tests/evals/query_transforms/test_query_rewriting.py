"""Questions rewritten by rules: follow-ups, keywords with synonyms, several forms, hypothetical passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import yaml
from pydantic import ValidationError

from rag_assay.evals.query_transforms.follow_up import FollowUp, standalone
from rag_assay.evals.query_transforms.hyde import Hyde
from rag_assay.evals.query_transforms.keywords import Keywords
from rag_assay.evals.query_transforms.model_transform import statement
from rag_assay.evals.query_transforms.multi_query import MultiQuery
from rag_assay.evals.query_transforms.rules.follow_up_cues import depends
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.study.registry import QUERY_TRANSFORMS
from rag_assay.evals.study.study_names import BUNDLED
from tests.fakes.indexing import build_index, read_by, vector_of

LEAGUE = ("Wer trainiert Rot-Weiß Zechenau?", "Ralf Dünnwald ist seit Dezember der Trainer.")
ACT = ("What is the target for 2030?", "55 %.", "Who set it?", "The Council did.")
FOLLOW_UPS = [
    ("Und Hammerlohe?", LEAGUE, "Wer trainiert Hammerlohe?"),
    ("Was ist mit dem TuS Hammerlohe?", LEAGUE, "Wer trainiert TuS Hammerlohe?"),
    ("Wie alt ist er?", LEAGUE, "Wie alt ist er? (Rot-Weiß Zechenau, Ralf Dünnwald, Dezember, Trainer)"),
    ("Wie lange gilt sein Vertrag?", LEAGUE,
     "Wie lange gilt sein Vertrag? (Rot-Weiß Zechenau, Ralf Dünnwald, Dezember, Trainer)"),
    ("Warum?", LEAGUE, "Warum? (Rot-Weiß Zechenau, Ralf Dünnwald, Dezember, Trainer)"),
    ("And in 2022/23?", ("Who won in 2021/22?", "Steelbrück."), "Who won in 2022/23?"),
    ("Und 2022/23?", ("Wer wurde 2021/22 Meister?", "Steelbrück."), "Wer wurde 2022/23 Meister?"),
    ("Is it binding?", ACT, "Is it binding? (2030, set, target, Council)"),  # through both questions
    ("How long does it last?", ("When was the Skerry Sea tender opened?",),
     "How long does it last? (Skerry Sea, tender, opened)"),
]  # fmt: skip


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    """An index of one document with every word of the conversations: all are equally rare."""
    said = " ".join(" ".join((text, *conversation)) for text, conversation, _ in FOLLOW_UPS)
    return build_index(tmp_path_factory.mktemp("spoken"), (said,))


@pytest.mark.parametrize(("text", "conversation", "wanted"), FOLLOW_UPS)
def test_a_follow_up_is_made_to_stand_alone(
    text: str, conversation: tuple[str, ...], wanted: str, spoken: OpenIndex
) -> None:
    assert standalone(text, conversation) == wanted
    (query,) = read_by(FollowUp(), Query(text, conversation=conversation), spoken)
    assert (query.text, query.conversation) == (wanted, ())


STANDING = [
    "Wie viele Tore schoss Brockhoff?",
    "Wie hoch ist der Turm, und wem gehört er?",
    "When does it become impossible to put an oil burner into a new house?",
    "Ist es möglich, Karten zurückzugeben, wenn das Spiel ausfällt?",
    "Did companies disclose whether they were audited?",
    "What portion of its yearly use must a country with no caverns keep?",
    "Which tickets are sold on the quay?",
]


@pytest.mark.parametrize("text", STANDING)
def test_a_question_that_stands_alone_is_left_alone(text: str) -> None:
    assert standalone(text, LEAGUE) == text


@pytest.mark.parametrize("name", ["energy", "football", "blog"])
def test_at_most_one_in_twenty_of_the_demo_questions_is_taken_for_a_follow_up(name: str) -> None:
    path = BUNDLED / "demo" / f"{name}.questions.yaml"
    questions = [one["question"] for one in yaml.safe_load(path.read_text("utf-8"))["questions"]]
    assert sum(depends(text) for text in questions) <= len(questions) / 20, [
        t for t in questions if depends(t)
    ]


def test_without_a_conversation_nothing_is_rewritten() -> None:
    asked = Query("Und dann?")
    assert read_by(FollowUp(), asked, None) == [asked]  # type: ignore[arg-type]


TEXTS = (
    "The tariffs of the ferry.",
    "A tariff for ferry boats, ferryboat tickets.",
    "Ferryboats rest at night.",
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("rewriting"), TEXTS)


def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    return np.stack([vector_of(text) for text in texts])


CONTEXT = RetrievalContext(embed)


def asked(text: str, **fields: Any) -> Query:
    return Query(text, vector_of(text), **fields)


def text_of(step: Any, text: str, index: OpenIndex) -> str:
    (query,) = read_by(step, asked(text), index, CONTEXT)
    return query.text  # type: ignore[no-any-return]


def test_keywords_and_synonyms_are_words_of_the_corpus(index: OpenIndex) -> None:
    question = "What is the tariff of the ferry?"
    assert text_of(Keywords(style="keywords", synonyms=0), question, index) == "tariff ferry"
    assert (
        text_of(Keywords(style="keywords", synonyms=1), question, index) == "tariff ferry tariffs ferryboat"
    )
    assert (
        text_of(Keywords(style="keywords", synonyms=2), question, index)
        == "tariff ferry tariffs ferryboat ferryboats"
    )
    assert text_of(Keywords(style="append", synonyms=1), question, index) == f"{question} tariffs ferryboat"


def test_by_default_keywords_are_all_content_words_and_no_more(index: OpenIndex) -> None:
    """A word that is repeated counts twice in BM25; a long question keeps all of its words."""
    question = "What does a ferry cost where the Ferry of a tariff is a ferry?"
    assert text_of(Keywords(style="keywords"), question, index) == "ferry cost Ferry tariff ferry"
    assert text_of(Keywords(), question, index) == f"{question} ferry cost Ferry tariff ferry"
    long = " ".join(f"word{n}" for n in range(40))
    assert text_of(Keywords(style="keywords"), long, index) == long
    with pytest.raises(ValidationError, match="`style: append` adds synonyms"):
        Keywords(style="append")


def test_synonyms_by_vectors_are_the_nearest_corpus_words(index: OpenIndex) -> None:
    near = {"boat": vector_of("ferry") + np.float32(0.01) * vector_of("boat")}

    def like(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.stack(
            [near[text] / np.linalg.norm(near[text]) if text in near else vector_of(text) for text in texts]
        )

    query = Query("boat", vector_of("boat"))
    (found,) = read_by(
        Keywords(style="keywords", source="vectors", synonyms=1), query, index, RetrievalContext(like)
    )
    assert found.text == "boat ferry"


def test_rules_reword_for_word_search_alone(index: OpenIndex) -> None:
    question = asked("What is the tariff of the ferry?")
    (query,) = read_by(Keywords(style="keywords"), question, index, CONTEXT)
    assert query.text == "tariff ferry"
    assert query.vector.tolist() == question.vector.tolist()  # type: ignore[union-attr]
    assert query.vector is not question.vector, "a chain takes it as meant, and does not embed the words"
    (query,) = read_by(Keywords(), replace(question, vector=None), index)
    assert query.vector is None


def test_three_forms_of_a_question(index: OpenIndex) -> None:
    found = read_by(MultiQuery(), asked("When does the ferry leave the harbour?"), index, CONTEXT)
    assert [query.text for query in found] == [
        "When does the ferry leave the harbour?",
        "ferry leave harbour",
        "The ferry leave the harbour.",
    ]
    for query in found:
        assert np.allclose(query.vector, vector_of(found[0].text))  # type: ignore[arg-type]
    assert len(read_by(MultiQuery(n=2), asked("When does the ferry leave?"), index, CONTEXT)) == 2
    assert [q.text for q in read_by(MultiQuery(), asked("ferry"), index, CONTEXT)] == ["ferry", "Ferry."]


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Wie viele Karten wurden verkauft?", "Karten wurden verkauft."),
        ("How much is the fee?", "The fee."),
        ("Under which law is it sold?", "Law is it sold."),
        ("???", ""),
    ],
)
def test_statements(question: str, wanted: str) -> None:
    assert statement(question) == wanted


def test_hyde_embeds_the_mean_of_question_and_passage(index: OpenIndex) -> None:
    question = "When does the ferry leave?"
    passage = "The ferry leave. ferry leave"
    mean = (vector_of(question) + vector_of(passage)) / 2
    (query,) = read_by(Hyde(), asked(question), index, CONTEXT)
    assert query.text == question
    assert np.allclose(query.vector, mean / np.linalg.norm(mean), atol=1e-6)  # type: ignore[arg-type]
    (query,) = read_by(Hyde(text="passage"), asked(question), index, CONTEXT)
    assert query.text == passage


def test_kinds() -> None:
    assert sorted(QUERY_TRANSFORMS) == [
        *("entities", "filter", "follow_up", "hyde", "keywords", "multi_query", "time_frame")
    ]
