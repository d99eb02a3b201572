"""What pipelines made of a question, on a terminal: of one that is asked now, and of one of a study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rag_assay.evals.question_sets.evidence import in_words
from rag_assay.evals.question_sets.losses import Loss
from rag_assay.evals.reporting.answers import (
    AnswerSteps,
    ShownJudgement,
    cut_words,
    judgements_of,
    steps_of,
    steps_of_answer,
    verdict_words,
)
from rag_assay.evals.reporting.display import number, quantity, several, truncate
from rag_assay.evals.reporting.question_rows import Answered, DeliveredHit, QuestionRows, RankingResult
from rag_assay.evals.retrieval.query import QueryInterpretation
from rag_assay.orchestration.terminal.cli_errors import console, say, text, width
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.evals.generation.contract import Answer, Passage
    from rag_assay.evals.pipeline.pipeline import PipelineResult

HITS = 5  # passages of a ranking that are shown
STATEMENTS = 12  # of a judgement that are shown
BINS = 12  # that are shown
SHORT = 160  # characters of a query, reason, statement or the answer of a bin
TEXT = 400  # characters of a question of a study, of its true answer and of what was answered
ASKED = 2_000  # characters of a question that is asked now, and of its answer
NAME = 80  # characters of an annotator's name
QUOTE = 140  # characters of a piece of evidence
PASSAGE = 160  # characters of a passage, as far as the line has room


def _loss_line(loss: dict[str, Any]) -> Text:
    step = f" ({loss['step']})" if loss["step"] else ""
    if loss["lost_at"] is not None:
        fate = f"lost at {Loss(loss['lost_at']).label}{step}"
    elif loss["found_at"]:
        fate = f"held by the first {several(loss['found_at'], 'passage')}"
    else:
        fate = "delivered"
    return text(f"  evidence {loss['evidence'] + 1}: {fate}", "yellow" if loss["lost_at"] else "green")


def _hit_line(rank: int, score: float | None, quoted: str, *, is_gold: bool) -> Text:
    line = text(f"  {rank:>3} {'✓' if is_gold else ' '} {number(score):>7}  {quoted}")
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def understood_words(one: QueryInterpretation) -> str:
    """Return what was understood of a question as a line.

    >>> one = QueryInterpretation("time_frame", "window", "before 2005", "../2004-12-31", "relaxed")
    >>> understood_words(one)
    'time_frame window: “before 2005” → ../2004-12-31 (dropped: it left no passage)'
    """
    said = f"“{truncate(one.text, SHORT)}” → " if one.text and one.text != one.value else ""
    use = {
        "used": "",
        "unused": " (limits nothing)",
        "relaxed": " (dropped: it left no passage)",
        "removed": " (taken away)",
    }[one.status]
    return f"{one.step} {one.kind}: {said}{truncate(one.value, SHORT)}{use}"


def step_lines(steps: AnswerSteps) -> Iterator[Text]:
    for attempt in steps.attempts:
        line = f"  looked for “{truncate(attempt.query, SHORT)}”: {truncate(verdict_words(attempt), SHORT)}"
        yield text(line, "dim" if attempt.sufficient else "yellow")
    for place, one in enumerate(steps.bins[:BINS], start=1):
        style = "dim" if one.status in {Status.OK, Status.REFUSED} else "yellow"
        yield text(
            f"  bin {place} of {len(steps.bins)}, {several(len(one.chunks), 'passage')} [{one.status}]: "
            f"{_short(one.answer or one.reason)}",
            style,
        )
    if len(steps.bins) > BINS:
        yield text(f"  {several(len(steps.bins) - BINS, 'further bin')}", "dim")
    if steps.turns_left_out:
        turns = several(steps.turns_left_out, "turn")
        yield text(f"  {turns} of the conversation left out: too long for history_tokens", "yellow")


def judgement_lines(shown: Iterable[ShownJudgement]) -> Iterator[Text]:
    for one in shown:
        reason = f": {_short(one.reason)}" if one.reason else ""
        yield text(f"  {one.metric} {one.said}{reason}", "dim" if one.good else "yellow")
        for each in one.statements:
            verdict = f"{_short(each['verdict'])} · " if each["verdict"] else ""
            why = f": {_short(each['reason'])}" if each["reason"] else ""
            yield text(f"    {verdict}“{_short(each['text'])}” ({_short(each['of'])}){why}", "dim")
        if one.left_out:
            yield text(f"    {several(one.left_out, 'further statement')}", "dim")


def _short(said: str | None, longest: int = SHORT) -> str:
    return truncate(" ".join((said or "").split()), longest)


# Asked now


def show_answers(results: Sequence[PipelineResult], advice: str | None = None) -> None:
    """Print what each retriever found, the last result's answer, and advice on what would answer better."""
    out = console(width=width())
    out.print(text(truncate(results[-1].question["question"], ASKED), "bold"))
    for result in results:
        for line in _asked(result):
            out.print(line)
    for line in _asked_answer(results[-1]):
        out.print(line)
    if advice:
        out.print(text(f"  {advice}", "dim"))


def _asked(result: PipelineResult) -> Iterator[Text]:
    found, cell = result.found, result.cell
    yield text("")
    spent = f"  {quantity(found.spent.seconds, 's')}" if found.spent else ""
    yield text(f"{cell.chunking} · {cell.embedder} · {cell.retriever}{spent}", "bold")
    if found.reason:
        yield text(f"  {found.status}: {found.reason}", "red")
    if found.trace.steps:
        yield text("  " + " → ".join(f"{one.step} {len(one.rows)}" for one in found.trace.steps), "dim")
    for one in result.understood:
        yield text(f"  {understood_words(one)}", "yellow" if one.status == "relaxed" else "cyan")
    for note in found.trace.notes:
        yield text(f"  {note.kind}: {note.status}: {note.reason}", "dim")
    for rank, passage in enumerate(result.passages[:HITS], start=1):
        yield _passage(rank, passage, result.question["evidence"] or ())
    if len(result.passages) > HITS:
        yield text(f"  {several(len(result.passages), 'passage')} in all", "dim")
    yield from map(_loss_line, result.losses)


