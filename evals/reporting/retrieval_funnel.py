"""Counts the questions that each retriever finds, the step that lost the others, and what to try."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from markupsafe import Markup

from rag_assay.evals.question_sets.losses import Loss
from rag_assay.evals.reporting import limits, sections
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import count, left_out, link_of, listed, percent, several, truncate
from rag_assay.evals.reporting.standings import LeaderboardCell, subsets
from rag_assay.warehouse.schemas import LOSSES

REMEDIES: Mapping[Loss, str] = {
    Loss.CORPUS: (
        "See whether the page is crawled (limits, patterns, robots.txt) and what cleaning dropped of it; a "
        "quote that is worded otherwise in the document must be fixed in the question file."
    ),
    Loss.CHUNKING: (
        "Try larger chunks, more overlap, chunks along sections, or a retriever that delivers what stands "
        "around a chunk."
    ),
    Loss.FILTER: "Loosen the filter, or let it fall back to all chunks where it leaves too few.",
    Loss.CANDIDATES: (
        "Add a retriever of another kind (words beside vectors), another embedder, or a transform of the "
        "question; raise the `k` of each retriever."
    ),
    Loss.FUSION: "Give the retriever that had it more weight, or try another fusion.",
    Loss.RERANKING: "Try without the re-ranking step, with another model, or let it see longer passages.",
    Loss.CUT: "Raise `k`, or put a re-ranking step before the cut.",
    Loss.BUDGET: "Raise the token budget, or choose smaller chunks, of which more fit.",
}


_ORDER = {loss: place for place, loss in enumerate(Loss)}
_DEPTH = re.compile(r"@(\d+)$")
FIRST = 10  # passages, where the primary metric has no depth of its own
RANKING_AXES = ("chunking", "embedder", "retriever")


@dataclass(frozen=True)
class Ranker:
    """The questions in one ranking: found, lost and failed add up to all of them."""

    label: str
    found: int
    lost: Mapping[Loss, int]
    failed: int

    @property
    def most(self) -> int:
        return max(self.lost.values(), default=0)


@dataclass(frozen=True)
class Lost:
    """Where questions were lost; causes: steps that lost any question, in their order.

    unfound: questions that no retriever finds, with the words for where they were `lost`, and the `number`
        among the hardest questions, if shown there
    """

    n: int
    k: int
    rankers: tuple[Ranker, ...]
    causes: tuple[Loss, ...]
    summary: str
    unfound: tuple[Mapping[str, Any], ...]

    @property
    def any_failed(self) -> bool:
        return any(one.failed for one in self.rankers)


def funnel_of(data: ReportData, hardest: Sequence[str]) -> Lost | None:
    """Count where questions were lost, by ranking; hardest: ids in the order of the hardest ones."""
    k = depth(data.primary)
    fates: dict[str, dict[str, Loss | None]] = {}
    for key, question, loss in fates_of(data.losses, data.questions, k).iter_rows():
        fates.setdefault(key, {})[question] = Loss(loss) if loss else None
    questions = [row for row in data.questions.iter_rows(named=True) if row["evidence"]]
    if not fates or not questions:
        return None
    cells = _rankings(data, fates)
    of = {cell.key: fates.get(cell.key, {}) for cell in cells}
    axes = [axis for axis in RANKING_AXES if len({getattr(cell, axis) for cell in cells}) > 1]
    shown = axes or ("chunking", "retriever")
    rankers = [_ranker(cell.label(shown), of[cell.key], questions) for cell in cells]
    rankers.sort(key=lambda ranker: (-ranker.found, ranker.label))
    causes = tuple(loss for loss in Loss if any(ranker.lost.get(loss) for ranker in rankers))
    unfound = []
    for row in questions:
        fates_here = [of_cell[row["question_id"]] for of_cell in of.values() if row["question_id"] in of_cell]
        labels = Counter(loss.label for loss in fates_here if loss is not None)
        if fates_here and labels.total() == len(fates_here):
            number = hardest.index(row["question_id"]) + 1 if row["question_id"] in hardest else None
            unfound.append({**row, "lost": _where(labels), "number": number})
    summary = _summary(questions, of, len(unfound))
    return Lost(len(questions), k, tuple(rankers), causes, summary, tuple(unfound))


def lost_section(data: ReportData, hardest: Sequence[str]) -> sections.PageSection | None:
    """Return where questions were lost; None where no ranking has kept it."""
    found = funnel_of(data, hardest)
    if found is None:
        return None
    rows = []
    for one in found.rankers[: limits.LEADERBOARD_ROWS]:
        row: list[str | sections.TableFigure] = [one.label]
        row.append(sections.TableFigure(count(one.found), (percent(one.found / found.n),), sort=one.found))
        for n in (one.lost.get(cause, 0) for cause in found.causes):
            style = "most" if n and n == one.most else "" if n else "none"
            row.append(sections.TableFigure(count(n), sort=n, style=style))
        if found.any_failed:
            row.append(
                sections.TableFigure(
                    count(one.failed), sort=one.failed, style="low" if one.failed else "none"
                )
            )
        rows.append(row)
    columns = [sections.Column("Ranking", style="cell"), *sections.numbers("Found")]
    columns += sections.numbers(*(one.label.capitalize() for one in found.causes))
    columns += sections.numbers("Failed") if found.any_failed else []
    rest = left_out("the table `losses` in DuckDB holds them", ranking=len(found.rankers) - len(rows))
    blocks: list[sections.Block] = [
        found.summary,
        _introduction(found.k, found.causes),
        sections.Table(
            "Where questions are lost, by ranking", columns, rows, rest, "sortable filterable lost"
        ),
        sections.Definitions(legend(found.causes, found.k, failed=found.any_failed)),
    ]
    if found.unfound:
        blocks += [
            sections.PageHeading("Found by no retriever"),
            sections.Bullets([_listed(one) for one in found.unfound[: limits.UNFOUND]], "unfound"),
        ]
        further = max(0, len(found.unfound) - limits.UNFOUND)
        more = left_out("the view `current_losses` in DuckDB holds them", question=further)
        blocks += [sections.PageParagraph(more)] if more else []
    return sections.section("lost", blocks)


def _listed(one: Mapping[str, Any]) -> Markup:
    address = f"#question-{one['number']}" if one["number"] else link_of(one["question_id"])
    text = truncate(one["question"], limits.UNFOUND_CHARACTERS)
    return Markup(
        '<span dir="auto" lang="{}">{}</span> <span class="tally"><a href="{}">{}</a> · {}</span>'
    ).format(one["language"] or "", text, address, one["question_id"], one["lost"])


def depth(metric: MetricInfo) -> int:
    """Return how many passages count: the metric's own depth, or 10."""
    found = _DEPTH.search(metric.name)
    return int(found[1]) if found else FIRST


