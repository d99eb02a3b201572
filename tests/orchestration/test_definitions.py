"""The Dagster definitions: all assets load, in their groups, with descriptions and arrows."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from rag_assay.assets.engine.definition import as_assets
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study_file import read_studies, read_study
from rag_assay.evals.study.study_names import study_files
from rag_assay.orchestration.definitions import defs
from rag_assay.orchestration.stages import stages_of
from rag_assay.orchestration.study_definitions import definitions_of
from rag_assay.warehouse.cron import is_cron
from rag_assay.warehouse.tables import FILES
from tests.fakes.tiny import write_study

FAMILIES = {
    "pages": "sources",
    "documents": "cleaning",
    "chunks": "chunkings",
    "enrichments": "enrichers",
    "embeddings": "embedders",
    "indexes": "index_settings",
    "questions": "question_sets",
    "rankings": "retrievers",
    "answers": "generators",
    "annotations": "rubrics",
    "judgements": "judges",
    "judge_cards": "judge_settings",
    "scores": "metrics",
    "human_estimates": "rating_scales",
    "leaderboard": "comparisons",
    "report": "report_settings",
}
UPSTREAM = {
    "pages": set(),
    "documents": {"pages"},
    "chunks": {"documents"},
    "enrichments": {"chunks"},
    "embeddings": {"chunks", "enrichments"},
    "indexes": {"embeddings"},
    "questions": {"documents"},
    "rankings": {"indexes", "questions"},
    "answers": {"rankings", "indexes"},
    "annotations": {"answers"},
    "judgements": {"answers"},
    "judge_cards": {"judgements", "annotations"},
    "scores": {"rankings", "answers", "judgements", "annotations", "questions"},
    "human_estimates": {"annotations", "scores"},
    "leaderboard": {"scores"},
    "report": {"leaderboard", "judge_cards", "human_estimates"},
}
ARROWS = {
    **{name: {*stages, FAMILIES[name]} for name, stages in UPSTREAM.items()},
    **{family: set() for family in FAMILIES.values()},
    "verdict": {"leaderboard"},
}
GROUPS = {
    "recipes": set(FAMILIES.values()),
    "corpus": {"pages", "documents", "chunks", "enrichments", "embeddings", "indexes"},
    "questions": {"questions"},
    "grid": {
        "rankings",
        "answers",
        "judgements",
        "judge_cards",
        "scores",
        "leaderboard",
        "verdict",
        "report",
        "annotations",
        "human_estimates",
    },
}


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return definitions_of(list(read_studies(study_files()).studies.values()))


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


def test_kinds_are_what_stages_work_with(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    nodes = {key.to_user_string(): graph.get(key) for key in graph.materializable_asset_keys}
    assert {name for name, node in nodes.items() if "duckdb" in node.kinds} == {*FILES, "report"} - {
        "searches"
    }
    assert all("python" in node.kinds and len(node.kinds) <= 4 for node in nodes.values())
    assert {owner for node in nodes.values() for owner in node.owners} == {"team:assets", "team:evals"}


def test_stages_that_disturb_each_other_share_a_pool() -> None:
    stages = stages_of(Grid([read_studies(study_files()).studies["demo"]]))
    pools = {name: as_assets(stage)[0].op.pool for name, stage in stages.items()}
    loading = {"embeddings", "rankings", "answers", "judgements", "judge_cards", "scores"}
    assert {name for name, pool in pools.items() if pool == "local_model"} == loading
    assert {name for name, pool in pools.items() if pool} == {*FILES, "report", "embeddings"} - {
        "searches"
    }, "all that write"


MODEL = "model: openai/gpt-4o-mini"
CHUNKED = "{tokens: {size: 16, overlap: 4}}"
ASKING = {
    "documents": ("path: docs}", f"path: docs, date_by: {{{MODEL}}}}}", {"documents"}),
    "enrichments": (CHUNKED, f"{CHUNKED[:-1]}, enrich: {{{MODEL}, summary: true}}}}", {"enrichments"}),
    "embedder": (
        "model: all-MiniLM-L6-v2}",
        "model: openai/text-embedding-3-small, api: {}}",
        {"embeddings", "rankings"},
    ),
    "step": (
        "dense: {dense: {k: 5}}",
        f"dense: [{{multi_query: {{n: 3, by: llm, {MODEL}}}}}, {{dense: {{k: 5}}}}]",
        {"rankings"},
    ),
    "generator": ("{extractive: {passages: 2, max_tokens: 40}}", f"{{llm: {{{MODEL}}}}}", {"answers"}),
    "judge": (
        "questions:",
        f"judges:\n  fair: {{criteria: {{{MODEL}}}}}\nquestions:",
        {"judgements", "judge_cards"},
    ),
    "model of this process": (
        "{extractive: {passages: 2, max_tokens: 40}}",
        "{llm: {model: local/smollm2-135m-instruct}}",
        set(),
    ),
    "model at no price": (
        "{extractive: {passages: 2, max_tokens: 40}}",
        "{llm: {model: openai/own, api_base: 'http://127.0.0.1:9/v1', price: {read: 0, written: 0}}}",
        set(),
    ),
}


@pytest.mark.parametrize("what", list(ASKING))
def test_an_asset_says_whether_it_may_cost_money(what: str, tmp_path: Path) -> None:
    """Each part that can ask somebody else's model makes the stages that ask it paid ones, and no others."""
    old, new, expected = ASKING[what]
    graph = definitions_of([read_study(write_study(tmp_path, {old: new}))]).resolve_asset_graph()
    found = {
        key.to_user_string(): graph.get(key).tags["asks_models"] for key in graph.materializable_asset_keys
    }
    assert {name for name, tag in found.items() if tag == "paid"} == expected
    assert set(found.values()) <= {"paid", "free"}


