"""Compares a leaderboard and the tables of a report with their recount, figure by figure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import lxml.html

from tests.fakes.recount import AXES, SURE, Cell, Recount, Row, Value, quantile


@dataclass
class Compared:
    """How many figures were compared, and those that differ."""

    n: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def number(self, where: str, shown: str, wanted: Value, step: float = 0.001) -> None:
        """Compare a figure as it is written with one that was counted; a dash stands for none."""
        self.n[where.split(":", maxsplit=1)[0]] += 1
        text = "".join(shown.lstrip("≈=").replace("−", "-").removesuffix("%").split())
        good = text == "–" if wanted is None else _close(text, wanted, step)
        if not good:
            self.wrong.append(f"{where}: {shown!r}, not {wanted}")

    def exact(self, where: str, stored: Value, wanted: Value, relative: float = 1e-9) -> None:
        """Compare a stored number with one that was counted."""
        self.n[where.split(":", maxsplit=1)[0]] += 1
        good = stored is wanted is None or (
            stored is not None
            and wanted is not None
            and math.isclose(stored, wanted, rel_tol=relative, abs_tol=relative)
        )
        if not good:
            self.wrong.append(f"{where}: {stored}, not {wanted}")


COSTS = 3  # columns of price and time between coverage and the other metrics


def _close(text: str, wanted: float, step: float) -> bool:
    try:
        return abs(float(text) - wanted) <= step * 0.5 + 1e-4 * step + 1e-9
    except ValueError:
        return False


def compare_rows(recount: Recount, board: Iterable[Row]) -> Compared:
    """Compare the rows of a leaderboard (`assay report --format json`) with the recount."""
    found = Compared()
    wanted = {
        (subset, cell.key, metric): (recount.mean(cell, metric, recount.asked(subset)), cell)
        for subset, cells in recount.subsets().items()
        for cell in cells
        for metric in recount.metrics
        if cell.values.get(metric)
    }
    ranks = {subset: recount.ranks(subset) for subset in recount.subsets()}
    rows = {(row["subset"], row["cell"], row["metric"]): row for row in board}
    assert rows.keys() == wanted.keys()
    for place, row in rows.items():
        mean, cell = wanted[place]
        assert mean is not None
        assert {axis: row[axis] for axis in AXES} == cell.names
        loose = 1e-3 if row["metric"] == "semantic_similarity" else 1e-9
        for name, value in mean.items():
            found.exact(f"leaderboard rows: {place} {name}", row[name], value, loose)
        subset, _, metric = place
        found.exact(f"leaderboard rows: {place} rank", row["rank"], ranks[subset][cell.key])
        found.exact(
            f"leaderboard rows: {place} answered",
            row["answered"],
            recount.answered(cell, recount.asked(subset)),
        )
        if row["leader"]:
            found.exact(f"leaderboard rows: {place} leader's rank", 1, ranks[subset][row["leader"]])
            apart = recount.difference(cell, row["leader"], metric, subset)
            found.exact(f"leaderboard rows: {place} difference", row["difference"], apart, loose)
    return found


def compare_page(recount: Recount, html: str) -> Compared:
    """Compare every table of numbers of the report with the recount."""
    found = Compared()
    page = lxml.html.fromstring(html)
    boards = page.cssselect("table.board")
    subsets = sorted(recount.subsets(), key=lambda name: name != "all")
    assert len(boards) == len(subsets)
    for table, subset in zip(boards, subsets, strict=True):
        _board(recount, table, subset, found)
    _costs(recount, page, found)
    _matrices(recount, page, found)
    _lost(recount, page, found)
    _groups(recount, page, found)
    _effects(recount, page, found)
    _facts(recount, page, found)
    return found


def _text(element: Any) -> str:
    return " ".join(element.text_content().replace("\u200b", "").replace("\u00ad", "").split())


def _name(element: Any) -> str:
    """Return a name in a row of the leaderboard, without the mark of the cell that is recommended."""
    return _text(element).removesuffix(" recommended")


def _table(table: Any) -> tuple[list[str], list[list[Any]]]:
    head = [_text(cell) for cell in table.cssselect("thead tr")[-1]]
    return head, [list(row) for row in table.cssselect("tbody tr")]


def _main(cell: Any) -> tuple[str, list[str]]:
    """Return the number of a table's cell, and those on its first small line."""
    small = [_text(one) for one in cell.findall("small")]
    lines = small[0] if small else ""
    number = _text(cell).removesuffix("".join(small)).strip()
    ends = lines.split(" to ") if " to " in lines else lines.split("–")
    return number, [end.strip() for end in ends] if lines else []


