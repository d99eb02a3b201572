"""The corpora of a workspace: `<home>/corpora/FOLDER/corpus.json`, and which of them is selected."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.runs.home_lock import alone
from rag_assay.orchestration.stages import stages_of
from rag_assay.orchestration.templates.study_files import numbered
from rag_assay.warehouse import tables
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.conversations import Conversations
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.garbage_collection import marked
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.study_records import remove_study_record
from rag_assay.warehouse.suggestions import did_you_mean


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
        free += sum(path.stat().st_size for path in home.pages(source).rglob("*") if path.is_file())
        if mirror := mirror_of(home):
            mirror.remove_below(f"pages/{source}", f"crawls/{source}")
        shutil.rmtree(home.pages(source), ignore_errors=True)
        shutil.rmtree(home.crawls / source, ignore_errors=True)
    return free


RECORD, STUDY, QUESTIONS, SELECTED = "corpus.json", "study.yaml", "made.questions.yaml", "selected.json"
LONGEST = 100  # characters of a name
Kind = Literal["built", "export", "study"]
Search = Literal["meaning", "words", "both"]


class CorpusSettings(BaseModel):
    """What the study of a built corpus was written with, so that it can be written again.

    language: two-letter code that its parts go by; None: none was told
    embedder, dtype: the model, and what it computes in
    retriever, generator: which answer first: the name of a part, or a model
    search: what is indexed: vectors of the model, from which passages are found by meaning and by words;
        words alone, without a model; or both, so that the words answer until the vectors are there
    """

    model_config = ConfigDict(frozen=True)

    language: str | None = None
    embedder: str
    dtype: Literal["fp32", "bf16"] = "fp32"
    retriever: str = "hybrid"
    generator: str = "extractive"
    search: Search = "meaning"


class NamedCorpus(BaseModel):
    """A corpus that has a name.

    folder: below `<home>/corpora`, where its record and, of a built one, its study file lie
    target: the folder or URL that it is built from; of the others the export's folder or the study's file
    choices, written: of a built one: what its study file was written with, and the digest of that file
    """

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=LONGEST)]
    target: str
    kind: Kind = "built"
    choices: CorpusSettings | None = None
    written: str = ""
    folder: Path = Field(default=Path(), exclude=True)

    @property
    def study(self) -> Path:
        return self.folder / STUDY if self.kind == "built" else Path(self.target)

    @property
    def is_site(self) -> bool:
        return self.kind == "built" and "://" in self.target

    @property
    def is_there(self) -> bool:
        return self.is_site or Path(self.target).exists()


class Corpora:
    """The corpora of a home; a record is written whole or not at all."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.root = home.root / "corpora"

    def all(self) -> list[NamedCorpus]:
        found = (self._read(path.parent) for path in self.root.glob(f"*/{RECORD}"))
        return sorted((one for one in found if one), key=lambda one: (one.name.casefold(), one.name))

    def find(self, name: str) -> NamedCorpus:
        found = self.named(name)
        if found is None:
            there = [one.name for one in self.all()]
            known = did_you_mean(name, there) if there else "build one: `assay corpus build FOLDER`"
            raise InputError(f"there is no corpus {name!r}; {known}")
        return found

    def named(self, name: str) -> NamedCorpus | None:
        there, wanted = self.all(), normalize_name(name)
        for matches in (
            [one for one in there if one.name == wanted],
            [one for one in there if one.name.casefold() == wanted.casefold()],
            [one for one in there if one.folder.name == wanted],
        ):
            if matches:
                return matches[0]
        return None

    def of_target(self, target: str) -> list[NamedCorpus]:
        return [one for one in self.all() if one.kind == "built" and one.target == target]

    @property
    def selected(self) -> NamedCorpus | None:
        try:
            folder = json.loads((self.root / SELECTED).read_text("utf-8"))["folder"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return next((one for one in self.all() if one.folder.name == folder), None)

    def chosen(self, name: str | None) -> NamedCorpus:
        if name is not None:
            return self.find(name)
        there = self.all()
        if found := self.selected or (there[0] if len(there) == 1 else None):
            return found
        if not there:
            raise InputError("there is no corpus yet; build one: `assay corpus build FOLDER`")
        raise InputError(
            "no corpus is selected; `assay corpus select NAME` selects one of "
            + ", ".join(one.name for one in there)
        )

    def select(self, corpus: NamedCorpus) -> None:
        with atomic_write(self.root / SELECTED) as temporary:
            temporary.write_text(json.dumps({"folder": corpus.folder.name}), encoding="utf-8")

    def add(self, corpus: NamedCorpus) -> NamedCorpus:
        name = check_name(corpus.name)
        if taken := self.named(name):
            raise InputError(f"there is a corpus {taken.name!r} already; give another --name")
        found = corpus.model_copy(update={"name": name, "folder": self._free_folder(name)})
        self.write(found)
        return found

    def write(self, corpus: NamedCorpus) -> None:
        with atomic_write(corpus.folder / RECORD) as temporary:
            temporary.write_text(corpus.model_dump_json(indent=1), encoding="utf-8")

    def rename(self, corpus: NamedCorpus, name: str) -> NamedCorpus:
        """Rename a corpus; its folder and study keep their names, so that nothing is built again."""
        name = check_name(name)
        taken = self.named(name)
        if taken is not None and taken.folder != corpus.folder:
            raise InputError(f"there is a corpus {taken.name!r} already; choose another name")
        found = corpus.model_copy(update={"name": name})
        self.write(found)
        return found

    def drop(self, corpus: NamedCorpus) -> None:
        """Remove the folder of a corpus; its record first, so that a kill leaves no half of one."""
        (corpus.folder / RECORD).unlink(missing_ok=True)
        shutil.rmtree(corpus.folder, ignore_errors=True)

    def _free_folder(self, name: str) -> Path:
        for folder in (self.root / one for one in numbered(slug(name))):  # there are always further ones
            with suppress(FileExistsError):
                folder.mkdir(parents=True)
                break
        return folder

    def _read(self, folder: Path) -> NamedCorpus | None:
        try:
            text = (folder / RECORD).read_text("utf-8")
            found = NamedCorpus.model_validate_json(text)
        except (OSError, ValidationError, UnicodeDecodeError):
            return None
        return found.model_copy(update={"folder": folder})


def normalize_name(name: str) -> str:
    """Return a name with letters and accents composed, and single spaces.

    >>> normalize_name(" U\u0308ber  uns ")
    'Über uns'
    """
    return " ".join(unicodedata.normalize("NFC", name).split())


def check_name(name: str) -> str:
    found = normalize_name(name)
    if not found or len(found) > LONGEST or not found.isprintable():
        raise InputError(
            f"{name[:LONGEST]!r} cannot be the name of a corpus: 1 to {LONGEST} characters that can be shown"
        )
    return found


def slug(name: str) -> str:
    """Return the name of a folder, and of a study, for a corpus.

    >>> slug("Über uns (2)"), slug("日本"), slug("Straße")
    ('uber-uns-2', 'mine', 'strasse')
    """
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40].strip("-") or "mine"
