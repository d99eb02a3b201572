"""A study file with mistakes is answered with all of them: file, line, what is wrong, what would be right."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from evals.study.study_file import BUNDLED, Book, find_study, read_book, read_study
from tests.fakes.tiny import QUESTIONS, STUDY, write_study
from warehouse.errors import InputError

FUSE = "bm25: {bm25: {k: 5}}\n  rrf:\n    fuse:\n      of: [{bm25: {}}, {dense: {}}]\n"
LLM = "extractive: {extractive: {passages: 2, max_tokens: 40}}\n  llm: {llm: {model: openai/x}}\n"


def findings(folder: Path, changes: dict[str, str], then: dict[str, str] | None = None) -> list[str]:
    """Return what is said of a changed study, without the folder before the file's name."""
    path = write_study(folder, changes)
    for old, new in (then or {}).items():
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_study(path)
    return [finding.replace(f"{folder}/", "") for finding in caught.value.findings]


def line_of(text: str, study: str = STUDY) -> int:
    return study[: study.index(text)].count("\n") + 1


def test_the_tiny_study_is_good(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path))
    assert [cell.key for cell in study.cells()] == [
        "tiny.t16.minilm.bm25.extractive",
        "tiny.t16.minilm.dense.extractive",
    ]


UNKNOWN_KEYS = [
    ("seed: 7", "sed: 7", "unknown key `sed`; did you mean `seed`?"),
    ("reader: folder", "redaer: folder", "unknown key `redaer`; did you mean `reader`?"),
    ("path: docs}", "path: docs, limits: {page: 3}}", "unknown key `page`; did you mean `pages`?"),
    ("name: ferries", "nmae: ferries", "unknown key `nmae`; did you mean `name`?"),
    ("t16: {tokens", "t16: {tokns", "unknown key `tokns`; did you mean `tokens`?"),
    ("size: 16", "siz: 16", "unknown key `siz`; did you mean `size`?"),
    ("{model: all", "{modell: all", "unknown key `modell`; did you mean `model`?"),
    ("{bm25: {k: 5}}", "{bm52: {k: 5}}", "unknown key `bm52`; did you mean `bm25`?"),
    ("dense: {dense: {k", "dense: {dense: {depth", "unknown key `depth`; known are k"),
    ("extractive: {extractive", "extractive: {extractve", "unknown key `extractve`; did you mean"),
    ("passages: 2", "passage: 2", "unknown key `passage`; did you mean `passages`?"),
    ("- file:", "- fiel:", "unknown key `fiel`; did you mean `file`?"),
    ("seed: 7", "budget: {eur: 5}", "unknown key `eur`; known are usd"),
    (
        "seed: 7",
        "restrict: {extractive: {chunking: [t16]}}",
        "unknown key `chunking`; did you mean `chunkings`?",
    ),
    ("seed: 7", "path: here", "unknown key `path`"),
]

UNKNOWN_NAMES = [
    ("sources: [docs]", "sources: [dcos]", "unknown source `dcos`; did you mean `docs`?"),
    (
        "reader: folder",
        "reader: csv",
        "reader: must be 'beir', 'docx', 'epub', 'folder', 'html', 'jsonl', 'pdf', 'pptx', 'rst', 'table', "
        "'text', 'warc' or 'xlsx', not 'csv'",
    ),
    ("{k: 5}", "{variant: okapy}", "variant: must be 'okapi', 'plus', 'l' or 'lower_bounded', not 'okapy'"),
    ("ndcg@10", "ndgc@10", "metrics item 1: unknown metric 'ndgc@10'; did you mean ndcg@10?"),
    ("abstention", "abstension", "metrics item 3: unknown metric 'abstension'; did you mean abstention?"),
    ("all-MiniLM-L6-v2", "MiniLM", "unknown embedding model 'MiniLM'; known are all-MiniLM-L6-v2"),
    ("overlap: 4}", "overlap: 4}, tokenizer: bert", "unknown embedding model 'bert'; known are all-MiniLM"),
    (
        "seed: 7",
        "restrict: {extractiv: {sample: 2}}",
        "unknown generator `extractiv`; did you mean `extractive`?",
    ),
    ("seed: 7", "restrict: {extractive: {chunkings: [t61]}}", "unknown chunking `t61`; known are t16"),
    (
        "seed: 7",
        "restrict: {extractive: {embedders: [mini]}}",
        "unknown embedder `mini`; did you mean `minilm`?",
    ),
    (
        "seed: 7",
        "restrict: {extractive: {retrievers: [bm52]}}",
        "unknown retriever `bm52`; did you mean `bm25`?",
    ),
]

