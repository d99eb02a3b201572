"""Texts in English and in German, looked up by name: those of the app, and of what it shows of a report."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal, get_args

import yaml

from rag_assay.evals.reporting.display import THIN_SPACE, count, listed

Language = Literal["en", "de"]
Texts = Mapping[str, tuple[str, str]]
"""Name of a text -> the text in English and in German, as format strings."""
Words = Callable[..., str]  # (name of a text, values in it) -> the text in a language


REPORTING = "rag_assay.evals.reporting"


@cache
def read_yaml(name: str, package: str = REPORTING) -> Mapping[str, Mapping[str, Any]]:
    text = (files(package) / name).read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, Any]] = yaml.load(text, yaml.CSafeLoader)
    return found


def read_texts(group: str, name: str = "templates/texts.yaml", package: str = REPORTING) -> Texts:
    """Return a group of texts of a YAML file, which has an English and a German one by each name."""
    texts = read_yaml(name, package)[group].items()
    return {key: (english, german) for key, (english, german) in texts}


def words_in(texts: Texts, language: Language) -> Words:
    """Return what looks up texts in a language."""
    return partial(_text, texts, get_args(Language).index(language))


def _text(texts: Texts, at: int, name: str, /, **values: object) -> str:
    language = get_args(Language)[at]
    for key in _TITLED & values.keys():
        values[key] = metric_title(str(values[key]), language)
    return texts[name][at].format(**values)


_TITLED = frozenset({"title", "metric", "quality"})  # what texts call the title of a metric
_METRIC_TITLE = re.compile(r"(.+?)(?: (@) (\d+)| (in) ([\d,]+) tokens)?( \(uncalibrated\))?")


def metric_title(title: str, language: Language) -> str:
    r"""Return the title of a metric in a language; the title as it is, where the metric is none of ours.

    >>> metric_title("Evidence coverage in 2,000 tokens", "de"), metric_title("Hit rate @ 5", "de")
    ('Abdeckung der Belege in 2\u202f000 Tokens', 'Trefferquote @ 5')
    """
    found, german = _METRIC_TITLE.fullmatch(title), read_yaml("templates/texts.yaml")["metrics"]
    if language == "en" or found is None or found[1] not in german:
        return title
    depth = f" @ {found[3]}" if found[2] else ""
    budget = f" in {found[5].replace(',', THIN_SPACE)} Tokens" if found[4] else ""
    return f"{german[found[1]]}{depth}{budget}{' (nicht kalibriert)' if found[6] else ''}"


def several(words: Words, name: str, n: int, **values: object) -> str:
    """Return the text that counts things; that of one thing is called ``name_1``."""
    return words(f"{name}_1" if n == 1 else name, n=count(n), **values)


CHARTS = read_texts("charts")


def listed_in(language: Language, names: Sequence[str], most: int = 3) -> str:
    return listed(names, most, last="und", more="weitere") if language == "de" else listed(names, most)
