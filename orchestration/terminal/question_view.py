"""One question on a terminal: its gold, and what each ranking and cell made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.text import Text

from rag_assay.evals.question_sets.evidence import in_words
from rag_assay.evals.reporting.answers import ShownJudgement, cut_words, judgements_of, steps_of
from rag_assay.evals.reporting.display import number, several, truncate
from rag_assay.evals.reporting.question_rows import Answered, DeliveredHit, QuestionRows, RankingResult
from rag_assay.orchestration.terminal.answer_steps import fate_words, step_lines
from rag_assay.orchestration.terminal.cli_errors import console, say, text, width

STATEMENTS = 12  # of a judgement that are shown
REASON = 160  # characters of a reason or a statement


def judgement_lines(shown: Iterable[ShownJudgement]) -> Iterator[Text]:
    for one in shown:
        reason = f": {_plain(one.reason)}" if one.reason else ""
        yield text(f"  {one.metric} {one.said}{reason}", "dim" if one.good else "yellow")
        for each in one.statements:
            verdict = f"{_plain(each['verdict'])} · " if each["verdict"] else ""
            why = f": {_plain(each['reason'])}" if each["reason"] else ""
            yield text(f"    {verdict}“{_plain(each['text'])}” ({_plain(each['of'])}){why}", "dim")
        if one.left_out:
            yield text(f"    {several(one.left_out, 'further statement')}", "dim")


def _plain(said: str) -> str:
    return truncate(" ".join(said.split()), REASON)


HITS = 5  # passages of a ranking that are shown
TEXT = 400  # characters of the question and its true answer
NAME = 80  # characters of an annotator's name
QUOTE = 140  # characters of a piece of evidence
PASSAGE = 120  # characters of a passage, as far as the line has room


def show_question(rows: QuestionRows) -> None:
    out = console(width=width())
    if rows.note:
        say(f"Note: {rows.note}")
    for line in [*_head(rows.question), *(line for found in rows.found for line in _found(found))]:
        out.print(line)


def _head(question: dict[str, Any]) -> Iterator[Text]:
    kind = question["type"] if question["answerable"] else f"{question['type']}, unanswerable"
    yield text(f"{question['question_id']}  ({question['question_set']}, {kind})", "bold")
    for turn in question["conversation"] or ():
        yield text(f"  said before: {truncate(turn, TEXT)}", "dim")
    yield text(f"  {truncate(question['question'], TEXT)}")
    yield text(f"  true answer: {truncate(question['ground_truth'], TEXT) or 'none was given'}")
    if question["time_from"] or question["time_to"]:
        yield text(f"  about: {question['time_from'] or '…'} to {question['time_to'] or '…'}")
    pieces = question["evidence"] or []
    for place, piece in enumerate(pieces, start=1):
        what = f"“{truncate(piece['quote'], QUOTE)}”" if piece["quote"] else "the whole document"
        state = f" – not found: {piece['reason']}" if piece["reason"] else ""
        if not state and (similarity := piece.get("similarity")) not in {None, 1.0}:
            state = f" – not word for word, similarity {in_words(similarity)}"
        yield text(f"  evidence {place}, grade {piece['grade']}: {piece['url'] or 'any page'}: {what}{state}")
    if not pieces:
        yield text("  without evidence: retrieval metrics do not apply to it")


def _found(found: RankingResult) -> Iterator[Text]:
    yield text("")
    if all(one.cell.imported for one in found.cells):
        yield text(found.ranking.partition(".")[2].replace(".", " · "), "bold")
        yield from map(_hit, found.hits[:HITS])
    elif any(one.cell.is_system for one in found.cells):
        yield text("— (a system of your own)", "bold")
        yield from map(_hit, found.hits[:HITS])
    elif any(not one.cell.reads_ranking for one in found.cells):
        yield text("— (read no ranking)", "bold")
    else:
        yield text(found.ranking.partition(".")[2].replace(".", " · "), "bold")
        yield from _ranked(found)
    for cell in found.cells:
        yield from _answered(cell)


def _ranked(found: RankingResult) -> Iterator[Text]:
    if found.status is None:
        yield text("  was not run", "red")
    elif found.status != "ok":
        yield text(f"  {found.status}: {found.reason or 'no reason given'}", "red")
    for hit in found.hits[:HITS]:
        yield _hit(hit)
    later = next((hit for hit in found.hits[HITS:] if hit.gold), None)
    if later is not None:
        yield _hit(later)
    if len(found.hits) > HITS:
        yield text(f"  {several(len(found.hits), 'passage')} in all", "dim")
    for loss in found.losses:
        yield text(
            f"  evidence {loss['evidence'] + 1}: {fate_words(loss)}", "yellow" if loss["lost_at"] else "green"
        )


def _hit(hit: DeliveredHit) -> Text:
    passage = (
        "no longer in the documents" if hit.text is None else truncate(" ".join(hit.text.split()), PASSAGE)
    )
    mark = "✓" if hit.gold else " "
    score = number(hit.score)
    line = text(f"  {hit.rank:>3} {mark} {score:>7}  {hit.url} [{hit.start}–{hit.end}]: {passage}")
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _answered(one: Answered) -> Iterator[Text]:
    name = one.cell.generator + (f" (asked again, {one.cell.replicate})" if one.cell.replicate > 1 else "")
    if one.answer is not None:
        answer = one.answer
        answer_text = truncate(answer["answer"], TEXT) if answer["answer"] else ""
        why = "" if answer["status"] == "ok" else f"[{answer['status']}] {answer['reason'] or ''} "
        yield text(f"  {name} answers: {why}{answer_text}".rstrip())
        if cut := cut_words([one["kept"] for one in answer["cuts"] or ()]):
            yield text(f"  {cut}", "yellow")
        if answer["citations"]:
            cited = dict.fromkeys(map(_citation, answer["citations"]))
            yield text(f"  {name} cites: {'; '.join(cited)}")
        yield from step_lines(steps_of(answer))
    yield from judgement_lines(judgements_of(one.judgements, STATEMENTS))
    for row in one.people:
        yield text(f"  {_said(row)}")
    scores = ", ".join(_score(row) for row in one.scores)
    yield text(f"  scores of {name}: {scores or 'it was not asked this question'}", "dim")


def _said(row: dict[str, Any]) -> str:
    what = row["rubric"] + (f" {row['criterion']}" if row["criterion"] else "")
    who = truncate(" ".join(row["annotator"].split()), NAME) + (", shown again" if row["showing"] > 1 else "")
    comment = f" – “{truncate(' '.join(row['comment'].split()), TEXT)}”" if row["comment"] else ""
    if row["value"] is None:
        return f"{who} could not say: {what}{comment}"
    return f"{who}: {what} {row['value']:g}{comment}"


def _citation(one: dict[str, Any]) -> str:
    if one["chunk_id"] is None:
        return f"[{one['marker']}] points nowhere"
    return f"[{one['marker']}] {one['url'] or one['doc_id']} [{one['start']}–{one['end']}]"


def _score(row: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return f"{row['metric']} {row['status']} ({row['reason'] or 'no reason given'})"
    return f"{row['metric']} {number(row['value'])}"
