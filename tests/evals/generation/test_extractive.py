from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.generation.extractive import extract, extract_many
from rag_assay.evals.generation.quotation import Draft, embedded, fitted, quoted_documents

Floats = npt.NDArray[np.floating]


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


PROBES = fitted()["probes"]


class Embedding:
    """Texts -> unit vectors from a table; a text that is not in it is at a right angle to all others.

    The mean of the probes is 0, and they are at a right angle to all texts.
    """

    def __init__(self, cosines: dict[str, float]) -> None:
        self.cosines = cosines
        self.batches: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Floats:
        self.batches.append(texts)
        probes = np.array([(-1.0) ** PROBES.index(text) if text in PROBES else 0.0 for text in texts])
        cosines = np.array([self.cosines.get(text, 0.0) for text in texts])
        return np.stack([cosines, np.sqrt(1 - cosines**2) * (probes == 0), probes], axis=1)


QUESTION = "How high is the lighthouse?"
HIGH = "The lighthouse is 54 metres high."
OLD = "It was built in 1874."
CARS = "Cars may drive in winter."
PASSAGES = [f"{OLD} {HIGH}", f"{CARS} {HIGH}"]
COSINES = {QUESTION: 1.0, HIGH: 0.8, OLD: 0.5, CARS: 0.1}


def test_the_best_sentence_is_quoted() -> None:
    assert extract(QUESTION, PASSAGES, Embedding(COSINES), 6, words) == HIGH


def test_a_sentence_that_is_nearly_as_good_comes_too_in_reading_order() -> None:
    question = "Why do ships avoid the reef?"
    first = "Ships avoid the reef after dark since the storm."
    second = "Ships avoid the reef because currents are strong there."
    near = {question: 1.0, first: 0.79, second: 0.8, CARS: 0.1}
    passages = [f"{first} {second}", CARS]
    assert extract(question, passages, Embedding(near), 18, words) == f"{first} {second}"
    assert extract(question, passages, Embedding(near), 17, words) == second  # 9 and 9 words do not fit
    assert extract(question, passages, Embedding({**near, first: 0.1}), 99, words) == second


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("How long are letters kept?", "The archive holds them for ten years."),
        ("“Wie lange bewahren wir Briefe auf?”", "Im Archiv bleiben sie zehn Jahre."),
        ("信件保存多久？", "档案馆保存十年。"),
    ],
)
def test_a_question_of_the_documents_is_no_answer(asked: str, said: str) -> None:
    embedding = Embedding({(question := "How long do you keep letters?"): 1.0, asked: 0.95, said: 0.6})
    assert extract(question, [f"{CARS} {asked} {said}"], embedding, 60, words) == said


def test_a_sentence_comes_with_the_one_that_its_pronoun_stands_for() -> None:
    tower, built = "The lighthouse stands on the mole.", "It was finished in 1874 by the harbour board."
    embedding = Embedding(
        {(question := "Who finished the lighthouse on the mole?"): 1.0, built: 0.9, tower: 0.2}
    )
    assert extract(question, [f"{tower} {built}"], embedding, 60, words) == f"{tower} {built}"


def test_the_score_is_the_probability_of_the_weighted_sum() -> None:
    # Terms of the question: "high", "lighth…". Two sentences; "high" is in one: log(3 / 1.5), "lighth…" in
    # both: log(3 / 2.5). The second holds the common term only, but what is beside it holds all letters.
    first, second = "The old lighthouse is high enough today.", "Another white lighthouse is here."
    rare, common = np.log(3 / 1.5), np.log(3 / 2.5)
    known, confidence = fitted()["sentence"], fitted()["confidence"]
    of_second, of_first = np.array([0.5, np.sqrt(0.75)]), np.array([-0.9, np.sqrt(0.19)])
    context = 2 * of_second + of_first
    sum_of = {
        "cosine": 0.5,
        "context": context[0] / np.linalg.norm(context),
        "overlap": common / (rare + common),
        "grams": 1.0,
        "rank": 1.0,
        "lacks_kind": 1.0,
    }
    score = sum(known[name] * value for name, value in sum_of.items())
    expected = 1 / (1 + np.exp(-(confidence["slope"] * score + confidence["intercept"])))
    embedding = Embedding({QUESTION: 1.0, first: -0.9, second: 0.5})
    assert extract(QUESTION, [f"{first} {second}"], embedding, 5, words, minimum=expected - 1e-3) == second
    assert extract(QUESTION, [f"{first} {second}"], embedding, 5, words, minimum=expected + 1e-3) == ""