IMPOSSIBLE_VALUES = [
    ("overlap: 4", "overlap: 16", "chunkings.t16.tokens: overlap (16) must be smaller than size (16)"),
    ("size: 16", "size: 4", "chunkings.t16.tokens.size: must be at least 8, not 4"),
    ("size: 16", "size: many", "chunkings.t16.tokens.size: must be a whole number, not 'many'"),
    ("{k: 5}", "{k: -1}", "retrievers.bm25.bm25.k: must be at least 1, not -1"),
    ("{k: 5}", "{k: 2.5}", "retrievers.bm25.bm25.k: must be a whole number, not 2.5"),
    ("{k: 5}", "{k: true}", "retrievers.bm25.bm25.k: must be a whole number, not true"),
    ("{k: 5}", "{b: yes}", "retrievers.bm25.bm25.b: must be a number, not true"),
    ("{k: 5}", "{k1: .nan}", "retrievers.bm25.bm25.k1: must be "),
    ("seed: 7", "seed: false", "seed: must be a whole number, not false"),
    ("max_tokens: 40", "min_score: true", "min_score: must be a number, not true"),
    ("reader: folder", "reader: text, lines: 1", "sources.docs.lines: must be true or false, not 1"),
    ("{k: 5}", "{b: 1.5}", "retrievers.bm25.bm25.b: must be at most 1, not 1.5"),
    ("{k: 5}", "{k1: 0}", "retrievers.bm25.bm25.k1: must be more than 0, not 0"),
    ("seed: 7", "seed: -7", "seed: must be at least 0, not -7"),
    (
        "{tokens: {size: 16, overlap: 4}}",
        "{tokens: {size: 16}, document: {}}",
        "exactly one of tokens, ",
    ),
    ("{tokens: {size: 16, overlap: 4}}", "{}", "chunkings.t16: give exactly one of tokens, "),
    (
        "{tokens: {size: 16, overlap: 4}}",
        "16",
        "must be a mapping with keys out of tokenizer, ",
    ),
    ("  t16: {tokens: {size: 16, overlap: 4}}\n", "", "`chunkings` is empty"),
    ("sources: [docs]", "sources: []", "corpus.sources: needs at least 1, has 0"),
    (
        "corpus: {name: ferries, sources: [docs]}",
        "corpus: ferries",
        "keys out of name, sources, near_duplicates, ",
    ),
    ("corpus: {name: ferries, sources: [docs]}\n", "", "`corpus` is missing"),
    ("[ndcg@10, evidence", "[ndcg@10, ndcg@10, evidence", "the metric ndcg@10 is named twice"),
    ("ndcg@10", "ndcg", "the metric ndcg is written with a depth from 1 to 9999, as in ndcg@10"),
    (
        "metrics: [ndcg@10, evidence_coverage@5, abstention, retrieval_latency]",
        "metrics: []",
        "at least 1, has 0",
    ),
    (
        "metrics: [ndcg@10, evidence_coverage@5, abstention, retrieval_latency]",
        "metrics: mrr@5",
        "must be a list",
    ),
    ("seed: 7", "restrict: {extractive: {retrievers: []}}", "an empty list leaves `extractive` no cell"),
    (
        "seed: 7",
        "restrict: {extractive: {sample: 0}}",
        "restrict.extractive.sample: must be at least 1, not 0",
    ),
    ("max_tokens: 40", "min_score: 5", "min_score: must be at most 2, not 5"),
    ("extractive: {ext", "none: {ext", "the name `none` is kept for cells without a generator"),
    ("seed: 7", "budget: {usd: -1}", "budget.usd: must be at least 0, not -1"),
    ("reader: folder, path: docs", "spider: blog", "a spider needs at least one URL in `start`"),
    ("reader: folder, path: docs", "reader: folder", "a reader needs a `path`"),
    ("reader: folder,", "spider: blog, reader: folder,", "either a spider (with start URLs) or a reader"),
    ("reader: folder, path: docs", "spider: blog, start: [x.org]", "http:// or https://, not 'x.org'"),
    (
        "path: docs}",
        "path: docs, schedule: every monday}",
        "sources.docs.schedule: a schedule is a cron expression: minute, hour, day, month and day",
    ),
    ("study: tiny", "study: Tiny Study", "study: use small letters, digits"),
    ("study: tiny", "study: 5", "study: must be text (in quotes, where it looks like a number), not 5"),
    ("t16:", "T16:", "the name `T16` will not do: use small letters"),
    ("t16:", "t.16:", "the name `t.16` will not do: use small letters"),
    ("minilm:", "mini|lm:", "the name `mini|lm` will not do: use small letters"),
    ("name: ferries", "name: Ferries", "corpus.name: use small letters"),
]


