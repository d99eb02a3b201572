"""CONTRIBUTING: every path that it names exists, and its example follows the stages in their order."""

from __future__ import annotations

import re
from pathlib import Path

from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study_file import read_studies
from rag_assay.evals.study.study_names import study_files
from rag_assay.orchestration.stages import stages_of

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGES = "orchestration|evals|assets|crawlers|warehouse|tests|benchmarks|docs"
PATH = re.compile(rf"`((?:{PACKAGES})/[\w./-]*)`")
STAGE = re.compile(r"(?:assets|evals)/(\w+)\.py")


def named(text: str) -> list[str]:
    return PATH.findall(text)


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def stages_named(text: str) -> list[str]:
    return list(dict.fromkeys(match[1] for path in named(text) if (match := STAGE.fullmatch(path))))


def stages() -> list[str]:
    return list(stages_of(Grid(list(read_studies(study_files()).studies.values()))))


def test_every_path_exists() -> None:
    paths = [path for path in named(PAGE) if "NAME" not in path]
    assert len(paths) > 40
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


def test_a_component_belongs_beside_others_of_its_kind() -> None:
    places = [path for path in named(section("Adding a component")) if "NAME" in path]
    assert len(places) >= 12
    for path in places:
        assert len(list((REPOSITORY / path).parent.glob("*.py"))) > 1, path


def test_the_page_names_every_stage_in_order() -> None:
    optional = {"enrichments"}
    told = [name for name in stages_named(section("Packages")) if name not in optional]
    assert told == [name for name in stages() if name not in optional]


def test_the_example_follows_the_stages_from_questions_to_report() -> None:
    example = section("A question from file to report")
    assert 8 <= len(set(named(example))) <= 10
    passed = stages_named(example)
    assert passed == [name for name in stages() if name in set(passed)]
    assert {"questions", "rankings", "answers", "scores", "leaderboard", "report"} <= set(passed)


def test_the_page_fits_two_screens() -> None:
    assert len(PAGE.splitlines()) <= 130