def test_a_sentence_whose_neighbours_are_about_the_question_wins() -> None:
    about, same, elsewhere = "The pier has a gate.", "It costs five crowns.", "It costs nine crowns."
    question = "Price of mooring?"
    embedding = Embedding({question: 1.0, about: 0.9, same: 0.3, elsewhere: 0.3, CARS: -0.9})
    passages = [f"{CARS} {elsewhere}", f"{about} {same}"]
    draft = Draft.of(question, [Passage(text) for text in passages])
    features = draft.features(embedded([draft], embedding))
    context = dict(zip([one.text for one in draft.candidates], features[:, 1], strict=True))
    assert context[same] > context[elsewhere]


def test_a_follow_up_is_not_answered_by_what_its_carried_words_quote() -> None:
    said, new = "The yellow ferry leaves the harbour at noon.", "A ticket for it is four crowns."
    full, own = "And the ticket? (yellow ferry, harbour)", "The ticket?"
    embedding = Embedding({full: 1.0, own: 0.6, said: 0.8, new: 0.7})
    passages = [Passage(f"{said} {CARS} {new}")]

    def best(draft: Draft) -> tuple[str, float]:
        vectors = embedded([draft], embedding)
        return draft.candidates[int(draft.scores(vectors).argmax())].text, draft.confidence(vectors)

    asked, plain = Draft.of(full, passages, own), Draft.of(full, passages)
    assert best(plain)[0] == said
    assert best(asked)[0] == new
    alone = Draft.of(own, passages, own)  # both readings are the same: only the shift is left
    odds = [np.log(p / (1 - p)) for p in (best(Draft.of(own, passages))[1], best(alone)[1])]
    assert odds[0] - odds[1] == pytest.approx(fitted()["follow_up"]["shift"], abs=2e-2)


def test_what_is_asked_for_comes_first() -> None:
    question, opened = (
        "When was the tower opened?",
        "The tower was opened on 3 May 1874 by the harbour board.",
    )
    answer = extract(
        question, [f"Cars are banned. {opened}"], Embedding({question: 1.0, opened: 0.95}), 60, words
    )
    assert answer == f"3 May 1874. {opened}"
    german, satz = "Wie viele Plätze hat das Stadion?", "Das Stadion hat seit dem Umbau 1.900 Plätze."
    assert extract(german, [satz], Embedding({german: 1.0, satz: 0.95}), 60, words) == f"1.900 Plätze. {satz}"
    # The number of an act is no date, a season is.
    act = "The act was adopted under Regulation (EU) 2018/2066 and Directive 2009/28/EC by the board."
    asked = "When was the act adopted by the board?"
    assert extract(asked, [act], Embedding({asked: 1.0, act: 0.95}), 60, words) == act
    season, won = "Wann wurde der Klub Meister?", "Der Klub wurde in der Spielzeit 2021/22 Meister."
    assert extract(season, [won], Embedding({season: 1.0, won: 0.95}), 60, words) == f"2021/22. {won}"
    fine, both = (
        "Wie hoch war die Geldbuße?",
        "Der Klub verlor 3 Punkte und zahlte die Geldbuße von 2500 Euro.",
    )
    assert extract(fine, [both], Embedding({fine: 1.0, both: 0.95}), 60, words).startswith("2500 Euro. ")
    # Two that are as near: none stands out.
    two = "The tower was opened on 3 May 1874 and 4 June 1875."
    assert extract(question, [two], Embedding({question: 1.0, two: 0.95}), 60, words) == two


def test_a_rare_word_of_the_question_decides_between_equal_cosines() -> None:
    passages = [
        "The fee here is paid in cash now. The fee for dogs is paid by owners. The fee here is paid at noon."
    ]
    answer = extract("How is the fee for dogs paid?", passages, Embedding({}), 8, words)
    assert answer == "The fee for dogs is paid by owners."


def test_equal_scores_go_to_what_is_read_first() -> None:
    passages = ["Zebra one. Alpha two.", "Beta three."]
    assert extract("Nothing alike?", passages, Embedding({}), 2, words) == "Zebra one."


def test_noise_in_the_last_bits_breaks_no_tie() -> None:
    def embed(texts: list[str]) -> Floats:
        noise = Embedding({text: 1.0 if text.endswith("?") else 0.5 for text in set(texts) - set(PROBES)})(
            texts
        )
        noise[texts.index("Two there.")] += 1e-9
        return noise

    assert extract("Nothing alike?", ["One here. Two there."], embed, 2, words) == "One here."


