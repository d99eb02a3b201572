"""`assay init` on a folder of data: the readers that fit, their columns, a BEIR folder's own questions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from rag_assay.crawlers.readers import pages_of
from rag_assay.evals.study.grid import Grid, read_questions_of
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.templates.study_files import write_study
from rag_assay.warehouse.errors import InputError
from tests.orchestration.test_cli import assay

TEXT = "The ferry to the island runs every forty minutes and carries nineteen cars."


def begun(folder: Path, output: Path) -> Study:
    write_study(str(folder), output)
    return read_study(output)


def read(study: Study) -> dict[str, list[str | None]]:
    """Source -> reasons of its pages, None for each that is read."""
    found = {}
    for name, source in Grid([study]).build.sources.items():
        found[name] = [page.reason for page in pages_of(source)]
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    return path


def lines(path: Path, *rows: object) -> None:
    path.parent.mkdir(exist_ok=True)
    text = "\n".join(map(json.dumps, rows)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_documents_alone_are_a_folder(folder: Path, tmp_path: Path) -> None:
    for name in ("a.html", "b.md", "c.pdf", "d.docx"):
        (folder / name).write_text("x")
    (source,) = begun(folder, tmp_path / "s.yaml").sources.values()
    assert source.reader == "folder"


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.jsonl", "a.ndjson.gz", "a.json"]
)
def test_passages_have_the_reader_and_columns_that_fit(folder: Path, tmp_path: Path, name: str) -> None:
    row = {"Key": "k1", "Headline": "Ferry", "Body": TEXT, "Published_At": "2024-05-06", "views": 7}
    if name.endswith((".jsonl", ".ndjson.gz", ".json")):
        lines(folder / name, row)
    elif name == "a.parquet":
        pl.DataFrame([row]).write_parquet(folder / name)
    else:
        data = pl.DataFrame([row]).write_csv(separator="\t" if name == "a.tsv" else ";").encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    study = begun(folder, tmp_path / "s.yaml")
    (source,) = study.sources.values()
    assert source.reader == ("jsonl" if "json" in name else "table")
    wanted = {"text": "Body", "title": "Headline", "id": "Key", "date": "Published_At"}
    assert source.columns == wanted
    (build,) = Grid([study]).build.sources.values()
    (page,) = pages_of(build)
    assert page.body is not None
    assert (json.loads(page.body)["text"], page.fields["id"]) == (TEXT, "k1")


def test_without_a_known_name_the_longest_column_is_the_text(folder: Path, tmp_path: Path) -> None:
    lines(folder / "a.jsonl", {"kind": "note", "analyzer": TEXT}, {"kind": "x", "analyzer": TEXT})
    study = begun(folder, tmp_path / "s.yaml")
    assert [source.columns for source in study.sources.values()] == [{"text": "analyzer"}]


def test_a_mixed_folder_has_a_source_for_each_kind_and_nothing_fails(folder: Path, tmp_path: Path) -> None:
    (folder / "a.md").write_text(TEXT)
    (folder / "b.html").write_text(f"<p>{TEXT}</p>")
    lines(folder / "one.jsonl", {"text": TEXT})
    lines(folder / "two.jsonl", {"body": TEXT})
    (folder / "c.csv").write_text(f"text\n{TEXT}\n")
    (folder / "numbers.csv").write_text("x,y\n1,2\n3,4\n")
    (folder / "package.json").write_text('{"name": "x", "version": "1"}')
    (folder / "picture.png").write_bytes(b"\x89PNG")
    study = begun(folder, tmp_path / "s.yaml")
    found = read(study)
    assert sorted(found) == ["data-html", "data-jsonl", "data-jsonl-2", "data-table", "data-text"]
    assert all(reasons == [None] for reasons in found.values()), found
    text = (tmp_path / "s.yaml").read_text()
    assert "# left out: numbers.csv: no column looks like a text" in text
    assert "# left out: package.json: no column looks like a text" in text


def beir(folder: Path, *splits: str) -> None:
    lines(folder / "corpus.jsonl", {"_id": "1", "text": TEXT}, {"_id": "2", "text": "Another."})
    lines(folder / "queries.jsonl", {"_id": "q1", "text": "ferry"}, {"_id": "q2", "text": "cars"})
    (folder / "qrels").mkdir()
    for number, split in enumerate(splits, 1):
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\nq{number}\t1\t1\n")


@pytest.mark.parametrize(
    ("splits", "asked"), [(("test", "train"), "q1"), (("dev", "train"), "q1"), (("train",), "q1")]
)
def test_a_beir_folder_is_asked_its_own_questions(
    folder: Path, tmp_path: Path, splits: tuple[str, ...], asked: str
) -> None:
    beir(folder, *splits)
    assert write_study(str(folder), tmp_path / "s.yaml") == [tmp_path / "s.yaml"], "no template of questions"
    study = read_study(tmp_path / "s.yaml")
    assert [row["question_id"] for row in read_questions_of(study)] == [asked]
    assert study.metrics[0] == "ndcg@10"
    assert ("use: train" in (tmp_path / "s.yaml").read_text()) == (splits[0] != "train")
    assert read(study) == {"data-pages": [None, None]}


def test_a_beir_corpus_without_grades_has_questions_to_fill_in(folder: Path, tmp_path: Path) -> None:
    lines(folder / "corpus.jsonl", {"_id": "1", "text": TEXT})
    assert len(write_study(str(folder), tmp_path / "s.yaml")) == 2
    assert [source.reader for source in read_study(tmp_path / "s.yaml").sources.values()] == ["beir"]


def test_questions_of_the_template_are_not_asked(folder: Path, tmp_path: Path) -> None:
    (folder / "a.txt").write_text(TEXT)
    study = begun(folder, tmp_path / "s.yaml")
    with pytest.raises(
        InputError, match=r"s\.questions\.yaml:\d+: all questions are still those of the template"
    ):
        read_questions_of(study)
    path = tmp_path / "s.questions.yaml"
    whole = path.read_text()
    path.write_text(
        whole.replace("Replace this by a question that the documents answer.", "How many cars?", 1)
    )
    with pytest.raises(InputError, match=r":\d+: this is still the template's; write the answer"):
        read_questions_of(study)
    path.write_text(path.read_text().replace("Replace this by its answer, in a sentence.", "Nineteen.", 1))
    assert [row["question"] for row in read_questions_of(study)] == ["How many cars?"]


def test_a_folder_with_nothing_to_read_says_so(folder: Path, tmp_path: Path) -> None:
    (folder / "numbers.csv").write_text("x,y\n1,2\n")
    with pytest.raises(InputError, match="holds no file that can be read"):
        write_study(str(folder), tmp_path / "s.yaml")


def test_init_says_whose_questions_are_asked(folder: Path, tmp_path: Path) -> None:
    beir(folder, "test")
    done = assay("init", str(folder), "-o", str(tmp_path / "s.yaml"))
    assert (done.returncode, done.stdout.split()) == (0, [str(tmp_path / "s.yaml")])
    assert "questions of its own" in done.stderr
    assert "write questions" not in done.stderr
    assert assay("check", str(tmp_path / "s.yaml")).returncode == 0


def test_what_no_reader_reads_is_told_by_kind_and_breaks_out_of_no_comment(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "a.txt").write_text(TEXT)
    lines(folder / "b.jsonl", {"text": TEXT})
    for name in ("old.doc", "older.DOC", "notes", "x.\u2028seed: 9", "y.\nseed: 8"):
        (folder / name).write_text(TEXT)
    study = begun(folder, tmp_path / "s.yaml")
    text = (tmp_path / "s.yaml").read_text()
    assert "# left out: 2 x .doc, 1 x " in text
    assert "1 x no suffix" in text
    assert "no reader reads these kinds of files" in text
    assert study.seed == 7


def test_a_broken_line_does_not_hide_the_columns_of_the_others(folder: Path, tmp_path: Path) -> None:
    lines(folder / "b.jsonl", {"_id": "1", "body": TEXT})
    with (folder / "b.jsonl").open("a") as file:
        file.write("\nnot json\n")
    (source,) = begun(folder, tmp_path / "s.yaml").sources.values()
    assert (source.reader, source.columns) == ("jsonl", {"text": "body", "id": "_id"})


def test_what_is_left_out_beyond_ten_is_counted(folder: Path, tmp_path: Path) -> None:
    (folder / "a.txt").write_text(TEXT)
    for number in range(13):
        (folder / f"{number}.csv").write_text("x,y\n1,2\n")
    begun(folder, tmp_path / "s.yaml")
    text = (tmp_path / "s.yaml").read_text()
    assert text.count("# left out: ") == 10
    assert "# … and 3 more" in text
