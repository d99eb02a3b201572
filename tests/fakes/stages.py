"""Two small stages: `letters` writes what it is told, `words` joins the letters that a key needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from rag_assay.assets.engine.stage import BuildContext, BuildResult, Check, PartitionRef, Stage
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import digest


@dataclass
class Letters(Stage):
    """The letter of each key; one in `failing` ends with that error, one in `incomplete` is not whole."""

    name: ClassVar[str] = "letters"
    group: ClassVar[str] = "test"
    description: ClassVar[str] = "A letter a key, in the case that the recipe says."
    checks: ClassVar[dict[str, str]] = {"is_vowel": "The letter is a vowel."}

    texts: dict[str, str]
    recipe: dict[str, str] = field(default_factory=dict)  # "plain" unless said
    failing: dict[str, Exception] = field(default_factory=dict)
    incomplete: set[str] = field(default_factory=set)
    built: list[str] = field(default_factory=list)  # the keys in the order of their builds

    def keys(self) -> list[str]:
        return sorted(self.texts)

    def needs(self, key: str) -> list[PartitionRef]:
        return []

    def recipes(self, key: str) -> dict[str, str]:
        return {f"letter.{key}": digest([self.texts[key].lower(), self.recipe.get(key, "plain")])}

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        self.built.append(key)
        if key in self.failing:
            raise self.failing[key]
        text = self.texts[key].lower()  # so that a changed recipe can give the same content
        (folder / "text.txt").write_text(text)
        check = Check("is_vowel", text in "aeiou", f"{text} is looked at")
        meta = {"length": len(text), "incomplete": "1 of 1 rows failed"}
        return BuildResult(digest(text), meta, (check,), complete=key not in self.incomplete)


@dataclass
class Words(Stage):
    """The letters of several keys, joined."""

    name: ClassVar[str] = "words"
    group: ClassVar[str] = "test"
    description: ClassVar[str] = "Letters joined."
    upstream: ClassVar[tuple[str, ...]] = ("letters",)

    of: dict[str, list[str]]  # word -> the keys of its letters
    sign: str = "-"
    built: list[str] = field(default_factory=list)

    def keys(self) -> list[str]:
        return sorted(self.of)

    def needs(self, key: str) -> list[PartitionRef]:
        return [PartitionRef("letters", letter) for letter in self.of[key]]

    def recipes(self, key: str) -> dict[str, str]:
        return {"sign": digest(self.sign)}

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        self.built.append(key)
        parts = [
            (work.store.folder("letters", artifact.identity) / "text.txt").read_text()
            for artifact in self.inputs(key, work.store)
        ]
        if "x" in parts:
            raise AssayError(f"words of {key}: no word has an x")
        (folder / "text.txt").write_text(self.sign.join(parts))
        return BuildResult(digest(self.sign.join(parts)))
