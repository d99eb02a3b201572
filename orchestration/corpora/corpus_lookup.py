"""Finds or makes the corpus that a command means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote

from rag_assay.evals.export.checksums import SUMS
from rag_assay.evals.study.run_studies import known_path
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.corpora.beir_sets import beir_folder, known_sets
from rag_assay.orchestration.corpora.corpus_study import (
    CorpusOptions,
    choices_of,
    is_edited,
    merge_choices,
    write_study,
)
from rag_assay.orchestration.corpora.facts import first_cell
from rag_assay.orchestration.corpora.records import (
    Corpora,
    CorpusSettings,
    Kind,
    NamedCorpus,
    normalize_name,
    slug,
)
from rag_assay.orchestration.templates.study_files import numbered, short_name
from rag_assay.warehouse.attempts import turn
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.suggestions import unknown

Say = Callable[[str], None]


def place_of(said: str, corpora: Corpora, say: Say) -> str:
    if "://" in said:
        return said
    here = Path(said).expanduser()
    if here.is_dir():
        return str(here.resolve())
    if gone := corpora.of_target(str(here.resolve())):
        raise InputError(
            f"{here}: was not found; {gone[0].name} still answers from what was built. Where it was "
            f"moved: assay corpus build FOLDER --name {quote(gone[0].name)}"
        )
    if known := corpora.named(said):
        return known.target
    if here.exists():
        raise InputError(f"{said}: is a file; give the folder that it lies in")
    told: set[int] = set()

    def tell(address: str, done: int, of: int) -> None:
        tenth = 10 * done // max(1, of)
        if tenth not in told:
            say(f"downloading {address}: {done} of {of} MB")
        told.add(tenth)

    found = beir_folder(said, corpora.home, tell)
    if found is None:
        raise InputError(
            f"{said!r} is neither a folder nor a URL that begins with http:// or https://, nor a corpus, nor "
            f"one of the BEIR sets {known_sets()}"
        )
    return str(found)


def corpus_of(target: str, name: str | None, corpora: Corpora, said: CorpusOptions) -> NamedCorpus:
    said = said.checked()
    with turn(corpora.root, lambda: None):  # two commands at once make one corpus of a folder
        found = _known(target, name, corpora)
        if found is None:
            if name is None:
                folder = normalize_name(Path(target).name) or slug(target)
                name = short_name(target) if "://" in target else folder
                name = _free(name if name.isprintable() else slug(name), corpora)
            return _added(name, target, said, corpora)
    before = found.choices or choices_of(target, CorpusOptions())
    if is_edited(found):
        if said != CorpusOptions() or found.target != target:
            raise InputError(
                f"{found.study} was edited, and is not overwritten; edit it there, or build "
                "another corpus with --name"
            )
        return found
    return _rewritten(found.model_copy(update={"target": target}), merge_choices(before, said), corpora)


def _added(name: str, target: str, said: CorpusOptions, corpora: Corpora) -> NamedCorpus:
    choices = choices_of(target, said)
    found = corpora.add(NamedCorpus(name=name, target=target, choices=choices))
    try:
        found = write_study(found, choices)
        first_cell(read_study(found.study))
    except BaseException:
        corpora.drop(found)
        raise
    corpora.write(found)
    return found


def by_words(corpus: NamedCorpus, corpora: Corpora) -> NamedCorpus:
    assert corpus.choices is not None  # noqa: S101 -- one whose study this writes
    return _rewritten(corpus, corpus.choices.model_copy(update={"search": "words"}), corpora)


def _rewritten(corpus: NamedCorpus, choices: CorpusSettings, corpora: Corpora) -> NamedCorpus:
    found = write_study(corpus, choices)
    read_study(found.study)
    corpora.write(found)
    return found


def loaded(said: str, corpora: Corpora) -> NamedCorpus:
    if found := corpora.named(said):
        return found
    folder = Path(said).expanduser()
    if (folder / SUMS).is_file():
        return _kept(folder.resolve().name, folder.resolve(), "export", corpora)
    try:
        path = known_path(said, corpora.home)
        study = read_study(path)
    except InputError as error:
        names = [one.name for one in corpora.all()]
        raise InputError(unknown("corpus", said, names, "corpora"), *error.findings) from error
    first_cell(study)
    built = next((one for one in corpora.all() if one.kind == "built" and one.study == study.path), None)
    return built or _kept(study.study, study.path, "study", corpora)


def _kept(name: str, target: Path, kind: Kind, corpora: Corpora) -> NamedCorpus:
    same = (one for one in corpora.all() if (one.kind, one.target) == (kind, str(target)))
    return next(same, None) or corpora.add(
        NamedCorpus(name=_free(name, corpora), target=str(target), kind=kind)
    )


def _known(target: str, name: str | None, corpora: Corpora) -> NamedCorpus | None:
    """Return the corpus that is built again; one whose folder is gone may follow to another folder."""
    if name is not None:
        found = corpora.named(name)
        if found is None or (found.kind == "built" and (found.target == target or not found.is_there)):
            return found
        raise InputError(
            f"there is a corpus {found.name!r} of {found.target} already; give another --name, or remove it: "
            f"assay corpus remove {quote(found.name)}"
        )
    there = corpora.of_target(target)
    if len(there) > 1:
        names = ", ".join(one.name for one in there)
        raise InputError(f"several corpora are built from {target}: {names}; say which by --name")
    return there[0] if there else None


def _free(name: str, corpora: Corpora) -> str:
    return next(one for one in numbered(name[:90].strip(), " ") if corpora.named(one) is None)
