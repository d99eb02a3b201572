"""`assay questions`: the question sets of a study, made, reviewed and exported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from rag_assay.orchestration.commands.generated_questions import make_without_model
from rag_assay.orchestration.commands.study_arguments import build_context, home_of, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, StudyArgument, example, plainly, say
from rag_assay.warehouse.errors import AssayError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_assay.evals.question_generation.from_conversations import ConversationQuestion
    from rag_assay.evals.question_generation.llm.candidates import Kind
    from rag_assay.evals.question_generation.llm.study_questions import GenerationSummary, Order
    from rag_assay.evals.question_generation.review import Review, ReviewFile
    from rag_assay.evals.study.study import Study
    from rag_assay.warehouse.inference.chat_model import ChatModel

app = typer.Typer(
    no_args_is_help=True, help="Make question sets from documents, chats or traces; review and export them."
)
REVIEW, QUESTIONS, ANSWERS = ".review.yaml", ".questions.yaml", ".answers.jsonl"
Only = Literal["down", "up", "declined", "all"]
ReviewFileOption = Annotated[
    Path | None, Option("--output", "--out", "-o", help="The review file to write.", dir_okay=False)
]
ForceOption = Annotated[bool, Option("--force", help="Drop the reviews of an existing file.")]
_TYPES = "normal, yes_no, hypothetical, complex, multi_hop, unanswerable, follow_up"


@app.command(
    "make",
    epilog=example(
        "assay questions make study.yaml --n 50",
        "assay questions make study.yaml --model openai/gpt-4o-mini --budget-usd 1",
    ),
)
@plainly
def make(  # noqa: PLR0913, PLR0917 - the options of a command, all by name
    study: StudyArgument,
    model: Annotated[
        str | None, Option(help="A LiteLLM model name or local/NAME; default: `questions_by` of the study.")
    ] = None,
    api_base: Annotated[str | None, Option(help="URL of an OpenAI-compatible server.")] = None,
    n: Annotated[
        int | None,
        Option(
            "--n", min=1, max=10_000, help="Questions to make; default: 100 without a model, 50 with one."
        ),
    ] = None,
    kinds: Annotated[
        str | None,
        Option(help="Without a model: make them from titles, headings, definitions, dates, links."),
    ] = None,
    types: Annotated[
        str | None, Option(help=f"With a model: their types, separated by commas; default: {_TYPES}.")
    ] = None,
    seed: Annotated[int, Option(min=0, help="Random seed.")] = 7,
    temperature: Annotated[float | None, Option(help="Default: 0.")] = None,
    at_once: Annotated[int | None, Option(help="Concurrent calls, at most.")] = None,
    budget_usd: Annotated[float | None, Option(min=0, help="Stop calling once this much was spent.")] = None,
    name: Annotated[str | None, Option(help="Name of the question set; default: STUDY-made.")] = None,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="The question file (with a model: the review file) to write.",
            dir_okay=False,
        ),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace existing files, with their reviews.")] = False,
) -> int:
    """Make questions about a study's documents, without a model or with one; review those of a model."""
    found = whole_study_of(study)
    if not found.corpus.sources:
        raise InputError(f"{found.path}: the study has no documents to make questions from")
    if model is None and types is None and (kinds is not None or found.questions_by is None):
        return make_without_model(found, kinds, n or 100, seed, output, force=force)
    if kinds is not None:
        raise InputError("--kinds is of questions made without a model: leave out it, or --model and --types")
    from rag_assay.evals.question_generation.llm.study_questions import Order

    flags = {"model": model, "api_base": api_base, "temperature": temperature, "budget_usd": budget_usd}
    chat = _chat(found, flags, at_once)
    order = Order(chat, n or 50, _kinds(types or _TYPES), seed)
    target = ReviewTarget(found, study, name or f"{found.study}-made", output, force=force)
    return _by_model(found, order, target)


