"""Studies in somebody else's Dagster project: both sets of assets side by side, and they materialize."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

import rag_assay
from rag_assay.orchestration.component import StudyScaffolder, StudyScaffoldParams
from tests.conftest import REPOSITORY
from tests.fakes.dagster_project import write_project
from tests.fakes.openai_server import FakeOpenAI, answer
from tests.orchestration.conftest import replace_in, write_study

COMPONENT = """\
type: rag_assay.StudyComponent
attributes:
  studies: [town/town.yaml]
  key_prefix: [search, quality]
  group: search_quality
  op_tags: {{gpu: {{gpu: "1"}}}}
  pools: {{llm: openai}}
  home: "{home}"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with a component of the small study."""
    root = tmp_path / "shop"
    folder = write_project(root, COMPONENT.format(home=tmp_path / "var")) / "town"
    folder.mkdir()
    write_study(folder)
    for name in ("ASSAY_HOME", "DAGSTER_HOME"):
        monkeypatch.setenv(name, "")
    monkeypatch.syspath_prepend(str(root / "src"))
    before = set(sys.modules)
    yield root
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"shop", "assets", "evals"}:
            del sys.modules[name]


def load(project: Path) -> dg.Definitions:
    return dg.load_from_defs_folder(path_within_project=project / "src" / "shop")


def test_both_sets_of_assets_stand_side_by_side(project: Path) -> None:
    graph = load(project).resolve_asset_graph()
    keys = {key.to_user_string() for key in graph.get_all_asset_keys()}
    assert {"documents", "report", "search/quality/documents", "search/quality/report"} <= keys
    ours = [key for key in graph.get_all_asset_keys() if len(key.path) > 1]
    assert all(key.path[:2] == ["search", "quality"] for key in ours)
    assert {key for key in keys if "/" not in key} == {"documents", "report"}
    assert {graph.get(key).group_name for key in ours} == {"search_quality"}
    chunks = graph.get(dg.AssetKey(["search", "quality", "chunks"]))
    assert dg.AssetKey(["search", "quality", "documents"]) in chunks.parent_keys


def test_tags_and_pools_of_a_kind_reach_its_steps(project: Path) -> None:
    definitions = load(project)
    job = definitions.resolve_job_def("study_search_quality_town")
    steps = {node.name: node for node in job.graph.nodes}
    assert steps["embeddings"].definition.tags["gpu"] == "1"
    assert "gpu" not in steps["chunks"].definition.tags
    assert steps["answers"].definition.pools == {"openai"}
    asset = definitions.resolve_assets_def(["search", "quality", "embeddings"])
    assert asset.op.tags["gpu"] == "1"
    assert definitions.resolve_assets_def(["search", "quality", "answers"]).op.pools == {"openai"}


@pytest.mark.models
def test_stages_materialize_and_are_fresh_under_their_prefix(
    project: Path, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    definitions = load(project)
    job = definitions.resolve_job_def("study_search_quality_town")
    with dg.DagsterInstance.ephemeral() as instance:
        everything = definitions.resolve_implicit_global_asset_job_def()
        assert everything.execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey("documents"), dg.AssetKey("report")]
        ).success
        for name in ("pages", "documents", "chunks"):
            key = dg.AssetKey(["search", "quality", name])
            (partition,) = definitions.resolve_assets_def(key).partitions_def.get_partition_keys()  # type: ignore[union-attr]
            run = everything.execute_in_process(
                instance=instance, asset_selection=[key], partition_key=partition
            )
            assert run.success
        event = instance.get_latest_materialization_event(key)
        tags = event.asset_materialization.tags if event and event.asset_materialization else {}
        assert tags["dagster/input_data_version/search/quality/documents"]
        assert (project.parent / "var" / "assay.duckdb").is_file()
        assert job.execute_in_process(instance=instance).success
        verdict = dg.AssetKey(["search", "quality", "leaderboard"])
        assert instance.get_materialized_partitions(verdict) == {"town"}
        assert not instance.has_asset_key(dg.AssetKey("chunks"))


def test_two_components_have_names_of_their_own(project: Path) -> None:
    study = project / "src/shop/defs/quality/town/town.yaml"
    found = [rag_assay.build_definitions([study], prefix) for prefix in ("one", "two")]
    both = dg.Definitions.merge(*found)
    assert {"study_one_town", "study_two_town"} <= set(both.get_repository_def().job_names)
    with dg.DagsterInstance.ephemeral() as instance:
        pages = [dg.AssetKey([prefix, "pages"]) for prefix in ("one", "two")]
        run = both.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, asset_selection=pages, partition_key="texts"
        )
        assert run.success
        assert all(instance.get_materialized_partitions(key) == {"texts"} for key in pages)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="one"):
        dg.Definitions.merge(found[0], rag_assay.build_definitions([study], "one")).get_repository_def()


def test_no_schedules_where_none_are_wanted(project: Path) -> None:
    study = project / "src/shop/defs/quality/town/town.yaml"
    assert rag_assay.build_definitions([study]).schedules
    assert not rag_assay.build_definitions([study], schedules=False).schedules


def test_the_workspace_may_be_named_by_an_environment_variable(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_ASSAY", str(project / "elsewhere"))
    study = project / "src/shop/defs/quality/town/town.yaml"
    workspace = rag_assay.Workspace(home=dg.EnvVar("SHOP_ASSAY"))
    definitions = rag_assay.build_definitions([study], workspace=workspace)
    with dg.DagsterInstance.ephemeral() as instance:
        run = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey("pages")], partition_key="texts"
        )
    assert run.success
    assert (project / "elsewhere" / "assay.duckdb").is_file()


@pytest.mark.models
def test_a_run_spends_what_its_gateway_allows_beside_the_studies(
    project: Path, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_CALLS", "1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
    path = project / "src/shop/defs/quality/town/town.yaml"
    with FakeOpenAI(respond=lambda _request: answer("Twelve.")) as server:
        llm = f"{{llm: {{model: openai/any, api_base: '{server.api_base}'}}}}"
        replace_in(path, "generators:\n", f"generators:\n  asked: {llm}\n")
        workspace = rag_assay.Workspace(
            home=str(project / "var"), gateway=rag_assay.ModelGateway(max_calls=dg.EnvVar.int("SHOP_CALLS"))
        )
        definitions = rag_assay.build_definitions([path], workspace=workspace)
        with dg.DagsterInstance.ephemeral() as instance:
            job = definitions.resolve_job_def("study_town")
            assert not job.execute_in_process(instance=instance, raise_on_error=False).success
            assert len(server.requests) == 1


def test_a_scaffolded_study_loads(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project / "src/shop/defs/mine"
    folder.mkdir()
    request = dg.ScaffoldRequest(
        type_name="rag_assay.StudyComponent",
        target_path=folder,
        scaffold_format="yaml",
        project_root=project,
        params=StudyScaffoldParams(),
        append=False,
    )
    StudyScaffolder().scaffold(request)
    assert "# " in (folder / "study.yaml").read_text()
    keys = load(project).resolve_asset_graph().get_all_asset_keys()
    assert dg.AssetKey(["mine", "leaderboard"]) in keys


def test_fields_of_the_component_are_described() -> None:
    schema = rag_assay.StudyComponent.get_model_cls().model_json_schema()
    assert all(one.get("description") for one in schema["properties"].values()), schema["properties"]
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["project"]["entry-points"]
    assert groups["dagster_dg_cli.registry_modules"] == {"rag_assay": "rag_assay"}


def test_the_package_loads_nothing_until_it_is_asked() -> None:
    code = (
        "import sys, json, rag_assay; print(json.dumps([name for name in sys.modules if 'dagster' in name]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == []
    with pytest.raises(AttributeError, match="no attribute 'Studies'"):
        rag_assay.Studies  # noqa: B018
