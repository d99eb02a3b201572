"""Named-entity recognition by spaCy or GLiNER, where one of them is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from rag_assay.evals.retrieval.context import LoadedModels
from rag_assay.evals.retrieval.question_words import MAX_READ
from rag_assay.warehouse.errors import InputError

DEFAULTS = {"spacy": "de_core_news_sm", "gliner": "urchade/gliner_multi-v2.1"}
LABELS = ("person", "organisation", "club", "place", "event", "law", "product")


def tag_entities(name: str, model: str | None, text: str, models: LoadedModels) -> list[tuple[str, str]]:
    """Return (type, text) of the named entities of a text.

    Raises:
        InputError: the package or its weights are not there.
    """
    weights = model or DEFAULTS[name]
    loaded = models.get(load, name, weights)
    if name == "spacy":
        return [(span.label_.lower(), span.text) for span in loaded(text[:MAX_READ]).ents]
    return [(span["label"], span["text"]) for span in loaded.predict_entities(text[:MAX_READ], list(LABELS))]


def load(name: str, weights: str) -> Any:
    """Load a tagger.

    Raises:
        InputError: the package or its weights are not there.
    """
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
