"""Removes a corpus and what only it uses."""

from __future__ import annotations

import shutil
from pathlib import Path

from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.corpora.records import Corpora, NamedCorpus
from rag_assay.orchestration.runs.home_lock import alone
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse import tables
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.conversations import Conversations
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.garbage_collection import marked
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.study_records import remove_study_record


def remove(corpus: NamedCorpus, home: Home) -> int:
    """Remove a corpus; of a built one its artifacts that no other key means, its pages, its conversations.

    An export or a study of one's own stays as it is, and so do the caches of vectors and model calls, which
    all corpora share. Returns how many bytes became free.
    """
    corpora = Corpora(home)
    if corpus.kind != "built":
        corpora.drop(corpus)
        return 0
    free = 0
    with alone(home, lambda _text, _done, _of: None), marked(home):
        study = _study_of(corpus)
        if study is not None:
            free = _remove_built(study, home)
            tables.use_database(home, lambda connection: tables.forget(connection, study.study))
            remove_study_record(home, study.study)
            shutil.rmtree(Conversations(home).root / study.study, ignore_errors=True)
        note = home.root / "studies" / f"{digest(str(corpus.study))}.json"
        note.unlink(missing_ok=True)
        corpora.drop(corpus)
    return free


def conversations_of(corpus: NamedCorpus, home: Home) -> int:
    """Return how many conversations with a built corpus are kept."""
    study = _study_of(corpus) if corpus.kind == "built" else None
    return len(list((home.chats / study.study).glob("*.jsonl"))) if study else 0


def _study_of(corpus: NamedCorpus) -> Study | None:
    try:
        return read_study(corpus.study, sources_gone=True)
    except InputError:
        return None


def _remove_built(study: Study, home: Home) -> int:
    store = ArtifactStore(home)
    free = 0
    for stage in stages_of(Grid([study])).values():
        mine = set(stage.keys())
        means = {key: store.current(stage.name, key) for key in store.keys(stage.name)}
        others = {one.identity for key, one in means.items() if one and key not in mine}
        for artifact in store.all(stage.name):
            if artifact.key in mine and artifact.identity not in others:
                free += sum(artifact.files.values())
                store.remove(stage.name, artifact.identity)
        store.unpoint(stage.name, mine)
    for source in study.corpus.sources:
        free += _size(home.pages(source))
        if mirror := mirror_of(home):
            mirror.remove_below(f"pages/{source}", f"crawls/{source}")
        shutil.rmtree(home.pages(source), ignore_errors=True)
        shutil.rmtree(home.crawls / source, ignore_errors=True)
    return free


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