@pytest.mark.parametrize(
    ("old", "new", "told"), UNKNOWN_KEYS + UNKNOWN_NAMES + IMPOSSIBLE_VALUES, ids=lambda value: value[:40]
)
def test_one_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    found = findings(tmp_path, {old: new})
    changed = STUDY.replace(old, new, 1)
    fitting = [finding for finding in found if told in finding]
    assert len(fitting) == 1, found
    place, _, _ = fitting[0].partition(": ")
    assert place.startswith("tiny.yaml:")
    if "missing" not in told:
        where = line_of(old) if new else line_of(old) - 1
        assert place == f"tiny.yaml:{where}", changed


def test_a_whole_number_will_do_for_any_number_and_text_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPTH", "5")
    study = read_study(write_study(tmp_path, {"{k: 5}": "{k: '${DEPTH}', k1: 2, epsilon: 1e-3}"}))
    bm25 = study.retrievers["bm25"]
    assert (bm25.k, bm25.k1, bm25.epsilon) == (5, 2.0, 0.001), "YAML and `${NAME}` give 1e-3 and 5 as text"
    assert isinstance(bm25.k1, float), "2 and 2.0 are one recipe, with one identity"


@pytest.mark.parametrize("path", ['"a\\0b"', "~no-such-user/x", "a" * 5000, "/" + "a" * 5000])
def test_what_can_be_no_path_is_told_with_its_line(tmp_path: Path, path: str) -> None:
    found = findings(tmp_path, {"path: docs": f"path: {path}"})
    assert len(found) == 1
    assert found[0].startswith(f"tiny.yaml:{line_of('path: docs')}: ")
    assert "cannot be used as a path: " in found[0]
    found = findings(tmp_path, {"file: ferry.questions.yaml": f"file: {path}"})
    assert len(found) == 1
    assert "cannot be used as a path: " in found[0]


RETRIEVER_MISTAKES = [
    ("[{bm25: {}}, {dense: {}}]", "[{bm25: {}}]", "retrievers.rrf.fuse.of: needs at least 2, has 1"),
    ("{dense: {}}]", "{dens: {}}]", "unknown key `dens`; did you mean `dense`?"),
    ("{dense: {}}]", "{dense: {j: 1}}]", "unknown key `j`; known are k"),
    ("{dense: {}}]", "{dense: {}}]\n      weights: [1, 2, 3]", "2 arms need 2 weights, not 3"),
    ("{dense: {}}]", "{dense: {}}]\n      weights: [1, -2]", "weights item 2: must be at least 0, not -2"),
    (
        "{dense: {}}]",
        "{dense: {}}]\n      weights: [1, true]",
        "retrievers.rrf.fuse.weights: must be a number",
    ),
    ("{dense: {}}]", "{dense: {}}]\n      weights: [1, .inf]", "weights item 2: must be a finite number"),
    ("{dense: {}}]", "{dense: {}}]\n      rrf: {k: 0}", "rrf.k: must be more than 0, not 0"),
]


@pytest.mark.parametrize(("old", "new", "told"), RETRIEVER_MISTAKES, ids=lambda value: value[:40])
def test_a_mistake_inside_a_fusion(tmp_path: Path, old: str, new: str, told: str) -> None:
    found = findings(tmp_path, {"bm25: {bm25: {k: 5}}\n": FUSE}, {old: new})
    assert len(found) == 1
    assert told in found[0]


