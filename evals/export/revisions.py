"""What an export was made with (code, libraries, weights, prompts, data), and the answers it should give."""

from __future__ import annotations

import json
import math
import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import polars as pl

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.tokenization.tokenizer import weights_of
from rag_assay.evals.export.recipe import ExportedRecipe, map_texts
from rag_assay.evals.generation.answer_prompt import Prompts
from rag_assay.evals.generation.contract import Generator
from rag_assay.evals.pipeline.stage_inputs import read_questions, sampled_questions
from rag_assay.evals.study.cells import NO_GENERATOR, Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.atomic_write import write_file
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import bounded_lines, check_regular, read_bounded
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference import models, weights
from rag_assay.warehouse.inference.model_servers import LOCAL
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status

MODELS, PROMPTS = "models", "prompts"
_HELD = re.compile(rf"(?:{MODELS}|{PROMPTS})/[^/\\]+")
_SIGNED_IN = re.compile(r"\w+://[^\s/]*@")
_SAFE = {".json", ".txt", ".safetensors", ".model"}  # what loads a model and is no program and no pickle
Kind = Literal["registry", "hub", "folder", "server"]
Written = dict[str, Any]


@dataclass(frozen=True)
class Used:
    """A model that a recipe names; weights: their digest, None of a server's"""

    name: str
    kind: Kind
    weights: str | None


def used_models(written: Written) -> list[Used]:
    found = {}
    for key, value, beside in _texts(written):
        if key == "model" or (key == "tokenizer" and _is_weights(value)):
            used = _used(value, beside if key == "model" else {})
            found[used.name, used.kind] = used
    return list(found.values())


def _used(name: str, beside: Written) -> Used:
    if name.startswith(LOCAL):
        return Used(name, "registry", models.digest(name.removeprefix(LOCAL)))
    if beside.get("api"):
        return Used(name, "server", None)
    if _is_path(name):
        return Used(name, "folder", _folder_digest(Path(name)))
    plain, _, commit = name.partition("@")
    revision = beside.get("revision") or commit or None
    registered = weights.registered(plain, revision)
    if registered:
        return Used(registered, "registry", models.digest(registered))
    return Used(name, "hub", digest(["hub", plain, revision])) if revision else Used(name, "server", None)


def _is_weights(tokenizer: str) -> bool:
    return "/" in tokenizer or _is_path(tokenizer) or weights.registered(tokenizer, None) is not None


def _folder_digest(folder: Path) -> str:
    return weights.identity(str(folder.expanduser().resolve()))


# Written ---------------------------------------------------------------------------------------------------


def relocate_recipe(written: Written, base: Path) -> tuple[Written, dict[str, Path]]:
    held: dict[str, Path] = {}

    def moved(key: str, value: str) -> str:
        if key == "file" and value:
            name, path = f"{PROMPTS}/{Path(value).name}", base / Path(value).expanduser()
        elif key in {"model", "tokenizer"} and _is_path(value):
            path = (base / Path(value).expanduser()).resolve()
            name = f"{MODELS}/{path.name}-{_folder_digest(path)[:8]}"
        elif value.startswith(("/", "~/")) and Path(value).expanduser().exists():
            raise InputError(f"`{key}: {value}` is a path of this machine, which an export cannot hold")
        else:
            return value
        held[name] = path
        return name

    return map_texts(written, moved), held


def refuse_credentials(written: Written) -> None:
    for address in servers(written):
        parts = urlsplit(address)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InputError(
                f"the address of a model server holds credentials ({parts.scheme}://…@{parts.hostname}…), "
                "and an export holds none: let the key come from the environment"
            )


def copy_models(used: list[Used], held: dict[str, Path], target: Path, home: Home) -> None:
    for one in used:
        if one.kind == "registry":
            name = one.name.removeprefix(LOCAL)
            source = models.fetch(name, home)
            for path in models.get(name).files:
                _copy(source / path, target / MODELS / name / path)
    for name, source in held.items():
        if name.startswith(f"{MODELS}/"):
            files = [path for path in sorted(source.rglob("*")) if path.is_file() and path.suffix in _SAFE]
            if not any(path.suffix == ".safetensors" for path in files):
                raise InputError(f"{source}: has no safetensors file; pickled weights are not exported")
            for file in files:
                _copy(file, target / name / file.relative_to(source))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


# Read ------------------------------------------------------------------------------------------------------


def located(written: Written, folder: Path, home: Home, known: list[Written]) -> Written:
    expected = {one.get("name"): one.get("weights") for one in known}

    def placed(key: str, value: str) -> str:
        if key == "file":
            return str(_inside(value, PROMPTS, folder))
        if key not in {"model", "tokenizer"} or not (_is_path(value) or value.startswith(f"{MODELS}/")):
            return value
        inside = _inside(value, MODELS, folder)
        for place in (home.models / inside.name, inside):
            if place.is_dir() and _is_safe(place) and _folder_digest(place) == expected.get(value):
                return str(place)
        raise InputError(
            f"{folder}: the weights {inside.name} are neither in {home.models} nor in {folder / MODELS}, as "
            "they were measured; copy them there, or export with --with-models"
        )

    return map_texts(written, placed)


