"""Query transform `entities`: finds dates, seasons and names in a question and filters documents by them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import reduce
from importlib.util import find_spec
from operator import and_, or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, StringConstraints, model_validator

from rag_assay.evals.query_transforms.metadata_filters.predicates import (
    IfEmpty,
    Prefilter,
    in_window,
    prefilter_query,
    text_literal,
)
from rag_assay.evals.query_transforms.model_transform import ByModel, quote_input
from rag_assay.evals.query_transforms.rules.named_dates import Dated, day_of, find_dates
from rag_assay.evals.query_transforms.rules.publication_windows import date_spans, relation
from rag_assay.evals.retrieval.gazetteer import SPECIFIC, Gazetteer, entity, learnt
from rag_assay.evals.retrieval.query import Entity, Query, QueryInterpretation
from rag_assay.evals.retrieval.question_words import MAX_READ
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.recipe import Strict

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.context import LoadedModels, RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex

DEFAULTS = {"spacy": "de_core_news_sm", "gliner": "urchade/gliner_multi-v2.1"}
LABELS = ("person", "organisation", "club", "place", "event", "law", "product")


def tag_entities(name: str, model: str | None, text: str, models: LoadedModels) -> list[tuple[str, str]]:
    weights = model or DEFAULTS[name]
    loaded = models.get(load, name, weights)
    if name == "spacy":
        return [(span.label_.lower(), span.text) for span in loaded(text[:MAX_READ]).ents]
    return [(span["label"], span["text"]) for span in loaded.predict_entities(text[:MAX_READ], list(LABELS))]


def load(name: str, weights: str) -> Any:
    if find_spec(name) is None:
        raise InputError(
            f"`tagger: {name}` needs the Python package {name}, which is not installed; "
            "without `tagger`, names are found by the corpus' own keywords"
        )
    try:
        if name == "spacy":
            import spacy  # type: ignore[import-not-found,unused-ignore]

            return spacy.load(weights)
        from gliner import GLiNER  # type: ignore[import-not-found,unused-ignore]

        return GLiNER.from_pretrained(weights, local_files_only=True)
    except OSError as error:
        raise InputError(f"`tagger: {name}` cannot load the weights {weights} ({error})") from error


MOST = 16  # entities that a model may name
_MAX_TOKENS = 400


class NamedEntity(Strict):
    """An entity: its type in one word, and its text as it stands in the question."""

    kind: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=40)]
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]


class EntitiesReply(Strict):
    """The model's reply."""

    entities: Annotated[tuple[NamedEntity, ...], Field(max_length=MOST)]


_Text = Annotated[str, Field(max_length=120)]


class _Read(NamedTuple):
    """An entity of a question, and the record of it."""

    entity: Entity
    known: QueryInterpretation