CHAIN = "bm25: {bm25: {k: 5}}\n  chain:\n    - keywords: {}\n    - bm25: {k: 50}\n    - neighbours: {n: 1}\n"
CHAIN_MISTAKES = [
    ("neighbours: {n", "neighbors: {n", 16, "unknown key `neighbors`; did you mean `neighbours`?"),
    ("neighbours: {n: 1}", "neighbours: {m: 1}", 16, "unknown key `m`; known are n"),
    (
        "neighbours: {n: 1}",
        "neighbours: {n: 0}",
        16,
        "retrievers.chain item 3.neighbours.n: must be at least 1",
    ),
    ("bm25: {k: 50}", "top: {k: 50}", 13, "a chain needs one retriever, as in [{bm25: {k: 100}}"),
    ("- neighbours: {n: 1}", "- dense: {}", 16, "has one retriever, this one has bm25, dense; fuse them"),
    ("- neighbours: {n: 1}", "- multi_query: {}", 16, "`multi_query` reads the question; it stands before"),
    ("- keywords: {}", "- top: {}", 14, "`top` works on a ranking; it stands after `bm25`"),
    ("- keywords: {}", "- bm25", 14, "must be a mapping with keys out of"),
    ("- keywords: {}", "- {keywords: {}, entities: {}}", 14, "give exactly one of"),
]