def _passage(rank: int, passage: Passage, evidence: Sequence[dict[str, Any]]) -> Text:
    where = truncate(passage.title or passage.url or passage.document, 40)
    is_gold = any(_overlaps(passage, piece) for piece in evidence)
    return _hit_line(rank, passage.score, f"{where}: {_short(passage.text, PASSAGE)}", is_gold=is_gold)


def _overlaps(passage: Passage, piece: dict[str, Any]) -> bool:
    if piece["doc_id"] != passage.document:
        return False
    if piece["start"] is None or piece["end"] is None:
        return True
    return bool(piece["start"] < passage.end and passage.start < piece["end"])


def _asked_answer(result: PipelineResult) -> Iterator[Text]:
    answer = result.answer
    if answer is None:
        return
    yield text("")
    yield text(f"{result.cell.generator} answers", "bold")
    yield text(f"  {truncate(answer.text, ASKED)}".rstrip())
    if answer.reason:
        yield text(f"  [{answer.status}] {answer.reason}", "yellow")
    yield text(f"  {_cost(result, answer)}", "dim")
    if cut := cut_words([one.kept for one in answer.cuts]):
        yield text(f"  {cut}", "yellow")
    yield from _sources(result, answer)
    yield from step_lines(steps_of_answer(answer))


def _sources(result: PipelineResult, answer: Answer) -> Iterator[Text]:
    read = result.passages[: result.read] if answer.passages is None else answer.passages
    cited = {one.marker: one for one in answer.citations}
    if not cited and answer.text and read:
        yield text("  it cites nothing; it read:", "dim")
        for passage in reversed({one.document: one for one in reversed(read)}.values()):
            yield text(f"   –  {_source(passage)}")
    by_chunk = {one.chunk: one for one in read}
    for number_, one in sorted(cited.items()):
        if one.chunk is None:
            yield text(f"  [{number_}] points nowhere: {several(len(read), 'passage')} given", "red")
        elif one.chunk in by_chunk:
            place = f"characters {one.start} to {one.end}"
            yield text(f"  [{number_}] {_source(replace(by_chunk[one.chunk], url=one.url))}, {place}")
        else:
            yield text(f"  [{number_}] {one.url or one.document}")


def _source(passage: Passage) -> str:
    section, day = " › ".join(passage.section), (passage.date or "")[:10]
    return ", ".join(filter(None, [passage.title, section, day, passage.url])) or passage.document


def _cost(result: PipelineResult, answer: Answer) -> str:
    n_read = result.read if answer.passages is None else len(answer.passages)
    tokens = (answer.prompt_tokens, answer.completion_tokens)
    known = [
        f"reads {several(n_read, 'passage')}",
        f"{quantity(answer.seconds, 's')}" if answer.seconds is not None else None,
        f"{tokens[0]} + {tokens[1]} tokens" if None not in tokens else None,
        f"{answer.usd:.6f} US dollars" if answer.usd else None,
        "from the cache" if answer.cached else None,
    ]
    return ", ".join(fact for fact in known if fact)


# Of a study


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
    cells, name = [one.cell for one in found.cells], found.ranking.partition(".")[2].replace(".", " · ")
    if all(one.imported for one in cells) or any(one.is_system for one in cells):
        yield text(name if all(one.imported for one in cells) else "— (a system of your own)", "bold")
        yield from map(_hit, found.hits[:HITS])
    elif any(not one.reads_ranking for one in cells):
        yield text("— (read no ranking)", "bold")
    else:
        yield text(name, "bold")
        yield from _ranked(found)
    for cell in found.cells:
        yield from _answered(cell)


def _ranked(found: RankingResult) -> Iterator[Text]:
    if found.status is None:
        yield text("  was not run", "red")
    elif found.status != "ok":
        yield text(f"  {found.status}: {found.reason or 'no reason given'}", "red")
    later = [hit for hit in found.hits[HITS:] if hit.gold]
    yield from map(_hit, [*found.hits[:HITS], *later[:1]])
    if len(found.hits) > HITS:
        yield text(f"  {several(len(found.hits), 'passage')} in all", "dim")
    yield from map(_loss_line, found.losses)


def _hit(hit: DeliveredHit) -> Text:
    passage = "no longer in the documents" if hit.text is None else _short(hit.text, 120)
    quoted = f"{hit.url} [{hit.start}–{hit.end}]: {passage}"
    return _hit_line(hit.rank, hit.score, quoted, is_gold=hit.gold)


def _answered(one: Answered) -> Iterator[Text]:
    name = one.cell.generator + (f" (asked again, {one.cell.replicate})" if one.cell.replicate > 1 else "")
    if one.answer is not None:
        answer = one.answer
        why = "" if answer["status"] == "ok" else f"[{answer['status']}] {answer['reason'] or ''} "
        yield text(f"  {name} answers: {why}{truncate(answer['answer'], TEXT)}".rstrip())
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
    who = _short(row["annotator"], NAME) + (", shown again" if row["showing"] > 1 else "")
    comment = f" – “{_short(row['comment'], TEXT)}”" if row["comment"] else ""
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
