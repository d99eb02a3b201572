"""Builds a corpus: at once with meanings where that takes seconds, else by words first."""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from rag_assay.assets.embedding.blocks import blocks, texts_of
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.component_embedders import OtherEmbedder
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.corpora.corpus_lookup import by_words
from rag_assay.orchestration.corpora.corpus_study import CorpusOptions, is_edited, short_name_of
from rag_assay.orchestration.corpora.facts import BUILT, first_cell
from rag_assay.orchestration.corpora.records import Corpora, NamedCorpus
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.progress import Bars
from rag_assay.orchestration.run_report import RunReport
from rag_assay.orchestration.stages import stages_of
from rag_assay.orchestration.terminal.tables import show_end
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.identity import sha256_text
from rag_assay.warehouse.paths import Home

FEW = 64  # chunks that are embedded in any case before an estimate of them would be there
WARM, TIMED = 8, 32  # of the new chunks: embedded before the clock starts, and against it


def seconds_to_embed(study: Study, home: Home) -> float:
    """Return the seconds that the model needs for chunks without vectors; 0: few, or no local model."""
    cell = first_cell(study)
    recipe = study.embedders[cell.embedder]
    store = ArtifactStore(home)
    chunks = store.current("chunks", Grid([study]).index_key(cell).rpartition(".")[0])
    if chunks is None or recipe.api is not None or isinstance(recipe, OtherEmbedder):
        return 0.0
    embedder = CachedEmbedder(recipe, home)
    embedder.cache.refresh()
    new, sample = 0, dict[str, str]()
    for part in blocks(store.folder("chunks", chunks.identity) / "chunks.parquet"):
        texts = texts_of(part, embedder)
        hashes = [sha256_text(text) for text in texts]
        known = embedder.cache.has(hashes)
        lacking = {key: text for key, text, has in zip(hashes, texts, known, strict=True) if not has}
        new += len(lacking)
        sample = dict(heapq.nsmallest(TIMED, {**sample, **lacking}.items()))  # as good as by lot
    if new <= FEW:
        return 0.0
    chosen = list(sample.values())
    embedder.embedder.embed(chosen[:WARM])
    begin = time.perf_counter()
    embedder.embedder.embed(chosen)
    return (time.perf_counter() - begin) / len(chosen) * new


PATIENCE = 30.0  # seconds of embedding that may pass without anybody having asked for it
CUT_AT = BUILT.index("chunks") + 1


class BuiltCorpus(NamedTuple):
    """A corpus as it was built; seconds: that its model would have taken, if it was left out for that."""

    corpus: NamedCorpus
    report: RunReport
    seconds: float = 0.0


def build(corpus: NamedCorpus, said: CorpusOptions, corpora: Corpora) -> BuiltCorpus:
    home, study = corpora.home, read_study(corpus.study)
    with _Bars([name for name, stage in stages_of(Grid([study])).items() if stage.keys()]) as bars:
        if not _may_be_by_words(corpus, said, corpora):
            found = BuiltCorpus(corpus, Driver(study, home, bars.tell, bars).run(BUILT, again=True))
        else:
            cut = Driver(study, home, bars.tell, bars).run(BUILT[:CUT_AT], again=True)
            has_chunks = cut.is_there("chunks")
            found = _indexed(corpus, cut, corpora, bars) if has_chunks else BuiltCorpus(corpus, cut)
    show_end(found.report)
    return found


def _may_be_by_words(corpus: NamedCorpus, said: CorpusOptions, corpora: Corpora) -> bool:
    """Whether it is open how a corpus is searched: it was not said, and nothing was built yet."""
    if said.embedder or corpus.choices is None or corpus.choices.search != "meaning" or is_edited(corpus):
        return False
    study = read_study(corpus.study)
    key = Grid([study]).index_key(first_cell(study))
    return ArtifactStore(corpora.home).current("indexes", key) is None


def _indexed(corpus: NamedCorpus, cut: RunReport, corpora: Corpora, bars: Bars) -> BuiltCorpus:
    seconds = seconds_to_embed(read_study(corpus.study), corpora.home)
    if seconds > PATIENCE:
        corpus = by_words(corpus, corpora)
    study = read_study(corpus.study)
    rest = Driver(study, corpora.home, bars.tell, bars).run(BUILT[CUT_AT:])
    report = RunReport([*cut.stages, *rest.stages], cut.seconds + rest.seconds)
    return BuiltCorpus(corpus, report, seconds if seconds > PATIENCE else 0.0)


def how_to_add_meaning(built: BuiltCorpus, corpora: Corpora) -> str:
    """Say of a corpus that is searched by words how meanings are added; nothing of others."""
    corpus, choices = built.corpus, built.corpus.choices
    if choices is None or choices.search != "words" or is_edited(corpus):
        return ""
    lasts = f" would take about {_duration(built.seconds)} here and" if built.seconds else ""
    several = len(corpora.of_target(corpus.target)) > 1
    is_short = not several and not Path(corpus.name).exists()
    target = corpus.name if is_short else corpus.target
    named = f" --name {quote(corpus.name)}" if several else ""
    return (
        f"It is searched by words. Search by meaning ({choices.embedder}){lasts} is added by:  "
        f"assay corpus build {quote(target)}{named} --embedder {quote(short_name_of(choices))}"
    )


def _duration(seconds: float) -> str:
    """Return a time in words, as far as an estimate goes.

    >>> _duration(42.3), _duration(100), _duration(9000)
    ('40 s', '2 minutes', '2.5 hours')
    """
    if seconds < 90:
        return f"{round(seconds, -1):.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


class _Bars(Bars):
    """Bars of walks that are parts of one: stages are numbered as if they were walked at once."""

    def __init__(self, stages: Sequence[str]) -> None:
        super().__init__()
        self._stages = [one for one in BUILT if one in stages]

    def begin(self, stage: str, number: int, of: int) -> None:
        super().begin(stage, self._stages.index(stage) + 1, len(self._stages))
