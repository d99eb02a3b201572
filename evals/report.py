"""report: the results of a study as a page and as rows, one partition a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import ClassVar

from rag_assay.assets.engine.stage import BuildContext, BuildResult, PartitionRef
from rag_assay.evals.pipeline.stage_inputs import GridStage
from rag_assay.evals.reporting.study_facts import study_facts
from rag_assay.evals.successive_halving.records import STAGE as SEARCHES
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.identity import digest, sha256_file
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.tables import use_database, write_history


class Report(GridStage):
    """Writes the report of a study where people look for it."""

    name = "report"
    description = (
        "The report of a study: one HTML file that needs nothing else, and its leaderboard as JSON, both in "
        "the folder `reports`. Written again where the leaderboard, the corpus, a recipe or a warning is "
        "another one than it shows, and where a file is gone or was changed."
    )
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "duckdb"})
    code_version = "4"
    upstream = ("leaderboard", "judge_cards", "human_estimates", "annotations")
    family = "report_settings"
    lineage = ("leaderboard", "judge_cards", "human_estimates")
    in_place = True
    tolerates_gaps = True

    def keys(self) -> list[str]:
        return sorted(self.grid.studies)

    def needs(self, key: str) -> list[PartitionRef]:
        others = [PartitionRef("judge_cards", name) for name in self.grid.cards_of(key)]
        if self.grid.studies[key].rubrics:
            others += [PartitionRef("human_estimates", key), PartitionRef("annotations", key)]
        return [PartitionRef("leaderboard", key), *(need for need in others if need not in self.without)]

    def recipes(self, key: str) -> dict[str, str]:
        study = self.grid.studies[key]
        part = [study.slice.sentence] if study.slice else []
        return {f"report.{key}": digest([study.description, study.seed, *part])}

    def cache_key_of(self, artifact: Artifact) -> list[str]:
        """Return also which leaderboard it is: what is shown of its cells is not in its content."""
        return [*super().cache_key_of(artifact), artifact.identity]

    def identity(self, key: str, store: ArtifactStore) -> str:
        """Return the digest of all that the report shows: facts of the corpus, warnings and failures too."""
        leaderboard = super().identity(key, store)
        facts = study_facts(self.grid.studies[key], store)
        # Not when it was fetched last: a crawl that finds nothing new changes no figure.
        facts = replace(facts, corpus=tuple(replace(one, crawled=None) for one in facts.corpus))
        found = store.current(SEARCHES, key) if self.grid.studies[key].search else None
        searched = [found.data_version] if found else []
        return digest([leaderboard, asdict(facts), list(self.failures), *searched])

    def fresh(self, key: str, store: ArtifactStore) -> Artifact | None:
        """Return the artifact of a key, unless its files are not what was written then."""
        artifact = super().fresh(key, store)
        mirror = mirror_of(store.home)
        if artifact and mirror and artifact.meta["sha256"] != _sums(key, store.home):
            mirror.pull("reports")
        return artifact if artifact and artifact.meta["sha256"] == _sums(key, store.home) else None

    def links(self, key: str, home: Home) -> dict[str, Path]:
        return {"report": home.report(key), "rows": home.report_rows(key)}

    def on_committed(self, keys: Sequence[str], work: BuildContext) -> None:
        """Add the results that studies have come to have to their histories."""
        from rag_assay.evals.reporting.changes.history_writer import is_recorded, record_result

        run = getattr(work.dagster, "run_id", "")
        changed = [
            key
            for key in keys
            if not is_recorded(key, work.home)
            and self.fresh(key, work.store)
            and record_result(self.grid, key, work.home, run)
        ]
        if changed:
            use_database(work.home, lambda connection: write_history(connection, work.home), work.say)

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        # Imported where a report is written: a run that finds it fresh need not wait for its templates.
        from rag_assay.evals.reporting.page import write_report
        from rag_assay.evals.reporting.rows import report_data

        data = report_data(self.grid.studies[key], work.home, self.failures)
        page, rows = write_report(data, work.home)
        if mirror := mirror_of(work.home):
            mirror.push("reports")
        meta = {
            "path": str(page),
            "rows": str(rows),
            "verdict": " ".join(data.verdict.sentences),
            "recommended": data.verdict.recommended.cell if data.verdict.recommended else None,
            "sha256": _sums(key, work.home),
        }
        return BuildResult(self.identity(key, work.store), meta)


def _sums(key: str, home: Home) -> list[str | None]:
    paths = (home.report(key), home.report_rows(key), *home.report_data(key))
    return [sha256_file(path) if path.is_file() else None for path in paths]
