"""The resources of the assets: where they are stored, and how models and sources are used."""

import os
from typing import Any

import dagster as dg
from pydantic import Field

from rag_assay.assets.engine.definition import RunOptions
from rag_assay.orchestration.settings import Settings, use_workspace
from rag_assay.warehouse.inference.budget import Budget, Budgets, Caps


class Models(dg.ConfigurableResource[Any]):
    """Weights of the models of this machine."""

    folder: str = Field(
        default="", description="A folder. Default: `ASSAY_MODELS`, else `models` in the workspace."
    )


class ModelGateway(dg.ConfigurableResource[Any]):
    """Calls of models on servers: what a run may spend on all of them, beside the budgets of its studies."""

    max_usd: float | None = Field(
        default=None, ge=0, description="US dollars a run. Calls without a known price do not count."
    )
    max_tokens: int | None = Field(default=None, ge=0, description="Tokens a run, read and written.")
    max_calls: int | None = Field(default=None, ge=0, description="Calls a run.")

    def budgets(self) -> Budgets:
        return Budgets(within=Budget(Caps(self.max_usd, self.max_tokens, self.max_calls)))


class Crawler(dg.ConfigurableResource[Any]):
    """How sources are crawled."""

    again: bool = Field(
        default=True, description="Crawl a source whenever its pages are materialized, changed or not."
    )


class Workspace(dg.ConfigurableResource[RunOptions]):
    """The workspace of a code location, with models, gateway and crawler; a process uses the last one."""

    home: str = Field(
        default="", description="A folder, or a URL on object storage. Default: `ASSAY_HOME`, else `var`."
    )
    models: Models
    gateway: ModelGateway
    crawler: Crawler

    def __init__(
        self,
        home: str | dg.EnvVar = "",
        models: Models | None = None,
        gateway: ModelGateway | None = None,
        crawler: Crawler | None = None,
    ) -> None:
        super().__init__(
            home=home,
            models=models or Models(),
            gateway=gateway or ModelGateway(),
            crawler=crawler or Crawler(),
        )

    def activate(self) -> None:
        if models := _value_of(self.models.folder):
            os.environ["ASSAY_MODELS"] = models
        found = _value_of(self.home)
        use_workspace(Settings(home=found) if found else Settings())

    def create_resource(self, context: dg.InitResourceContext) -> RunOptions:
        self.activate()
        return RunOptions(again=self.crawler.again, budgets=self.gateway.budgets())


def _value_of(text: str) -> str:
    return text.get_value() or "" if isinstance(text, dg.EnvVar) else text