@pytest.mark.parametrize(("old", "new", "line", "told"), CHAIN_MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_inside_a_chain(tmp_path: Path, old: str, new: str, line: int, told: str) -> None:
    found = findings(tmp_path, {"bm25: {bm25: {k: 5}}\n": CHAIN}, {old: new})
    assert len(found) == 1, found
    assert found[0].startswith(f"tiny.yaml:{line}: ")
    assert told in found[0]


ALL = "bm25: {bm25: {k: 5}}\n  all:\n    powerset: [bm25, dense, recency]\n    fuse: rrf\n    k: 4\n"
POWERSET_MISTAKES = [
    ("[bm25, dense,", "[bm25, dens,", 14, "unknown key `dens`; did you mean `dense`?"),
    ("[bm25, dense,", "[bm25, {dense: {k: 0}},", 14, "powerset item 2.dense.k: must be at least 1, not 0"),
    ("[bm25, dense, recency]", "[]", 14, "needs at least 1, has 0"),
    ("fuse: rrf", "fuse: rff", 15, "unknown method `rff`; known are rrf"),
    ("k: 4", "k: 0", 16, "retrievers.all.k: must be at least 1, not 0"),
    ("k: 4", "depht: 4", 16, "unknown key `depht`; did you mean `depth`?"),
    (
        "  all:",
        f"  {'a' * 50}:",
        13,
        "characters, and a name has at most 60: give the powerset a shorter name",
    ),
    ("  all:", "  all-bm25: {bm25: {}}\n  all:", 14, "there is another retriever `all-bm25`; rename one"),
    ("seed: 7", "restrict: {extractive: {retrievers: [all]}}", 3, "unknown retriever `all`"),
]


@pytest.mark.parametrize(("old", "new", "line", "told"), POWERSET_MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_inside_a_powerset(tmp_path: Path, old: str, new: str, line: int, told: str) -> None:
    found = findings(tmp_path, {"bm25: {bm25: {k: 5}}\n": ALL}, {old: new})
    assert len(found) == 1, found
    assert found[0].startswith(f"tiny.yaml:{line}: ")
    assert told in found[0]


MODEL_MISTAKES = [
    ("openai/x", "gpt-4", "a model is written PROVIDER/NAME, as in openai/gpt-4o-mini"),
    ("openai/x", "local/smollm", "unknown local model 'local/smollm'"),
    ("openai/x", "openai/x, temperature: 3", "temperature: must be at most 2, not 3"),
    ("openai/x", "openai/x, api_base: 'localhost:8000'", "begins with http:// or https://"),
    ("model: openai/x", "modl: openai/x", "unknown key `modl`; did you mean `model`?"),
    ("openai/x", "", "`generators.llm.llm.model` is empty"),
]


@pytest.mark.parametrize(("old", "new", "told"), MODEL_MISTAKES, ids=lambda value: value[:40])
def test_a_mistake_about_a_model(tmp_path: Path, old: str, new: str, told: str) -> None:
    changes = {"extractive: {extractive: {passages: 2, max_tokens: 40}}\n": LLM}
    found = findings(tmp_path, changes, {old: new})
    assert any(told in finding and finding.startswith("tiny.yaml:16: ") for finding in found), found


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        {
            "seed: 7": "seed: seven",
            "path: docs}": "path: nowhere}",
            "sources: [docs]": "sources: [dcos]",
            "overlap: 4": "overlap: 99",
            "all-MiniLM-L6-v2": "MiniLM",
            "{k: 5}": "{k: 0}",
            "ferry.questions.yaml": "lost.questions.yaml",
            "ndcg@10": "ndgc@10",
        },
    )
    assert [finding.split(": ")[0] for finding in found] == [
        f"tiny.yaml:{line}" for line in (3, 5, 6, 8, 10, 12, 17, 18)
    ]


def test_a_finding_is_told_once(tmp_path: Path) -> None:
    assert len(findings(tmp_path, {"sources: [docs]": "sources: [dcos]"})) == 1


def test_answer_metrics_need_a_generator(tmp_path: Path) -> None:
    generators = "generators:\n  extractive: {extractive: {passages: 2, max_tokens: 40}}\n"
    (found,) = findings(tmp_path, {generators: ""})
    assert found == "tiny.yaml:16: abstention measures answers, but the study has no `generators`"


def test_missing_files_are_told_with_their_line(tmp_path: Path) -> None:
    found = findings(tmp_path, {"path: docs": "path: papers", "- file: ferry": "- file: fery"})
    assert found == [
        "tiny.yaml:5: there is no papers; relative paths start from the folder of this file",
        "tiny.yaml:17: there is no fery.questions.yaml; relative paths start from the folder of this file",
    ]


def test_an_unset_environment_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FERRY_DOCS", raising=False)
    (found,) = findings(tmp_path, {"path: docs": 'path: "${FERRY_DOCS}"'})
    assert found.startswith("tiny.yaml:5: the environment variable FERRY_DOCS is not set")
    monkeypatch.setenv("FERRY_DOCS", str(tmp_path / "docs"))
    assert read_study(tmp_path / "tiny.yaml").sources["docs"].path == str(tmp_path / "docs")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("study: [tiny", "bad.yaml:1: not valid YAML"),
        ("study: tiny\nseed: 1\nseed: 2\n", "bad.yaml:3: the key `seed` stands here a second time"),
        ("", "bad.yaml:1: a study is a mapping that begins with `study: NAME`"),
        ("- a\n- b\n", "bad.yaml:1: a study is a mapping"),
        ("study: !!python/object/apply:os.system ['true']\n", "bad.yaml"),
    ],
)
def test_what_is_no_study_at_all(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_study(path)
    assert told in str(caught.value)


def test_two_question_files_of_one_name_clash(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "ferry.questions.yaml").write_text(QUESTIONS)
    second = "- file: ferry.questions.yaml\n  - file: more/ferry.questions.yaml"
    (found,) = findings(tmp_path, {"- file: ferry.questions.yaml": second})
    assert found == "tiny.yaml:18: a second question set with the name `ferry` (item 1); rename the file"


def test_a_question_file_whose_name_cannot_be_a_key(tmp_path: Path) -> None:
    (tmp_path / "a|b.questions.yaml").write_text(QUESTIONS)
    (found,) = findings(tmp_path, {"ferry.questions.yaml": "a|b.questions.yaml"})
    assert found.startswith("tiny.yaml:17: the question set is named by its file, and `a|b` will not do")


# --- several studies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("docs: {reader: folder", "docs: {language: de, reader: folder", "sources.docs"),
        ("sources: [docs]", "sources: [docs, more]", "corpus.ferries"),
        ("size: 16", "size: 32", "corpus.ferries.chunkings.t16"),
        ("L6-v2}", "L6-v2, max_tokens: 512}", "corpus.ferries.embedders.minilm"),
    ],
)
def test_one_name_means_one_thing_in_all_studies(tmp_path: Path, old: str, new: str, part: str) -> None:
    first = read_study(write_study(tmp_path))
    more = {"  docs: {reader": "  more: {limits: {pages: 9}, reader: folder, path: docs}\n  docs: {reader"}
    second = read_study(
        write_study(tmp_path, {"study: tiny": "study: other", **more, old: new}, name="other")
    )
    with pytest.raises(InputError) as caught:
        Book([first, second])
    (found,) = caught.value.findings
    assert f"other.yaml: {part} means something else in {tmp_path}/tiny.yaml" in found
    assert "rename one of them" in found


