"""Titles of metrics in German pages: of every metric, with its depth or budget."""

from __future__ import annotations

import pytest

from rag_assay.evals.metrics import IN_TOKENS, METRICS
from rag_assay.evals.metrics.contract import RetrievalMetric
from rag_assay.evals.reporting.contexts import Bought, Front
from rag_assay.evals.reporting.figures.planes import front_figure
from rag_assay.evals.reporting.texts import metric_title, read_yaml, words_in


def titles() -> list[str]:
    found = []
    for stem in METRICS.built_in:
        kind = METRICS[stem]
        found.append(kind(7).title if issubclass(kind, RetrievalMetric) else kind().title)
    return [*found, *(kind(2000).title for kind in IN_TOKENS.values())]


def test_every_metric_has_a_german_title() -> None:
    german = read_yaml("templates/texts.yaml")["metrics"]
    assert {title.partition(" @ ")[0].partition(" in 2,000")[0] for title in titles()} == set(german)


@pytest.mark.parametrize("title", titles())
def test_a_title_keeps_depth_budget_and_warning(title: str) -> None:
    found = metric_title(f"{title} (uncalibrated)", "de")
    assert found.endswith(" (nicht kalibriert)")
    assert ("@ 7" in found, "in 2\u202f000 Tokens" in found) == ("@ 7" in title, "2,000" in title)
    assert metric_title(title, "en") == title


def test_the_plane_of_costs_names_its_metrics_in_german() -> None:
    points = tuple(Bought(f"c{n}", 1.0 + n, 0.5 + n / 10) for n in range(2))
    plane = front_figure(Front("Hit rate @ 5", "Answer latency", "s", points, points, "median"), 1, "de")
    assert "Trefferquote @ 5" in plane.caption
    assert "Antwortzeit" in plane.caption
    assert plane.x_title.startswith("Antwortzeit")
    assert plane.y_title == "Trefferquote @ 5"
    assert all("Trefferquote @ 5" in one.full and "Antwortzeit" in one.full for one in plane.points)


def test_texts_name_a_metric_in_their_language() -> None:
    texts = {"of": ("{metric} of {title}", "{metric} von {title}"), "raw": ("{name}", "{name}")}
    values = {"metric": "Hit rate @ 5", "title": "A metric of another package"}
    assert words_in(texts, "de")("of", **values) == "Trefferquote @ 5 von A metric of another package"
    assert words_in(texts, "en")("of", **values) == "Hit rate @ 5 of A metric of another package"
    assert words_in(texts, "de")("raw", name="Hit rate @ 5") == "Hit rate @ 5"