def test_a_part_of_a_sentence_at_the_edge_of_a_chunk_is_not_quoted_beside_it() -> None:
    passages = ["The lighthouse is 54 metres", "is 54 metres high.", HIGH]
    assert extract(QUESTION, passages, Embedding(COSINES), 99, words) == f"54 metres. {HIGH}"


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
    assert sorted(batch) == sorted({QUESTION, HIGH, OLD, CARS, "When was it built?", "Why?", *PROBES})
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

    def narrow(texts: list[str]) -> Floats:  # as of multilingual-e5-small, whose cosines are all high
        moved = embed(texts) + 2 * np.ones(384) / np.sqrt(384)
        return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True))

    asked = ["When was the tower built?", "Who pays for the school bus?"]
    drafts = [Draft.of(question, [Passage(english[0])]) for question in asked]
    assert (narrow(asked) @ narrow(english).T).min() > 0.75
    likely, unlikely, narrow_likely, narrow_unlikely = (
        draft.confidence(embedded(drafts, one)) for one in (embed, narrow) for draft in drafts
    )
    assert unlikely < 0.2
    assert likely > 0.5
    assert narrow_likely == pytest.approx(likely, abs=0.15)
    assert narrow_unlikely == pytest.approx(unlikely, abs=0.15)


def test_a_sentence_of_the_time_that_is_asked_for_wins() -> None:
    question = "How did the home game against Union end in the season 2022/23?"
    now, before = "They lost 1:3 to the visitors.", "They beat Union 4:2 at home."
    embedding = Embedding({question: 1.0, now: 0.6, before: 0.65})

    def best(*passages: Passage) -> str:
        draft = Draft.of(question, passages)
        return draft.candidates[int(draft.scores(embedded([draft], embedding)).argmax())].text

    dates = ("2021-10-01", "2022-09-24")
    assert best(*(Passage(one, date=date) for one, date in zip((before, now), dates, strict=True))) == now
    assert best(Passage(before), Passage(now)) == before
    assert best(Passage(f"# 2021/22\n\n{before}"), Passage(f"# Season 2022/23\n\n{now}")) == now


def test_what_follows_comes_too_where_yes_or_no_is_asked() -> None:
    said = [
        "The ferry was tested.",
        "It had an hour.",
        "It took forty minutes.",
        "The harbour paid for all of it.",
    ]
    for asked, n_quoted in (("Was the ferry in time when tested?", 3), ("How was the ferry tested?", 1)):
        quoted = extract(asked, [" ".join(said)], Embedding({asked: 1.0, said[0]: 0.9}), 40, words)
        assert quoted == " ".join(said[:n_quoted])
        assert extract(asked, [" ".join(said)], Embedding({asked: 1.0, said[0]: 0.9}), 4, words) == said[0]


def test_documents_that_are_asked_for_are_named_by_title_and_day() -> None:
    said = (
        "The ferry sails again.",
        "The ferry is late.",
        "The quay is new.",
        "A ferry sank.",
        "The ferry rests.",
    )
    dated = ("2024-04-03", "2024-04-30T18:00:00+02:00", "2024-04-09", "2023-04-09", None)
    passages = [
        Passage(text, title=f"Report {n}", date=date, document=str(n), end=len(text))
        for n, (text, date) in enumerate(zip(said, dated, strict=True))
    ]

    def answer(question: str, max_tokens: int = 40, minimum: float | None = None) -> tuple[str, list[int]]:
        draft = Draft.of(question, passages)
        vectors = embedded([draft], Embedding({question: 1.0} | dict.fromkeys(said, 0.6)))
        counts = dict(zip(said, words(said), strict=True))
        found = draft.answer(vectors, max_tokens, counts, words, minimum)
        return found.text, [one.passage for one in found.pieces]

    both = "Report 0 (2024-04-03). Report 1 (2024-04-30)."
    asked = "Which articles about the ferry appeared in April 2024?"
    assert answer(asked) == (both, [0, 1])
    assert answer("Welche Artikel erschienen im April 2024 über die Ferry?") == (both, [0, 1])
    assert answer(asked, max_tokens=4) == ("Report 0 (2024-04-03).", [0])
    assert answer(asked, minimum=0.9999) == ("", [])
    assert answer("Which reports mention the quay?")[0] == "Report 2 (2024-04-09)."
    for elsewhere in ("Which articles mention a lighthouse?", "Which articles of the act name the ferry?"):
        assert answer(elsewhere)[0] in said


