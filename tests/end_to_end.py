"""Slow tests, and which changes may break them: `pytest --since REF` leaves out the others."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
RUN = ("orchestration/runs/", "orchestration/driver.py", "assets/engine/")
RESULTS = ("assets/", "crawlers/", "evals/")
PAGES = ("orchestration/web/", "evals/reporting/", "evals/human/")
CHAT = ("orchestration/web/", "orchestration/question_service/", "evals/chat/", "evals/pipeline/")
COMMANDS = ("orchestration/", "warehouse/")
PRODUCT = (*COMMANDS, *RESULTS)
COMPONENTS = (*RESULTS, "warehouse/")
STAGES = (*COMPONENTS, "orchestration/stages.py")
LAYERS = {
    "warehouse": ("warehouse/",),
    "crawlers": ("crawlers/", "warehouse/"),
    "assets": ("assets/", "crawlers/", "warehouse/"),
    "evals": COMPONENTS,
    "orchestration": PRODUCT,
}
"""A layer and what it may import: a change elsewhere breaks none of its tests."""
EVERYWHERE = ("pyproject.toml", "requirements.lock", "torch.lock", "tests/conftest.py", "tests/fakes/")
"""What all tests depend on."""

SLOW = (
    "tests/assets/cleaning/test_office.py",
    "tests/assets/embedding/test_bert.py",
    "tests/assets/indexing/test_inverted_index.py",
    "tests/assets/indexing/test_upsert.py",
    "tests/crawlers/readers/test_file_readers.py",
    "tests/evals/chat/test_model_override.py",
    "tests/evals/export/",
    "tests/evals/generation/test_injection.py",
    "tests/evals/human/spreadsheets/test_round_trip.py",
    "tests/evals/human/test_answer_matching.py",
    "tests/evals/human/test_item_sampling.py",
    "tests/evals/human/test_queue_update.py",
    "tests/evals/judge_calibration/test_card.py",
    "tests/evals/judging/test_entailment_study.py",
    "tests/evals/judging/test_judged_study.py",
    "tests/evals/judging/test_ragas.py",
    "tests/evals/pipeline/test_cell_items.py",
    "tests/evals/reporting/changes/test_diff.py",
    "tests/evals/reporting/test_estimates.py",
    "tests/evals/reporting/test_page.py",
    "tests/evals/reporting/test_trec.py",
    "tests/evals/retrieval/test_bm25_pruning.py",
    "tests/evals/retrieval/test_fusion_tuning.py",
    "tests/evals/retrieval/test_passage_steps.py",
    "tests/evals/test_answers.py",
    "tests/evals/test_human_estimates.py",
    "tests/evals/test_imported_studies.py",
    "tests/evals/test_judge_cards.py",
    "tests/evals/test_judge_cases.py",
    "tests/evals/test_measured.py",
    "tests/evals/test_mute_generators.py",
    "tests/evals/test_rankings.py",
    "tests/evals/test_replicates.py",
    "tests/evals/test_report.py",
    "tests/evals/test_scores_reuse.py",
    "tests/evals/test_tuned_rankings.py",
    "tests/orchestration/commands/test_annotate.py",
    "tests/orchestration/corpora/test_corpus_command.py",
    "tests/orchestration/question_service/test_question_service.py",
    "tests/orchestration/server/test_serving.py",
    "tests/orchestration/test_component.py",
    "tests/orchestration/test_driver.py",
    "tests/orchestration/test_evaluate.py",
    "tests/orchestration/test_imported_studies.py",
    "tests/orchestration/test_imports.py",
    "tests/orchestration/test_question_making.py",
    "tests/orchestration/test_run_history.py",
    "tests/orchestration/test_search_run.py",
    "tests/orchestration/test_slices.py",
    "tests/orchestration/test_unchanged.py",
    "tests/orchestration/web/test_documents_page.py",
    "tests/warehouse/remote/test_artifacts.py",
    "tests/warehouse/test_connection.py",
    "tests/warehouse/test_extras.py",
    "tests/warehouse/test_tables.py",
)
"""Further files whose tests take more than ten seconds of the processor."""

END_TO_END: Mapping[str, tuple[str, ...]] = {
    **{name: LAYERS[name.split("/")[1]] for name in SLOW},
    "tests/cluster/": (*RUN, "warehouse/"),
    "tests/orchestration/test_interrupted_commands.py": (*COMMANDS, "assets/engine/", "crawlers/"),
    "tests/drill/": (*RUN, "assets/", "warehouse/"),
    "tests/examples/": (*RUN, *RESULTS, "examples/"),
    "tests/orchestration/web/test_chat_page.py": CHAT,
    "tests/orchestration/web/test_chat_loop.py": (*CHAT, *RUN, "evals/question_generation/"),
    "tests/orchestration/test_try.py": PRODUCT,
    "tests/evals/test_judgements.py": STAGES,
    "tests/evals/test_annotations.py": STAGES,
    "tests/evals/test_names.py": STAGES,
    "tests/warehouse/inference/test_local_llm.py": ("warehouse/",),
    "tests/assets/indexing/test_approximate.py": ("assets/indexing/", "warehouse/"),
    "tests/orchestration/test_human_rating_sensor.py": PRODUCT,
    "tests/orchestration/test_current_views.py": (*RUN, "warehouse/", "evals/study/"),
    "tests/orchestration/test_demo_slice.py": (*RUN, *RESULTS, "warehouse/"),
    "tests/docs/test_quickstart.py": (*RUN, *RESULTS, "docs/", "orchestration/commands/"),
    "tests/orchestration/test_example_package.py": (*COMMANDS, *RESULTS, "tests/example_package/"),
    "tests/orchestration/test_crawl_words.py": (*RUN, "crawlers/"),
    "tests/orchestration/test_dagster_ui.py": COMMANDS,
    "tests/orchestration/test_screens.py": PRODUCT,
    "tests/orchestration/server/test_study_tools.py": PRODUCT,
    "tests/orchestration/runs/test_study_jobs.py": PRODUCT,
    "tests/orchestration/test_automation.py": PRODUCT,
    "tests/evals/query_transforms/test_sample_sites.py": STAGES,
    "tests/contracts/test_retrievers.py": COMPONENTS,
    "tests/contracts/test_chunkers.py": COMPONENTS,
    "tests/contracts/test_metrics.py": COMPONENTS,
    "tests/contracts/test_generators.py": COMPONENTS,
    "tests/contracts/test_judges.py": COMPONENTS,
    "tests/orchestration/commands/test_history.py": PRODUCT,
    "tests/orchestration/commands/test_pull_request.py": PRODUCT,
    "tests/orchestration/test_staleness.py": PRODUCT,
    "tests/evals/test_walk.py": STAGES,
    "tests/docs/test_notebooks.py": (*PRODUCT, "docs/"),
    "tests/orchestration/test_finished_results.py": (*RUN, "warehouse/"),
    "tests/orchestration/test_canary_secrets.py": (*COMMANDS, "evals/"),
    "tests/orchestration/test_every_figure.py": (*RUN, "evals/"),
    "tests/orchestration/web/test_result_pages.py": PAGES,
    "tests/orchestration/web/test_scoring_page.py": PAGES,
    "tests/orchestration/web/test_usage_page.py": (*PAGES, "warehouse/"),
    "tests/orchestration/web/test_rating_during_a_run.py": (*PAGES, *RUN, "warehouse/"),
    "tests/orchestration/web/test_page_and_sheets.py": PAGES,
    "tests/orchestration/web/test_guessing.py": PAGES,
    "tests/orchestration/web/test_access.py": PAGES,
    "tests/evals/reporting/test_in_browser.py": PAGES,
    "tests/evals/reporting/test_journey_in_browser.py": PAGES,
}
"""What the names of files begin with, longest first -> what a change must touch to break them."""


def is_affected(test: str, changed: Collection[str]) -> bool:
    """Return whether changed files may break a test. Any test that is no end-to-end test is run."""
    file = test.partition("::")[0]
    found = next((packages for name, packages in END_TO_END.items() if file.startswith(name)), None)
    own = f"{Path(file).parent}/"  # its helpers lie beside it
    return found is None or any(one.startswith((*EVERYWHERE, *found, own)) for one in changed)


def changed_since(reference: str, repository: Path = REPOSITORY) -> set[str] | None:
    """Return the files that differ from where HEAD left a branch, or from HEAD^ if it is the branch's own.

    None: git does not know, for instance outside of a clone or in a shallow one.
    """
    try:
        head = _git(repository, "rev-parse", "HEAD")
        base = _git(repository, "merge-base", "HEAD", reference)
        base = _git(repository, "rev-parse", "HEAD^") if base == head else base
        changed = _git(repository, "diff", "--name-only", "--no-renames", "-z", *base)
        new = _git(repository, "ls-files", "--others", "--exclude-standard", "-z")
    except (OSError, subprocess.CalledProcessError):
        return None
    return {*changed, *new}


def _git(repository: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=True)
    return [one for one in done.stdout.replace("\0", "\n").splitlines() if one]
