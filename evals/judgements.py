"""judgements: what each judge says of each cell, one partition a replicate of a cell and a judge."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rag_assay.assets.engine.row_checks import WITHIN_BUDGET, at_most, within_budget
from rag_assay.assets.engine.stage import LOCAL_MODEL, BuildContext, BuildResult, Check, PartitionRef
from rag_assay.assets.engine.table import StageTable, distribution
from rag_assay.assets.recipes.build_half import may_cost
from rag_assay.evals.pipeline.cell_items import (
    case_needs,
    judge_context,
    judge_digest,
    metrics_of,
    read_cases,
    rival_of,
)
from rag_assay.evals.pipeline.stage_inputs import GridStage
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.attempts import Pieces
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.schemas import JUDGEMENTS, MIN_COVERAGE, RETRYABLE, Status

if TYPE_CHECKING:
    from rag_assay.evals.judging.judge_runner import Row

FILE = "judgements.parquet"
JUDGE = "judge"
"""Where the meta of judgements says by whom they are: the digest of the judge, whatever it is called."""
CUT = "cut"
"""Where the meta of answers says what of their passages was cut off; nothing was where it is not there."""
READABLE = 0.9
"""Share of a judge's replies that must be readable, without a warning."""
REPLIES = 5
"""After so many unreadable replies in a row, no reply is expected to be readable."""
_MEASURED = (
    "reason",
    "raw",
    "seconds",
    "prompt_tokens",
    "completion_tokens",
    "usd",
    "cached",
    "calls",
    "model",
)


class Judgements(GridStage):
    """Lets every judge judge every answer, or the passages of every question, as often as it says."""

    name = "judgements"
    description = (
        "One row a question, metric and replicate of a judge: a value with the judge's reason, and what "
        "it took apart and looked at; or a typed status and a reason. Every model call goes through the "
        "cache of calls. What has not changed for a judge is not judged again; what failed is tried again by "
        "the next run."
    )
    table = StageTable(
        FILE,
        JUDGEMENTS,
        ("question_id", "metric", "status", "value", "reason"),
        (distribution("values of judgements", "value"),),
    )
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "llm", "duckdb", "parquet"})
    code_version = "1"
    upstream = ("answers", "rankings", "indexes", "chunks", "documents", "questions")
    family = "judges"
    lineage = ("answers",)
    resumes: ClassVar[bool] = True
    checks: ClassVar[dict[str, str]] = {
        "parse_rate": f"At least {READABLE:.0%} of the judge's replies could be read. An error where all of "
        f"{REPLIES} or more could not; its metrics then have typed rows and no values.",
        "judged": f"At least {MIN_COVERAGE:.0%} of the judgements were made; the others count as missing.",
        "within_budget": WITHIN_BUDGET,
    }

    def keys(self) -> list[str]:
        return sorted(self.grid.judged)

    def needs(self, key: str) -> list[PartitionRef]:
        return case_needs(self.grid, self.grid.judged[key])

    def recipes(self, key: str) -> dict[str, str]:
        judged = self.grid.judged[key]
        study = self.grid.studies[judged.cell.study]
        sample, rival = study.judged_sample(judged.judge), rival_of(study, judged)
        cells = [judged.cell, *([rival] if rival else [])]
        much = [
            study.judges[judged.judge].times,
            None if sample is None else [sample, study.seed],
            [
                one in study.generators and study.generators[one].writes_markers
                for one in (cell.generator for cell in cells)
            ],
        ]
        where = f"{judged.cell.study}.{judged.judge}"
        return {f"judge.{where}": judge_digest(study, judged.judge), f"judged.{where}.{key}": digest(much)}

    def cache_key_of(self, artifact: Artifact) -> list[str]:
        """Return also what is read and not in the content of answers: why they failed, what was cut off."""
        found = super().cache_key_of(artifact)
        if artifact.stage != "answers":
            return found
        failed = set(artifact.meta.get("by_status", {})) - {Status.OK, Status.REFUSED}
        cut = artifact.meta.get(CUT)
        return [*found, *([artifact.measured] if failed else []), *([str(cut)] if cut else [])]

    def pool(self) -> str:
        return LOCAL_MODEL

    def spends(self, key: str) -> bool:
        judged = self.grid.judged[key]
        judge = self.grid.studies[judged.cell.study].judges[judged.judge]
        return may_cost(judge, judge.embeds_with)

    def waits_for_servers(self, key: str) -> bool:
        judged = self.grid.judged[key]
        chat = self.grid.studies[judged.cell.study].judges[judged.judge].chat
        return chat is not None and not chat.is_local

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.evals.judging.judge_runner import JudgeTask, judgement_rows, known_rows, may_be_mended

        judged = self.grid.judged[key]
        study = self.grid.studies[judged.cell.study]
        inputs = dict(zip(self.needs(key), self.inputs(key, work.store), strict=True))
        cases, blocked = read_cases(self.grid, judged, inputs, work)
        task = JudgeTask(study.judges[judged.judge], metrics_of(study, judged), cases, blocked)
        by = judge_digest(study, judged.judge)
        pieces = Pieces(folder)
        known = known_rows(self.name, key, by, folder / FILE, work)
        rows = judgement_rows(task, judge_context(study, judged, work), known, pieces)
        write_parquet(frame(rows, JUDGEMENTS), folder / FILE)
        pieces.clear()
        return _built(rows, may_be_mended(rows, task), {JUDGE: by, "cases": len(cases)})


