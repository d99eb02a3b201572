from __future__ import annotations

from datetime import datetime

import pytest

from rag_assay.assets.indexing.index_rows import moment


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2019", (2019, 1, 1)),
        ("2019-05", (2019, 5, 1)),
        ("2019-05-17", (2019, 5, 17)),
        ("20190517", (2019, 5, 17)),
        (" 2019-05-17 ", (2019, 5, 17)),
        ("2019-05-17T23:30", (2019, 5, 17, 23, 30)),
        ("2019-05-17 23:30:15.25", (2019, 5, 17, 23, 30, 15)),
        ("2019-05-17T23:30:15Z", (2019, 5, 17, 23, 30, 15)),
        ("2019-05-17T00:30:15+02:00", (2019, 5, 17, 0, 30, 15)),
        ("2019-05-17T00:30:15-0500", (2019, 5, 17, 0, 30, 15)),
        ("20190517T003015+01", (2019, 5, 17, 0, 30, 15)),
        ("0001-01-01", (1, 1, 1)),
        ("9999-12-31T23:59:59-12:00", (9999, 12, 31, 23, 59, 59)),
    ],
)
def test_a_date_is_read_as_its_first_moment(text: str, expected: tuple[int, ...]) -> None:
    assert moment(text) == datetime(*expected)  # type: ignore[arg-type]  # noqa: DTZ001


@pytest.mark.parametrize(
    "text", [None, "", "soon", "2019-13", "2019-06-31", "2019-W05", "17.05.2019", "201905", "19", "2019-5-1"]
)
def test_what_is_no_date_is_none(text: str | None) -> None:
    assert moment(text) is None