class Entities(ByModel):
    """Finds entities and keeps the question to documents that fit them.

    Dates are read by dateparser, seasons ("2021/22") are the year from 1 July; names come from the keywords
    of the corpus. Keywords filter by the list that a document carries.

    dates: same_day (within the own day, month or year of one of its dates, or between the two of "from … to
        …") | on_or_after (published on the earliest date of the question, or later) | none; a date after the
        day of asking, or after "before", filters nothing. Default: same_day, or on_or_after where
        `days` is given
    seasons: during (published from 1 July to 30 June) | on_or_after | none
    days: with on_or_after, published at most so many days after the date; None: ever after
    keywords: none | any (documents that carry one of the names) | all (documents that carry all of them).
        Default: none, since a filter never finds a document that lacks the keyword
        (docs/proof.md); any with `by: llm`, so that names that a model was paid for are used
    names: further names by type, for what no keyword says: `{stadium: [Waldstadion]}`
    specific: a single word ("Kohlenbach") stands for a longer keyword ("SV Kohlenbach 07") where at least
        this share of the documents that hold the word carry the keyword
    typos: how alike (0 to 1) a misspelt name must be; 1: none is forgiven
    tagger, tagger_model: none | spacy | gliner, for further types, where that package is installed
    if_empty: relax (drop the keywords, else the dates, else both; with a note) | keep (find nothing)
    """

    code_version: ClassVar[str] = "3"
    kind: ClassVar[str] = "entities"

    dates: Literal["on_or_after", "same_day", "none"] = "same_day"
    seasons: Literal["during", "on_or_after", "none"] = "during"
    days: Annotated[int, Field(ge=0, le=36_500)] | None = None
    keywords: Literal["any", "all", "none"] = "none"
    names: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")],
        Annotated[tuple[_Text, ...], Field(max_length=100_000)],
    ] = Field(default={})
    specific: Annotated[float, Field(ge=0, le=1)] = SPECIFIC
    typos: Annotated[float, Field(ge=0.7, le=1)] = 0.88
    tagger: Literal["none", "spacy", "gliner"] = "none"
    tagger_model: Annotated[str, Field(min_length=1)] | None = None
    if_empty: IfEmpty = "relax"

    @model_validator(mode="before")
    @classmethod
    def _set_dependent_defaults(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        dates = {} if value.get("days") is None else {"dates": "on_or_after"}
        keywords = {"keywords": "any"} if value.get("by") == "llm" else {}
        return {**dates, **keywords, **value}

    def read(self, query: Query, index: OpenIndex, context: RetrievalContext) -> list[Query]:
        if not len(index):
            return [query]
        gazetteer = learnt(index, self.names, self.specific)
        dates = self._dated(query)
        read = [one for _, one in dates if one] + self._kept(query, self._named(query, gazetteer, context))
        query = replace(
            query, entities=tuple(dict.fromkeys((*query.entities, *(one.entity for one in read))))
        )
        days = self._by_days(query, dates, index)
        names = self._by_names(read, index)
        if days and names:
            return [prefilter_query(query, self.kind, [days & names, days, names], self.if_empty)]
        return [prefilter_query(query, self.kind, [one for one in (days, names) if one], self.if_empty)]

    def _kept(self, query: Query, found: list[Entity]) -> list[_Read]:
        read = [
            _Read(one, query.understand(self.kind, one.kind, one.text, one.value, "unused")) for one in found
        ]
        return [one for one in read if one.known.status != "removed"]

    def _dated(self, query: Query) -> list[tuple[Dated, _Read | None]]:
        found: list[tuple[Dated, _Read | None]] = []
        for one in find_dates(query.text, query.asked_at):
            if one.first is None:
                query.remark(self.kind, "not_a_date", one.reason or f"{one.text} is not a date")
                found.append((one, None))
            elif one.kind == "season":
                season = Entity("season", one.text, f"{one.first.year}/{(one.first.year + 1) % 100:02}")
                found += [(one, read) for read in self._kept(query, [season])]
            else:
                day = Entity("date", one.text, one.first.isoformat())
                found += [(one, read) for read in self._kept(query, [day])]
        return found

    def _named(self, query: Query, gazetteer: Gazetteer, context: RetrievalContext) -> list[Entity]:
        text = query.text
        spans: list[tuple[str, str]] = []
        reply = self.ask(query, context, EntitiesReply, quote_input(text), _MAX_TOKENS)
        if reply is not None:
            # A model also names what the question does not: only words of the question count.
            question = text.casefold()
            named = [(one.kind, one.text) for one in reply.entities if one.text.casefold() in question]
            return self._known(query, named, gazetteer)
        if self.tagger != "none":
            spans = tag_entities(self.tagger, self.tagger_model, text, context.models)
        found = [
            entity(one, text, value, gazetteer)
            for one in gazetteer.find(text, self.typos)
            for value in one.values
        ]
        return [*found, *self._known(query, spans, gazetteer)]

    def _known(self, query: Query, spans: list[tuple[str, str]], gazetteer: Gazetteer) -> list[Entity]:
        found: dict[Entity, None] = {}
        for kind, text in spans:
            values = [value for one in gazetteer.find(text, self.typos) for value in one.values]
            for value in values:
                found.setdefault(Entity(gazetteer.kinds.get(value, kind), text, value))
            if not values and not find_dates(text, query.asked_at):
                found.setdefault(Entity(kind.lower(), text, text))
                query.remark(self.kind, "unknown", f"no document of the corpus carries {text!r} as a keyword")
        return list(found)

    def _by_days(
        self, query: Query, dates: list[tuple[Dated, _Read | None]], index: OpenIndex
    ) -> Prefilter | None:
        parts = []
        now = day_of(query.asked_at)
        for one in date_spans(query.text, [dated for dated, _ in dates]):
            mode = self.seasons if one.kind == "season" else self.dates
            if one.first is None or one.last is None or mode == "none" or (now and one.first > now):
                continue  # nothing was published after the day of asking
            if relation(query.text, one) not in {"before", "until"}:
                last = self._last(one.last) if mode == "on_or_after" else one.last
                of = (read.known for dated, read in dates if read and one.start <= dated.start < one.end)
                parts.append(replace(in_window(index, one.first, last, undated=False), of=tuple(of)))
        return reduce(or_, parts) if parts else None

    def _last(self, day: date) -> date | None:
        if self.days is None:
            return None
        return date.fromordinal(min(day.toordinal() + self.days, date.max.toordinal()))

    def _by_names(self, found: list[_Read], index: OpenIndex) -> Prefilter | None:
        if self.keywords == "none":
            return None
        groups: dict[str, list[_Read]] = {}  # words of the question -> what they may mean: any of it will do
        for one in found:
            if one.entity.kind not in {"date", "season"} and one.entity.value in index.carriers:
                groups.setdefault(one.entity.text.casefold(), []).append(one)
        parts = [_carrying(index, group) for group in groups.values()]
        return reduce(and_ if self.keywords == "all" else or_, parts) if parts else None


def _carrying(index: OpenIndex, group: list[_Read]) -> Prefilter:
    values = [one.entity.value for one in group]
    mask = np.zeros(len(index), np.bool_)
    for value in values:
        mask[index.carriers[value]] = True
    listed = ", ".join(text_literal(value) for value in values)
    where = f"(keywords IS NOT NULL AND array_has_any(keywords, make_array({listed})))"
    return Prefilter(mask, where, f"about {' or '.join(values)}", tuple(one.known for one in group))
