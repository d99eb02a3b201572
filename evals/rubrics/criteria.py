"""Several criteria, each scored by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from rag_assay.evals.judging.criteria import Preset
from rag_assay.evals.judging.prompt_files import Language, accept_text, check_names, wording
from rag_assay.evals.rubrics.ordinal import check_grades
from rag_assay.evals.rubrics.rubric import Anchors, Criterion, Rubric, Wording, graded
from rag_assay.warehouse.recipe import Strict, error_at

Scale = Annotated[int, Field(ge=2, le=10)] | Literal["binary"]
CriterionName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
MOST_CRITERIA = 12
_MET: Mapping[Language, tuple[str, str]] = {"en": ("Yes", "No"), "de": ("Ja", "Nein")}
_ENDS: Mapping[Language, tuple[str, str]] = {"en": ("Fully", "Not at all"), "de": ("Völlig", "Gar nicht")}


class WordedCriterion(Strict):
    """A criterion in a study's own words; a high value is good.

    ask: question to the annotator
    scale: grades from 1 to this, or `binary`: 1 or 0; default: the rubric's
    anchors: value -> its meaning; of grades, at least the lowest and the highest
    """

    ask: Wording
    scale: Scale | None = None
    anchors: Anchors | None = None


Worded = Annotated[WordedCriterion, BeforeValidator(accept_text)]


class CriteriaRubric(Rubric):
    """Scores an answer by several criteria, ours or a study's, as the judge of that name does.

    metrics: built-in criteria: correctness, relevance, conciseness, helpfulness, detail
    criteria: your own, name to wording, or to a mapping of `ask`, `scale` and `anchors`
    scale: grades from 1 to this; or binary: met (1) or not (0)
    language: of the built-in wording, en | de
    """

    model_config = ConfigDict(serialize_by_alias=True)

    kind: ClassVar[str] = "criteria"

    metrics: tuple[Preset, ...] = ("correctness", "relevance", "conciseness")
    own: Annotated[
        dict[CriterionName, Worded], Field(default_factory=dict, max_length=MOST_CRITERIA, alias="criteria")
    ]
    scale: Scale = 5
    language: Language = "en"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        check_names(self.metrics, self.own, "criteria")
        for name, one in self.own.items():
            if one.anchors is not None:
                _check(name, self._scale_of(one), one.anchors)
        return self

    def _scale_of(self, one: WordedCriterion) -> Scale:
        return self.scale if one.scale is None else one.scale

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        ours = [
            Criterion(name, wording("criteria", name, self.language), self._anchors(self.scale))
            for name in self.metrics
        ]
        return (*ours, *(self._worded(name, one) for name, one in self.own.items()))

    def _worded(self, name: str, one: WordedCriterion) -> Criterion:
        scale = self._scale_of(one)
        anchors = one.anchors or self._anchors(scale)
        return Criterion(name, one.ask, anchors if scale == "binary" else graded(scale, anchors))

    def _anchors(self, scale: Scale) -> dict[float, str]:
        if scale == "binary":
            return dict(zip((1.0, 0.0), _MET[self.language], strict=True))
        best, worst = _ENDS[self.language]
        return graded(scale, {1.0: worst, float(scale): best})


def _check(name: str, scale: Scale, anchors: Mapping[float, str]) -> None:
    if scale == "binary" and anchors.keys() != {1.0, 0.0}:
        raise error_at(("criteria", name, "anchors"), "`binary` has the anchors 1 and 0, and no others")
    if scale != "binary":
        check_grades(scale, anchors, ("criteria", name))