def _board(recount: Recount, table: Any, subset: str, found: Compared) -> None:
    head, rows = _table(table)
    ids, ranks = recount.asked(subset), recount.ranks(subset)
    cells = {recount.label(cell): cell for cell in recount.subsets()[subset]}
    assert len(rows) == len(cells)
    first = head.index("Difference") - 2
    after = head.index("Coverage") + 1 + COSTS
    places = [first, *range(after, after + len(recount.metrics) - 1)]
    leaders = [cells[_name(row[1])].key for row in rows if _text(row[first + 2]) == "leader"]
    for row in rows:
        cell = cells.pop(_name(row[1]))
        shown = {_name(part) for part in row[2:first]}
        assert shown <= {*cell.names.values(), "–"}
        where = f"leaderboard: {subset} {cell.key}"
        found.number(f"{where} rank", _text(row[0]), ranks[cell.key], 1)
        for metric, at in zip(recount.metrics, places, strict=True):
            mean = recount.mean(cell, metric, ids) if cell.values.get(metric) else None
            number, ends = _main(row[at])
            step = _step(metric, mean["value"] if mean else None)
            found.number(f"{where} {metric}", number.rstrip("†"), mean["value"] if mean else None, step)
            if mean and mean["value"] is not None and mean["coverage"] >= SURE:
                if len(ends) != 2:
                    found.wrong.append(f"{where} {metric}: no interval in {_text(row[at])!r}")
                    continue
                for name, end in zip(("low", "high"), ends, strict=True):
                    end = end or "–"  # noqa: PLW2901 - a dash alone was taken for one between two ends
                    found.number(f"{where} {metric} {name}", end, mean[name], _step(metric, mean[name]))
            if at == first and leaders and cell.key not in leaders:
                apart = recount.difference(cell, leaders[0], metric, subset)
                written = _main(row[first + 2])[0]
                found.number(f"{where} difference", written, apart, step)
            if at == first:
                share = recount.share(cell, metric, ids)
                coverage = None if share is None else 100 * share
                found.number(f"{where} coverage", _main(row[head.index("Coverage")])[0], coverage, 0.2)
    assert not cells


def _step(metric: str, value: Value) -> float:
    if metric == "semantic_similarity":
        return 0.003
    return 0.001 if metric != "tokens" else 1 if value is not None and abs(value) >= 99.95 else 0.1


def _costs(recount: Recount, page: Any, found: Compared) -> None:
    head, rows = _table(page.cssselect("#costs table")[0])
    cells = {recount.label(cell): cell for cell in recount.cells}
    assert len(rows) == len(cells)
    for row in rows:
        cell = cells[_text(row[0])]
        at = 1
        for metric in ("retrieval_latency", "answer_latency", "tokens"):
            if metric not in recount.metrics:
                continue
            values = sorted(v for v in cell.values[metric].values() if v is not None)
            pair = (
                (math.fsum(values) / len(values), math.fsum(values))
                if metric == "tokens"
                else (quantile(values, 0.5), quantile(values, 0.95))
            )
            for part, value in enumerate(pair):
                found.number(
                    f"costs: {cell.key} {metric} {part}", _text(row[at]), value, _step(metric, value)
                )
                at += 1
        usd = [row_["usd"] for row_ in cell.answers.values() if row_["usd"] is not None]
        if "Answers sum, US$" in head:
            total = math.fsum(usd) if usd else None
            found.number(f"costs: {cell.key} usd", _text(row[head.index("Answers sum, US$")]), total, 0.0001)