def fates_of(losses: pl.DataFrame | None, questions: pl.DataFrame, k: int) -> pl.DataFrame:
    """Return what lost each question in each ranking: cell, question_id, lost_at (NULL: in the first k).

    losses: schema LOSSES with `cell`; questions: schema QUESTIONS

    A question that needs all evidence is lost at the earliest loss of any piece; one that needs any of it
    only when all of it is, at the latest.
    """
    if losses is None:
        losses = pl.DataFrame(schema={**LOSSES, "cell": pl.String})
    at = pl.col("lost_at").fill_null(pl.when(pl.col("found_at") > k).then(pl.lit(str(Loss.CUT))))
    order = at.replace_strict({str(loss): place for loss, place in _ORDER.items()}, return_dtype=pl.Int64)
    pieces = losses.join(questions.select("question_id", "needs"), on="question_id")
    ends = {"first": order.min(), "last": order.max(), "missed": order.is_not_null().all()}
    grouped = pieces.group_by("cell", "question_id", maintain_order=True)
    found = grouped.agg(any=pl.col("needs").first() == "any", **ends)
    fate = pl.when("any").then(pl.when("missed").then("last")).otherwise("first")
    names = {place: str(loss) for loss, place in _ORDER.items()}
    return found.select("cell", "question_id", lost_at=fate.replace_strict(names, return_dtype=pl.String))


def legend(causes: Sequence[Loss], k: int, *, failed: bool) -> tuple[tuple[str, str], ...]:
    first = (
        f"The first {several(k, 'passage')} hold all of the evidence, or one piece where any of it suffices."
    )
    last = [("Failed", "The ranking ended with an error, so that nothing can be said.")] if failed else []
    return (
        ("Found", first),
        *((loss.label.capitalize(), f"{legend_of(loss, k)} {REMEDIES[loss]}") for loss in causes),
        *last,
    )


