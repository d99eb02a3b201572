"""Every mistake of a study file is known by its code and line; the texts of all stand in one golden file.

Write that anew after texts were changed: `GOLDEN=write python -m pytest tests/evals/study/test_mistakes.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from rag_assay.evals.question_sets.question_files import read_yaml
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError, Mistake
from tests.evals.question_sets.test_question_files import MISTAKES as OF_QUESTIONS
from tests.evals.question_sets.test_question_files import written
from tests.fakes.tiny import write_study

GOLDEN = Path(__file__).parents[2] / "golden" / "mistakes.yaml"
HEAD = """\
# What is said of wrong study files and question files: the change that makes a mistake, and what is found.
# Written by `GOLDEN=write python -m pytest tests/evals/study/test_mistakes.py`; read it before you commit it.
"""
LONG_LIST = re.compile(r"'?[\w-]+'?(, '?[\w-]+'?){5,}( or '?[\w-]+'?)?")
Row = tuple[str, str, int, str]


@dataclass(frozen=True)
class Wrong:
    """A study with one mistake.

    old, new: what of its text is replaced; line, code: of the mistake
    base: what was replaced in the tiny study before
    """

    old: str
    new: str
    line: int
    code: str
    base: dict[str, str] = field(default_factory=dict)

    def findings(self, folder: Path) -> list[str]:
        """Return what is said of the study, without the folder."""
        path = write_study(folder, self.base)
        text = path.read_text(encoding="utf-8")
        assert self.old in text
        path.write_text(text.replace(self.old, self.new, 1), encoding="utf-8")
        with pytest.raises(InputError) as caught:
            read_study(path)
        return list(caught.value.findings)

    def __str__(self) -> str:
        return f"{self.old} -> {self.new}"


UNKNOWN_KEYS = [
    ("seed: 7", "sed: 7", 3, "unknown_key"),
    ("reader: folder", "redaer: folder", 5, "unknown_key"),
    ("path: docs}", "path: docs, limits: {page: 3}}", 5, "unknown_key"),
    ("name: ferries", "nmae: ferries", 6, "unknown_key"),
    ("t16: {tokens", "t16: {tokns", 8, "unknown_key"),
    ("size: 16", "siz: 16", 8, "unknown_key"),
    ("{model: all", "{modell: all", 10, "unknown_key"),
    ("{bm25: {k: 5}}", "{bm52: {k: 5}}", 12, "unknown_key"),
    ("dense: {dense: {k", "dense: {dense: {depth", 13, "unknown_key"),
    ("extractive: {extractive", "extractive: {extractve", 15, "unknown_key"),
    ("passages: 2", "passage: 2", 15, "unknown_key"),
    ("- file:", "- fiel:", 17, "unknown_key"),
    ("- file:", "- formt: csv\n    file:", 17, "unknown_key"),
    ("seed: 7", "budget: {eur: 5}", 3, "unknown_key"),
    ("seed: 7", "restrict: {extractive: {chunking: [t16]}}", 3, "unknown_key"),
    ("seed: 7", "path: here", 3, "unknown_key"),
]
UNKNOWN_NAMES = [
    ("sources: [docs]", "sources: [dcos]", 6, "unknown_source"),
    ("reader: folder", "reader: csv", 5, "value_error"),
    ("{k: 5}", "{variant: okapy}", 12, "literal_error"),
    ("ndcg@10", "ndgc@10", 18, "value_error"),
    ("abstention", "abstension", 18, "value_error"),
    ("all-MiniLM-L6-v2", "MiniLM", 10, "value_error"),
    ("overlap: 4}", "overlap: 4}, tokenizer: bert", 8, "value_error"),
    ("seed: 7", "restrict: {extractiv: {sample: 2}}", 3, "unknown_generator"),
    ("seed: 7", "restrict: {extractive: {chunkings: [t61]}}", 3, "unknown_chunking"),
    ("seed: 7", "restrict: {extractive: {embedders: [mini]}}", 3, "unknown_embedder"),
    ("seed: 7", "restrict: {extractive: {retrievers: [bm52]}}", 3, "unknown_retriever"),
]
IMPOSSIBLE_VALUES = [
    ("overlap: 4", "overlap: 16", 8, "value_error"),
    ("size: 16", "size: 4", 8, "greater_than_equal"),
    ("size: 16", "size: many", 8, "int_parsing"),
    ("{k: 5}", "{k: -1}", 12, "greater_than_equal"),
    ("{k: 5}", "{k: 2.5}", 12, "int_from_float"),
    ("{k: 5}", "{k: true}", 12, "int_type"),
    ("{k: 5}", "{b: yes}", 12, "float_type"),
    ("{k: 5}", "{k1: .nan}", 12, "finite_number"),
    ("seed: 7", "seed: false", 3, "int_type"),
    ("max_tokens: 40", "min_score: true", 15, "float_type"),
    ("reader: folder", "reader: text, lines: 1", 5, "bool_type"),
    ("{k: 5}", "{b: 1.5}", 12, "less_than_equal"),
    ("{k: 5}", "{k1: 0}", 12, "greater_than"),
    ("seed: 7", "seed: -7", 3, "greater_than_equal"),
    ("{tokens: {size: 16, overlap: 4}}", "{tokens: {size: 16}, document: {}}", 8, "value_error"),
    ("{tokens: {size: 16, overlap: 4}}", "{}", 8, "value_error"),
    ("{tokens: {size: 16, overlap: 4}}", "16", 8, "model_type"),
    ("  t16: {tokens: {size: 16, overlap: 4}}\n", "", 7, "empty"),
    ("sources: [docs]", "sources: []", 6, "too_short"),
    ("corpus: {name: ferries, sources: [docs]}", "corpus: ferries", 6, "model_type"),
    ("corpus: {name: ferries, sources: [docs]}\n", "", 1, "missing"),
    ("[ndcg@10, evidence", "[ndcg@10, ndcg@10, evidence", 18, "doubled_metric"),
    ("ndcg@10", "ndcg", 18, "value_error"),
    (
        "metrics: [ndcg@10, evidence_coverage@5, abstention, retrieval_latency]",
        "metrics: []",
        18,
        "too_short",
    ),
    (
        "metrics: [ndcg@10, evidence_coverage@5, abstention, retrieval_latency]",
        "metrics: mrr@5",
        18,
        "tuple_type",
    ),
    ("seed: 7", "restrict: {extractive: {retrievers: []}}", 3, "no_cell"),
    ("seed: 7", "restrict: {extractive: {sample: 0}}", 3, "greater_than_equal"),
    ("max_tokens: 40", "min_score: 5", 15, "less_than_equal"),
    ("extractive: {ext", "none: {ext", 15, "kept_name"),
    ("seed: 7", "budget: {usd: -1}", 3, "greater_than_equal"),
    ("- file:", "- format: xlsx\n    file:", 17, "literal_error"),
    ("- file:", "- evidence: all\n    file:", 17, "literal_error"),
    ("- file:", "- language: English\n    file:", 17, "string_pattern_mismatch"),
    ("- file:", "- language: en\n    file:", 17, "value_error"),
    ("- file: ferry.questions.yaml", "- {beir: {path: docs}, name: other}", 17, "value_error"),
    ("seed: 7", "budget: {}", 3, "value_error"),
    ("seed: 7", "clusters: docs", 3, "value_error"),
    ("seed: 7", "clusters: 'ids:('", 3, "value_error"),
    ("seed: 7", "budget: {tokens: 1.5}", 3, "int_from_float"),
    ("seed: 7", "budget: {calls: -1}", 3, "greater_than_equal"),
    ("seed: 7", "budget: {usd: 5, calls: many}", 3, "int_parsing"),
    ("reader: folder, path: docs", "spider: blog", 5, "value_error"),
    ("reader: folder, path: docs", "reader: folder", 5, "value_error"),
    ("reader: folder,", "spider: blog, reader: folder,", 5, "value_error"),
    ("reader: folder, path: docs", "spider: blog, start: [x.org]", 5, "value_error"),
    ("path: docs}", "path: docs, schedule: every monday}", 5, "value_error"),
    ("study: tiny\n", "study: tiny\nschedule: every monday\n", 2, "value_error"),
    ("study: tiny\n", "study: tiny\nschedule: {cron: 0 5 * * 1, on: now}\n", 2, "unknown_key"),
    ("study: tiny", "study: Tiny Study", 1, "string_pattern_mismatch"),
    ("study: tiny", "study: 5", 1, "string_type"),
    ("t16:", "T16:", 8, "bad_name"),
    ("t16:", "t.16:", 8, "bad_name"),
    ("minilm:", "mini|lm:", 10, "bad_name"),
    ("name: ferries", "name: Ferries", 6, "string_pattern_mismatch"),
]
FUSED = "bm25: {bm25: {k: 5}}\n  rrf:\n    fuse:\n      of: [{bm25: {}}, {dense: {}}]\n"
FUSIONS = [
    ("[{bm25: {}}, {dense: {}}]", "[{bm25: {}}]", 15, "too_short"),
    ("{dense: {}}]", "{dens: {}}]", 15, "unknown_key"),
    ("{dense: {}}]", "{dense: {j: 1}}]", 15, "unknown_key"),
    ("{dense: {}}]", "{dense: {}}]\n      weights: [1, 2, 3]", 14, "value_error"),
    ("{dense: {}}]", "{dense: {}}]\n      weights: [1, -2]", 16, "greater_than_equal"),
    ("{dense: {}}]", "{dense: {}}]\n      weights: [1, true]", 16, "float_type"),
    ("{dense: {}}]", "{dense: {}}]\n      weights: [1, .inf]", 16, "finite_number"),
    ("{dense: {}}]", "{dense: {}}]\n      rrf: {k: 0}", 16, "greater_than"),
]
CHAIN = "bm25: {bm25: {k: 5}}\n  chain:\n    - keywords: {}\n    - bm25: {k: 50}\n    - neighbours: {n: 1}\n"
CHAINS = [
    ("neighbours: {n", "neighbors: {n", 16, "unknown_key"),
    ("neighbours: {n: 1}", "neighbours: {m: 1}", 16, "unknown_key"),
    ("neighbours: {n: 1}", "neighbours: {n: 0}", 16, "greater_than_equal"),
    ("bm25: {k: 50}", "top: {k: 50}", 13, "value_error"),
    ("- neighbours: {n: 1}", "- dense: {}", 16, "value_error"),
    ("- neighbours: {n: 1}", "- multi_query: {}", 16, "value_error"),
    ("- keywords: {}", "- top: {}", 14, "value_error"),
    ("- keywords: {}", "- bm25", 14, "model_type"),
    ("- keywords: {}", "- {keywords: {}, entities: {}}", 14, "value_error"),
]
ALL = "bm25: {bm25: {k: 5}}\n  all:\n    powerset: [bm25, dense, recency]\n    fuse: rrf\n    k: 4\n"
POWERSETS = [
    ("[bm25, dense,", "[bm25, dens,", 14, "unknown_key"),
    ("[bm25, dense,", "[bm25, {dense: {k: 0}},", 14, "greater_than_equal"),
    ("[bm25, dense, recency]", "[]", 14, "too_short"),
    ("fuse: rrf", "fuse: rff", 15, "value_error"),
    ("k: 4", "k: 0", 16, "greater_than_equal"),
    ("k: 4", "depht: 4", 16, "unknown_key"),
    ("  all:", "  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:", 13, "value_error"),
    ("  all:", "  all-bm25: {bm25: {}}\n  all:", 14, "value_error"),
    ("seed: 7", "restrict: {extractive: {retrievers: [all]}}", 3, "unknown_retriever"),
]
LLM = "extractive: {extractive: {passages: 2, max_tokens: 40}}\n  llm: {llm: {model: openai/x}}\n"
MODELS = [
    ("openai/x", "gpt-4", 16, "value_error"),
    ("openai/x", "local/smollm", 16, "value_error"),
    ("openai/x", "openai/x, temperature: 3", 16, "less_than_equal"),
    ("openai/x", "openai/x, api_base: 'localhost:8000'", 16, "value_error"),
    ("model: openai/x", "modl: openai/x", 16, "unknown_key"),
    ("openai/x", "", 16, "empty"),
    ("openai/x", "openai/x, prompt: {file: gone.j2}", 16, "no_file"),
    ("openai/x", "openai/x, prompt: {file: docs}", 16, "no_file"),
    ("openai/x", "openai/x, prompt: {language: fr}", 16, "literal_error"),
    ("openai/x", "openai/x, window: 12", 16, "greater_than_equal"),
    ("openai/x", "openai/x, prompt: {domian: ferries}", 16, "unknown_key"),
]

CLOSED = "closed: {no_context: {model: openai/x}}\nrestrict: {closed: {sample: 2}}\n"
REFERENCES = [
    ("sample: 2", "retrievers: [bm25]", 16, "reads_no_ranking"),
    ("sample: 2", "chunkings: [t16]", 16, "reads_no_ranking"),
    ("sample: 2", "embedders: [mini]", 16, "unknown_embedder"),
    ("model: openai/x", "model: openai/x, passages: 5", 15, "less_than_equal"),
]
SMALL = "{yes_no: {model: local/smollm2-135m-instruct}}"
JUDGED = f"extractive: {{extractive: {{}}}}\njudges:\n  small: {SMALL}\nrestrict: {{small: {{sample: 2}}}}\n"
JUDGES = [
    ("yes_no:", "yes_on:", 17, "unknown_key"),
    ("small: {yes", "extractive: {yes", 17, "doubled_name"),
    ("small: {yes", "small.one: {yes", 17, "bad_name"),
    ("model: local", "replicates: 0, model: local", 17, "greater_than_equal"),
    ("model: local", "vote: median, model: local", 17, "literal_error"),
    ("{small: {sample: 2}", "{smal: {sample: 2}", 18, "unknown_generator"),
    ("sample: 2", "generators: [extractiv]", 18, "unknown_generator"),
    ("sample: 2", "generators: []", 18, "no_cell"),
    ("sample: 2", "retrievers: [bm52]", 18, "unknown_retriever"),
    ("sample: 2", "sample: 0", 18, "greater_than_equal"),
    ("{small: {sample: 2}", "{extractive: {generators: [extractive]}", 18, "no_judge"),
    ("{small: {sample: 2}", "{small: {others: rankings}", 18, "no_generator"),
    ("ndcg@10", "smal.supported", 21, "unknown_judge"),
    ("ndcg@10", "small.suported", 21, "unknown_metric"),
    ("ndcg@10", "small.supported, small.supported", 21, "doubled_metric"),
]
LABELLED = (
    JUDGED + "judge_cards:\n  small: {labels: {file: ferry.questions.yaml, scale: [1, 5], good_from: 4}}\n"
)
LABELS = [
    ("small: {labels: {file: ferry", "small: {labels: {file: fery", 20, "no_file"),
    (
        "{labels: {file: ferry.questions.yaml, scale: [1, 5], good_from: 4}}",
        "{labels: no.jsonl}",
        20,
        "no_file",
    ),
    ("scale:", "scael:", 20, "unknown_key"),
    ("file: ferry.questions.yaml, ", "", 20, "missing"),
    ("scale: [1, 5], ", "", 20, "value_error"),
    ("[1, 5]", "[5, 5]", 20, "value_error"),
    ("[1, 5]", "[1, good]", 20, "value_error"),
    ("[1, 5]", "[1, 2, 5]", 20, "too_long"),
    ("[1, 5], good_from: 4", "[no, yes], good_from: 1", 20, "value_error"),
    ("good_from: 4", "good_from: 1", 20, "value_error"),
    ("good_from: 4", "good_from: 7", 20, "value_error"),
    ("good_from: 4", "metrics: {supported: {scale: [1, 1]}}", 20, "value_error"),
]
CELL = "t16.minilm.bm25.extractive"
SCORED = (
    "extractive: {extractive: {}}\nrubrics:\n  points:\n    points:\n      anchors:\n        5: Right\n"
    "        0: Wrong\n  grade: {ordinal: {scale: 5}}\n"
    f"  duel: {{pairwise: {{against: {CELL}}}}}\n  many: {{criteria: {{metrics: [detail]}}}}\n"
    "annotation: {sample: 50, twice: 0.2, repeats: 0.05, order: random}\n"
)
RUBRICS = [
    ("points:\n    points:", "points:\n    pionts:", 18, "unknown_key"),
    ("points:\n    points:", "Points:\n    points:", 17, "bad_name"),
    ("anchors:", "anchor:", 19, "unknown_key"),
    ("        0: Wrong\n", "", 19, "too_short"),
    ("        0: Wrong\n", "        5.0: Wrong\n", 21, "value_error"),
    ("        0: Wrong\n", "        nan: Wrong\n", 21, "value_error"),
    ("        0: Wrong\n", "        .inf: Wrong\n", 21, "value_error"),
    ("        0: Wrong\n", "        true: Wrong\n", 21, "value_error"),
    ("        0: Wrong\n", "        bad: Wrong\n", 21, "value_error"),
    ("0: Wrong", "0:", 21, "empty"),
    ("0: Wrong", "0: 3", 21, "string_type"),
    ("0: Wrong", "0: ''", 21, "string_too_short"),
    ("scale: 5", "scale: 11", 22, "less_than_equal"),
    ("scale: 5", "scale: binary", 22, "int_parsing"),
    ("scale: 5", "scale: 5, anchors: {1: Bad, 6: Good}", 22, "value_error"),
    ("scale: 5", "scale: 5, anchors: {1: Bad, 2: Good}", 22, "value_error"),
    ("scale: 5", "shows_ground_truth: 1", 22, "bool_type"),
    (f"against: {CELL}", "against: t16.minilm.bm52.extractive", 23, "unknown_cell"),
    (f"against: {CELL}", "against: extractive", 23, "string_pattern_mismatch"),
    (f"{{against: {CELL}}}", "{}", 23, "missing"),
    ("[detail]", "[detial]", 24, "literal_error"),
    ("[detail]", "[]", 24, "value_error"),
    ("[detail]", "[detail], criteria: {detail: Good?}", 24, "value_error"),
    ("[detail]", "[], criteria: {Tone of it: Good?}", 24, "bad_name"),
    ("[detail]", "[], criteria: {tone: {ask: Good?, anchors: {1: Bad, 9: Good}}}", 24, "value_error"),
    ("sample: 50", "sample: 0", 25, "greater_than_equal"),
    ("twice: 0.2", "twice: 1.5", 25, "less_than_equal"),
    ("twice: 0.2", "twice: 20", 25, "less_than_equal"),
    ("repeats: 0.05", "repeats: 0", 25, "greater_than_equal"),
    ("repeats: 0.05", "repeats: 0.2", 25, "less_than_equal"),
    ("order: random", "order: easy", 25, "literal_error"),
    ("order: random", "precision: 0", 25, "greater_than"),
    ("order: random", "precision: .nan", 25, "finite_number"),
    ("order: random", "others: rankings", 25, "unknown_key"),
    ("order: random", "rubrics: [points, piont]", 25, "unknown_rubric"),
    ("order: random", "rubrics: []", 25, "no_cell"),
    ("order: random", "cells: []", 25, "no_cell"),
    ("order: random", "cells: [t16.minilm.bm52.extractive]", 25, "unknown_cell"),
    ("order: random", f"cells: [{CELL}], retrievers: [dense]", 25, "no_cell"),
    ("order: random", "retrievers: [bm52]", 25, "unknown_retriever"),
    ("order: random", "generators: []", 25, "no_cell"),
    ("order: random", "judges: [x]", 25, "unknown_key"),
]
BM25 = "bm25: {bm25: {k: 5}}\n"
QUOTES = "extractive: {extractive: {passages: 2, max_tokens: 40}}\n"


def wrong(rows: list[Row], base: dict[str, str] | None = None) -> list[Wrong]:
    return [Wrong(*row, base or {}) for row in rows]


OF_STUDIES = [
    *wrong(UNKNOWN_KEYS + UNKNOWN_NAMES + IMPOSSIBLE_VALUES),
    *wrong(FUSIONS, {BM25: FUSED}),
    *wrong(CHAINS, {BM25: CHAIN}),
    *wrong(POWERSETS, {BM25: ALL}),
    *wrong(MODELS, {QUOTES: LLM}),
    *wrong(REFERENCES, {QUOTES: CLOSED}),
    *wrong(JUDGES, {QUOTES: JUDGED}),
    *wrong(LABELS, {QUOTES: LABELLED}),
    *wrong(RUBRICS, {QUOTES: SCORED}),
    Wrong("seed: 7", "annotation: {sample: 50}", 3, "no_rubrics"),
    Wrong("small: {yes", "people: {yes", 17, "kept_name", {QUOTES: JUDGED}),
    Wrong(
        "generators:\n  extractive: {extractive: {passages: 2, max_tokens: 40}}\n",
        "rubrics:\n  points: {points: {}}\n",
        15,
        "no_generators",
    ),
    Wrong("ndcg@10", "small.supported", 18, "unknown_judge"),
    Wrong(
        "generators:\n  extractive: {extractive: {passages: 2, max_tokens: 40}}\n",
        f"judges:\n  small: {SMALL}\n",
        15,
        "no_generators",
    ),
]


def known_by(findings: list[str]) -> list[tuple[int, str]]:
    """Return line and code of each."""
    assert all(isinstance(one, Mistake) for one in findings), findings
    return [(one.line, one.code) for one in findings if isinstance(one, Mistake)]


FoundIn = Callable[[Wrong], tuple[Path, list[str]]]


@pytest.fixture(scope="module")
def found_in(tmp_path_factory: pytest.TempPathFactory) -> FoundIn:
    """Study -> its folder and its findings: each study is read once."""
    known: dict[str, tuple[Path, list[str]]] = {}

    def found(study: Wrong) -> tuple[Path, list[str]]:
        if str(study) not in known:
            folder = tmp_path_factory.mktemp("mistake")
            known[str(study)] = folder, study.findings(folder)
        return known[str(study)]

    return found


@pytest.mark.parametrize("study", OF_STUDIES, ids=lambda study: str(study)[:60])
def test_a_mistake_is_known_by_its_line_and_code(found_in: FoundIn, study: Wrong) -> None:
    folder, found = found_in(study)
    assert known_by(found).count((study.line, study.code)) == 1, found
    assert all(one.startswith(f"{folder}/tiny.yaml:") for one in found)


def test_the_texts_of_all_mistakes_are_those_of_the_golden_file(found_in: FoundIn, tmp_path: Path) -> None:
    said: dict[str, list[str]] = {}
    for study in OF_STUDIES:
        folder, found = found_in(study)
        said[str(study)] = told(found, folder)
    for number, (text, _, _) in enumerate(OF_QUESTIONS, start=len(OF_STUDIES)):
        (folder := tmp_path / str(number)).mkdir()
        with pytest.raises(InputError) as caught:
            read_yaml(written(folder, text))
        said[text] = told(list(caught.value.findings), folder)
    assert len(said) == len(OF_STUDIES) + len(OF_QUESTIONS)
    if os.environ.get("GOLDEN") == "write":
        text = yaml.safe_dump(said, allow_unicode=True, width=1000, sort_keys=False)
        GOLDEN.write_text(HEAD + text, encoding="utf-8")
    golden = yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))
    assert said == golden, "read the texts; if they are meant, write the golden file as its head says"


def told(findings: list[str], folder: Path) -> list[str]:
    """Return `code | file:line: text` of each; lists of all parts, to which others are added, are cut off."""
    return [
        f"{code} | {LONG_LIST.sub('…', one.replace(f'{folder}/', ''))}"
        for one, (_, code) in zip(findings, known_by(findings), strict=True)
    ]