def _one_a_ranking(recount: Recount) -> dict[str, Cell]:
    return {cell.ranking: cell for cell in reversed(recount.cells)}


def _matrices(recount: Recount, page: Any, found: Compared) -> None:
    metrics = [metric for metric in recount.metrics if "@" in metric]
    tables = page.cssselect("#matrix table")
    assert len(tables) == len(metrics) * len({cell.names["embedder"] for cell in recount.cells})
    assert len(recount.study["embedders"]) == 1, "one embedder: the headings of several are not read here"
    for table, metric in zip(tables, metrics, strict=True):
        head, rows = _table(table)
        values: dict[tuple[str, str], float] = {}
        for cell in recount.subsets()["all"]:
            mean = recount.mean(cell, metric, recount.asked("all"))
            assert mean is not None
            values[cell.names["chunking"], cell.names["retriever"]] = mean["value"]
        retrievers = head[1:-1]
        for row in rows:
            chunking = _text(row[0])
            for name, shown in zip(retrievers, row[1:-1], strict=True):
                number, _ = _main(shown)
                found.number(f"matrix: {metric} {chunking} {name}", number, values[chunking, name])
            own = [value for (one, _), value in values.items() if one == chunking]
            found.number(f"matrix: {metric} {chunking}", _text(row[-1]), sum(own) / len(own))
        foot = list(table.cssselect("tfoot tr")[0])
        for name, shown in zip(retrievers, foot[1:], strict=False):
            own = [value for (_, other), value in values.items() if other == name]
            found.number(f"matrix: {metric} {name}", _text(shown), sum(own) / len(own))


def _lost(recount: Recount, page: Any, found: Compared) -> None:
    head, rows = _table(page.cssselect("table.lost")[0])
    cells = _one_a_ranking(recount)
    axes = [a for a in AXES[:3] if len({c.names[a] for c in cells.values()}) > 1]
    labels = {recount.label(c, axes or ["chunking", "retriever"]): c for c in cells.values()}
    assert len(rows) == len(labels)
    depth = int(recount.metrics[0].partition("@")[2] or 10)
    for row in rows:
        cell = labels[_text(row[0])]
        fates = Counter(_fates(recount, cell, depth, found))
        number, _ = _main(row[1])
        found.number(f"lost: {cell.ranking} found", number, fates.pop(None, 0), 1)
        for cause, shown in zip(head[2:], row[2:], strict=True):
            found.number(f"lost: {cell.ranking} {cause}", _text(shown), fates.pop(cause.lower(), 0), 1)
        found.exact(f"lost: {cell.ranking} elsewhere", 0, fates.total())


ORDER = ("corpus", "chunking", "filter", "candidates", "fusion", "reranking", "cut", "budget")


def _fates(recount: Recount, cell: Cell, depth: int, found: Compared) -> Iterator[str | None]:
    """Yield what lost each question that has evidence; None: it is found."""
    stored: dict[str, list[Row]] = {}
    for row in recount.rows("rankings", cell.ranking, "losses"):
        stored.setdefault(row["question_id"], []).append(row)
    for question_id, rows in stored.items():
        question, hits = recount.questions[question_id], cell.hits.get(question_id, [])
        at: list[str | None] = []
        for row in sorted(rows, key=lambda row: row["evidence"]):
            item = question["evidence"][row["evidence"]]
            place = _holding(item, hits, recount.texts)
            found.exact(f"lost: {cell.ranking} {question_id} {row['evidence']}", row["found_at"], place)
            at.append(row["lost_at"] or ("cut" if place and place > depth else None))
        missed = sorted((ORDER.index(one), one) for one in at if one)
        if question["needs"] == "any":
            yield missed[-1][1] if len(missed) == len(at) else None
        else:
            yield missed[0][1] if missed else None