def _by_model(found: Study, order: Order, target: ReviewTarget) -> int:
    from rag_assay.evals.question_generation.llm.study_questions import make_for_study
    from rag_assay.evals.question_generation.review import HEADING
    from rag_assay.orchestration.driver import Driver
    from rag_assay.orchestration.progress import Bars

    with Bars() as bars:
        report = Driver(found, home_of(found), bars.tell, bars).run(("pages", "documents"))
        if not report.ok:
            raise AssayError(
                "not all sources could be read, so no questions were made; "
                f"`assay run {found.study} --recrawl SOURCE` tries again"
            )
        with build_context(found, bars.tell) as work:
            made = make_for_study(found, order, target.set_name, target.study, work)
    target.write(made.file, HEADING)
    say(*_sentences(made, order, target))
    return DONE if made.kept and not made.unfinished else FAILED


def _chat(study: Study, flags: dict[str, Any], at_once: int | None) -> ChatModel:
    from pydantic import ValidationError

    from rag_assay.evals.study.servers import open_servers
    from rag_assay.warehouse.inference.chat_model import ChatModel
    from rag_assay.warehouse.inference.model_servers import unreachable
    from rag_assay.warehouse.validation_errors import in_words

    own = study.questions_by.model_dump(exclude_none=True) if study.questions_by else {}
    if flags["model"] is not None:
        own = {}  # its server, price and limits are another model's
    fields = own | {key: value for key, value in flags.items() if value is not None}
    if at_once is not None:
        fields["limits"] = {**(fields.get("limits") or {}), "at_once": at_once}
    if "model" not in fields:
        raise InputError(
            "say which model makes the questions: --model openai/gpt-4o-mini, --model local/NAME "
            f"(`assay models list`), or `questions_by: {{model: …}}` in {study.path}"
        )
    try:
        chat = ChatModel.model_validate(fields)
    except ValidationError as error:
        found = in_words(error, ChatModel)
        raise InputError(*(one.text for one in found)) from error
    reason = unreachable(chat.model, chat.api_base)
    if reason:
        raise InputError(reason)
    open_servers(chat)
    return chat


def _kinds(types: str) -> tuple[Kind, ...]:
    from rag_assay.evals.question_generation.llm.candidates import KINDS
    from rag_assay.warehouse.suggestions import named_in

    wanted = named_in(types, "type", KINDS, "--types")
    return tuple(kind for one in wanted for kind in KINDS if kind == one)


class ReviewTarget:
    """The review file that questions are written to. Decisions of an earlier one stay, unless `force` is set.

    given: the study as it was named to the command
    """

    def __init__(self, study: Study, given: str, set_name: str, output: Path | None, *, force: bool) -> None:
        from rag_assay.evals.question_generation.review import study_of_review

        self.path = output or study.path.with_name(f"{set_name}{REVIEW}")
        self.keeps = self.path.exists() and not force
        if self.keeps:
            study_of_review(self.path)  # what is no review file is not replaced
        self.set_name = set_name
        # The file names its study by its path seen from there, or by its name.
        seen = Path(os.path.relpath(study.path.resolve(), self.path.resolve().parent)).as_posix()
        self.study = seen if Path(given).exists() else study.study
        self.next_step = f"Now read them and set each `review`; then: assay questions review {self.path}"

    def write(self, file: ReviewFile, heading: str) -> None:
        from rag_assay.evals.question_generation.review import with_earlier_reviews, write_review

        write_review(self.path, with_earlier_reviews(file, self.path) if self.keeps else file, heading)
        print(self.path)


