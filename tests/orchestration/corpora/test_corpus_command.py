"""`assay corpus`: built from a folder, listed, selected, asked, at a prompt and by programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.commands import corpus_building
from rag_assay.orchestration.corpora import corpus_study
from rag_assay.orchestration.corpora.corpus_lookup import corpus_of
from rag_assay.orchestration.corpora.corpus_study import CorpusOptions
from rag_assay.orchestration.corpora.records import Corpora
from rag_assay.warehouse.conversations import Conversations
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay
from tests.fakes.processes import assay_command
from tests.fakes.terminal import Terminal
from tests.orchestration.conftest import TEXTS

pytestmark = pytest.mark.models

HOSTILE = (
    "# Rails \x1b]0;mine\x07\n\nThe \x1b[31mgangway\x1b[0m has rails on both sides, said \u202ethe master.\n"
)
BY_WORDS = ("--cell", "tokens-254.minilm.bm25.extractive")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of documents, in a folder with a home that it was built in."""
    root = tmp_path_factory.mktemp("corpus")
    folder = root / "Häfen & Schiffe"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    (folder / "gangway.md").write_text(HOSTILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_study, "_dtype", lambda: "fp32")  # the same file on any processor
        done = assay("corpus", "build", str(folder), ASSAY_HOME=str(root / "home"))
    assert done.returncode == 0, done.stderr
    assert "Häfen & Schiffe: 4 documents, 4 chunks" in done.stderr
    assert "It is selected" in done.stderr
    return root


