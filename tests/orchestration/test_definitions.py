"""The Dagster definitions: all assets load, in their groups, with descriptions and arrows."""

from __future__ import annotations

import dagster as dg
import pytest

from evals.study_file import read_book
from orchestration.definitions import definitions_of, defs

ARROWS = {
    "recipes": set(),
    "pages": {"recipes"},
    "documents": {"pages", "recipes"},
    "chunks": {"documents", "recipes"},
    "enrichments": {"chunks", "documents", "recipes"},
    "embeddings": {"chunks", "enrichments", "recipes"},
    "indexes": {"chunks", "embeddings", "recipes"},
    "questions": {"documents", "recipes"},
    "rankings": {"indexes", "questions", "recipes"},
    "answers": {"rankings", "indexes", "questions", "recipes"},
    "scores": {"rankings", "answers", "questions", "recipes"},
    "leaderboard": {"scores", "recipes"},
}
GROUPS = {
    "studies": {"recipes"},
    "corpus": {"pages", "documents", "chunks", "enrichments", "embeddings", "indexes"},
    "questions": {"questions"},
    "grid": {"rankings", "answers", "scores", "leaderboard"},
}


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return definitions_of(list(read_book().studies.values()))


def test_assets_and_arrows(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    found = {
        key.to_user_string(): {parent.to_user_string() for parent in graph.get(key).parent_keys}
        for key in graph.get_all_asset_keys()
    }
    assert found == ARROWS


def test_groups_and_descriptions(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    for group, names in GROUPS.items():
        assert {
            key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).group_name == group
        } == names
    assert all(len(graph.get(key).description or "") > 40 for key in graph.get_all_asset_keys())


def test_demo_partitions(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    sizes = {
        name: sum(
            key.startswith(("demo.", "sample."))
            for key in graph.get(dg.AssetKey(name)).partitions_def.get_partition_keys()  # type: ignore[union-attr]
        )
        for name in ("indexes", "rankings", "answers")
    }
    assert sizes == {"indexes": 4, "rankings": 20, "answers": 22}


def test_each_source_has_a_schedule_that_is_off(definitions: dg.Definitions) -> None:
    schedules = {schedule.name: schedule for schedule in definitions.schedules or []}  # type: ignore[union-attr]
    sources = [name for study in read_book().studies.values() for name in study.corpus.sources]
    assert {"acts", "posts", "reports"} <= set(sources)
    assert set(schedules) == {f"crawl_{name.replace('-', '_')}_schedule" for name in sources}
    assert all(s.default_status is dg.DefaultScheduleStatus.STOPPED for s in schedules.values())  # type: ignore[union-attr]
    assert schedules["crawl_football_news_schedule"].cron_schedule == "0 */6 * * *"  # type: ignore[union-attr]


def test_module_level_definitions_load(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    monkeypatch.delenv("ASSAY_BEIR", raising=False)
    assert isinstance(defs(), dg.Definitions)
