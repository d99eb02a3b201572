"""What ratings say: failure tags by pipeline, and how well annotators and judges agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import polars as pl
import streamlit as st

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.cell_items import current_items
from rag_assay.evals.reporting.human_ratings import people_section
from rag_assay.evals.reporting.judge_cards import judges_section
from rag_assay.evals.reporting.page import render_sections
from rag_assay.evals.reporting.texts import metric_title
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import find_known
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.orchestration.web.board import or_trouble, table
from rag_assay.orchestration.web.chat.catalogue import verdict_rows
from rag_assay.orchestration.web.components.result_views import show_sections
from rag_assay.orchestration.web.languages import app_texts
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.sign_in import page_home
from rag_assay.orchestration.web.study_results import report_of
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.failure_tags import FailureTag, FailureTags, tags_by_use

AGREEMENT = app_texts("agreement")


def show_agreement(context: PageContext) -> None:
    data = report_of(context)
    if data is None:
        return
    found = [replace(one, folded=False) for one in (people_section(data), judges_section(data, ())) if one]
    if found:
        show_sections("agreement", render_sections(found), lang="en")
    else:
        st.info(context.words(AGREEMENT)("none"))


TEXTS = app_texts("tag_counts")


@dataclass(frozen=True)
class Measured:
    """The pipelines of a study: ids of answers by cell in leaderboard order, and means."""

    items: Mapping[str, frozenset[str]]
    values: Mapping[str, float | None]
    title: str


@lru_cache(maxsize=8)
def _measured(reference: str, _stamp: float | None) -> Measured:
    home = page_home()
    study = narrow_study(find_known(reference, home), home)
    rows = verdict_rows(study, home)
    with closing(BuildContext(home)) as work:
        found: dict[str, set[str]] = {}  # replicates of a cell together, as the leaderboard has them
        for cell, items in current_items(Grid([study]), study, work):
            found.setdefault(cell.name, set()).update(item.item_id for item in items.items.values())
    metric = next((row["metric"] for row in rows.values()), study.metrics[0])
    ranks = {key: (rows.get(key) or {}).get("rank") for key in found}
    ordered = sorted(found, key=lambda key: (ranks[key] is None, ranks[key] or 0))
    values = {key: (rows.get(key) or {}).get("value") for key in found}
    return Measured({key: frozenset(found[key]) for key in ordered}, values, study.metric(metric).title)


def show_tag_counts(context: PageContext) -> None:
    words = context.words(TEXTS)
    st.caption(words("tags_about"))
    tags = FailureTags(context.workspace, context.study).current()
    if not tags:
        st.info(words("no_tags"), icon=":material/label:")
        return
    with st.container(key="board"):
        column = {
            name: words(f"column_{name}") for name in ("tag", "answers", "annotators", "pipeline", "tagged")
        }

        def title(name: str) -> str:
            return column.get(name) or metric_title(name, context.language)

        table("failure-tags", words("by_tag"), count_tags(tags), title, folded=False)
        stamp = ArtifactStore(context.workspace).pointed_at("leaderboard", context.study)
        measured = or_trouble(lambda: _measured(context.reference, stamp))
        if measured is not None:
            rows = count_by_cell(tags, measured)
            table("failure-tags-pipelines", words("by_pipeline"), rows, title, folded=False)


def count_tags(tags: Sequence[FailureTag]) -> pl.DataFrame:
    rows = [
        (
            tag,
            len({one.item_id for one in tags if one.tag == tag}),
            len({one.annotator for one in tags if one.tag == tag}),
        )
        for tag in tags_by_use(tags)
    ]
    return pl.DataFrame(rows, ["tag", "answers", "annotators"], orient="row")


def count_by_cell(tags: Sequence[FailureTag], measured: Measured) -> pl.DataFrame:
    names = tags_by_use(tags)
    given = {(one.item_id, one.tag) for one in tags}
    rows: list[dict[str, Any]] = []
    for cell, items in measured.items.items():
        mine = [(item, tag) for item, tag in given if item in items]
        counts = Counter(tag for _, tag in mine)
        tagged = len({item for item, _ in mine})
        row = {"pipeline": cell.partition(".")[2], measured.title: measured.values[cell], "tagged": tagged}
        rows.append({**row, **{f"“{name}”": counts[name] for name in names}})
    return pl.DataFrame(rows, infer_schema_length=None)
