"""The colours of lines as colour-blind eyes see them: apart from each other, and from the ground."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from rag_assay.evals.statistics.resampling import Floats

STYLES = Path(__file__).parents[4] / "evals/reporting/templates/styles"
LEAST_CONTRAST = 3.0  # of graphics: WCAG 2.1, 1.4.11
LEAST_APART = 30.0  # in CIELAB; a just noticeable difference is about 2
SEEN = {  # linear RGB as dichromats see it: Machado, Oliveira and Fernandes, IEEE TVCG 2009
    "all": (1, 0, 0, 0, 1, 0, 0, 0, 1),
    "protan": (0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998),
    "deutan": (0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881),
    "tritan": (1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900),
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
LINES = ("l0", "l1", "l2", "l3", "l4", "l5")


def variables(scheme: str) -> dict[str, str]:
    """Return the colours of a scheme: light, dark or print."""
    found: dict[str, str] = {}
    for file in ("report.css", "report_charts.css"):
        light, _, rest = (STYLES / file).read_text().partition("@media (prefers-color-scheme: dark)")
        dark, printed = rest.partition("}\n}")[0], rest.partition("@media print")[2]
        block = {"light": light, "dark": dark, "print": printed}[scheme]
        found |= dict(re.findall(r"--([\w-]+): (#(?:[0-9a-f]{6}|[0-9a-f]{3}))\b", block))
    return {
        name: one if len(one) == 7 else "#" + "".join(2 * c for c in one[1:]) for name, one in found.items()
    }


def linear(colour: str) -> Floats:
    share = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.asarray(np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4))


def lab(rgb: Floats) -> Floats:
    xyz = XYZ @ np.clip(rgb, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    dark, light = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_lines_and_bars_stand_out_from_the_ground(scheme: str) -> None:
    found = variables(scheme)
    for name in (*LINES, "bar", "accent", "soft", "warn"):
        assert contrast(found[name], found["paper"]) >= LEAST_CONTRAST, name
    for name in ("soft", "ink"):
        assert contrast(found[name], found["paper"]) >= 4.5, "these are letters, too"


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
@pytest.mark.parametrize("eyes", SEEN)
def test_no_two_lines_look_alike(scheme: str, eyes: str) -> None:
    found = variables(scheme)
    seen = {name: lab(np.reshape(SEEN[eyes], (3, 3)) @ linear(found[name])) for name in LINES}
    for one, other in combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= LEAST_APART, (one, other)