def test_a_follow_up_is_answered_from_the_document_that_was_quoted() -> None:
    said, new, other = (
        "The ferry leaves the harbour at noon.",
        "It costs four crowns.",
        "It costs nine crowns.",
    )
    conversation = ("When does the ferry leave?", f"Noon. {said}")
    passages = [Passage(other, document="b", end=len(other))]
    passages += [
        Passage(text, document="a", start=at, end=at + len(text)) for at, text in ((0, said), (90, new))
    ]
    question, own = "What does it cost? (ferry)", "What does it cost?"
    embedding = Embedding({question: 1.0, own: 0.9, new: 0.8, other: 0.8})

    def best(said_before: Sequence[str]) -> tuple[str, float]:
        draft = Draft.of(question, passages, own, said_before)
        vectors = embedded([draft], embedding)
        return draft.candidates[int(draft.scores(vectors).argmax())].text, draft.confidence(vectors)

    assert quoted_documents(passages, conversation) == {"a"}
    assert quoted_documents(passages, (*conversation, "And?", "The documents do not say.")) == {"a"}
    assert quoted_documents(passages, ("Who?", "It is not known.")) == frozenset()
    assert best(())[0] == other
    assert best(conversation)[0] == new
    passages = passages[:2]  # the quoted document has no price
    assert best(conversation)[1] < best(())[1], "another document may speak of another thing"


def test_what_no_passage_counts_to_is_less_likely_answered() -> None:
    sentence = "The first drill went well, and a second key was cut."
    question, held = "How did the second drill go?", "How did the first drill go?"

    def odds(asked: str, text: str) -> float:
        draft = Draft.of(asked, [Passage(text)])
        vectors = embedded([draft], Embedding({asked: 1.0, text: 0.8}))
        p = draft.confidence(vectors)
        return float(np.log(p / (1 - p)))

    named = sentence.replace("second key was cut", "second big drill too")
    assert odds(question, sentence) < odds(question, named) - 1
    assert abs(odds(held, sentence) - odds("How did a first drill go?", sentence)) < 0.5


@pytest.mark.parametrize("nearness", [0.1, 0.6])
def test_words_decide_where_the_embedder_does_not_know_the_language(nearness: float) -> None:
    """Such an embedder finds any two texts of the language alike, whatever they say."""
    question, other = "Wer baute den hohen Leuchtturm?", "Der Bäcker öffnet um sieben."
    said = "Den Leuchtturm baute ein Schmied."
    angles = {question: 0.0, said: 1.5, other: 0.1}

    def embed(texts: list[str]) -> Floats:
        found = np.zeros((len(texts), 3))
        for row, text in enumerate(texts):
            if text in PROBES:
                found[row, 0] = (-1.0) ** PROBES.index(text)
            else:
                plane = np.sqrt(1 - nearness**2)
                found[row] = nearness, plane * np.cos(angles[text]), plane * np.sin(angles[text])
        return found

    draft = Draft.of(question, [Passage(f"{other} {said}")])
    vectors = embedded([draft], embed)
    best = draft.candidates[int(draft.scores(vectors).argmax())].text
    assert (draft.is_foreign(vectors), best) == (nearness > 0.33, said if nearness > 0.33 else other)


def test_the_best_sentence_comes_before_one_that_is_not_its_neighbour() -> None:
    question, best = "Why is the lighthouse lit?", "The lighthouse is lit for ships."
    near = "The lighthouse is lit at dusk."
    embedding = Embedding(COSINES | {question: 1.0, best: 0.8, near: 0.79})
    assert extract(question, [f"{near} {CARS} {OLD} {best}"], embedding, 12, words) == f"{best} {near}"
    assert extract(question, [f"{OLD} {CARS} {near} {best}"], embedding, 12, words) == f"{near} {best}"


def test_an_item_that_is_a_sentence_is_quoted_without_the_clause_before_its_list() -> None:
    whole = "Whereas:\n(1) The lighthouse on the old pier is 54 metres high.\n(2) Cars may drive there."
    part = "The lighthouse has these measures:\n(a) 54 metres of height;\n(b) nine metres of width."
    assert extract(QUESTION, [whole], Embedding({QUESTION: 1.0}), 40, words).startswith("The lighthouse on")
    assert extract(QUESTION, [part], Embedding({QUESTION: 1.0}), 40, words).startswith("The lighthouse has")
    second = f"{part.partition('(a)')[0]}(a) nine metres of width;\n(b) 54 metres of height."
    found = extract(QUESTION, [second], Embedding({QUESTION: 1.0, "54 metres of height.": 0.9}), 12, words)
    assert found.endswith("The lighthouse has these measures: 54 metres of height."), "the clause comes first"
