"""Sources whose passages are all called 1, 2, … stand in one corpus, and each question finds its own."""

from __future__ import annotations

import json
from pathlib import Path

from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay

STUDY = """\
study: scoped
sources:
  fish: {reader: beir, path: fish}
  birds: {reader: beir, path: birds}
  notes: {reader: jsonl, path: notes}
  letters: {reader: jsonl, path: letters}
corpus: {name: scoped, sources: [fish, birds, notes, letters]}
chunkings:
  document: {document: {}}
embedders:
  minilm: {model: all-MiniLM-L6-v2, max_tokens: 256}
retrievers:
  words: {bm25: {k: 5}}
questions:
  - beir: {path: birds, name: birds}
  - beir: {path: fish, name: fish}
  - file: mine.questions.yaml
metrics: [ndcg@10, recall@10]
"""
QUESTIONS = """\
question_set: mine
questions:
  - id: letter
    question: saddlemaker moved town
    evidence: [{url: "b.jsonl#1", source: letters, quote: The saddlemaker moved}]
  - id: note
    question: lanterns cost nine
    evidence: [{url: "b.jsonl#1", quote: Lanterns cost nine}]
"""


def lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))


def beir(folder: Path, texts: list[str], queries: list[str]) -> None:
    lines(folder / "corpus.jsonl", [{"_id": str(n), "text": text} for n, text in enumerate(texts, 1)])
    asked = [{"_id": f"{folder.name}-{n}", "text": text} for n, text in enumerate(queries, 1)]
    lines(folder / "queries.jsonl", asked)
    graded = [f"{query['_id']}\t{n}\t1" for n, query in enumerate(asked, 1)]
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *graded]))


def test_ids_are_those_of_their_source_and_file(assay_home: Home, tmp_path: Path) -> None:
    beir(tmp_path / "fish", ["Herring swim in shoals.", "Pike wait alone."], ["herring shoals", "pike alone"])
    beir(tmp_path / "birds", ["Storks nest on roofs.", "Owls hunt at night."], ["storks roofs", "owls night"])
    one, two = [
        {"id": n, "text": text} for n, text in ((1, "Lanterns cost nine pounds."), (2, "Rope is sold."))
    ]
    lines(tmp_path / "notes" / "b.jsonl", [one, two])
    lines(tmp_path / "notes" / "a b.jsonl", [{**one, "text": "Candles cost four pounds."}])
    lines(tmp_path / "letters" / "b.jsonl", [{**one, "text": "The saddlemaker moved to town."}])
    (tmp_path / "mine.questions.yaml").write_text(QUESTIONS)
    study = tmp_path / "scoped.yaml"
    study.write_text(STUDY)
    done = assay("run", str(study))
    assert done.returncode == 0, done.stderr
    board = stored_result(read_study(study), assay_home).board
    values = board.filter(board["subset"] == "all")["value"].to_list()
    assert values == [1.0, 1.0], "every question finds the passage of its own folder"
    with connect(assay_home.database) as connection:
        found = connection.execute("SELECT DISTINCT doc_id FROM current_hits ORDER BY doc_id").fetchall()
    ids = {doc for (doc,) in found}
    assert {"birds:1", "fish:1", "notes:b.jsonl#1", "letters:b.jsonl#1"} <= ids
    assay("report", str(study), "--format", "trec", "-o", str(tmp_path / "trec"))
    (run,) = (tmp_path / "trec").glob("*.trec")
    assert all(len(line.split()) == 6 for line in run.read_text().splitlines())


def test_a_corpus_of_one_beir_folder_is_exported_with_its_own_ids(assay_home: Home, tmp_path: Path) -> None:
    beir(tmp_path / "fish", ["Herring swim in shoals.", "Pike wait alone."], ["herring shoals", "pike alone"])
    text = STUDY.replace("[fish, birds, notes, letters]", "[fish]").replace(
        "  - beir: {path: birds, name: birds}\n", ""
    )
    study = tmp_path / "scoped.yaml"
    study.write_text("".join(line for line in text.splitlines(keepends=True) if not _is_other(line)))
    assert assay("run", str(study)).returncode == 0
    assay("report", str(study), "--format", "trec", "-o", str(tmp_path / "trec"))
    (path,) = (tmp_path / "trec").glob("*.trec")
    (qrels,) = (tmp_path / "trec").glob("*.qrels")
    assert qrels.read_text().splitlines() == ["fish-1 0 1 1", "fish-2 0 2 1"]
    ranked = [line.split()[:3] for line in path.read_text().splitlines()]
    assert ["fish-1", "Q0", "1"] in ranked, "as the folder's own qrels name it"
    assert ["fish-2", "Q0", "2"] in ranked


def _is_other(line: str) -> bool:
    return any(word in line for word in ("birds:", "notes:", "letters:", "mine."))
