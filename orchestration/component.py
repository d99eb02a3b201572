"""Studies in somebody's Dagster project: a component for `dg`, and a function for projects without it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import dagster as dg
from pydantic import BaseModel, Field

from rag_assay.assets.engine.layout import ProjectLayout, StageKind
from rag_assay.assets.engine.submission import current_code
from rag_assay.evals.study.study_file import StudyCollection, read_study
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.orchestration.collection import collecting_seldom
from rag_assay.orchestration.resources import Crawler, ModelGateway, Models, Workspace
from rag_assay.orchestration.study_definitions import definitions_of
from rag_assay.orchestration.templates.study_files import short_name, write_study
from rag_assay.warehouse.paths import home

EXAMPLE = """\
# An example document

The harbour office opens at seven. A mooring costs twelve pounds a night in summer. Replace this file by your
own documents: text, Markdown, HTML, PDF or office files, in folders as deep as you like.
"""


def build_definitions(
    studies: Sequence[str | Path],
    prefix: str | Sequence[str] = (),
    *,
    group: str | None = None,
    op_tags: Mapping[StageKind, Mapping[str, Any]] | None = None,
    pools: Mapping[StageKind, str] | None = None,
    schedules: bool = True,
    workspace: Workspace | None = None,
) -> dg.Definitions:
    """Return the assets, checks, jobs, schedules and sensors of studies, to be merged with others.

    They bring neither an executor nor named resources. Without a prefix, assets are named as their stages:
    `documents`, `chunks` and so on.

    Args:
        studies: paths of study files.
        prefix: of all asset keys, and of the names of jobs, schedules and sensors.
        group: of all assets. Default: corpus, grid, studies and recipes.
        op_tags: tags of the steps of each kind of stage (`crawl`, `cpu`, `gpu`, `llm`), for run launchers and
            executors.
        pools: pools of the steps of each kind of stage. Default: `local_model` and `duckdb`.
        schedules: whether crawls and studies have schedules; they are off until somebody starts them.
        workspace: where everything is stored (default: `ASSAY_HOME`, else `var`), with the models, gateway
            and crawler of its runs.

    Raises:
        InputError: a study file cannot be used.
    """
    current_code()  # so that it is the digest of the code that is in memory
    workspace = workspace or Workspace()
    workspace.activate()
    layout = ProjectLayout(
        prefix=tuple(filter(None, [prefix] if isinstance(prefix, str) else prefix)),
        group=group,
        op_tags=op_tags or {},
        pools=pools or {},
        schedules=schedules,
    )
    with collecting_seldom():
        found = [read_study(Path(path)) for path in studies]
        StudyCollection(found)  # refuses names that mean two things
        return definitions_of([narrow_study(one, home()) for one in found], layout, workspace)


class StudyScaffoldParams(BaseModel):
    """What `dg scaffold defs` takes for a study."""

    target: str = Field(
        default="",
        description="A folder of documents, or a website's start page. Default: an example document.",
    )


class StudyScaffolder(dg.Scaffolder[StudyScaffoldParams]):
    """Writes a commented study file, a question file to be filled in, and the component that loads them."""

    @classmethod
    def get_scaffold_params(cls) -> type[StudyScaffoldParams]:
        return StudyScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[StudyScaffoldParams]) -> None:
        folder = request.target_path
        target = request.params.target
        if not target:
            documents = folder / "documents"
            documents.mkdir(exist_ok=True)
            (documents / "example.md").write_text(EXAMPLE)
            target = os.path.relpath(documents)
        write_study(target, Path(os.path.relpath(folder / "study.yaml")), name=short_name(str(folder)))
        dg.scaffold_component(request, {"studies": ["study.yaml"], "key_prefix": folder.name})


@dg.scaffold_with(StudyScaffolder)
class StudyComponent(dg.Component, dg.Model, dg.Resolvable):
    """Studies of RAG pipelines: crawl, chunk, embed, retrieve, answer, score and compare, as assets."""

    studies: Annotated[
        list[str],
        dg.Resolver.default(
            description="Study files, relative to the folder of the component.", examples=[["study.yaml"]]
        ),
    ]
    key_prefix: Annotated[
        str | list[str],
        dg.Resolver.default(
            description="Prefix of all asset keys, and of the names of jobs, schedules and sensors. Two "
            "components of one project need two prefixes.",
        ),
    ] = ""
    group: Annotated[
        str | None,
        dg.Resolver.default(description="Group of all assets. Default: corpus, grid, studies and recipes."),
    ] = None
    op_tags: Annotated[
        dict[StageKind, dict[str, Any]] | None,
        dg.Resolver.default(
            description="Tags of the steps of each kind of stage, for run launchers and executors.",
            examples=[{"gpu": {"dagster-k8s/config": {"container_config": {"resources": {}}}}}],
        ),
    ] = None
    pools: Annotated[
        dict[StageKind, str] | None,
        dg.Resolver.default(
            description="Pools of the steps of each kind of stage. Default: local_model and duckdb.",
            examples=[{"llm": "openai"}],
        ),
    ] = None
    schedules: Annotated[
        bool,
        dg.Resolver.default(
            description="Whether crawls and studies have schedules; they are off until somebody starts them."
        ),
    ] = True
    home: Annotated[
        str,
        dg.Resolver.default(
            description="The workspace, a folder or a URL on object storage. Default: ASSAY_HOME, else var.",
            examples=["{{ env.ASSAY_HOME }}"],
        ),
    ] = ""
    models: Annotated[
        str,
        dg.Resolver.default(
            description="The folder of model weights. Default: ASSAY_MODELS, else `models` in the workspace."
        ),
    ] = ""
    budget: Annotated[
        dict[Literal["max_usd", "max_tokens", "max_calls"], Any] | None,
        dg.Resolver.default(
            description="What a run may spend on calls of models, beside the budgets of its studies.",
            examples=[{"max_usd": 5}],
        ),
    ] = None
    crawl_again: Annotated[
        bool,
        dg.Resolver.default(
            description="Crawl a source whenever its pages are materialized, changed or not."
        ),
    ] = True

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(description=cls.__doc__, tags=["rag", "evaluation"])

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return build_definitions(
            [context.path / one for one in self.studies],
            self.key_prefix,
            group=self.group,
            op_tags=self.op_tags,
            pools=self.pools,
            schedules=self.schedules,
            workspace=Workspace(
                self.home,
                Models(folder=self.models),
                ModelGateway(**(self.budget or {})),
                Crawler(again=self.crawl_again),
            ),
        )
