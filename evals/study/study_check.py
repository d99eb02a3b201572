"""What `assay check` looks at beyond the study file: question files, folders, models, evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from rag_assay.assets.cleaning.folder_language import language_of as folder_language
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.recipes.build_half import absolute
from rag_assay.assets.tokenization.stems import LANGUAGES
from rag_assay.evals.judging.cards.labels import read_labels
from rag_assay.evals.metrics import counts_passages, counts_tokens
from rag_assay.evals.metrics.semantic_similarity import JUDGE as SIMILARITY_MODEL
from rag_assay.evals.metrics.semantic_similarity import SemanticSimilarity
from rag_assay.evals.metrics.token_budget import FEW_CHARACTERS, equal_budget
from rag_assay.evals.question_sets.question_files import short_questions
from rag_assay.evals.question_sets.readers import WrittenSet, read_set
from rag_assay.evals.question_sets.readers.contract import SetFile
from rag_assay.evals.study.chunk_windows import window_of
from rag_assay.evals.study.grid import Grid, read_questions_of, written_questions
from rag_assay.evals.study.registry import GENERATORS, JUDGES
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError, Mistake
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.model_registry import REGISTRY, Model
from rag_assay.warehouse.inference.model_servers import unreachable
from rag_assay.warehouse.validation_errors import Finding, lines_of
from rag_assay.warehouse.yaml_positions import MarkedYaml, Place, load

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home
    from rag_assay.warehouse.registry import Registry
    from rag_assay.warehouse.source import Source

MEASURED = "docs/proof.md"


class _Loss(NamedTuple):
    recipe: str  # its place in `rag_assay.evals`
    applies: Callable[[Any], bool]
    words: str


_LOSSES: Mapping[str, _Loss] = {
    "feedback": _Loss(
        "retrieval.bm25:RelevanceFeedback",
        lambda recipe: recipe.original < 0.85,
        "RM3 with `original: 0.5` lost 0.050 on SciFact and 0.022 on XQuAD; 0.9 lost nothing significant",
    ),
    "keywords": _Loss(
        "query_transforms.keywords:Keywords",
        lambda recipe: recipe.by == "rules" and recipe.synonyms > 0,
        "one synonym for each keyword lost 0.027 on average, and 0.090 on CISI; `synonyms: 0` lost nothing",
    ),
    "entities": _Loss(
        "query_transforms.entities:Entities",
        lambda recipe: recipe.by == "rules" and recipe.keywords != "none",
        "a filter by keywords lost 0.071 on blog posts with tags; `keywords: none` lost nothing",
    ),
    "group_by_document": _Loss(
        "retrieval.passage_steps:GroupByDocument",
        lambda recipe: recipe.by == "sum",
        "sums favour long documents: 0.033 lost on blog posts, 0.055 on news; `by: best` lost nothing",
    ),
    "threshold": _Loss(
        "retrieval.passage_steps:Threshold",
        lambda recipe: recipe.of == "best" and recipe.at_least > 0.4,
        "half of the best BM25 score lost 0.019 on Cranfield; `at_least: 0.3` lost nothing",
    ),
    "graph": _Loss(
        "retrieval.graph:Graph",
        lambda recipe: recipe.spread > 0.15,
        "`spread: 0.3` lost 0.005 on Cranfield behind `dense`; 0.1 lost nothing significant",
    ),
    "hyde": _Loss(
        "query_transforms.hyde:Hyde",
        lambda recipe: recipe.by == "rules",
        "a template gained nothing on any collection (-0.0003 on average); it is a baseline for `by: llm`",
    ),
    "adaptive": _Loss(
        "retrieval.passage_steps:Adaptive",
        lambda recipe: recipe.min is not None and recipe.min < 10,
        "fewer than ten passages lost evidence: 0.102 on average with `min: 1` and `steepest`",
    ),
}


def _found(part: Any, place: Place) -> Iterator[Finding]:
    if isinstance(part, list):
        for number, one in enumerate(part):
            yield from _found(one, (*place, number))
    elif isinstance(part, dict):
        for name, one in part.items():
            # A retriever of the study may have the name of a step.
            loss = _LOSSES.get(name) if isinstance(name, str) and len(place) > 1 else None
            if loss is not None and _is_lost(loss, one):
                text = f"`{name}` measured as a loss of nDCG@10 in these settings: {loss.words} ({MEASURED})"
                yield Finding((*place, name), "measured_loss", text)
            yield from _found(one, (*place, name))


def _is_lost(loss: _Loss, written: Any) -> bool:
    recipe = resolve_name(f"rag_assay.evals.{loss.recipe}")
    try:
        return loss.applies(recipe.model_validate(written or {}))
    except ValidationError:
        return False  # as in `graph: {of: …}`, a retriever; or a mistake, which is told elsewhere


LOOKED_AT = 100  # pages of a source that are tried before it is said that none can be read
NAMED = 10  # pieces of evidence that are named


class CheckedStudy(NamedTuple):
    """A study that can be run, its number of questions, and warnings."""

    study: Study
    questions: int
    warnings: list[str]


def check_study(path: Path, home: Home) -> CheckedStudy:
    errors: list[str] = []
    study, questions = None, []
    try:
        study = read_study(path)
        questions = read_questions_of(study)
    except InputError as error:
        errors += error.findings
    if study is None:
        errors += _mistakes_of_questions(path)
    errors += _mistakes_of_labels(study) if study else []
    marked = _marked(path)
    if marked is not None:
        missing = _missing_code(study) if study else []
        errors += lines_of(marked, [*_models(marked.data), *missing, *_unreadable(study)])
    if errors or study is None:
        raise InputError(*dict.fromkeys(errors))
    remarks: list[Mistake] = []
    if marked is not None:
        losses = _found(marked.data.get("retrievers"), ("retrievers",))
        remarks = lines_of(marked, [*losses, *foreign_documents(study, home)])
    warnings = [*_each_once(remarks), *unequal_contexts(study), *cut_off(study), *lost_evidence(study, home)]
    if short := short_questions((row["question_id"], row["question"]) for row in questions):
        warnings.append(f"{study.path}: {short}")
    return CheckedStudy(study, len(questions), warnings)


def _each_once(remarks: Iterable[Mistake]) -> Iterator[str]:
    """Yield each warning at its first line, with the further lines that it is about."""
    lines: dict[str, list[Mistake]] = {}
    for one in remarks:
        lines.setdefault(one.removeprefix(f"{one.path}:{one.line}: "), []).append(one)
    for first, *others in lines.values():
        numbers = ", ".join(str(one.line) for one in others)
        yield f"{first} (also line{'s' * (len(others) > 1)} {numbers})" if others else str(first)


def unreachable_models(study: Study) -> list[Mistake]:
    marked = _marked(study.path)
    return lines_of(marked, [*_models(marked.data), *_missing_code(study)]) if marked else []


def _marked(path: Path) -> MarkedYaml | None:
    try:
        marked = load(path)
    except InputError:
        return None  # which was told
    return marked if isinstance(marked.data, dict) else None


def _mistakes_of_questions(path: Path) -> list[str]:
    found: list[str] = []
    marked = _marked(path)
    items = marked.data.get("questions") if marked else None
    for item in items if isinstance(items, list) else ():
        file = item.get("file") if isinstance(item, dict) else None
        try:
            where = absolute(file, path.resolve().parent) if isinstance(file, str) else None
            if where is not None and where.is_file():
                read_set(WrittenSet(SetFile(where, "questions"), item.get("format")))
        except InputError as error:
            found += error.findings
    return found


def _mistakes_of_labels(study: Study) -> list[str]:
    found: list[str] = []
    for name, card in study.judge_cards.items():
        try:
            if card.labels is not None:
                read_labels(study.resolve(card.labels.file), study.judges[name].judged_metrics, card.labels)
        except InputError as error:
            found += map(str, error.findings)
    return found


def unequal_contexts(study: Study) -> list[str]:
    metric = study.metric(study.metrics[0])
    sizes = {window_of(one.chunker) for one in study.chunkings.values()}
    if not counts_passages(metric.name) or metric.sees != "passages" or len(sizes) < 2:
        return []
    return [
        f"{study.path}: the first metric, {metric.name}, reads the same number of passages of every "
        f"chunking, of {min(sizes):.0f} tokens as of {max(sizes):.0f}: as many long ones hold more text; "
        "evidence_coverage@2000tokens compares chunkings at an equal length of context"
    ]


# Models ----------------------------------------------------------------------------------------------------


def _models(data: Any) -> list[Finding]:
    return [
        Finding(place, "unreachable_model", reason)
        for place, model, base in _named_models(data, ())
        if (reason := unreachable(model, base))
    ]


def _missing_code(study: Study) -> list[Finding]:
    return [
        Finding(("systems", name, system.kind), "no_module", reason)
        for name, system in study.systems.items()
        if (reason := system.missing())
    ]


def _named_models(part: Any, place: Place) -> Iterator[tuple[Place, str, str | None]]:
    if isinstance(part, list):
        for number, one in enumerate(part):
            yield from _named_models(one, (*place, number))
    if not isinstance(part, dict):
        return
    api = part.get("api")
    asks = (
        place[-1:] in {("enrich",), ("date_by",), ("questions_by",)}
        or (len(place) == 3 and place[0] in _ASKING and _is_chat(_ASKING[str(place[0])].get(str(place[2]))))
        or part.get("by") == "llm"
        or api is not None
    )
    model = part.get("model")
    if asks and isinstance(model, str) and model:
        base = api.get("base") if isinstance(api, dict) else part.get("api_base")
        yield (*place, "model"), model, base if isinstance(base, str) else None
        yield from _further_models(part.get("fallback"), (*place, "fallback"))
    for name, one in part.items():
        if isinstance(name, str):
            yield from _named_models(one, (*place, name))


def _further_models(listed: Any, place: Place) -> Iterator[tuple[Place, str, str | None]]:
    for number, one in enumerate(listed if isinstance(listed, list) else ()):
        model, base = (one.get("model"), one.get("api_base")) if isinstance(one, dict) else (one, None)
        where: Place = (*place, number, *(["model"] if isinstance(one, dict) else []))
        if isinstance(model, str) and model:
            yield where, model, base if isinstance(base, str) else None


_ASKING: dict[str, Registry[Any]] = {"generators": GENERATORS, "judges": JUDGES}


def _is_chat(kind: type | None) -> bool:
    return kind is not None and issubclass(kind, ChatModel)


# Sources ---------------------------------------------------------------------------------------------------


def _unreadable(study: Study | None) -> list[Finding]:
    if study is None:
        return []
    return [
        Finding(("sources", name, "path"), "nothing_to_read", reason)
        for name, source in Grid([study]).build.sources.items()
        if source.reader is not None and (reason := _why_nothing(source))
    ]


def _why_nothing(source: Source) -> str | None:
    from rag_assay.crawlers.readers import pages_of

    reasons: list[str] = []
    try:
        for page in islice(pages_of(source), LOOKED_AT):
            if page.body is not None:
                return None
            reasons.append(f"{page.url}: {page.reason}")
    except (InputError, OSError) as error:
        reasons.append(str(error))
    what = f"the reader `{source.reader}` finds nothing to read in {source.path}"
    return f"{what}; the first of {len(reasons)}: {reasons[0]}" if reasons else what


def cut_off(study: Study) -> list[str]:
    from rag_assay.crawlers.readers import cut

    return [
        f"{study.path}: source {name}: {limit} cuts off the rest of {source.path}"
        for name, source in Grid([study]).build.sources.items()
        if (limit := cut(source))
    ]


# Languages -------------------------------------------------------------------------------------------------

FOREIGN = 1 / 3  # more of the documents in another language than what reads them: told


def document_languages(study: Study, home: Home) -> dict[str, float]:
    """Return two-letter code -> share of the documents, largest first; unbuilt sources by what they say."""
    store = BuildContext(home).store
    shares: Counter[str] = Counter()
    for name, source in Grid([study]).build.sources.items():
        built = store.current("documents", name)
        if built is not None:
            shares.update(built.meta.get("languages", {}))
        elif code := source.language or (folder_language(Path(source.path)) if source.path else None):
            shares[code] += 1
    shares.pop("unknown", None)
    return {code: count / shares.total() for code, count in shares.most_common()}


_TRAINED = (
    "{model} was trained on English alone, and the documents are in other languages ({named}); "
    "multilingual-e5-small reads them"
)
_SIMILAR = (
    "answers are compared by {model}, which was trained on English alone, and the documents are in other "
    "languages ({named}); chrf compares them by letters, in any language"
)
_LONG = (
    "{metric} counts four characters as a token, and in Chinese, Japanese and Korean one has one or two: it "
    "reads so much that pipelines hardly differ; {better} reads about 2,000 tokens of a model"
)
_COUNTED = (
    "sizes count tokens of {model}, which was made for English: in other languages ({named}) they are parts "
    "of words, letters or whole lines; write `tokenizer: multilingual-e5-small`"
)


def _models_of(study: Study) -> Iterator[tuple[Place, Model | None, str]]:
    for name, embedder in study.embedders.items():
        yield ("embedders", name), embedder.registered, _TRAINED
    for name, chunking in study.chunkings.items():
        place, sizes = ("chunkings", name), chunking.chunker.model_dump()
        if {"size", "limit"} & sizes.keys() and sizes.get("unit") != "characters":
            yield place, REGISTRY.get(chunking.tokenizer), _COUNTED
        yield place, REGISTRY.get(chunking.chunker.embedding_model or ""), _TRAINED
    for number, metric in enumerate(study.metrics):
        if metric == SemanticSimilarity.stem:
            yield ("metrics", number), SIMILARITY_MODEL.registered, _SIMILAR


def foreign_documents(study: Study, home: Home) -> Iterator[Finding]:
    from rag_assay.evals.retrieval.bm25 import word_searches

    shares = document_languages(study, home)
    few = {code: share for code, share in shares.items() if code in FEW_CHARACTERS}
    if sum(few.values()) > FOREIGN:
        budget = equal_budget(next(iter(few)))
        for number, metric in enumerate(study.metrics):
            stem, _, tokens = metric.rpartition("@")
            if counts_tokens(metric) and int(tokens.removesuffix("tokens")) > 2 * budget:
                text = _LONG.format(metric=metric, better=f"{stem}@{budget}tokens")
                yield Finding(("metrics", number), "foreign_documents", text)
    named = ", ".join(f"{share:.0%} {code}" for code, share in shares.items() if share >= 0.01)
    for place, model, text in _models_of(study):
        read = model.languages if model else None
        if model and read and sum(share for code, share in shares.items() if code not in read) > FOREIGN:
            yield Finding(place, "foreign_documents", text.format(model=model.name, named=named))
    stems = {LANGUAGES.get(code) for code, share in shares.items() if share > FOREIGN / 2}
    for name, retriever in study.retrievers.items():
        said = {search.language for search in word_searches([retriever]) if search.language}
        if stems and said and said.isdisjoint(stems):
            text = (
                f"`language: {min(said)}` fits few of the documents ({named}); leave it out, and words are "
                "read by the language of the documents"
            )
            yield Finding(("retrievers", name), "foreign_documents", text)


# Evidence --------------------------------------------------------------------------------------------------


def lost_evidence(study: Study, home: Home) -> list[str]:
    from rag_assay.evals.question_sets.evidence_resolution import Resolver

    work = BuildContext(home)
    documents = [work.store.current("documents", source) for source in study.corpus.sources]
    inputs = [artifact for artifact in documents if artifact is not None]
    if len(inputs) < len(documents):
        return []
    from rag_assay.assets.cleaning.corpus import corpus_documents

    columns = corpus_documents(inputs, work).select("doc_id", "source", "url", "text")
    texts = list(columns.iter_rows(named=True))
    grid = Grid([study])
    found = []
    for key in sorted(grid.sets):
        written = written_questions(grid, key)
        resolver = Resolver(texts, written)
        rows = [resolver.resolve(row) for row in written]
        found += [f"{grid.sets[key].path}: {sentence}" for sentence in _of_evidence(written, rows)]
    return found


def _of_evidence(written: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Iterator[str]:
    from rag_assay.evals.question_sets.evidence import (
        ground_truths_without_place,
        similar_evidence,
        without_place,
    )

    n_pieces = sum(len(row["evidence"]) for row in rows)
    missing = [(row["question_id"], item) for row in rows for item in row["evidence"] if item["reason"]]
    if missing:
        named = [f"{question} ({item['reason']}: {item['url']})" for question, item in missing]
        yield f"{len(missing)} of {n_pieces} pieces of evidence are not in the documents: {_few(named)}"
    if similar := similar_evidence(rows):
        what = "are not there word for word; the most similar place counts"
        yield f"{len(similar)} of {n_pieces} pieces of evidence {what}, with its similarity: {_few(similar)}"
    if placeless := without_place(written, rows):
        yield ground_truths_without_place(placeless)


def _few(named: list[str]) -> str:
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return "; ".join(named[:NAMED]) + more