def test_each_combination_of_the_demo_is_a_partition(definitions: dg.Definitions) -> None:
    graph, demo = definitions.resolve_asset_graph(), read_studies(study_files()).studies["demo"]

    def partitions(stage: str, owner: str) -> set[str]:
        keys = graph.get(dg.AssetKey(stage)).partitions_def.get_partition_keys()  # type: ignore[union-attr]
        return {key for key in keys if key.startswith(f"{owner}.")}

    cells = demo.cells()
    indexes = {f"{demo.corpus.name}.{cell.chunking}.{cell.embedder}" for cell in cells}
    assert partitions("indexes", demo.corpus.name) >= indexes, "other studies may use the same documents"
    assert len(partitions("rankings", "demo")) == len({cell.ranking for cell in cells})
    answering = {cell.key for cell in cells if cell.generator != "none"}
    assert partitions("answers", "demo") == answering
    assert len(cells) > len(answering) > len(indexes) > 1


def test_each_source_has_a_schedule_that_is_off(definitions: dg.Definitions) -> None:
    schedules = {schedule.name: schedule for schedule in definitions.schedules or []}  # type: ignore[union-attr]
    studies = read_studies(study_files()).studies
    sources = [name for study in studies.values() for name in study.corpus.sources]
    assert {"acts", "posts", "reports"} <= set(sources)
    crawls = {f"crawl_{name.replace('-', '_')}_schedule" for name in sources}
    assert set(schedules) == crawls | {f"study_{name}_schedule" for name in studies}
    assert all(s.default_status is dg.DefaultScheduleStatus.STOPPED for s in schedules.values())  # type: ignore[union-attr]
    assert schedules["crawl_football_news_schedule"].cron_schedule == "0 */6 * * *"  # type: ignore[union-attr]


def test_module_level_definitions_load(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    monkeypatch.delenv("ASSAY_BEIR", raising=False)
    definitions = defs()
    assert isinstance(definitions, dg.Definitions)
    definitions.get_repository_def().load_all_definitions()  # as the UI does, which else shows nothing at all


def test_sources_whose_names_differ_in_signs_only_have_a_schedule_each(tmp_path: Path) -> None:
    more = "path: docs}\n  do-cs: {reader: folder, path: docs}\n  do_cs: {reader: folder, path: docs}"
    study = read_study(
        write_study(tmp_path, {"path: docs}": more, "sources: [docs]": "sources: [docs, do-cs, do_cs]"})
    )
    repository = definitions_of([study]).get_repository_def()
    context = dg.build_schedule_context(repository_def=repository)
    crawls = [one for one in repository.schedule_defs if one.name.startswith("crawl_")]
    requests = [one.evaluate_tick(context).run_requests for one in crawls]
    assert sorted(str(one.partition_key) for found in requests for one in found or ()) == [
        "do-cs",
        "do_cs",
        "docs",
    ]


@pytest.mark.parametrize(
    "cron",
    [
        *(
            "0 5 * * 1",
            "00 05 * * 1",
            "*/15 8-18 * * mon-fri",
            "0 0 1,15 JAN *",
            "0 0 29 2 *",
            "5/15 * * * *",
        ),
        *(
            "every monday",
            "61 5 * * 1",
            "0 24 * * *",
            "0 0 0 * *",
            "0 0 * 13 *",
            "0 0 30 2 *",
            "0 0 30 2 1",
            "*/0 * * * *",
        ),
        *("", "0 5 * *", "0 5 * * 1 *", "*-5 * * * *", "1-2-3 * * * *", "0 0 * * monday", "a * * * *"),
    ],
)
def test_a_schedule_that_a_study_may_say_is_one_that_dagster_takes(cron: str) -> None:
    """Else one study would keep the definitions of all of them from loading."""
    try:
        dg.ScheduleDefinition(job_name="any", cron_schedule=cron)
        is_taken = True
    except dg.DagsterInvalidDefinitionError:
        is_taken = False
    assert is_cron(cron) == is_taken


@pytest.mark.parametrize(
    "cron", ["0 0 31 2,4 *", "0 0 L * *", "0 0 LW * *", "0 0 * * 5L", "0 0 * * 1#2", "@daily"]
)
def test_a_schedule_that_never_comes_or_that_schedulers_read_in_several_ways_is_refused(cron: str) -> None:
    assert not is_cron(cron)


def test_a_backfill_gives_neighbours_runs_of_their_own(tmp_path: Path) -> None:
    """In one run with its parent, a stage would be skipped: its parent's keys are no outputs of a step."""
    graph = definitions_of([read_study(write_study(tmp_path))]).resolve_asset_graph()
    keys = {
        key: graph.get(key).partitions_def.get_partition_keys()  # type: ignore[union-attr]
        for key in graph.get_all_asset_keys()
    }
    alike = [
        (graph.get(parent), graph.get(child))
        for child in graph.materializable_asset_keys - {dg.AssetKey("verdict")}  # by the op of its parent
        for parent in graph.get(child).parent_keys & graph.materializable_asset_keys
        if set(keys[parent]) == set(keys[child])
    ]
    assert {(parent.key.to_user_string(), child.key.to_user_string()) for parent, child in alike} >= {
        ("embeddings", "indexes"),
        ("answers", "scores"),
    }
    for parent, child in alike:
        one_by_one = parent.backfill_policy == dg.BackfillPolicy.multi_run(1)
        bound = child.backfill_policy.max_partitions_per_run
        assert len(keys[child.key]) <= bound <= len(keys[child.key]) + 16, "people read it in the UI"
        assert one_by_one or parent.backfill_policy != child.backfill_policy