def _built(rows: list[Row], again: list[Row], meta: dict[str, Any]) -> BuildResult:
    values: dict[str, list[float]] = {}
    for row in rows:
        if row["value"] is not None:
            values.setdefault(row["metric"], []).append(row["value"])
    costs = [row["usd"] for row in rows if row["usd"] is not None]
    meta = {
        **meta,
        "rows": len(rows),
        "by_status": dict(Counter(str(row["status"]) for row in rows)),
        "means": {name: round(sum(found) / len(found), 4) for name, found in sorted(values.items())},
        "calls": sum(row["calls"] or 0 for row in rows),
        "from_cache": sum(bool(row["cached"]) for row in rows),
        "usd": round(sum(costs), 6),
        "prompt_tokens": sum(row["prompt_tokens"] or 0 for row in rows),
        "completion_tokens": sum(row["completion_tokens"] or 0 for row in rows),
    }
    if again:
        first = next((row for row in again if row["status"] != Status.NOT_RUN), again[0])
        meta["incomplete"] = (
            f"{len(again)} of {len(rows)} judgements failed, first: {first['status']}: {first['reason']}"
        )
    content = ("question_id", "metric", "replicate", "status", "value", "case_id")
    taken_apart = [
        [[one["of"], one["text"], one["verdict"], one["value"]] for one in row["statements"] or ()]
        for row in rows
    ]
    named = [
        [*(row[column] for column in content), found] for row, found in zip(rows, taken_apart, strict=True)
    ]
    measured = digest([[row[column] for column in _MEASURED] for row in rows])
    return BuildResult(digest(named), meta, _checks(rows), complete=not again, measured=measured)


def _checks(rows: list[Row]) -> tuple[Check, ...]:
    names = [f"{row['question_id']}, {row['metric']}: {row['reason']}" for row in rows]
    unread = [name for name, row in zip(names, rows, strict=True) if row["status"] == Status.PARSE_FAILED]
    failed = [name for name, row in zip(names, rows, strict=True) if row["status"] in RETRYABLE]
    replies = len(unread) + sum(row["status"] == Status.OK for row in rows)
    none = len(unread) == replies >= REPLIES
    rate = at_most(
        "parse_rate", round(1 - READABLE, 6), unread, replies, "replies could not be read", severe=none
    )
    missing = round(1 - MIN_COVERAGE, 6)
    return (
        rate,
        at_most("judged", missing, failed, len(rows), "judgements could not be made"),
        within_budget((row["question_id"], row["status"]) for row in rows),
    )
