"""The run of a trial: what is measured first, what later, and what is computed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rag_assay.assets.embedding.blocks import blocks, texts_of
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.component_embedders import OtherEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.embedding.hashing import Hashing
from rag_assay.evals.metrics.contract import RetrievalMetric
from rag_assay.evals.pipeline.system_answers import forget_answers
from rag_assay.evals.question_generation.generator import GenerationPlan
from rag_assay.evals.study.run_studies import note
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.commands.generated_questions import make_questions
from rag_assay.orchestration.commands.trial_screen import TrialScreen
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.run_report import RunReport
from rag_assay.orchestration.templates.trials import MANY, TrialFiles
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.cancellation import CancelledError
from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home

TOGETHER = 32  # chunks that are embedded before something else has its turn
RANKED = ("pages", "documents", "chunks", "embeddings", "indexes", "questions", "rankings", "scores")
BY_WORDS = "words"  # the embedder of an index in which words alone are searched


def parts_of(study: Study) -> Iterator[Study]:
    """Yield the parts of a trial in the order in which they are run; they measure rankings alone.

    First the retrievers that need no vector, on indexes that were built without a model: what they rank does
    not depend on the embedder. Then one chunking after the other, with every retriever.
    """
    metrics = tuple(name for name in study.metrics if isinstance(study.metric(name), RetrievalMetric))
    without: dict[str, Any] = {name: {} for name in ("generators", "systems", "judges", "restrict")}
    rankings = study.model_copy(update={**without, "metrics": metrics or study.metrics})
    lexical = {name: one for name, one in study.retrievers.items() if not one.needs_vector}
    if lexical and metrics:
        hashing = {BY_WORDS: Hashing.model_validate({})}
        yield rankings.model_copy(update={"retrievers": lexical, "embedders": hashing})
    for name, chunking in study.chunkings.items():
        yield rankings.model_copy(update={"chunkings": {name: chunking}})


class TrialRun:
    """Brings a trial up to date, and shows its pipelines as they are measured."""

    def __init__(self, trial: TrialFiles, home: Home, screen: TrialScreen) -> None:
        self.trial, self.home, self.screen = trial, home, screen
        self.study = read_study(trial.study)
        self._done: list[Study] = []  # parts of the study

    def result(self, plan: GenerationPlan, *, again: bool = False) -> RunReport | None:
        """Run what is missing; return what came of the last stages, None where there is nothing to rank.

        plan: of the questions, where there are none yet
        again: crawl again and make new questions
        """
        if again and self.trial.is_asked:
            forget_answers(self.study, self.home)
        is_asked = self.trial.is_asked and not again
        board = ArtifactStore(self.home).current("leaderboard", self.study.study)
        if not (is_asked and board) and not self._ranked(None if is_asked else plan, again=again):
            return None
        note(self.study, self.home)
        self.screen.follow(self.study, [*self._done, self.study], self.home)
        return self._run(self.study)

    def _ranked(self, plan: GenerationPlan | None, *, again: bool) -> bool:
        if not self._run(self.study, RANKED[:2], again=again).is_there("documents"):
            return False
        if plan and self._words() > MANY and self.trial.cut_once():
            self.study = read_study(self.trial.study)
        if not self._run(self.study, RANKED[:3]).is_there("chunks"):
            return False
        with EmbeddingAhead(self.study, self.home) as ahead:
            if plan and self.trial.questions:
                self._ask(plan, self.trial.questions, ahead)
            note(self.study, self.home)
            parts = list(parts_of(self.study))
            self.screen.follow(self.study, self._done, self.home)
            if BY_WORDS in parts[0].embedders:
                self._done.append(parts[0])
                self._run(parts[0], RANKED)
        for part in parts[len(self._done) :]:
            self._done.append(part)
            self._run(part, RANKED)
        self._choose()
        return True

    def _run(self, part: Study, only: Sequence[str] | None = None, *, again: bool = False) -> RunReport:
        return Driver(part, self.home, self.screen.tell, self.screen).run(only, again=again)

    def _ask(self, plan: GenerationPlan, path: Path, ahead: EmbeddingAhead) -> None:
        def tell(sentence: str) -> None:
            self.screen.tell(sentence, 0, 0)

        tell("making questions from the documents")
        make_questions(self.study, self.home, plan, path, tell, ahead.turn)
        self.study = read_study(self.trial.study)

    def _choose(self) -> None:
        if self.trial.questions and self.screen.pipelines:
            best = self.screen.pipelines[0]
            simplest = next(iter(self.study.retrievers))
            self.trial.answer(best.chunking, list(dict.fromkeys((simplest, best.retriever))))
            self.study = read_study(self.trial.study)

    def _words(self) -> int:
        store = ArtifactStore(self.home)
        found = (store.current("documents", source) for source in self.study.corpus.sources)
        return sum(int(artifact.meta.get("words", 0)) for artifact in found if artifact)


class EmbeddingAhead(Closeable):
    """Embeds the chunks of a study in a thread, while the calling thread does something else.

    The vectors are kept in the cache, where the stage `embeddings` finds them. What fails here fails there
    too, with its reason. Use it as a context manager, whose end waits for the batch that is under way.
    """

    def __init__(self, study: Study, home: Home) -> None:
        self._study, self._home = study, home
        self._ended = False
        self._turn = threading.Lock()
        self._free = threading.Event()
        self._free.set()
        self._thread = threading.Thread(target=self._embed, name="embedding ahead", daemon=True)
        self._thread.start()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let nothing be embedded ahead in the block: two threads would share one model and its tokenizer."""
        self._free.clear()
        try:
            with self._turn:
                yield
        finally:
            self._free.set()

    def _embed(self) -> None:
        try:
            for recipe in self._study.embedders.values():
                if recipe.api is None and not isinstance(recipe, OtherEmbedder):
                    self._embed_by(recipe)
        except (AssayError, CancelledError, OSError):
            return

    def _embed_by(self, recipe: EmbedderRecipe) -> None:
        embedder, store = CachedEmbedder(recipe, self._home), ArtifactStore(self._home)
        for key in self._study.chunk_sets():
            chunks = store.current("chunks", key)
            if chunks is None:
                continue
            for part in blocks(store.folder("chunks", chunks.identity) / "chunks.parquet"):
                texts = sorted(texts_of(part, embedder), key=len)  # of like length: little is padded
                for at in range(0, len(texts), TOGETHER):
                    self._embed_some(texts[at : at + TOGETHER], embedder)

    def _embed_some(self, texts: Sequence[str], embedder: CachedEmbedder) -> None:
        self._free.wait()
        with self._turn:
            if self._ended:
                raise CancelledError
            embedder.embed(texts)

    def close(self) -> None:
        self._ended = True
        self._thread.join()
