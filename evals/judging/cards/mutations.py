"""Mutations: cases made worse on purpose, which a judge must score lower, and controls, which it must not.

Nobody need label anything for them. Each is decided by a seed and the case; each says why it cannot be made
of a case; and none leaves the meaning as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from rag_assay.assets.chunking.sentence_splitter import sentences
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.generation.refusals import is_refusal
from rag_assay.evals.judging.cards.corruptions import (
    Changed,
    negate_text,
    with_other_name,
    with_other_numbers,
)
from rag_assay.evals.judging.contract import JudgeCase, JudgedMetric
from rag_assay.evals.retrieval.question_words import content, language
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.schemas import Status

Role = Literal["worse", "same", "order"]
"""What a change does to a case: worse; nothing that counts; another order of what it holds."""
ORIGINALS = 2  # times that an answer is judged before it is changed, where the judge may vary
LEAST_WORDS = 4  # of a sentence that is put into another answer
LIKE = 0.5  # share of its words that a text may have in common with a case and still be foreign to it


class Mutated(NamedTuple):
    """A case that was changed.

    case: None where the change cannot be made of it: `note` says why
    note: what was changed
    """

    kind: str
    case: JudgeCase | None
    note: str


class Mutation(NamedTuple):
    """A kind of change.

    about: what is done, as the report says it
    changes: what of the case
    make: (case, other cases, key that decides) -> the changed case, or why there is none
    """

    kind: str
    role: Role
    changes: Literal["answer", "passages", "both", "rival"]
    about: str
    make: Callable[[JudgeCase, Sequence[JudgeCase], str], tuple[JudgeCase, str] | str]

    def moves(self, metric: JudgedMetric) -> bool:
        """Return whether a metric should see the change.

        What is wrong in an answer shows only where it is held against passages or a ground truth; another
        question's answer shows wherever answers are looked at. Passages without their evidence show where
        passages are looked at; of a metric that counts mistakes nobody can say how many there then are.
        """
        needs = metric.needs
        if self.changes == "both":
            return True
        if self.changes == "rival":
            return "rival" in needs
        if self.changes == "passages":
            return "passages" in needs and (metric.higher_is_better or self.role != "worse")
        return "answer" in needs and (
            self.kind == "other_answer" or bool({"passages", "ground_truth"} & needs)
        )


def mutate_case(case: JudgeCase, others: Sequence[JudgeCase], mutation: Mutation, seed: int) -> Mutated:
    """Change a case.

    Args:
        others: of other questions; of the same question, they are passed over.
        seed: with the case it decides what is taken.
    """
    key = digest([seed, mutation.kind, case.question, case.answer])
    foreign = [one for one in others if one.question.casefold() != case.question.casefold()]
    if mutation.changes == "answer" and (case.status is not Status.OK or not _answer(case)):
        return Mutated(mutation.kind, None, "there is no answer to change")
    if mutation.role == "worse" and is_refusal(_answer(case)):
        return Mutated(mutation.kind, None, "a refusal says nothing that could be wrong")
    foreign.sort(key=lambda one: (one.language != case.language, digest([key, one.question, one.answer])))
    made = mutation.make(case, foreign, key)
    if isinstance(made, str):
        return Mutated(mutation.kind, None, made)
    return Mutated(mutation.kind, *made)


def _answer(case: JudgeCase) -> str:
    return (case.answer or "").strip()


def _known(case: JudgeCase) -> str:
    """Return all that a case holds."""
    return "\n".join(
        (case.question, _answer(case), case.ground_truth or "", *(p.text for p in case.passages))
    )


def _texts(cases: Sequence[JudgeCase]) -> list[str]:
    return [text for one in cases for text in (_answer(one), *(p.text for p in one.passages))]


def _with_answer(case: JudgeCase, changed: Changed | None, reason: str) -> tuple[JudgeCase, str] | str:
    if changed is None or changed.text.split() == _answer(case).split():
        return reason
    return replace(case, answer=changed.text), changed.note


def _numbers(case: JudgeCase, _others: Sequence[JudgeCase], key: str) -> tuple[JudgeCase, str] | str:
    changed = with_other_numbers(_answer(case), _known(case), key)
    return _with_answer(case, changed, "there is no number or date in the answer")


def _names(case: JudgeCase, others: Sequence[JudgeCase], key: str) -> tuple[JudgeCase, str] | str:
    near = [one for one in others if one.language == case.language]
    found = (with_other_name(_answer(case), _known(case), _texts(some), key) for some in (near, others))
    changed = next((one for one in found if one), None)
    return _with_answer(case, changed, "there is no name in the answer that another question's could replace")


def _denied(case: JudgeCase, _others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    of = (case.language or "")[:2] or language(_answer(case))
    if of not in {"en", "de"}:
        return f"how {of!r} denies is not known: English and German are"
    changed = negate_text(_answer(case), "de" if of == "de" else "en")
    return _with_answer(case, changed, "there is no sentence in the answer")


def _foreign_sentence(case: JudgeCase, others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    for text in _texts(others):
        for sentence in sentences(text):
            if (
                len(sentence.split()) >= LEAST_WORDS
                and not is_refusal(sentence)
                and _is_foreign(sentence, case)
            ):
                return replace(case, answer=f"{_answer(case)} {sentence}"), f"added: {sentence[:120]}"
    return "no other question has a sentence that is not about this one too"


def _other_answer(case: JudgeCase, others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    for one in others:
        text = _answer(one)
        if one.status is Status.OK and text and not is_refusal(text) and _is_foreign(text, case):
            return replace(case, answer=one.answer), f"that of “{one.question[:100]}”"
    return "no other question has an answer that is not one to this, too"


def _without_evidence(
    case: JudgeCase, _others: Sequence[JudgeCase], _key: str
) -> tuple[JudgeCase, str] | str:
    """Leave out every sentence of the passages that holds a word of the right answer."""
    asked = _folded(case.question)
    telling = (_folded(case.ground_truth or "") | _folded(_answer(case))) - asked
    if not telling:
        return "the answer has no word that is not in the question: its evidence cannot be told"
    kept: list[Passage] = []
    n_cut = 0
    for passage in case.passages:
        parts = sentences(passage.text)
        left = [one for one in parts if not _folded(one) & telling]
        n_cut += len(parts) - len(left)
        if left:
            kept.append(replace(passage, text=" ".join(left)))
    if not n_cut:
        return "no sentence of the passages holds a word of the answer"
    if not kept:
        return "every sentence of the passages holds a word of the answer"
    what = "1 sentence" if n_cut == 1 else f"{n_cut} sentences"
    return replace(case, passages=tuple(kept)), f"{what} with words of the answer left out"


def _other_passages(case: JudgeCase, others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    if not any(passage.text.strip() for passage in case.passages):
        return "there are no passages"
    texts = {passage.text for passage in case.passages}
    telling = (_folded(case.ground_truth or "") | _folded(_answer(case))) - _folded(case.question)
    for one in others:
        held = _folded(" ".join(passage.text for passage in one.passages))
        apart = one.passages and not any(passage.text in texts for passage in one.passages)
        if apart and held and len(telling & held) <= LIKE * len(telling):
            return replace(case, passages=one.passages), f"those of “{one.question[:100]}”"
    return "no other question has passages that do not hold this answer, too"


def _is_foreign(text: str, case: JudgeCase) -> bool:
    words = _folded(text)
    return bool(words) and len(words & _folded(_known(case))) <= LIKE * len(words)


def _folded(text: str) -> frozenset[str]:
    """Return the words of a text that say something, folded and without their endings."""
    return frozenset(word.text.casefold()[:6] for word in content(text))


def _layout(case: JudgeCase, _others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    """Write answer and passages with other white space and a mark of stress: the words are the same."""
    answer = _answer(case)
    marked = re.sub(r"(?<=[.!?]) +(?=\S)", "\n\n", answer)
    marked = re.sub(r"^(\w[^\s*_`\[]*)", r"**\1**", marked, count=1)
    passages = tuple(replace(one, text=f"\n{one.text.strip()}\n") for one in case.passages)
    if marked == answer and passages == case.passages:
        return "there is nothing to lay out in another way"
    return replace(
        case, answer=marked + "\n" if answer else case.answer, passages=passages
    ), "white space, **"


def _reversed(case: JudgeCase, _others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    if len({passage.text for passage in case.passages}) < 2:
        return "there are no two passages to change places"
    return replace(case, passages=case.passages[::-1]), "passages in the opposite order"


def _rivals(case: JudgeCase, _others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    rival = (case.rival or "").strip()
    if not rival or not _answer(case) or rival == _answer(case):
        return "there are no two answers to change places"
    return replace(case, answer=case.rival, rival=case.answer), "the two answers have changed places"


MUTATIONS: dict[str, Mutation] = {
    one.kind: one
    for one in (
        Mutation("numbers", "worse", "answer", "numbers and dates replaced by others", _numbers),
        Mutation("names", "worse", "answer", "a name replaced by that of another question", _names),
        Mutation("denied", "worse", "answer", "the first sentence turned into its opposite", _denied),
        Mutation(
            "foreign_sentence", "worse", "answer", "a sentence about something else added", _foreign_sentence
        ),
        Mutation("other_answer", "worse", "answer", "another question's answer", _other_answer),
        Mutation(
            "no_evidence", "worse", "passages", "sentences that hold the answer left out", _without_evidence
        ),
        Mutation("other_passages", "worse", "passages", "another question's passages", _other_passages),
        Mutation("layout", "same", "both", "the same words with other white space and stress", _layout),
        Mutation("order", "order", "passages", "the passages in the opposite order", _reversed),
        Mutation("sides", "order", "rival", "the two answers in each other's place", _rivals),
    )
}
"""All kinds, in the order of the report."""
