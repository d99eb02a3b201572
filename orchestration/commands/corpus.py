"""`assay corpus`: documents searched and asked in a terminal, built by the stages that the grid runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from rag_assay.orchestration.commands.study_arguments import home_of, home_to_look_at, prepare_home
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, CellOption, example, plainly, say
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from rag_assay.orchestration.corpora.records import Corpora, NamedCorpus
    from rag_assay.orchestration.terminal.turn_view import By
    from rag_assay.warehouse.paths import Home

app = typer.Typer(help="Build corpora from folders or websites, and ask them in the terminal.")

NameArgument = Annotated[str, Argument(metavar="NAME", help="A corpus, as `assay corpus list` names it.")]
ByOption = Annotated[
    str,
    Option("--by", metavar="document|rank", help="Order of the passages: as in their documents, or by rank."),
]
JsonOption = Annotated[bool, Option("--json", help="Print a JSON object for each question.")]
ForgetOption = Annotated[bool, Option("--forget", help="Do not store the conversation.")]


@app.callback(invoke_without_command=True)
def corpus(context: typer.Context) -> None:
    """List the corpora where nothing else is said."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        _listed(as_json=False)


@app.command(
    epilog=example("assay corpus build docs/", "assay corpus build https://example.org/ --name site")
)
@plainly
def build(
    target: Annotated[
        str,
        Argument(
            metavar="FOLDER|URL|BEIR", help="A folder, a website's start page, or the name of a BEIR set."
        ),
    ],
    name: Annotated[
        str | None, Option("--name", help="Name of the corpus; default: that of the folder.")
    ] = None,
    embedder: Annotated[
        str | None, Option(help="minilm, e5, mpnet, a folder, or owner/name@commit; default: by language.")
    ] = None,
    words: Annotated[
        bool, Option("--words", help="Search by words only: no embedder, built in seconds.")
    ] = False,
    retriever: Annotated[
        str | None, Option(help="Default retriever of the corpus: hybrid, bm25, dense, or another kind.")
    ] = None,
    generator: Annotated[
        str | None, Option(help="extractive (no model), a LiteLLM model name, or local/NAME.")
    ] = None,
) -> int:
    """Build or update a corpus, and select it."""
    from rag_assay.evals.study.run_studies import note
    from rag_assay.evals.study.study_file import read_study
    from rag_assay.orchestration.commands.corpus_building import build as build_corpus
    from rag_assay.orchestration.commands.corpus_building import how_to_add_meaning
    from rag_assay.orchestration.corpora.corpus_lookup import corpus_of, place_of
    from rag_assay.orchestration.corpora.corpus_study import CorpusOptions
    from rag_assay.orchestration.corpora.facts import facts_of, sentence_of, set_damaged_aside

    where = prepare_home()
    corpora = _corpora(where)
    said = CorpusOptions(embedder, retriever, generator, words)
    made = corpus_of(place_of(target, corpora, say), name, corpora, said)
    study = read_study(made.study)
    home_of(study)
    note(study, where)
    if damaged := set_damaged_aside(study, where):
        say(f"{damaged} of what was built before is damaged, and is built again.")
    built = build_corpus(made, said, corpora)
    made = built.corpus
    if not built.report.is_there("indexes"):
        has_words = made.choices is not None and made.choices.search == "both"
        state = "is still searched by words alone" if has_words else "cannot be asked yet"
        say(f"{made.name} {state}; the failures are listed above. Run the same command to continue.")
        return FAILED
    corpora.select(made)
    say(f"{made.name}: {sentence_of(facts_of(made, where))}; its study is {made.study}")
    if hint := how_to_add_meaning(built, corpora):
        say(hint)
    say('It is selected. Ask it:  assay corpus query "…"   or, at a prompt:  assay corpus query')
    return DONE if built.report.ok else FAILED


@app.command("list", epilog=example("assay corpus list"))
@plainly
def list_corpora(as_json: Annotated[bool, Option("--json", help="Print a JSON list.")] = False) -> None:
    """List the corpora with their contents; the selected one is marked."""
    _listed(as_json=as_json)


@app.command(epilog=example("assay corpus select docs"))
@plainly
def select(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="Name, or number in the list; default: ask.")
    ] = None,
) -> None:
    """Select the corpus that `query` asks."""
    from rag_assay.orchestration.commands.corpus_prompt import pick_corpus

    corpora = _corpora(home_to_look_at())
    if name is None:
        corpora.chosen(corpora.all()[0].name if corpora.all() else None)  # says where there is none
        _listed(as_json=False)
        if not sys.stdin.isatty():
            raise InputError("which one? `assay corpus select NAME`")
        name = input("Which one? ").strip()
    found = pick_corpus(name, corpora)
    corpora.select(found)
    say(f"{found.name} is selected.")


