"""Two annotators rate, and Monitor looks, while a run changes the results of the study."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event

from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.web.annotation.annotation_session import AnnotationSession
from rag_assay.orchestration.web.pages.monitor import study_progress
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.human_scores import HumanScores
from tests.fakes.queues import queue_of
from tests.orchestration.conftest import Finished

LEAST = 5  # answers that each rates, however soon the run ends


def test_nothing_is_lost_of_ratings_and_results(finished: Finished) -> None:
    study, home = finished.edit("words: {bm25: {k: 5}}", "words: {bm25: {k: 4}}"), finished.home
    scores, is_over = HumanScores(home), Event()
    queue = queue_of(400, twice=0.5, study=study.study)

    def rate(name: str) -> int:
        desk = AnnotationSession(queue, name, scores)
        for rated in count():
            if desk.place is None or (rated >= LEAST and is_over.wait(0.05)):
                return rated
            event = {"kind": "score", "index": 0, "seconds": 1, "comment": ""}
            desk.take({**event, "token": desk.token, "press": f"{name}{rated}"})
            assert "NOT SAVED" not in desk.notice
        raise AssertionError

    def watch() -> bool:
        while not is_over.wait(0.2):
            found = study_progress(str(finished.path), home)
            assert all(one.done <= one.keys for one in found.stages)
        return study_progress(str(finished.path), home).is_complete

    with ThreadPoolExecutor(3) as pool:
        rated = {name: pool.submit(rate, name) for name in ("Ada", "Ben")}
        watched = pool.submit(watch)
        try:
            report = Driver(study, home).run()
        finally:
            is_over.set()
        assert report.ok, report
        assert watched.result()
        n_rated = {name: one.result() for name, one in rated.items()}
        rows = Counter(row["annotator"] for row in scores.rows(queue.study))
        assert rows == n_rated
        assert min(n_rated.values()) >= LEAST
    with connect(home.database) as connection:
        sql = "SELECT count(DISTINCT cell) FROM current_scores WHERE metric = 'ndcg@10'"
        assert connection.execute(sql).fetchone() == (2,)
