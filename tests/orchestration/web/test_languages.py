"""Every text of the app is there in English and in German, and no other is shown."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from rag_assay.evals import reporting
from rag_assay.evals.reporting.page import read_script
from rag_assay.evals.reporting.question_matrix import LOST_WORDS
from rag_assay.orchestration import web
from rag_assay.orchestration.web.languages import app_texts
from rag_assay.orchestration.web.pages.questions import JOURNEY

FOLDER = Path(web.__file__).parent
SHOWN = {"label", "help", "alt", "placeholder", "title"}
"""Arguments of Streamlit that are texts, beside the first one."""


def tables() -> dict[str, Mapping[str, tuple[str, str]]]:
    """Return every table of texts, of the app and of reports: module and name -> the table."""
    found: dict[str, Mapping[str, tuple[str, str]]] = {}
    seen: set[int] = set()  # one table is imported by several modules
    shown = walk_packages([str(FOLDER)], "rag_assay.orchestration.web.")
    for module in (*shown, *walk_packages(reporting.__path__, "rag_assay.evals.reporting.")):
        if module.name.endswith((".entry.ui", ".web.server")):  # they run
            continue
        for name, value in vars(import_module(module.name)).items():
            is_table = isinstance(value, Mapping) and value and all(map(_is_pair, value.values()))
            if is_table and id(value) not in seen:
                seen.add(id(value))
                found[f"{module.name}:{name}"] = value
    return found


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(one, str) for one in value)


def differing() -> dict[str, str]:
    """Return English texts without values in them -> the German ones, where these are others."""
    every = [pair for table in tables().values() for pair in table.values()]
    german = {de for _, de in every}
    return {en: de for en, de in every if en and en != de and "{" not in en and en not in german}


def test_both_languages_have_every_text_with_the_same_values() -> None:
    found = tables()
    assert sum(map(len, found.values())) > 400
    for place, table in found.items():
        for name, (english, german) in table.items():
            assert "" not in {english.strip(), german.strip()}, (place, name)
            values = [set(re.findall(r"\{(\w+)\}", one)) for one in (english, german)]
            assert values[1] == values[0], (place, name)


def test_charts_and_the_trust_list_have_tables() -> None:
    found = " ".join(tables())
    for name in ("trust:TEXTS", "pair_comparison:TEXTS", "bars:INTERVALS", "texts:CHARTS", "caveats:METHODS"):
        assert name in found


def test_no_text_is_written_where_it_is_shown() -> None:
    """Texts come from the tables: only names of file formats are written in the code."""
    found = {
        text
        for path in FOLDER.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if isinstance(call.func.value, ast.Name) and call.func.value.id in {"st", "place", "context"}
        for value in [*call.args[:1], *(one.value for one in call.keywords if one.arg in SHOWN)]
        for text in _written(value)
    }
    assert found == {"CSV"}


def _written(value: ast.expr) -> Iterator[str]:
    """Yield what a reader would take for words: capitalized, or between tags."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        text = re.sub(r"<style>.*|<[^>]*>", " ", value.value).strip()
        if re.match(r"[A-ZÄÖÜ]", text):
            yield text
    elif isinstance(value, ast.JoinedStr):
        parts = [one.value for one in value.values if isinstance(one, ast.Constant)]
        texts = [re.sub(r"<[^>]*>?|^[^<]*>", " ", str(one)).strip() for one in parts]
        yield from (one for one in texts if re.search(r"[A-Z][a-z]+ |[a-z]{3,} [a-z]", one))


def test_scripts_of_the_rating_page_name_texts_that_there_are() -> None:
    source = "".join(
        path.read_text(encoding="utf-8") for path in (FOLDER / "components/scoring").glob("*.js")
    )
    said = set(re.findall(r'say\("(\w+)"', source))
    said |= {
        name
        for of in re.findall(r"say\(([^()\"]*\? [^()]*)\)", source)
        for name in re.findall(r'"(\w+)"', of)
    }
    counted = set(re.findall(r'count\("(\w+)"', source))
    assert len(said) > 20
    texts = app_texts("annotation")
    assert said | counted | {f"{one}_1" for one in counted} <= set(texts)
    python = "".join(
        (FOLDER / name).read_text() for name in ("annotation/annotation_session.py", "pages/review.py")
    )
    assert [one for one in texts if f'"{one.removesuffix("_1")}"' not in source + python] == []
    assert re.findall(r'(?:aria-label"?|title|placeholder|\{\}): "([A-Z][^"]+)"', source) == []


def test_texts_of_journeys_are_those_of_their_scripts() -> None:
    written = "".join(map(read_script, ("journey_view.js", "journey_table.js")))
    said = set(re.findall(r'say\("([^"]+)"\)', written)) | {"better", "worse", *LOST_WORDS.values()}
    assert said == set(JOURNEY)
