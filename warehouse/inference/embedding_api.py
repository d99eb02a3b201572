"""Embeddings from a server, through LiteLLM: typed errors, retries, a budget, and what it cost.

The rules for retries, addresses, keys and secrets are the gateway's own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_assay.warehouse.cancellation import CancelledError
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.inference.egress import only_to
from rag_assay.warehouse.inference.model_servers import (
    UnknownServerError,
    litellm,
    permitted,
    placeholder_key,
    server_of,
    without_none,
)
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.inference.replies import price
from rag_assay.warehouse.inference.single_call import LETTERS_A_TOKEN, send_with_retries
from rag_assay.warehouse.inference.throttle import LeftAloneError, Pace, Ticket, throttle_of
from rag_assay.warehouse.status import Status

Matrix: TypeAlias = "npt.NDArray[np.float32]"
PACE = Pace()

OF_ALL = Budget(None)
"""What all embedders of this process spend; its `within` is what the process may spend."""
_STOPPED = "not asked: the run was stopped"
_TOO_LONG = re.compile(r"maximum (?:context|input) length|context_length_exceeded", re.IGNORECASE)


class EmbeddingError(AssayError):
    """A request for embeddings failed; `status` says how, the message why, without secrets."""

    def __init__(self, status: Status, reason: str) -> None:
        self.status = status
        self.reason = one_line(reason)
        super().__init__(f"{status.value}: {self.reason}")


class EmbeddingApi:
    """One model on one server. Thread-safe.

    model: a LiteLLM name (`openai/text-embedding-3-small`)
    base: any OpenAI-compatible server, for model names that begin with `openai/`
    dimensions: None: the server's own
    timeout: seconds that the server may stay silent
    retries: after passing failures; rate limits are waited out beside them, unless it is 0
    budget_usd: no request after that; models without a known price do not count
    """

    def __init__(
        self,
        model: str,
        *,
        base: str | None = None,
        dimensions: int | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        budget_usd: float | None = None,
    ) -> None:
        self.model = model
        self.base = server_of(model, base)
        self.dimensions = dimensions
        self.timeout = timeout
        self.retries = retries
        self._budget = Budget(budget_usd, within=OF_ALL)
        self.prompt_tokens = 0
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the vectors of ``texts``, float32, shape (texts, dimensions). Raises EmbeddingError: the
        request failed, or a vector is missing, not finite or zero.
        """
        response = self._paid(list(texts))
        vectors = _vectors(response, len(texts))
        if self.dimensions and vectors.shape[1] != self.dimensions:
            raise EmbeddingError(
                Status.PARSE_FAILED,
                f"The server gave {vectors.shape[1]} dimensions where {self.dimensions} were asked for.",
            )
        with self._lock:
            self.prompt_tokens += _tokens(response) or 0
        return vectors

    @property
    def spent_usd(self) -> float:
        return self._budget.spent_usd

    def _paid(self, texts: list[str]) -> Any:
        try:
            if not self._budget.open(self.model):
                raise EmbeddingError(Status.OVER_BUDGET, self._budget.refusal)
        except TimeoutError as error:
            raise EmbeddingError(Status.TIMEOUT, f"not asked: {error}") from None
        except CancelledError as error:
            raise EmbeddingError(Status.NOT_RUN, _STOPPED) from error
        response = None
        try:
            response = self._ask(texts)
            return response
        finally:
            cost = price(self.model, response) if response is not None else None
            self._budget.close(self.model, cost, answered=response is not None)

    def _ask(self, texts: list[str]) -> Any:
        module = litellm()
        module.DEFAULT_MAX_RETRIES = 0  # for embeddings, LiteLLM takes `max_retries=0` for none given
        arguments = {
            "model": self.model,
            # Servers refuse an empty text.
            "input": [text or " " for text in texts],
            "encoding_format": "float",
            "timeout": self.timeout,
            "num_retries": 0,  # retried here, where Retry-After is in hand
            "max_retries": 0,
            **without_none(
                api_base=self.base, api_key=placeholder_key(self.model, self.base), dimensions=self.dimensions
            ),
        }
        if self.dimensions:
            # LiteLLM refuses the parameter for models that it does not know to have it; the server decides.
            arguments["allowed_openai_params"] = ["dimensions"]
        letters = sum(len(text) for text in texts)
        try:
            with only_to(permitted(self.model, self.base)):
                ended = send_with_retries(
                    lambda: module.embedding(**arguments),
                    throttle_of(self.base or self.model.partition("/")[0]),
                    Ticket(self.model, PACE, letters // LETTERS_A_TOKEN),
                    self.retries,
                    asked_at=perf_counter(),
                    tokens_of=_tokens,
                )
        except UnknownServerError as error:
            raise EmbeddingError(Status.ERROR, str(error)) from error
        except LeftAloneError as error:
            raise EmbeddingError(Status.RATE_LIMITED, f"not asked: {error}") from error
        except CancelledError as error:
            raise EmbeddingError(Status.NOT_RUN, _STOPPED) from error
        if ended.error is not None:
            reason = call_failures.obstacle(ended.error, self.model, self.base, answered=False)
            # LiteLLM tells a text that is too long from other bad requests for completions only.
            is_too_long = _TOO_LONG.search(str(ended.error))
            status = Status.TRUNCATED if is_too_long else call_failures.status_of(ended.error)
            raise EmbeddingError(status, reason or call_failures.reason_of(ended.error)) from ended.error
        return ended.response


def _tokens(response: Any) -> int | None:
    found = getattr(getattr(response, "usage", None), "prompt_tokens", None)
    return found if isinstance(found, int) else None


def _vectors(response: Any, n_texts: int) -> Matrix:
    try:
        rows = sorted((_field(row, "index"), _field(row, "embedding")) for row in response.data)
        with np.errstate(over="ignore"):  # what is too large for a float32 is not finite, which is told
            vectors = np.array([vector for _, vector in rows], np.float32)
        places = [place for place, _ in rows]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EmbeddingError(
            Status.PARSE_FAILED, f"The server's answer holds no embeddings ({error})."
        ) from error
    if places != list(range(n_texts)) or vectors.ndim != 2:
        raise EmbeddingError(Status.PARSE_FAILED, f"The server gave {len(rows)} vectors for {n_texts} texts.")
    if not np.isfinite(vectors).all():
        raise EmbeddingError(
            Status.PARSE_FAILED, "The server gave a vector with a number that is not finite."
        )
    if not vectors.any(axis=1).all():  # of no length and no direction: some servers answer so when they fail
        raise EmbeddingError(Status.PARSE_FAILED, "The server gave a vector of zeros.")
    return vectors


def _field(row: Any, name: str) -> Any:
    return row[name] if isinstance(row, dict) else getattr(row, name)