def _sentences(made: GenerationSummary, order: Order, target: ReviewTarget) -> Iterator[str]:
    kept = made.kept.total()
    if made.tried < order.n:
        yield f"The documents have passages for {made.tried} questions of these types, not for {order.n}."
    types = ", ".join(f"{count} {kind}" for kind, count in sorted(made.kept.items()))
    yield f"{kept} of {made.tried} questions are kept{f': {types}' if types else ''}."
    if made.faults:
        yield "Dropped: " + ", ".join(f"{count} {reason}" for reason, count in made.faults.items()) + "."
    if made.unfinished:
        yield f"{made.unfinished} ended at a failed call; run the same command to continue."
    elif not kept:
        yield f"{order.chat.model} wrote no question that can be used; ask a larger model, or write some."
    elif kept < made.tried / 4:
        yield f"That is few: {order.chat.model} may be too small for this. Read what is left with care."
    if made.usd:
        yield f"Spent: {made.usd:.4f} USD."
    if kept:
        yield target.next_step


@app.command("review", epilog=example("assay questions review demo-made.review.yaml"))
@plainly
def review(
    file: Annotated[Path, Argument(metavar="FILE", help="A review file.", dir_okay=False)],
    output: Annotated[
        Path | None, Option("--output", "-o", help="The question file to write.", dir_okay=False)
    ] = None,
    accept_open: Annotated[
        bool, Option("--accept-open", help="Accept questions that were not reviewed, too.")
    ] = False,
    study: Annotated[
        str | None, Option(help="Study of the questions; default: the one that the file names.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write the accepted and edited questions of a review file as a question file."""
    from rag_assay.evals.question_generation.from_conversations import texts_in
    from rag_assay.evals.question_generation.review import read_review, study_of_review
    from rag_assay.evals.question_sets.question_files import write_yaml

    path = output or file.with_name(file.name.removesuffix(".yaml").removesuffix(".review") + QUESTIONS)
    if path.exists() and not force:
        raise InputError(f"{path} exists already; write another file with -o, or use --force")
    named = study_of_review(file)
    beside = file.parent / named
    found = whole_study_of(study or str(beside if beside.is_file() else named))
    with build_context(found) as work:
        read = read_review(file, texts_in(found, work), accept_open=accept_open)
    write_yaml(read.rows, path)
    print(path)
    say(*_counts(read, accept_open=accept_open))


def _counts(read: Review, *, accept_open: bool) -> Iterator[str]:
    counts = read.counts
    yield (
        f"{len(read.rows)} questions: {counts['accept']} accepted, {counts['mend']} edited"
        + (f", {counts['open']} open" if accept_open else "")
        + f". {counts['drop']} dropped."
    )
    if counts["open"] and not accept_open:
        yield f"{counts['open']} are open and left out; --accept-open takes them as they are."


@app.command("from-chat", epilog=example("assay questions from-chat demo --only down"))
@plainly
def from_chat(
    study: StudyArgument,
    only: Annotated[
        Only, Option(help="Only questions with a thumb down, a thumb up, or that every cell declined.")
    ] = "all",
    name: Annotated[str | None, Option(help="Name of the question set; default: STUDY-asked.")] = None,
    output: ReviewFileOption = None,
    force: ForceOption = False,
) -> None:
    """Write the questions that users asked in chats as a review file."""
    from rag_assay.evals.question_generation.from_conversations import HEADING, questions_in
    from rag_assay.warehouse.conversations import Conversations

    found = whole_study_of(study)
    target = ReviewTarget(found, study, name or f"{found.study}-asked", output, force=force)
    every = questions_in(Conversations(home_of(found)).of(found.study))
    asked = [one for one in every if one.fits(only)]
    if not asked:
        none = f"none of its {len(every)} questions is one of those"
        what = none if every else "no user has asked anything"
        raise InputError(f"{found.study}: {what}; people ask in the app: `assay ui {study} --page chat`")
    _write_asked(found, asked, target, HEADING)


@app.command(
    "from-traces",
    epilog=example("assay questions from-traces study.yaml traces.jsonl", "assay run study.yaml"),
)
@plainly
def from_traces(
    study: StudyArgument,
    files: Annotated[
        list[Path],
        Argument(
            metavar="FILE...",
            help="OpenInference traces: OTLP as JSON or JSON lines, Phoenix as Parquet or JSON lines.",
        ),
    ],
    only: Annotated[
        Only, Option(help="Only questions with a thumb down, a thumb up, or that were declined.")
    ] = "all",
    name: Annotated[str | None, Option(help="Name of the question set; default: STUDY-traced.")] = None,
    output: ReviewFileOption = None,
    force: ForceOption = False,
) -> None:
    """Write questions of production traces as a review file, and their answers as a recorded system."""
    from rag_assay.evals.question_generation.from_traces import HEADING, read_traces
    from rag_assay.evals.systems.recorded import lines_of
    from rag_assay.warehouse.atomic_write import atomic_write

    found = whole_study_of(study)
    target = ReviewTarget(found, study, name or f"{found.study}-traced", output, force=force)
    read = read_traces(files)
    asked = [one for one in read.asked if one.fits(only)]
    if not asked:
        what = f"none of their {len(read.asked)} questions is one of those"
        raise InputError(f"{files[0]}: {what if read.asked else 'no trace has a question as its input'}")
    _write_asked(found, asked, target, HEADING)
    answers = target.path.with_name(f"{target.set_name}{ANSWERS}")
    with atomic_write(answers) as new:
        new.write_text(lines_of(read.answers), encoding="utf-8")
    print(answers)
    if read.without_question:
        say(f"{read.without_question} traces were left out: their input is not a question.")
    say(
        f"To measure the answers of the traces: `systems: {{traced: {{recorded: {{file: {answers.name}}}}}}}`"
    )


def _write_asked(
    study: Study, asked: Sequence[ConversationQuestion], target: ReviewTarget, heading: str
) -> None:
    from rag_assay.evals.question_generation.from_conversations import review_of

    with build_context(study) as work:
        file = review_of(study, asked, target.set_name, target.study, work)
    if not file.questions and not target.keeps:
        raise InputError(f"the study asks all of the {len(asked)} questions already")
    target.write(file, heading)
    times = sum(one.asked.times for one in file.questions if one.asked)
    proposed = sum(bool(one.evidence) for one in file.questions)
    told = f"{len(file.questions)} questions, asked {times} times; {proposed} have evidence proposed."
    say(told, target.next_step)


@app.command("evidence", epilog=example("assay questions evidence study.yaml --set exam"))
@plainly
def evidence(
    study: StudyArgument,
    set_name: Annotated[
        str | None, Option("--set", help="Question set; default: the only one with ground truths.")
    ] = None,
    output: ReviewFileOption = None,
    force: ForceOption = False,
) -> None:
    """Write the evidence found for ground truths as a review file, with the nearest places of the others."""
    from rag_assay.evals.question_generation.evidence_review import HEADING, evidence_review

    found = whole_study_of(study)
    target = ReviewTarget(found, study, f"{found.study}-evidence", output, force=force)
    with build_context(found) as work:
        file = evidence_review(found, set_name, target.study, work)
    target.write(file, HEADING)
    n_open = sum(one.review == "open" for one in file.questions)
    proposed = sum(one.review == "open" and bool(one.evidence) for one in file.questions)
    told = f"{len(file.questions)} questions; {n_open} are open, {proposed} of them with the nearest place."
    say(told, target.next_step)


@app.command("export", epilog=example("assay questions export demo --format ragas"))
@plainly
def export(
    study: StudyArgument,
    form: Annotated[
        Literal["ragas", "beir", "squad"], Option("--format", help="Format of the tool that reads them.")
    ],
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder to write to.", file_okay=False)
    ] = None,
) -> None:
    """Export the questions of a study, with their evidence, for another tool."""
    from rag_assay.evals.reporting.exports import export_questions

    found = whole_study_of(study)
    with build_context(found) as work:
        folder = output or work.home.reports / f"{found.study}-{form}"
        written = export_questions(found, form, folder, work)
    for path in written.paths:
        print(path)
    say(", ".join(f"{count:,} {what}" for what, count in written.counts.items()) + ".", *written.notes)