@app.command(epilog=example("assay corpus load demo"))
@plainly
def load(
    what: Annotated[
        str,
        Argument(
            metavar="NAME|FOLDER|STUDY", help="A corpus, a folder of `assay export`, or a study that was run."
        ),
    ],
    cell: CellOption = None,
    by: ByOption = "document",
    forget: ForgetOption = False,
) -> int:
    """Select a corpus, an exported cell or a study that was run, and open a prompt."""
    from rag_assay.orchestration.corpora.corpus_lookup import loaded

    corpora = _corpora(prepare_home())
    found = loaded(what, corpora)
    code = _prompt(found, corpora.home, cell, _order(by), as_json=False, keep=not forget, question=None)
    corpora.select(found)
    return code


@app.command(epilog=example('assay corpus query "What does a berth cost?"', "assay corpus query"))
@plainly
def query(
    question: Annotated[str | None, Argument(metavar="QUESTION", help="Default: open a prompt.")] = None,
    name: Annotated[
        str | None, Option("--corpus", metavar="NAME", help="Corpus to ask; default: the selected one.")
    ] = None,
    cell: CellOption = None,
    by: ByOption = "document",
    as_json: JsonOption = False,
    forget: ForgetOption = False,
) -> int:
    """Ask the selected corpus one question, or open a prompt; a pipe is read line by line."""

    corpora = _corpora(prepare_home())
    found, order, keep = corpora.chosen(name), _order(by), not forget
    return _prompt(found, corpora.home, cell, order, as_json=as_json, keep=keep, question=question)


@app.command(epilog=example("assay corpus rename docs handbook"))
@plainly
def rename(name: NameArgument, new: Annotated[str, Argument(metavar="NEW", help="Its new name.")]) -> None:
    """Rename a corpus."""

    corpora = _corpora(home_to_look_at())
    found = corpora.rename(corpora.find(name), new)
    say(f"It is called {found.name} now.")


@app.command(epilog=example("assay corpus remove docs"))
@plainly
def remove(
    name: NameArgument, yes: Annotated[bool, Option("--yes", help="Do not ask for confirmation.")] = False
) -> int:
    """Remove a corpus and what only it uses: index, chunks, pages, conversations."""
    from rag_assay.orchestration.corpora.facts import facts_of, sentence_of
    from rag_assay.orchestration.corpora.records import conversations_of
    from rag_assay.orchestration.corpora.records import remove as remove_corpus

    corpora = _corpora(prepare_home())
    where, found = corpora.home, corpora.find(name)
    talks = conversations_of(found, where)
    kept = "" if found.kind == "built" else f"; {found.target} stays"
    goes = f" and {talks} conversation{'s' * (talks != 1)}" if talks else ""
    say(f"{found.name}: {sentence_of(facts_of(found, where))}{goes}{kept}")
    if not yes:
        if not sys.stdin.isatty():
            raise InputError("nothing was removed; confirm with --yes when there is no terminal")
        if input("Remove it? [y/N] ").strip().casefold() not in {"y", "yes", "j", "ja"}:
            say("Nothing was removed.")
            return FAILED
    free = remove_corpus(found, where)
    say(f"{found.name} is removed" + (f"; {free / 1e6:.1f} MB became free." if free else "."))
    return DONE


def _corpora(where: Home) -> Corpora:
    from rag_assay.orchestration.corpora.records import Corpora

    return Corpora(where)


def _listed(*, as_json: bool) -> None:
    from rag_assay.orchestration.corpora.facts import corpora_as_json, facts_of, show_corpora

    corpora = _corpora(home_to_look_at())
    selected = corpora.selected
    found = [facts_of(one, corpora.home) for one in corpora.all()]
    if as_json:
        print(corpora_as_json(found, selected.name if selected else None))
    elif found:
        show_corpora(found, selected.name if selected else None)
    else:
        say("There is no corpus yet; build one:  assay corpus build FOLDER")


def _order(by: str) -> By:
    from rag_assay.orchestration.terminal.turn_view import By

    if by not in list(By):
        raise InputError(f"--by {by}: say `document` or `rank`")
    return By(by)


def _prompt(
    corpus: NamedCorpus,
    where: Home,
    cell: str | None,
    by: By,
    *,
    as_json: bool,
    keep: bool,
    question: str | None,
) -> int:
    from rag_assay.orchestration.commands.corpus_prompt import CorpusPrompt

    with CorpusPrompt(corpus, where, cell, by, as_json=as_json, keep=keep) as prompt:
        if question is None:
            return prompt.run()
        return DONE if prompt.ask(question) else FAILED
