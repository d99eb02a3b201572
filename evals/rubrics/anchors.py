"""What a study words of a rubric: what is asked, and what each value means."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, TypeAdapter

from rag_assay.warehouse.recipe import error_at

MOST_VALUES = 11  # that people tell apart, and find keys for


def _is_readable(text: str) -> str:
    strange = next((sign for sign in text if unicodedata.category(sign) == "Cc" and sign not in "\n\t"), None)
    if strange is not None:
        raise ValueError(f"the control character U+{ord(strange):04X} stands in the text")
    return text


Wording = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=1000),
    AfterValidator(_is_readable),
]
"""Some sentences that an annotator reads, as they are: no markup in them means anything."""
_TEXTS = TypeAdapter(dict[str, Wording])


def _by_value(written: object) -> object:
    """Return anchors with numbers for keys: a file has texts, of which `5` and `5.0` are one number.

    Raises:
        ValidationError: what is wrong with a key or its text, at the key as it is written.
    """
    if not isinstance(written, Mapping):
        return written
    found: dict[float, object] = {}
    for key, text in written.items():
        value = _number(key)
        if value is None:
            raise error_at((str(key),), f"the anchor `{key}` must be a number, as in `5: Right`")
        if value in found:
            raise error_at((str(key),), f"the value {value:g} has a second anchor")
        found[value] = text
    texts = _TEXTS.validate_python({str(key): text for key, text in written.items()})
    return dict(zip(found, texts.values(), strict=True))


def _number(key: object) -> float | None:
    if isinstance(key, bool) or not isinstance(key, int | float | str):
        return None
    try:
        value = float(key)
    except (ValueError, OverflowError):
        return None
    return value + 0.0 if math.isfinite(value) else None  # so that -0 is 0


def _best_first(anchors: Mapping[float, str]) -> Mapping[float, str]:
    return dict(sorted(anchors.items(), reverse=True))


Anchors = Annotated[
    Mapping[float, str],
    Field(min_length=2, max_length=MOST_VALUES),
    BeforeValidator(_by_value),
    AfterValidator(_best_first),
]
"""Value -> what it means, the best first; two values or more."""


def graded(grades: int, anchors: Mapping[float, str]) -> dict[float, str]:
    """Return an anchor for each grade from 1 on, the best first; one without words is between two with some.

    anchors: of some grades, the lowest and the highest among them

    >>> graded(4, {1: "Bad", 4: "Good"})
    {4.0: 'Good', 3.0: 'Between 1 and 4', 2.0: 'Between 1 and 4', 1.0: 'Bad'}
    """
    worded = sorted(anchors)
    found: dict[float, str] = {}
    for grade in range(grades, 0, -1):
        below = max((one for one in worded if one <= grade), default=1)
        above = min((one for one in worded if one >= grade), default=grades)
        found[float(grade)] = anchors.get(grade, f"Between {below:g} and {above:g}")
    return found
