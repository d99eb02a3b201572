"""A base class of what is closed at the end of a `with` block."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self


class Closeable(AbstractContextManager["Closeable"]):
    """What has a `close` and may be used as a context manager."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
