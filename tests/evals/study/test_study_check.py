"""`assay check` looks: every mistake at once, and what a run would only find out at its cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.evals.study.study_check import check_study, lost_evidence, unreachable_models
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from tests.evals.conftest import MakeBench

QUESTIONS = """\
question_set: town
questions:
  - id: q1
    question: What does a mooring cost?
    evidence: [{url: harbour.txt, quote: twelve pounds a night}]
"""
STUDY = """\
study: town
sources:
  texts: {reader: folder, path: texts}
corpus: {name: town, sources: [texts]}
chunkings:
  t16: {tokens: {size: 16, overlap: 4}}
embedders:
  minilm: {model: all-MiniLM-L6-v2}
retrievers:
  words: {bm25: {k: 5}}
generators:
  quote: {extractive: {}}
questions: [{file: town.questions.yaml}]
metrics: [ndcg@10]
"""


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "MISTRAL_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "harbour.txt").write_text("A mooring costs twelve pounds a night.")
    (tmp_path / "town.questions.yaml").write_text(QUESTIONS)
    (tmp_path / "town.yaml").write_text(STUDY)
    return tmp_path / "town.yaml"


def edit(path: Path, *changes: tuple[str, str]) -> Path:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def findings(path: Path, tmp_path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        check_study(path, Home(tmp_path / "var"))
    return [text.replace(f"{path.parent}/", "") for text in caught.value.findings]


@pytest.mark.parametrize(
    ("metric", "other", "warns"),
    [
        ("evidence_coverage@5", "{tokens: {size: 64, overlap: 4}}", True),
        ("token_precision@5", "{structure: {}}", True),
        ("evidence_coverage@5", "{tokens: {size: 16, overlap: 0}}", False),
        ("evidence_coverage@2000tokens", "{tokens: {size: 64, overlap: 4}}", False),
        ("recall@2000tokens", "{tokens: {size: 64, overlap: 4}}", False),
        ("ndcg@10", "{tokens: {size: 64, overlap: 4}}", False),
        ("rouge_l", "{tokens: {size: 64, overlap: 4}}", False),
    ],
)
def test_a_fixed_number_of_passages_of_unequal_chunkings_is_told(
    path: Path, tmp_path: Path, metric: str, other: str, *, warns: bool
) -> None:
    two = ("embedders:\n", f"  other: {other}\nembedders:\n")
    found = check_study(edit(path, two, ("[ndcg@10]", f"[{metric}, recall@10]")), Home(tmp_path / "var"))
    assert ["as many long ones hold more text" in warning for warning in found.warnings] == [True] * warns


def test_a_good_study_has_nothing_to_say(path: Path, tmp_path: Path) -> None:
    found = check_study(path, Home(tmp_path / "var"))
    assert (found.study.study, found.questions, found.warnings) == ("town", 1, [])
    assert not (tmp_path / "var").exists()  # nothing is run, and nothing made


def test_mistakes_of_study_questions_and_models_come_together(path: Path, tmp_path: Path) -> None:
    edit(
        path,
        ("size: 16", "size: -16"),
        ("  quote: {extractive: {}}\n", "  quote: {extractive: {}}\n  a: {llm: {model: nonsense/foo}}\n"),
        ("metrics: [ndcg@10]", "metrics: [foo@3]"),
    )
    edit(path.with_name("town.questions.yaml"), ("  - id: q1", "  - id: q 1"))
    told = "\n".join(findings(path, tmp_path))
    for place in ("town.yaml:6: ", "town.yaml:13: `nonsense/foo` names no provider", "town.yaml:15: "):
        assert place in told
    assert "town.questions.yaml:3: " in told


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("  quote: {extractive: {}}", "  a: {llm: {model: openai/gpt-4o-mini}}"), 12),
        (("  quote: {extractive: {}}", "  a: {no_context: {model: openai/gpt-4o-mini}}"), 12),
        (("  quote: {extractive: {}}", "  a: {oracle_context: {model: openai/gpt-4o-mini}}"), 12),
        (("overlap: 4}}", "overlap: 4}, enrich: {model: mistral/mistral-small, summary: true}}"), 6),
        (("path: texts}", "path: texts, date_by: {model: openai/gpt-4o-mini}}"), 3),
        (
            (
                "  words: {bm25: {k: 5}}",
                "  words:\n    - keywords: {by: llm, model: openai/gpt-4o-mini}\n    - bm25: {k: 5}",
            ),
            11,
        ),
        (("{model: all-MiniLM-L6-v2}", "{model: openai/text-embedding-3-small, api: {}}"), 8),
    ],
    ids=[
        "generator",
        "closed book",
        "reference passages",
        "enrichment",
        "dating",
        "understanding",
        "embedder",
    ],
)
def test_a_key_that_is_not_set_is_named_with_its_line(
    path: Path, tmp_path: Path, change: tuple[str, str], line: int
) -> None:
    (told,) = findings(edit(path, change), tmp_path)
    assert told.startswith(f"town.yaml:{line}: no key for `")
    assert "_API_KEY in the environment" in told
    assert len(unreachable_models(read_study(path))) == 1


def test_models_to_fall_back_on_are_checked_too(path: Path, tmp_path: Path) -> None:
    own = "api_base: 'http://127.0.0.1:9/v1'"
    further = f"""
      llm:
        model: openai/mine
        {own}
        fallback:
          - openai/gpt-4o-mini
          - {{model: openai/other, {own}}}
          - model: nonsense/foo
    """
    told = findings(edit(path, ("  quote: {extractive: {}}", f"  a:{further}")), tmp_path)
    assert [one.partition("`")[0] for one in told] == ["town.yaml:17: no key for ", "town.yaml:19: "]
    assert "names no provider" in told[1]


def test_a_model_that_falls_back_on_itself_is_told_with_its_line(path: Path, tmp_path: Path) -> None:
    own = "api_base: 'http://127.0.0.1:9/v1'"
    listed = f"  a:\n    llm: {{model: openai/a, {own},\n      fallback: [{{model: openai/a, {own}}}]}}"
    told = findings(edit(path, ("  quote: {extractive: {}}", listed)), tmp_path)
    assert [one.partition(": ")[0] for one in told] == ["town.yaml:14"]
    assert "'openai/a' stands before it in this list" in told[0]


def test_a_server_of_ones_own_needs_no_key(path: Path, tmp_path: Path) -> None:
    own = (
        "  a: {llm: {model: openai/mine, api_base: 'http://127.0.0.1:9/v1'}}\n"
        "  b: {llm: {model: local/smollm2-135m-instruct}}"
    )
    assert check_study(edit(path, ("  quote: {extractive: {}}", own)), Home(tmp_path / "var")).warnings == []


@pytest.mark.parametrize("reader", ["folder", "pdf", "jsonl", "html"])
def test_a_folder_with_nothing_to_read_is_told(path: Path, tmp_path: Path, reader: str) -> None:
    (tmp_path / "texts" / "harbour.txt").rename(tmp_path / "texts" / "harbour.xyz")
    (told,) = findings(edit(path, ("reader: folder", f"reader: {reader}")), tmp_path)
    assert told.startswith(f"town.yaml:3: the reader `{reader}` finds nothing to read in ")


def test_a_folder_of_which_nothing_can_be_read_is_told_with_a_reason(path: Path, tmp_path: Path) -> None:
    (tmp_path / "texts" / "harbour.txt").rename(tmp_path / "texts" / "harbour.pdf")
    (told,) = findings(edit(path, ("reader: folder", "reader: jsonl")), tmp_path)
    assert "finds nothing to read" in told


def test_evidence_that_is_not_in_the_documents_is_named(make_bench: MakeBench) -> None:
    ferry = "url: 'https://x.example/ferry', quote:"
    questions = (
        "question_set: ferry\nquestions:\n"
        f"  - {{id: there, question: When is it, evidence: [{{{ferry} leaves the harbour at noon}}]}}\n"
        f"  - {{id: gone, question: When is it, evidence: [{{{ferry} it never sinks}}]}}\n"
        "  - {id: nowhere, question: Where is it, evidence: [{url: 'https://x.example/moon'}]}\n"
    )
    bench = make_bench(questions=questions)
    (told,) = lost_evidence(bench.study, bench.home)
    assert "ferry.questions.yaml: 2 of 3 pieces of evidence are not in the documents: gone (" in told
    assert "; nowhere (" in told
    assert "there (" not in told


def test_evidence_is_not_looked_for_where_there_are_no_documents(path: Path, tmp_path: Path) -> None:
    edit(path.with_name("town.questions.yaml"), ("twelve", "thirteen"))
    assert check_study(path, Home(tmp_path / "var")).warnings == []


def test_evidence_that_is_not_there_word_for_word_is_named_with_its_similarity(make_bench: MakeBench) -> None:
    bench = make_bench()
    path = bench.study.path
    questions = path.with_name("ferry.questions.yaml")
    questions.write_text(
        questions.read_text().replace("leaves the harbour at noon", "leaves the harbor at noon")
    )
    warnings = lost_evidence(read_study(path), bench.home)
    assert any(
        "1 of 3 pieces of evidence are not there word for word; the most similar place counts, with its "
        "similarity: 0.98 noon: https://x.example/ferry" in one
        for one in warnings
    ), warnings
    (path.parent / "exam.txt").write_text(
        "When does the ferry leave?=The ferry leaves the harbour at noon\nWho is it?=The mayor of the town\n"
    )
    text = path.read_text().replace(
        "file: ferry.questions.yaml", "file: exam.txt\n    evidence: ground_truth"
    )
    path.write_text(text)
    (similar, placeless) = lost_evidence(read_study(path), bench.home)
    assert "1 of 1 pieces of evidence are not there word for word" in similar
    assert "1 ground truths stand nowhere, so that their questions have no evidence: q-" in placeless


BM25 = "  words: {bm25: {k: 5}}\n"


@pytest.mark.parametrize(
    ("step", "line", "words"),
    [
        ("  words: {bm25: {feedback: {original: 0.5}}}\n", 10, "`feedback` measured as a loss"),
        ("  words: [{keywords: {synonyms: 1}}, {bm25: {}}]\n", 10, "`keywords` measured as a loss"),
        (
            "  words:\n    - bm25: {k: 100}\n    - adaptive:\n        min: 1\n",
            12,
            "`adaptive` measured as a loss",
        ),
        ("  words: [{bm25: {}}, {threshold: {at_least: 0.5}}]\n", 10, "`threshold` measured as a loss"),
        (
            "  words: [{bm25: {}}, {group_by_document: {by: sum}}]\n",
            10,
            "`group_by_document` measured as a loss",
        ),
        ("  words: [{entities: {keywords: any}}, {bm25: {}}]\n", 10, "`entities` measured as a loss"),
        (
            "  words:\n    fuse:\n      of:\n        - dense: {}\n        - bm25:\n"
            "            feedback: {original: 0.6}\n",
            15,
            "`feedback` measured as a loss",
        ),
        ("  words: [{dense: {}}, {graph: {spread: 0.3}}]\n", 10, "`graph` measured as a loss"),
        ("  words: [{hyde: {}}, {dense: {}}]\n", 10, "`hyde` measured as a loss"),
        ("  words: {powerset: [dense, {bm25: {feedback: {original: 0.3}}}]}\n", 10, "`feedback` measured"),
    ],
)
def test_a_step_that_measured_as_a_loss_is_told_with_its_line(
    path: Path, tmp_path: Path, step: str, line: int, words: str
) -> None:
    (warning,) = check_study(edit(path, (BM25, step)), Home(tmp_path / "var")).warnings
    assert warning.startswith(f"{path}:{line}: {words}")
    assert "docs/proof.md" in warning


def test_defaults_and_names_of_steps_are_no_loss(path: Path, tmp_path: Path) -> None:
    """Every step by its defaults, and a retriever that is called as a step is."""
    steps = (
        "  adaptive: [{follow_up: {}}, {time_frame: {}}, {keywords: {}}, {multi_query: {}}, {entities: {}}, "
        "{bm25: {feedback: {}, k: 100}}, {graph: {}}, {threshold: {}}, {adaptive: {}}, {deduplicate: {}}, "
        "{group_by_document: {}}, {recent_first: {}}, {top: {}}, {neighbours: {}}, {document_order: {}}]\n"
        "  keywords: {bm25: {}}\n"
    )
    assert check_study(edit(path, (BM25, steps)), Home(tmp_path / "var")).warnings == []
    filtered = "  words: [{keywords: {by: llm, model: openai/x, synonyms: 1}}, {bm25: {}}]\n"
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        check_study(edit(path, (steps, filtered)), Home(tmp_path / "var"))


def test_labels_that_may_be_good_or_bad_are_told_once_with_line_and_advice(
    path: Path, tmp_path: Path
) -> None:
    rows = ["question,answer,passages,label", *(f"{n}?,At noon.,Noon.,{n % 2}" for n in range(50))]
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    judged = "judges: {near: {similarity: {}}}\n"
    edit(path, ("metrics: [", judged + "judge_cards: {near: {labels: labels.csv}}\nmetrics: ["))
    with pytest.raises(InputError) as caught:
        check_study(path, Home(tmp_path / "home"))
    (found,) = [str(one) for one in caught.value.findings if "labels.csv" in one]
    assert found.startswith(f"{tmp_path}/labels.csv:2: the label of passage, '0', is a number")
    assert "scale: [0, 1]" in found
    edit(path, ("labels: labels.csv", "labels: {file: labels.csv, scale: [0, 1]}"))
    assert check_study(path, Home(tmp_path / "home")).questions == 1


def test_a_question_file_is_no_study(tmp_path: Path) -> None:
    questions = tmp_path / "town.questions.yaml"
    questions.write_text(QUESTIONS)
    for study, named in (("other.yaml", "STUDY"), ("town.yaml", str(tmp_path / "town.yaml"))):
        (tmp_path / study).write_text(STUDY)
        with pytest.raises(InputError) as raised:
            check_study(questions, Home(tmp_path / "var"))
        (finding,) = raised.value.findings
        assert "this is a question file" in finding
        assert f"`assay check {named}`" in finding


def test_parts_that_read_another_language_than_the_documents_are_named_with_their_line(path: Path) -> None:
    thai = "เรือข้ามฟากออกจากท่าเรือตอนเที่ยงและแวะที่เกาะก่อนจะกลับในตอนเย็น ค่าจอดเรือสิบสองปอนด์ต่อคืน"
    (path.parent / "texts" / "harbour.txt").write_text(thai)
    edit(path, ("words: {bm25: {k: 5}}", "words: {bm25: {k: 5}}\n  de: [{bm25: {language: german}}]"))
    others = (
        "  whole: {document: {}}\n  letters: {recursive: {}}\n  e5: {tokens: {size: 16}, tokenizer: "
        "multilingual-e5-small}\n  topics: {semantic: {}, tokenizer: multilingual-e5-small}\nembedders:"
    )
    edit(path, ("embedders:", others))
    found = [one for one in check_study(path, Home(path.parent / "var")).warnings if "100% th" in one]
    expected = {
        6: "sizes count tokens of all-MiniLM-L6-v2",
        10: "all-MiniLM-L6-v2 was trained on English alone",
        15: "`language: german` fits few of the documents",
    }
    assert len(found) == len(expected), "words of `bm25: {}` are read by the language of the documents"
    assert all(any(f"town.yaml:{line}: {text}" in one for one in found) for line, text in expected.items())
    assert found[1].endswith(" (also line 12)"), "a chunking by the same model"
    edit(
        path,
        (
            "  letters: {recursive",
            "  longer: {tokens: {size: 32}}\n  more: {tokens: {size: 48}}\n  letters: {recursive",
        ),
    )
    (sizes,) = [one for one in check_study(path, Home(path.parent / "var")).warnings if "sizes count" in one]
    assert "town.yaml:6: " in sizes
    assert sizes.endswith(" (also lines 8, 9)")
