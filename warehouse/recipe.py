"""The two bases of everything that a study file may say."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A part of a study file: unknown keys are refused, values are not changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Recipe(Strict):
    """Parameters of one way to do a step; whoever changes what its code does raises `code_version`."""

    code_version: ClassVar[str] = "1"

    def versions(self) -> list[str]:
        """Return the code versions that its results depend on: its own and those of its parts."""
        return [self.code_version]
