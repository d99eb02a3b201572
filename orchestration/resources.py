"""The resource of the assets: where they are stored, and how they are built."""

import os

import dagster as dg
from pydantic import Field

from rag_assay.assets.engine.definition import RunOptions
from rag_assay.orchestration.settings import Settings, use_workspace


class Workspace(dg.ConfigurableResource[RunOptions]):
    """The workspace of all studies of a code location, and the options of runs of single assets.

    It is one for a process: the last one that was loaded or used.
    """

    home: str = Field(
        default="", description="A folder, or a URL on object storage. Default: `ASSAY_HOME`, else `var`."
    )
    models: str = Field(
        default="", description="The folder of model weights. Default: `ASSAY_MODELS`, else `models` in it."
    )
    crawl_again: bool = Field(
        default=True, description="Crawl a source whenever its pages are materialized, changed or not."
    )

    def activate(self) -> None:
        """Let this process work in the workspace."""
        if models := _value_of(self.models):
            os.environ["ASSAY_MODELS"] = models
        found = _value_of(self.home)
        use_workspace(Settings(home=found) if found else Settings())

    def create_resource(self, context: dg.InitResourceContext) -> RunOptions:
        """Return the options of a run, which has budgets of its own."""
        self.activate()
        return RunOptions(again=self.crawl_again)


def _value_of(text: str) -> str:
    """Return a value, or that of the environment variable that stands for it; empty if there is none."""
    return text.get_value() or "" if isinstance(text, dg.EnvVar) else text
