from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assay.assets.cleaning import duplicates as module
from rag_assay.assets.cleaning.duplicates import ALONE, Bands


@pytest.mark.parametrize("held", [1, 7, 8_192])
@pytest.mark.parametrize("count", [0, 1, 200])
def test_groups_are_those_that_share_a_band(
    held: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_KEYS_HELD", held)
    signatures = np.random.default_rng(2).integers(0, 12, (count, 8)).astype(np.uint64)
    found = Bands(tmp_path, 3, 2)  # the last two numbers are in no band
    for signature in signatures:
        found.add(signature)
    members, groups = found.groups()
    assert groups.shape == (len(members), 3)
    parts = [[tuple(signature[2 * band : 2 * band + 2]) for signature in signatures] for band in range(3)]
    alike = {n for part in parts for n in range(count) if part.count(part[n]) > 1}
    assert members.tolist() == sorted(alike)
    for band, part in enumerate(parts):
        for one, group in zip(members, groups[:, band], strict=True):
            together = {int(n) for n in range(count) if part[n] == part[one]}
            assert (group == ALONE) == (len(together) == 1)
            if group != ALONE:
                assert set(members[groups[:, band] == group].tolist()) == together
    of_bands = [set(groups[:, band].tolist()) - {ALONE} for band in range(3)]
    assert sum(map(len, of_bands)) == len(set().union(*of_bands)), "a group is of one band"