def _holding(item: Row, hits: list[Row], texts: dict[str, str]) -> int | None:
    """Return how many of the first hits hold all of a piece of evidence; white space does not count."""
    if item["start"] is None:
        return None
    text = texts[item["doc_id"]]
    wanted = {at for at in range(item["start"], item["end"]) if not text[at].isspace()}
    for number, hit in enumerate(hits, 1):
        if hit["doc_id"] == item["doc_id"]:
            wanted -= set(range(hit["start"], hit["end"]))
        if not wanted:
            return number
    return None


def _group(question: Row, column: str) -> str:
    if column == "type" and not question["answerable"]:
        return "unanswerable"
    if column == "type" and question["conversation"]:
        return "follow_up"
    return question[column] or "(none)"


def _groups(recount: Recount, page: Any, found: Compared) -> None:
    first, labels = recount.metrics[0], {recount.label(cell): cell for cell in recount.cells}
    several = len({cell.names["generator"] for cell in recount.cells}) > 1
    for cell in recount.cells:  # of a metric of rankings, one column stands for all generators
        axes = [axis for axis in recount.varying if axis != "generator"]
        labels.setdefault(recount.label(cell, axes) if axes and several else recount.label(cell), cell)
    for table, column in zip(page.cssselect("#groups table"), ("type", "question_set"), strict=True):
        head, rows = _table(table)
        for row in rows:
            ids = [q for q, one in recount.questions.items() if _group(one, column) == _text(row[0])]
            found.number(f"groups: {_text(row[0])}", _text(row[1]), len(ids), 1)
            for label, shown in zip(head[2:], row[2:], strict=True):
                values = [v for q in ids if (v := labels[label].values[first].get(q)) is not None]
                number, _ = _main(shown)
                mean = math.fsum(values) / len(values) if values else None
                found.number(f"groups: {_text(row[0])} {label}", number, mean)


def _effects(recount: Recount, page: Any, found: Compared) -> None:
    """Compare the means of the levels of axes that all cells of all questions cross."""
    cells = recount.subsets()["all"]
    for title, table in zip(
        page.cssselect("#effects h3"),
        page.cssselect("#effects > details > .scroll table.effects"),
        strict=False,
    ):
        axis = _text(title).lower()
        if axis not in ("chunking", "retriever") or "sample" in axis:
            continue
        metric = recount.metrics[0]
        questions = [q for q in recount.asked("all") if q in cells[0].values[metric]]
        for row in _table(table)[1]:
            own = [cell for cell in cells if cell.names[axis] == _text(row[0])]
            values = [[cell.values[metric][q] for cell in own] for q in questions]
            whole = [[value for value in row if value is not None] for row in values]
            mean = math.fsum(math.fsum(row) / len(row) for row in whole) / len(whole)
            found.number(f"effects: {axis} {_text(row[0])}", _main(row[1])[0], mean)


def _facts(recount: Recount, page: Any, found: Compared) -> None:
    sources, chunkings = page.cssselect("#corpus table")[:2]
    for row in _table(sources)[1]:
        documents = recount.rows("documents", _text(row[0]), "documents")
        dropped = recount.rows("documents", _text(row[0]), "dropped")
        found.number(f"corpus: {_text(row[0])} documents", _text(row[2]), len(documents), 1)
        said = [int(part.split("×")[0]) for part in _text(row[3]).split(", ") if "×" in part]
        found.number(f"corpus: {_text(row[0])} dropped", str(sum(said)), len(dropped), 1)
    for row in _table(chunkings)[1]:
        key = f"{recount.study['corpus']['name']}.{_text(row[0])}"
        tokens = sorted(one["n_tokens"] for one in recount.rows("chunks", key, "chunks"))
        wanted = (len(tokens), sum(tokens) / len(tokens), quantile(tokens, 0.5), tokens[-1])
        for shown, value, step in zip(row[1:5], wanted, (1, 0.1, 0.1, 1), strict=True):
            found.number(f"corpus: {key}", _text(shown), value, step)
