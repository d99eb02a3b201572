"""The JSON Schema of study files accepts what `assay check` accepts, and marks wrong keys and types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_names import BUNDLED
from rag_assay.evals.study.study_schema import study_schema
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.yaml_positions import load
from tests.fakes.commands import assay

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "evals" / "studies" / "demo.yaml"
EXAMPLE = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
PLACEHOLDER = re.compile(r"\$\{[^}]*\}")


@pytest.fixture(scope="module")
def schema() -> Draft7Validator:
    found = study_schema()
    Draft7Validator.check_schema(found)
    return Draft7Validator(found)


def as_json(path: Path, text: str) -> Any:
    return json.loads(json.dumps(load(path, text).data, default=str))


def mistakes(schema: Draft7Validator, data: Any) -> list[str]:
    return [f"{list(error.absolute_path)}: {error.message}" for error in schema.iter_errors(data)]


def test_bundled_studies_fit(schema: Draft7Validator) -> None:
    for path in sorted((ROOT / "evals" / "studies").glob("*.yaml")):
        text = PLACEHOLDER.sub("folder", path.read_text())
        assert mistakes(schema, as_json(path, text)) == [], path.name
    assert BUNDLED


def test_examples_of_the_docs_fit(schema: Draft7Validator) -> None:
    keys = schema.schema["definitions"]["Study"]["properties"].keys()
    found = 0
    for page in sorted((ROOT / "docs").glob("*.md")):
        for text in EXAMPLE.findall(page.read_text()):
            try:
                data = as_json(page, PLACEHOLDER.sub("folder", text))
            except InputError:
                continue  # several documents, or a file of another kind
            if (
                "{KIND:" in text
                or not isinstance(data, dict)
                or not keys & data.keys()
                or not data.keys() <= keys
            ):
                continue
            found += 1
            said = [one for one in mistakes(schema, data) if "is a required property" not in one]
            assert said == [], f"{page.name}: {text}"
    assert found > 20, "examples are found"


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every mapping in a study."""
    if isinstance(value, dict):
        yield place
    for key, one in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(one, (*place, key))


def inserted(value: Any, place: tuple[Any, ...], key: str) -> Any:
    """Return a copy with a key of a wrong name at a place."""
    copy = json.loads(json.dumps(value))
    there = copy
    for one in place:
        there = there[one]
    there[key] = {"no": "such thing"}
    return copy


def test_a_wrong_key_is_marked_wherever_the_check_refuses_it(schema: Draft7Validator, tmp_path: Path) -> None:
    """At every mapping of the demo; but names that a user chooses are no keys."""
    data = as_json(DEMO, DEMO.read_text())
    wrong = "not a name!"
    tried = 0
    for place in places(data):
        changed = inserted(data, place, wrong)
        path = tmp_path / "study.yaml"
        path.write_text(json.dumps(changed))
        with pytest.raises(InputError) as caught:
            read_study(path)
        assert any(wrong in str(one) or "exactly one" in str(one) for one in caught.value.findings), place
        assert mistakes(schema, changed), f"the schema accepts a wrong key at {place}"
        tried += 1
    assert tried > 40


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed: 7", "seed: soon"),
        ("seed: 7", "seed: -1"),
        ("ndcg@10", "nDCG@10"),
        ("prefer: cost", "prefer: glory"),
    ],
)
def test_wrong_values_are_marked(schema: Draft7Validator, old: str, new: str) -> None:
    text = f"{DEMO.read_text()}\nprefer: cost\n"
    assert mistakes(schema, as_json(DEMO, text)) == []
    assert old in text
    assert mistakes(schema, as_json(DEMO, text.replace(old, new)))


def test_descriptions_and_defaults_come_from_the_components(schema: Draft7Validator) -> None:
    dense = schema.schema["definitions"]["Dense"]
    assert dense["description"]
    assert dense["properties"]["k"]["default"] == 10
    study = schema.schema["definitions"]["Study"]["properties"]
    assert "0.02 of its range" in study["margin"]["description"]


def test_init_names_the_schema_for_editors(
    schema: Draft7Validator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "project" / "var"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "one.md").write_text("# Ferry\n\nThe ferry leaves at noon.\n")
    study = tmp_path / "project" / "study.yaml"
    done = assay("init", str(tmp_path / "docs"), "-o", str(study), "--questions", "template")
    assert done.returncode == 0, done.stderr
    first = study.read_text().partition("\n")[0]
    assert first == "# yaml-language-server: $schema=var/study.schema.json"
    assert json.loads((tmp_path / "project" / "var" / "study.schema.json").read_text()) == schema.schema
    assert mistakes(schema, as_json(study, study.read_text())) == []
    printed = assay("schema")
    assert json.loads(printed.stdout) == schema.schema
