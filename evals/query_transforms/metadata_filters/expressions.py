"""Boolean expressions over chunk metadata, typed and bounded, as a study or a model writes them.

    {and: [{field: language, op: "=", value: de},
           {not: {field: keywords, op: any, value: [Derby, Transfer]}},
           {field: published_on, op: ">=", value: 2022-07-01}]}

A condition on a value that is not known does not hold, so its `not` does.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.suggestions import did_you_mean

Type = Literal["text", "list", "date", "number"]
Op = Literal["=", "!=", "<", "<=", ">", ">=", "in", "contains", "any", "all", "known"]
FIELDS: dict[str, Type] = {
    "doc_id": "text",
    "url": "text",
    "title": "text",
    "language": "text",
    "source": "text",
    "published_on": "date",
    "keywords": "list",
    "tags": "list",
    "ordinal": "number",
    "n_tokens": "number",
    "page": "number",
}
OPS: dict[Type, tuple[Op, ...]] = {
    "text": ("=", "!=", "in", "contains", "known"),
    "list": ("any", "all", "known"),
    "date": ("=", "!=", "<", "<=", ">", ">=", "in", "known"),
    "number": ("=", "!=", "<", "<=", ">", ">=", "in", "known"),
}
MAX_DEPTH, MAX_NODES, MAX_VALUES, MAX_TEXT = 8, 100, 100, 1_000
Scalar = str | int | float | date


class Expression(Strict):
    """One of: a condition (`field`, `op`, `value`), `and`, `or` (lists of expressions), `not` (one).

    op: = != < <= > >= · in (one of a list) · contains (a piece of text, as written) · any, all (of a list,
        for keywords and tags) · known (value true or false)
    """

    and_: Annotated[tuple[Expression, ...] | None, Field(alias="and", min_length=1, max_length=MAX_NODES)] = (
        None
    )
    or_: Annotated[tuple[Expression, ...] | None, Field(alias="or", min_length=1, max_length=MAX_NODES)] = (
        None
    )
    not_: Annotated[Expression | None, Field(alias="not")] = None
    field: str | None = None
    op: Op | None = None
    value: object = None

    @model_validator(mode="before")
    @classmethod
    def _within_bounds(cls, value: Any) -> Any:
        # Counted before anything is built, level by level: a deep value must not reach the parser's limit.
        level, depth, nodes = [value], 0, 0
        while level:
            depth, nodes = depth + 1, nodes + len(level)
            if depth > MAX_DEPTH or nodes > MAX_NODES:
                raise ValueError(f"an expression has at most {MAX_DEPTH} levels and {MAX_NODES} parts")
            level = [part for one in level for part in _parts(one)]
        return value

    @field_validator("field")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is None or name in FIELDS:
            return name
        raise ValueError(f"there is no field `{name[:60]}`; {did_you_mean(name, FIELDS)}")

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        forms = [self.and_ is not None, self.or_ is not None, self.not_ is not None, self.field is not None]
        if sum(forms) != 1:
            raise ValueError("give exactly one of `and`, `or`, `not`, or a `field` with `op` and `value`")
        if self.field is None:
            if self.op is not None or self.value is not None:
                raise ValueError("`op` and `value` go with a `field`")
            return self
        self._check(FIELDS[self.field])
        return self

    def _check(self, kind: Type) -> None:
        if self.op not in OPS[kind]:
            raise ValueError(f"`{self.field}` is a {kind}: use one of {', '.join(OPS[kind])}")
        if self.op == "known":
            if not isinstance(self.value, bool):
                raise ValueError("`known` takes true or false")
            return
        self.values()

    def values(self) -> list[Scalar]:
        """Return the values of a condition, in the type of its field.

        Raises:
            ValueError: they are of another type, too many or too long.
        """
        many = self.op in {"in", "any", "all"}
        listed = self.value if many and isinstance(self.value, list | tuple) else [self.value]
        if not 1 <= len(listed) <= MAX_VALUES:
            raise ValueError(f"`{self.op}` takes 1 to {MAX_VALUES} values")
        return [_typed(one, FIELDS[self.field or ""]) for one in listed]


def _parts(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        return []
    found: list[Any] = []
    for name in ("and", "or"):
        if isinstance(value.get(name), list | tuple):
            found += value[name]
    return [*found, value["not"]] if value.get("not") is not None else found


def _typed(value: Any, kind: Type) -> Scalar:
    if kind == "date":
        return _date(value)
    if kind == "number":
        return _number(value)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError(
            f"text of at most {MAX_TEXT} characters is needed (in quotes, if it looks like a number)"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text has a character that is none ({error.reason})") from error
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a number is needed, not {str(value)[:60]!r}")  # noqa: TRY004 -- for pydantic
    if not -(2**53) <= value <= 2**53:  # NaN too; a float holds every whole number up to there
        raise ValueError("a number from -2^53 to 2^53 is needed")
    return value


def _date(value: Any) -> date:
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"a date is needed, as in 2024-05-31, not {str(value)[:60]!r}") from None
