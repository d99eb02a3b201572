"""What is written into an export for people: a README, and an example in Python."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from string import Template

from rag_assay.evals.export.expected_results import ExpectedResult
from rag_assay.evals.export.recipe import ExportedRecipe
from rag_assay.evals.export.weights import Used

README, EXAMPLE = "README.md", "example.py"
_TEXTS = Path(__file__).with_name("texts")
_NEEDS = {
    "registry": "- `{name}`: weights of the registry, of digest `{weights}` (`assay models fetch {plain}`)",
    "hub": "- `{name}`: weights of the Hugging Face hub, at their commit",
    "folder": "- `{name}`: weights of digest `{weights}`, in `models/` here or in that of the home",
    "server": "- `{name}`: a model that a server has; its key comes from the environment, and is not in here",
}


def written_texts(
    recipe: ExportedRecipe, expected: Sequence[ExpectedResult], used: Sequence[Used]
) -> dict[str, str]:
    """Return the files that are for people: name -> text."""
    question = expected[0].question["question"] if expected else "What is this about?"
    cell = recipe.key
    needs = [
        _NEEDS[one.kind].format(
            name=Path(one.name).name if one.kind == "folder" else one.name,
            plain=one.name.rpartition("/")[2],
            weights=one.identity,
        )
        for one in used
    ]
    values = {
        "cell": cell.key,
        "study": recipe.study,
        "version": version("rag-assay"),
        "chunking": cell.chunking,
        "embedder": cell.embedder,
        "retriever": cell.retriever,
        "generator": f"generator `{cell.generator}`" if recipe.generator else "without a generator",
        "models": "\n".join(needs) or "No model.",
        "n_checked": str(len(expected)),
    }
    return {
        README: Template(_read("readme")).substitute(values),
        EXAMPLE: Template(_read("example")).substitute(question=repr(question)),
    }


def _read(name: str) -> str:
    return (_TEXTS / f"{name}.txt").read_text(encoding="utf-8")