def bring_models(used: list[Used], folder: Path, home: Home) -> None:
    for one in used:
        if one.kind == "registry":
            name = one.name.removeprefix(LOCAL)
            if (folder / MODELS / name).is_dir():
                models.fetch(name, home, copy=folder / MODELS)


def servers(written: Written) -> list[str]:
    named = ((key in {"api_base", "base"}, value) for key, value, _ in _texts(written))
    return list(dict.fromkeys(value for is_address, value in named if is_address or _SIGNED_IN.match(value)))


def _inside(value: str, room: str, folder: Path) -> Path:
    if not _HELD.fullmatch(value) or not value.startswith(f"{room}/") or Path(value).name in {".", ".."}:
        raise InputError(f"{folder}: names {value!r}, which is not in its {room}/; an export names no other")
    return folder / value


def _is_safe(folder: Path) -> bool:
    return all(path.suffix in _SAFE for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")


def _is_path(name: str) -> bool:
    return name.startswith((".", "/", "~"))


def _texts(value: object, key: str = "", beside: Written | None = None) -> Iterator[tuple[str, str, Written]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _texts(one, str(name), value)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one, key, beside)
    elif isinstance(value, str):
        yield key, value, beside or {}


QUESTIONS = "questions.jsonl"
MOST_LINE = 2_000_000  # bytes
MOST_LINES = 100_000
_CITED = ("marker", "sentence", "chunk_id", "doc_id", "start", "end")
_RELATIVE = 1e-5  # of a score: another machine adds floating-point numbers in another order

Row = dict[str, Any]


@dataclass(frozen=True)
class ExpectedResult:
    """What was measured of one question; passages: chunk_id, start, end and score, in order.

    question: text, language, day and conversation; answer: status, text, chunk_ids and citations; None: not
        asked
    """

    question: Row
    status: str
    passages: tuple[Row, ...]
    answer: Row | None


def measured(study: Study, cell: Cell, work: BuildContext, most: int | None = None) -> list[ExpectedResult]:
    grid = Grid([study])
    ranking = work.store.current("rankings", cell.ranking)
    sets = [work.store.current("questions", key) for key in grid.set_keys(study.study)]
    if ranking is None or None in sets:
        raise InputError(f"{cell.key} was not asked yet; run `assay run {study.path}` first")
    questions = read_questions([one for one in sets if one], work)
    asked = sampled_questions(study, cell, questions)
    chosen = _spread(asked.to_dicts(), most)
    ids = [row["question_id"] for row in chosen]
    folder = work.store.folder("rankings", ranking.identity)
    ranked = {row["question_id"]: row for row in _rows(folder / "ranked.parquet", ids)}
    hits: dict[str, list[Row]] = {}
    for row in _rows(folder / "hits.parquet", ids, sort=("question_id", "rank")):
        hit = {name: row[name] for name in ("chunk_id", "start", "end", "score")}
        hits.setdefault(row["question_id"], []).append(hit)
    answers = _answers(cell, ids, work)
    return [
        ExpectedResult(
            {name: row[name] for name in ("question_id", "question", "language", "asked_at", "conversation")},
            ranked[row["question_id"]]["status"],
            tuple(hits.get(row["question_id"], ())),
            answers.get(row["question_id"]),
        )
        for row in chosen
        if row["question_id"] in ranked
    ]


def _spread(rows: list[Row], most: int | None) -> list[Row]:
    """Return so many rows, at even distances."""
    if most is None or most >= len(rows):
        return rows
    return [rows[place * len(rows) // most] for place in range(most)]


def _answers(cell: Cell, ids: list[str], work: BuildContext) -> dict[str, Row]:
    artifact = None if cell.generator == NO_GENERATOR else work.store.current("answers", cell.key)
    if artifact is None:
        return {}
    path = work.store.folder("answers", artifact.identity) / "answers.parquet"
    return {row["question_id"]: answer_record(row) for row in _rows(path, ids)}


def answer_record(row: Mapping[str, Any]) -> Row:
    return {
        "status": str(row["status"]),
        "text": row["answer"],
        "chunk_ids": list(row["chunk_ids"] or ()),
        "citations": [{name: one[name] for name in _CITED} for one in row["citations"] or ()],
    }


def _rows(path: Path, ids: list[str], sort: tuple[str, ...] = ()) -> Iterator[Row]:
    found = read_parquet(path).filter(pl.col("question_id").is_in(ids))
    return (found.sort(*sort) if sort else found).iter_rows(named=True)


# Files -----------------------------------------------------------------------------------------------------


def write_expected(expected: Sequence[ExpectedResult], folder: Path) -> None:
    lines = (json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in expected)
    write_file(folder / QUESTIONS, "".join(lines))


def read_expected(folder: Path) -> list[ExpectedResult]:
    path = folder / QUESTIONS
    if not path.exists():
        return []
    check_regular(path)
    found = []
    with path.open("rb") as file:
        for number, line in bounded_lines(file, MOST_LINE, b"\r\n"):
            if line is None or number > MOST_LINES:
                raise InputError(f"{path}:{number}: is too long, or one line too many")
            try:
                found.append(_expected(json.loads(line)))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise InputError(f"{path}:{number}: is not a question of an export ({error})") from error
    return found


def _expected(record: Row) -> ExpectedResult:
    question, answer = record["question"], record["answer"]
    if not isinstance(question["question"], str) or not isinstance(question["question_id"], str):
        raise TypeError("a question is text")
    if answer is not None and not isinstance(answer["status"], str):
        raise TypeError("a status is text")
    kinds = {"chunk_id": str, "start": int, "end": int, "score": float}
    passages = tuple({name: kind(one[name]) for name, kind in kinds.items()} for one in record["passages"])
    return ExpectedResult(dict(question), str(Status(record["status"])), passages, answer)


# Comparing -------------------------------------------------------------------------------------------------


def unlike(expected: ExpectedResult, found: ExpectedResult) -> str | None:
    if found.status != expected.status:
        return f"its search ended as {found.status}, and not as {expected.status}"
    spans = [_span(one) for one in found.passages]
    measured_spans = [_span(one) for one in expected.passages]
    if spans != measured_spans:
        both = zip(spans, measured_spans, strict=False)
        place = next((n for n, (one, other) in enumerate(both, 1) if one != other), None)
        where = (
            f"passage {place}" if place else f"{len(spans)} passages, and not {len(measured_spans)}: the end"
        )
        return f"{where} is another one"
    for place, (one, other) in enumerate(zip(found.passages, expected.passages, strict=True), 1):
        if not math.isclose(one["score"], other["score"], rel_tol=_RELATIVE, abs_tol=_RELATIVE):
            return f"passage {place} scores {one['score']:.6g}, and not {other['score']:.6g}"
    for name in ("status", "text", "chunk_ids", "citations") if expected.answer and found.answer else ():
        if (found.answer or {}).get(name) != (expected.answer or {}).get(name):
            return f"the answer's {name} is another one"
    return "it has no answer" if expected.answer and not found.answer else None


def _span(passage: Row) -> tuple[str, int, int]:
    return passage["chunk_id"], passage["start"], passage["end"]


REVISIONS = "revisions.json"
MOST_BYTES = 5_000_000
LIBRARIES = ("lancedb", "polars", "pyarrow", "numpy", "sentence-transformers", "tokenizers", "torch")
"""Those whose code is between a question and its answer, beside our own."""

Revisions = dict[str, Any]


def prompt_files(generator: Generator | None) -> dict[str, str]:
    found: dict[str, str] = {}
    prompts = [getattr(generator, "prompts", None)]
    task = getattr(generator, "task", None)
    prompts += [task(name) for name in getattr(generator, "tasks", ())] if task else []
    for one in prompts:
        if isinstance(one, Prompts):
            found.update({name: template.text for name, template in one.files().items()})
    return found


def results_hang_on(recipe: ExportedRecipe) -> Revisions:
    generator, embedder = recipe.generator, recipe.embedder
    found: Revisions = {
        "retriever": recipe.retriever.all_versions(),
        "embedder": [embedder.query_revision(), embedder.passage_revision()],
        "tokenizer": weights.identity(*weights_of(recipe.tokenizer)),
    }
    if generator is not None:
        found["generator"] = [*generator.all_versions(), *generator.dependencies(recipe.seed, embedder)]
    return found


def revisions_of(recipe: ExportedRecipe, used: list[Used], data: Revisions) -> Revisions:
    return {
        "rag-assay": _version("rag-assay"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": libraries(),
        "results_hang_on": results_hang_on(recipe),
        "models": list(map(asdict, used)),
        "data": data,
    }


def libraries() -> dict[str, str | None]:
    return {name: _version(name) for name in LIBRARIES}


def write_revisions(found: Revisions, folder: Path) -> None:
    write_file(folder / REVISIONS, json.dumps(found, indent=1, ensure_ascii=False))


def read_revisions(folder: Path) -> Revisions:
    path = folder / REVISIONS
    try:
        found = json.loads(read_bounded(path, MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read ({error}); export again") from error
    shapes = {"libraries": dict, "results_hang_on": dict, "models": list, "data": dict}
    known = found if isinstance(found, dict) else {}
    is_ours = all(isinstance(known.get(name), kind) for name, kind in shapes.items())
    if not is_ours or any(not isinstance(one, dict) for one in found["models"]):
        raise InputError(f"{path}: is not a record of an export; export again")
    return dict(found)


def differences(recipe: ExportedRecipe, known: Revisions) -> list[str]:
    now = results_hang_on(recipe)
    measured = known["results_hang_on"]
    return [
        f"the {name} is another one here than in the export: its code, its weights, its prompts or its server"
        for name in now
        if json.loads(json.dumps(now[name])) != measured.get(name)
    ]


def other_libraries(known: Revisions) -> list[str]:
    """Return `NAME 1.0 (measured with 0.9)` for each library that has another version here."""
    measured = known["libraries"]
    return [
        f"{name} {here} (measured with {measured.get(name)})"
        for name, here in libraries().items()
        if measured.get(name) != here
    ]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
