"""ragas' view of our models: an LLM that asks the gateway, an embedding that asks the judge's embedder.

ragas' metrics are coroutines that wait for nothing but their LLM and their embeddings. Those are asked in the
thread that runs the metric, so a metric is run to its end without an event loop, in any thread, also in one
that has a loop already.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from pydantic import BaseModel

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.judging.ragas.calls import MetricCalls
from rag_assay.evals.judging.ragas.metrics import prompt as prompt_file
from rag_assay.evals.judging.ragas.shapes import ReplyExpectations, form_of
from rag_assay.warehouse.schemas import Status

os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")

from ragas.embeddings.base import BaseRagasEmbedding
from ragas.llms.base import InstructorBaseRagasLLM

Shape = TypeVar("Shape", bound=BaseModel)
Result = TypeVar("Result")


class GatewayLlm(InstructorBaseRagasLLM):
    """Asks the gateway for one metric of one case.

    calls: keeps what came
    lists: the texts that are taken apart, in that order
    turns: how often the same is asked on purpose
    """

    def __init__(self, calls: MetricCalls, lists: Sequence[str] = (), turns: int = 1) -> None:
        self.calls = calls
        self._lists = iter(lists)
        self._turns = turns
        self._asked: Counter[str] = Counter()
        self._expected = ReplyExpectations()

    def generate(self, prompt: str, response_model: type[Shape]) -> Shape:
        """Return the model's reply to a prompt of ragas.

        Raises:
            StoppedError: there is none that can be used, or it holds nothing to count.
        """
        form = form_of(response_model.__name__, self._expected)
        turn = min(self._asked[prompt], self._turns - 1)
        self._asked[prompt] += 1
        found = self.calls.ask(
            prompt_file("asking").messages({"prompt": prompt}),
            response_model,
            bounds=form.bounds,
            max_tokens=form.max_tokens,
            check=form.check,
            turn=(turn, self._turns),
        )
        if form.size is not None:
            text = next(self._lists)
            if not form.size(found):
                raise self.calls.stop(Status.PARSE_FAILED, f"the judge found no statement in the {text}")
        return found

    async def agenerate(self, prompt: str, response_model: type[Shape]) -> Shape:
        """Return the same as `generate`; nothing is waited for."""
        return self.generate(prompt, response_model)

    @contextmanager
    def expecting(self, statements: Sequence[str], truths: Sequence[str] = ()) -> Iterator[None]:
        """Hold the replies in this block to be about these statements."""
        self._expected = ReplyExpectations(tuple(statements), tuple(truths))
        try:
            yield
        finally:
            self._expected = ReplyExpectations()


class JudgeEmbedding(BaseRagasEmbedding):
    """Embeds by the embedder of a judge, each text of a metric once."""

    def __init__(self, embed: Callable[[Sequence[str]], Matrix]) -> None:
        super().__init__()
        self._embed = embed
        self._vectors: dict[str, list[float]] = {}

    def embed_texts(self, texts: Sequence[str], **_: object) -> list[list[float]]:
        """Return the vectors of texts, in their order."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            vectors = np.asarray(self._embed(new), dtype=np.float64)
            self._vectors.update(zip(new, vectors.tolist(), strict=True))
        return [self._vectors[text] for text in texts]

    def embed_text(self, text: str, **_: object) -> list[float]:
        """Return the vector of one text."""
        return self.embed_texts([text])[0]

    async def aembed_texts(self, texts: Sequence[str], **_: object) -> list[list[float]]:
        """Return the same as `embed_texts`; nothing is waited for."""
        return self.embed_texts(texts)

    async def aembed_text(self, text: str, **_: object) -> list[float]:
        """Return the same as `embed_text`; nothing is waited for."""
        return self.embed_text(text)

    def cosine(self, one: str, other: str) -> float:
        """Return the cosine of two texts."""
        first, second = self.embed_texts([one, other])
        return float(np.dot(first, second) / (np.linalg.norm(first) * np.linalg.norm(second)))


def run_coroutine(metric: Coroutine[object, None, Result]) -> Result:
    """Run a coroutine that waits for nothing to its end.

    Raises:
        RuntimeError: it waits for something.
    """
    try:
        metric.send(None)
    except StopIteration as ended:
        return ended.value
    metric.close()
    raise RuntimeError("a metric of ragas waits for something that is neither its LLM nor its embeddings")