@pytest.fixture
def at(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, beside a home of this test's own."""
    shutil.copytree(place / "home", tmp_path / "home", symlinks=True)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    for note in (tmp_path / "home" / "studies").glob("*.json"):  # of the home that it was copied from
        note.unlink()
    return place / "Häfen & Schiffe"


def listed() -> list[dict[str, Any]]:
    found = json.loads(assay("corpus", "list", "--json").stdout)
    assert isinstance(found, list)
    return found


def test_one_command_builds_and_the_next_takes_only_what_changed(at: Path) -> None:
    (one,) = listed()
    assert (one["name"], one["documents"], one["selected"], one["state"]) == (at.name, 4, True, "ready")
    assert at.name in assay("corpus", "list").stdout
    assert at.name in assay("corpus").stdout
    folder = at.with_name("grown")
    shutil.copytree(at, folder)
    (folder / "new.txt").write_text("The lighthouse keeper feeds eleven cats.")
    moved = assay("corpus", "build", str(folder), "--name", "grown")
    assert moved.returncode == 0, moved.stderr
    assert "1 computed" in moved.stderr
    found = {row["name"]: row for row in listed()}
    assert found["grown"]["documents"] == 5
    assert found["grown"]["selected"]
    again = assay("corpus", "build", "grown")
    assert again.returncode == 0, again.stderr
    assert "5 unchanged" in again.stderr
    shutil.rmtree(folder)
    gone = assay("corpus", "build", str(folder))
    assert gone.returncode == 2
    assert "was not found; grown still answers" in gone.stderr
    assert [row["name"] for row in listed() if not row["target_is_there"]] == ["grown"]
    answer = assay("corpus", "query", "Who feeds the cats?", *BY_WORDS)
    assert "lighthouse keeper" in answer.stdout, answer.stderr
    follows = assay("corpus", "build", str(at), "--name", "grown")
    assert follows.returncode == 0, follows.stderr
    assert [row["target"] for row in listed() if row["name"] == "grown"] == [str(at)]


def test_a_question_is_answered_for_people_and_for_programs(at: Path) -> None:
    done = assay("corpus", "query", "What does a mooring cost in summer?")
    assert done.returncode == 0, done.stderr
    assert "twelve pounds a night" in done.stdout
    assert "harbour.txt" in done.stdout
    assert "\x1b" not in done.stdout
    as_json = assay("corpus", "query", "How many cars does the ferry carry?", "--json", "--forget")
    said = json.loads(as_json.stdout)
    assert said["status"] == "ok"
    assert said["passages"][0]["url"] == "ferry.txt"
    assert said["corpus"] == at.name
    hostile = assay("corpus", "query", "Where does the gangway have rails?", *BY_WORDS, "--by", "rank")
    assert "both sides" in hostile.stdout
    assert not set(hostile.stdout) & {"\x1b", "\x07", "\u202e"}
    assert assay("corpus", "query", "  ", *BY_WORDS).returncode == 2
    home = Home(Path(os.environ["ASSAY_HOME"]))
    (study,) = [path.name for path in home.chats.glob("corpus-*")]
    kept = list(Conversations(home).of(study))
    asked = {turn.question for one in kept for turn in one.turns}
    assert asked == {"What does a mooring cost in summer?", "Where does the gangway have rails?"}
    assert {one.begun.place for one in kept} == {"terminal"}


def test_a_person_asks_at_a_prompt(at: Path) -> None:
    environment = {"ASSAY_HOME": os.environ["ASSAY_HOME"], "NO_COLOR": "", "PYTHONIOENCODING": "utf-8"}
    prompt = f"{at.name}> "
    with Terminal(assay_command("corpus", "query", *BY_WORDS), environment, columns=50) as terminal:
        terminal.until(prompt)
        terminal.type("What does the ferry carry?\r")
        assert "nineteen cars" in terminal.until(prompt)
        terminal.type("half a line\x03")  # Ctrl-C
        assert "nineteen" not in terminal.until(prompt)
        terminal.type("\x1b[A\r")  # the line before
        assert "nineteen cars" in terminal.until(prompt)
        terminal.type("Where does the gangway have rails?\r")
        terminal.until(prompt)
        terminal.type(":sources\r:more 1\r:by rank\r:nonsense\r:cell\r:new\r")
        seen = "".join(terminal.until(prompt) for _line in range(6))
        for words in ("both sides", "There are no further passages", "is not a command", "minilm.dense"):
            assert words in seen
        terminal.type(":json\rHow long are books lent?\r")
        shown = terminal.until(prompt) + terminal.until(prompt)
        assert "Answers are JSON now." in shown
        assert '"status": "ok"' in shown
        terminal.type(":select nowhere\r:select 1\r")
        assert "there is no corpus 'nowhere'" in terminal.until(prompt) + terminal.until("starts a conv")
        terminal.until(prompt)
        terminal.type("\x04")  # Ctrl-D
        assert terminal.ended() == 0
    assert "\x1b]0;mine" not in terminal.written
    assert "\x1b[31m" not in terminal.written
    assert "33mferry" in terminal.written
    history = (Path(os.environ["ASSAY_HOME"]) / "corpora" / "history").read_text()
    assert history.splitlines()[0] == "What does the ferry carry?"
    assert "half a line" not in history


WITHOUT_TORCH = """
import sys
from rag_assay.orchestration.start import main
sys.argv = ["assay", "corpus", "query", "How many cars does the ferry carry?"]
try:
    main()
finally:
    print({"torch", "sentence_transformers", "litellm"} & set(sys.modules))
"""


def test_words_come_first_where_meaning_would_take_long(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_study, "_dtype", lambda: "fp32")
    folder = at.with_name("long")
    shutil.copytree(at, folder)
    (folder / "new.txt").write_text("The lighthouse keeper feeds eleven cats.")
    monkeypatch.setattr(corpus_building, "seconds_to_embed", lambda _study, _home: 130.0)
    done = assay("corpus", "build", str(folder))
    assert done.returncode == 0, done.stderr
    assert "would take about 2 minutes here" in done.stderr
    assert "assay corpus build long --embedder minilm" in done.stderr
    assert "stage 5 of 5  indexes" in done.stderr
    (one,) = (row for row in listed() if row["name"] == "long")
    assert (one["embedder"], one["documents"], one["state"]) == ("hashing", 5, "ready")
    alone = subprocess.run(  # a process of its own: these tests have imported torch
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=300, check=True
    )
    assert "nineteen cars" in alone.stdout
    assert alone.stdout.endswith("set()\n")
    again = assay("corpus", "build", "long")
    assert "5 unchanged" in again.stderr
    assert "Search by meaning (all-MiniLM-L6-v2) is added by" in again.stderr
    for words in (["--embedder", "minilm"], ["--retriever", "dense"]):
        assert "exclude each other" in assay("corpus", "build", "long", "--words", *words).stderr
    more = assay("corpus", "build", "long", "--embedder", "minilm")
    assert more.returncode == 0, more.stderr
    assert "chunks        1 up to date" in more.stderr
    assert "embeddings    1 computed · 1 up to date" in more.stderr
    assert "is added by" not in more.stderr
    asked = json.loads(assay("corpus", "query", "Who feeds the cats?", "--json", "--forget").stdout)
    assert asked["cell"].endswith("tokens-254.minilm.hybrid.extractive")


def test_the_time_of_embedding_is_that_of_what_is_new(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(Path(os.environ["ASSAY_HOME"]))
    (found,) = Corpora(home).all()
    monkeypatch.setattr(corpus_building, "FEW", 0)
    assert corpus_building.seconds_to_embed(read_study(found.study), home) == 0
    shutil.rmtree(home.root / "cache" / "vectors")
    seconds = corpus_building.seconds_to_embed(read_study(found.study), home)
    assert 0 < seconds < 60
    monkeypatch.setattr(corpus_building, "FEW", 4)
    assert corpus_building.seconds_to_embed(read_study(found.study), home) == 0


def test_two_at_once_make_one_corpus(at: Path) -> None:
    folder = at.with_name("twice")
    shutil.copytree(at, folder)
    corpora = Corpora(Home(Path(os.environ["ASSAY_HOME"])))
    with ThreadPoolExecutor(4) as pool:
        made = list(
            pool.map(lambda _one: corpus_of(str(folder), None, corpora, CorpusOptions(words=True)), range(4))
        )
    assert {(one.name, one.folder) for one in made} == {("twice", corpora.root / "twice")}


def test_names_are_anybodys_and_a_removed_corpus_takes_only_its_own(at: Path) -> None:
    home = Home(Path(os.environ["ASSAY_HOME"]))
    corpora = Corpora(home)
    for name in ("Über uns", "日本", "über uns"):  # the last one is the first
        corpus_of(str(at), name, corpora, CorpusOptions())
    assert assay("corpus", "build", str(at), "--name", "list").returncode == 0
    assert [row["name"] for row in listed()] == [at.name, "list", "Über uns", "日本"]
    several = assay("corpus", "build", str(at))
    assert "say which by --name" in several.stderr
    assert assay("corpus", "rename", "日本", "--", "-x").returncode == 0
    assert assay("corpus", "rename", "list", "-x".upper()).returncode == 2
    assert assay("corpus", "select", "ÜBER UNS").returncode == 0
    assert [row["name"] for row in listed() if row["selected"]] == ["Über uns"]
    assert assay("corpus", "select", "2").returncode == 0
    assert assay("corpus", "remove", "Über uns").returncode == 2  # nobody can be asked
    assert assay("corpus", "remove", "Über uns", "--yes").returncode == 0
    assert "Über uns" not in [row["name"] for row in listed()]
    assert not (home.root / "corpora" / "uber-uns").exists()
    kept = assay("corpus", "query", "What does a mooring cost?", "--corpus", at.name, *BY_WORDS)
    assert "twelve pounds" in kept.stdout, kept.stderr
    for name in ("list", "-x", at.name):
        assert assay("corpus", "remove", "--yes", "--", name).returncode == 0
    assert listed() == []
    assert not list((home.root / "pointers" / "indexes").glob("*.json"))
    assert not list(home.stage("indexes").iterdir())
    none = assay("corpus", "query", "Anything?")
    assert (none.returncode, "build one" in none.stderr) == (2, True)


def test_a_study_that_a_person_has_changed_is_built_so(at: Path) -> None:
    (found,) = Corpora(Home(Path(os.environ["ASSAY_HOME"]))).all()
    found.study.write_text(found.study.read_text().replace("size: 254", "size: 12"))
    refused = assay("corpus", "build", str(at), "--retriever", "dense")
    assert (refused.returncode, "was edited, and is not overwritten" in refused.stderr) == (2, True)
    before = assay("corpus", "query", "What does a mooring cost?", *BY_WORDS)
    assert (before.returncode, "assay corpus build" in before.stderr) == (2, True)
    assert assay("corpus", "build", str(at)).returncode == 0
    assert listed()[0]["chunks"] > 4


def test_parts_are_chosen_and_what_is_none_leaves_nothing(at: Path, tmp_path: Path) -> None:
    corpora = Corpora(Home(Path(os.environ["ASSAY_HOME"])))
    found = corpus_of(str(at), None, corpora, CorpusOptions(None, "bm25", "local/smollm2-135m-instruct"))
    assert [one.generator for one in read_study(found.study).cells()][:2] == ["model", "extractive"]
    assert next(iter(read_study(found.study).retrievers)) == "bm25"
    assert assay("corpus", "build", str(at), "--retriever", "nonsense").returncode == 2
    (tmp_path / "empty").mkdir()
    for target, error in (
        (tmp_path / "empty", "holds no file that can be read"),
        (tmp_path / "home" / "run.lock", "is a file"),
        ("nonsense", "nor one of the BEIR sets"),
        ("http://", "is not a URL with a host"),
    ):
        refused = assay("corpus", "build", str(target))
        assert refused.returncode == 2, refused.stderr
        assert error in refused.stderr
    down = assay("corpus", "build", "http://127.0.0.1:9/", "--name", "down")
    assert down.returncode == 1
    assert "refused" in down.stderr
    assert [row["state"] for row in listed() if row["name"] == "down"] == ["not built"]
    assert (
        "assay corpus build http://127.0.0.1:9/" in assay("corpus", "query", "x", "--corpus", "down").stderr
    )


def test_a_damaged_index_says_how_it_is_mended(at: Path) -> None:
    home = Home(Path(os.environ["ASSAY_HOME"]))
    for path in home.stage("indexes").rglob("words.parquet"):
        path.write_bytes(b"x" * path.stat().st_size)
    done = assay("corpus", "query", "What does a mooring cost?", *BY_WORDS)
    assert done.returncode == 2
    assert "is damaged" in done.stderr
    assert "assay corpus build" in done.stderr
    assert assay("corpus", "build", str(at)).returncode == 0
    assert assay("corpus", "query", "What does a mooring cost?", *BY_WORDS).returncode == 0
