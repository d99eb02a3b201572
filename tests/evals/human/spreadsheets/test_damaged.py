"""Sheets that were damaged, cut or forged are a sentence, and add nothing."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assay.evals.human.spreadsheets.upload import bring_back, is_ours
from rag_assay.warehouse.errors import InputError
from tests.fakes.queues import queue_of
from tests.fakes.sheets import AT, Desk, fill, score_all

NAMES = ["anna.xlsx", "anna.csv", "anna.json"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A queue, and a sheet of each form."""
    desk = Desk(tmp_path_factory.mktemp("damaged"), queue_of(3))
    for name in NAMES:
        path = desk.export(name)
        if not name.endswith(".json"):
            fill(path, score_all([5, 3]))
    return desk


def patched(body: bytes, patches: list[tuple[float, bytes, int]]) -> bytes:
    """Bytes with others in place of some: (where, what, how many go)."""
    for where, what, gone in patches:
        at = int(where * len(body))
        body = body[:at] + what + body[at + gone :]
    return body


def repacked(body: bytes, part: float, patches: list[tuple[float, bytes, int]]) -> bytes:
    """A workbook with one part patched, and packed again."""
    out = io.BytesIO()
    with ZipFile(io.BytesIO(body)) as book, ZipFile(out, "w", ZIP_DEFLATED) as new:
        names = book.namelist()
        for name in names:
            data = book.read(name)
            new.writestr(name, patched(data, patches) if name == names[int(part * len(names))] else data)
    return out.getvalue()


PATCHES = st.lists(
    st.tuples(
        st.floats(0, 0.999),
        st.binary(max_size=4)
        | st.sampled_from([b'"', b";", b"\x00", b"\xff\xfe", b"[", b"<", b"NaN", b"1e999"]),
        st.integers(0, 200),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=50, deadline=None)
@given(name=st.sampled_from(NAMES), patches=PATCHES, part=st.none() | st.floats(0, 0.999))
def test_any_damage_is_a_sentence(
    desk: Desk, name: str, patches: list[tuple[float, bytes, int]], part: float | None
) -> None:
    body = (desk.folder / name).read_bytes()
    is_inside = part is not None and name.endswith(".xlsx")
    path = desk.folder / f"odd-{name}"
    path.write_bytes(repacked(body, part or 0, patches) if is_inside else patched(body, patches))
    is_ours(path)
    with suppress(InputError):
        found = bring_back(path, desk.home, AT)
        assert all(one.value in {5, 3, 0, None} for one in found.scores)
        assert all(one.study == "tiny" and one.item_id in desk.queue.by_id for one in found.scores)


@pytest.mark.parametrize("name", [*NAMES, "a.tsv", "a.xlsm", "a"])
@pytest.mark.parametrize(
    "body", [b"", b"\x00" * 100, b"PK\x03\x04", b"\xd0\xcf\x11\xe0", "é".encode("latin-1")]
)
def test_other_files_are_not_ours(tmp_path: Path, name: str, body: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(body)
    assert not is_ours(path)
    assert not is_ours(tmp_path)
    assert not is_ours(tmp_path / "none.xlsx")


@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert not is_ours(tmp_path / name)


def test_a_bomb_is_refused(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "bomb.xlsx"
    with ZipFile(desk.folder / "anna.xlsx") as book, ZipFile(path, "w", ZIP_DEFLATED) as new:
        for name in book.namelist():
            new.writestr(name, book.read(name))
        new.writestr("xl/more.xml", b" " * 400_000_000)
    assert is_ours(path)
    with pytest.raises(InputError):
        bring_back(path, desk.home, AT)