def legend_of(loss: Loss, k: int) -> str:
    meanings = {
        Loss.CORPUS: "No document holds the evidence: the page was not fetched, or cleaning lost the text.",
        Loss.CHUNKING: "No chunk holds the evidence whole, and its pieces were not found together.",
        Loss.FILTER: "A filter kept out the chunks that hold it, or dropped them as doubles.",
        Loss.CANDIDATES: "It is among the first `k` passages of no retriever.",
        Loss.FUSION: "A retriever had it above the cut, and the fusion moved it below.",
        Loss.RERANKING: "The list had it above the cut, and a re-ranking step moved it below.",
        Loss.CUT: (
            "The list held it below the cut (the `k` of a fusion or re-ranking step, or a step that cuts), "
            f"or after the first {several(k, 'passage')}."
        ),
        Loss.BUDGET: "It did not fit into the token budget.",
    }
    return meanings[loss]


def _rankings(data: ReportData, fates: Mapping[str, object]) -> list[LeaderboardCell]:
    """Return one cell of each ranking that was run; without fates, it failed on every question."""
    run = set(data.scores["cell"])
    found: dict[tuple[str | None, ...], LeaderboardCell] = {}
    for subset in subsets(data):
        for standing in subset.standings:
            cell = standing.cell
            if cell.retriever is None:
                continue
            ranking = (cell.chunking, cell.embedder, cell.retriever)
            if cell.key in fates:
                found[ranking] = cell
            elif cell.key in run:
                found.setdefault(ranking, cell)
    return list(found.values())


def _ranker(label: str, fates: Mapping[str, Loss | None], questions: Sequence[Mapping[str, Any]]) -> Ranker:
    counts = Counter(fates.values())
    found = counts.pop(None, 0)
    lost_at = {loss: n for loss, n in counts.items() if loss is not None}
    return Ranker(label, found, lost_at, len(questions) - found - sum(lost_at.values()))


def _where(causes: Mapping[str, int]) -> str:
    if len(causes) == 1:
        return f"lost at {next(iter(causes))} in every ranking"
    ordered = sorted(causes.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{cause} in {several(n, 'ranking')}" for cause, n in ordered]
    return f"lost at {listed(parts, len(parts))}"


def _introduction(k: int, causes: Sequence[Loss]) -> str:
    unused = [loss.label for loss in Loss if loss not in causes]
    sentences = (
        f"A question is found when the first {several(k, 'passage')} that a retriever delivers hold the "
        "evidence that it needs; every other question is counted once, at the step that lost it. A row's "
        "largest loss is in bold."
    )
    if not unused:
        return sentences
    return f"{sentences} Causes without a column lost no question: {listed(unused, len(unused))}."


def _summary(
    questions: Sequence[Mapping[str, Any]], of: Mapping[str, Mapping[str, Loss | None]], unfound: int
) -> str:
    ids = [row["question_id"] for row in questions]
    causes = [{fates[one] for fates in of.values() if one in fates} for one in ids]
    nowhere = sum(cause == {Loss.CORPUS} for cause in causes)
    early = {Loss.CORPUS, Loss.CHUNKING}
    cut = sum(bool(cause) and cause <= early for cause in causes) - nowhere
    why = {"no document holds the evidence": nowhere, "every chunking cuts it": cut}
    clauses = [(clause, n) for clause, n in why.items() if n]
    reasons = f", because {clauses[0][0]}" if clauses else ""
    if len(clauses) > 1:
        reasons = ": " + " and ".join(f"{count(n)} because {clause}" for clause, n in clauses)
    how_many = f"{count(nowhere + cut)} {_is(nowhere + cut)} lost" if clauses else "none is lost"
    never = f"{several(unfound, 'question')} {_is(unfound)} found by no retriever."
    return (
        f"Of {several(len(questions), 'question')} with evidence, {how_many} before any retriever{reasons}."
        f" {never if unfound else 'Every one is found by at least one retriever.'}"
    )


def _is(n: int) -> str:
    return "is" if n == 1 else "are"