@pytest.mark.parametrize(
    ("old", "new"), [("{bm25: {k: 5}}", "{bm25: {k: 6}}"), ("passages: 2", "passages: 3")]
)
def test_retrievers_and_generators_are_their_studys_own(tmp_path: Path, old: str, new: str) -> None:
    first = read_study(write_study(tmp_path))
    second = read_study(write_study(tmp_path, {"study: tiny": "study: other", old: new}, name="other"))
    assert set(Book([first, second]).studies) == {"tiny", "other"}


def test_one_study_name_in_two_files_is_refused(tmp_path: Path) -> None:
    first, second = (read_study(write_study(tmp_path, name=name)) for name in ("tiny", "again"))
    with pytest.raises(InputError, match=r"study\.tiny means something else"):
        Book([first, second])


def test_the_same_relative_path_from_two_folders_is_not_the_same_source(tmp_path: Path) -> None:
    first = read_study(write_study(tmp_path / "a"))
    second = read_study(write_study(tmp_path / "b", {"study: tiny": "study: other"}))
    with pytest.raises(InputError) as caught:
        Book([first, second])
    assert [finding.split(" means")[0].split(": ")[1] for finding in caught.value.findings] == [
        "sources.docs",
        "questions.ferries.ferry",
    ]


def test_studies_that_agree_live_together(tmp_path: Path) -> None:
    first = read_study(write_study(tmp_path))
    second = read_study(write_study(tmp_path, {"study: tiny": "study: other"}, name="other"))
    assert list(Book([first, second]).studies) == ["tiny", "other"]


def test_a_broken_file_is_left_out_of_the_book_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_study(tmp_path)
    write_study(tmp_path, {"study: tiny": "study: other", "seed: 7": "sed: 7"}, name="other")
    (tmp_path / "torn.yaml").write_text("study: [")
    with caplog.at_level(logging.WARNING):
        book = read_book(tmp_path)
    assert list(book.studies) == ["tiny"]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "other.yaml:3: unknown key `sed`" in told[0]
    assert "torn.yaml:1: not valid YAML" in told[1]


def test_a_study_is_found_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_study(tmp_path, name="file-of-another-name")
    monkeypatch.setenv("ASSAY_STUDIES", str(tmp_path))
    assert find_study("tiny").path == path
    assert find_study("file-of-another-name").study == "tiny"
    assert find_study(str(path)).study == "tiny"
    with pytest.raises(InputError, match="there is no study 'tyni'"):
        find_study("tyni")
    with pytest.raises(InputError, match="there is no such file"):
        find_study(str(tmp_path / "nix.yaml"))


def test_the_bundled_studies_are_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "d1", "title": "", "text": "A text."}) + "\n")
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "A question?"}) + "\n")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    monkeypatch.setenv("ASSAY_BEIR", str(tmp_path))
    monkeypatch.delenv("ASSAY_STUDIES", raising=False)
    there = {path.stem for path in BUNDLED.glob("*.yaml") if not path.name.endswith(".questions.yaml")}
    assert there == set(read_book().studies) >= {"demo", "beir"}


@pytest.mark.parametrize(
    ("file", "told"), [("/dev/zero", "no regular file"), ("pipe.yaml", "no regular file"), ("docs", "folder")]
)
def test_a_question_file_that_is_none_is_told_with_its_line(tmp_path: Path, file: str, told: str) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    found = findings(tmp_path, {"- file: ferry.questions.yaml": f"- file: {file}"})
    line = line_of("- file:")
    assert any(one.startswith(f"tiny.yaml:{line}: ") and told in one for one in found), found


def test_a_study_that_waits_for_its_variable_is_left_out_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_NOWHERE", raising=False)
    (tmp_path / "waits.yaml").write_text(
        "study: waits\nsources: {a: {reader: folder, path: '${ASSAY_NOWHERE}'}}\n"
    )
    with caplog.at_level(logging.INFO):
        assert not read_book(tmp_path).studies
        assert not caplog.records
        (tmp_path / "wrong.yaml").write_text("study: '${ASSAY_NOWHERE}'\nstudy: twice\n")
        assert not read_book(tmp_path).studies
    (record,) = caplog.records
    assert "wrong.yaml" in record.getMessage()
