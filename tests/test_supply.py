"""What is installed: every pin has digests, every dependency an upper bound and a licence that was read."""

from __future__ import annotations

import re
from email.message import Message
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.supply import (
    LOCK,
    TORCH,
    bill_of_materials,
    closure,
    is_free,
    licence_of,
    project,
    read_lock,
)

REVIEWED = {
    "pypdfium2": "BSD-3-Clause and Apache-2.0; of PDFium's parts only build scripts of ICU are GPL",
}
"""Packages whose declared licence no rule can read -> what a person found."""


def requirements() -> list[Requirement]:
    own = project()
    extras = own["optional-dependencies"].values()
    return [Requirement(one) for one in [*own["dependencies"], *(one for extra in extras for one in extra)]]


def declared(**fields: str) -> Any:
    metadata = Message()
    for name, value in fields.items():
        metadata[name.replace("_", "-")] = value
    return SimpleNamespace(metadata=metadata)


def test_every_dependency_at_run_time_has_a_permissive_licence() -> None:
    unread = {
        name: licence_of(one)
        for name, one in closure().items()
        if name not in REVIEWED and not is_free(licence_of(one))
    }
    assert unread == {}, "replace them, or add each to REVIEWED with what its licence file says"
    needless = [name for name in REVIEWED if name not in closure() or is_free(licence_of(closure()[name]))]
    assert needless == []


@pytest.mark.parametrize(
    ("licence", "free"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),  # the user chooses
        ("MPL-1.1 OR GPL-2.0-only OR LGPL-2.1-or-later", True),
        ("Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND BSD-2-Clause", True),
        ("Mozilla Public License 2.0 (MPL 2.0)", True),
        ("ISC License (ISCL)", True),
        ("GPL-3.0-or-later", False),
        ("MIT AND GPL-3.0-or-later", False),
        ("GPL-3.0-only AND (MIT OR BSD-3-Clause)", False),
        ("GNU General Public License v3 (GPLv3)", False),
        ("GNU Affero General Public License v3", False),
        ("AGPL-3.0-only", False),
        ("MIT/GPL", False),
        ("LGPL-2.1-or-later", False),  # may be used, after a look at how
        ("Apache License, Version 2.0", True),
        ("Commercial", False),
        ("MITRE", False),
        ("", False),
        (None, False),
    ],
)
def test_licences_are_read_as_their_words_say(licence: str | None, free: bool) -> None:
    assert is_free(licence) is free


def test_an_expression_counts_before_classifiers_and_they_before_a_text() -> None:
    classifier = "License :: OSI Approved :: MIT License"
    assert licence_of(declared(License_Expression="ISC", Classifier=classifier)) == "ISC"
    assert licence_of(declared(Classifier=classifier, License="GPL")) == "MIT License"
    assert licence_of(declared(License="BSD\n\nCopyright of somebody")) == "BSD"
    assert licence_of(declared(License="UNKNOWN")) is None
    assert licence_of(declared(Classifier="License :: OSI Approved")) is None


def test_the_reference_of_alpha_is_for_development_only() -> None:
    assert "krippendorff" not in closure()
    assert "krippendorff" in {one.name for one in requirements()}


def test_every_dependency_has_an_upper_bound_that_its_pin_fits() -> None:
    pins = read_lock() | read_lock(TORCH)
    unbound = [
        str(one) for one in requirements() if not any(s.operator in {"<", "=="} for s in one.specifier)
    ]
    assert unbound == []
    unfit = [str(one) for one in requirements() if pins[canonicalize_name(one.name)][0] not in one.specifier]
    assert unfit == []


def test_every_package_at_run_time_is_pinned_as_it_is_installed() -> None:
    pins = read_lock() | read_lock(TORCH)
    assert {name for name in closure() if name not in pins} == set()
    differing = {name for name in closure() if version(name).split("+")[0] != pins[name][0]}
    assert differing == set()


def test_every_pin_has_digests_and_no_place() -> None:
    entries = [line for line in LOCK.read_text("utf-8").splitlines() if not line.startswith("#")]
    wrong = [
        line
        for line in entries
        if not re.fullmatch(r"[a-z0-9.-]+==[\w.+!-]+ \\", line)
        and not re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line)
    ]
    assert wrong == []
    assert [name for name, (_, digests) in read_lock().items() if not digests] == []


def test_the_bill_of_materials_names_what_the_product_needs_and_nothing_else() -> None:
    bill = bill_of_materials()
    assert bill == bill_of_materials()
    refs = {one["bom-ref"] for one in bill["components"]}
    assert len(refs) == len(bill["components"]) == len(closure())
    assert not any(re.match(r"pkg:pypi/(pytest|krippendorff|ruff|moto)@", ref) for ref in refs)
    assert all(one["licenses"] for one in bill["components"])
    own, *others = bill["dependencies"]
    assert {one["ref"] for one in others} == refs
    reached, left = set(), [*own["dependsOn"]]
    needed = {one["ref"]: one["dependsOn"] for one in others}
    while left:
        if (ref := left.pop()) not in reached:
            reached.add(ref)
            left += needed[ref]
    assert f"pkg:pypi/numpy@{version('numpy')}" in own["dependsOn"]
    assert reached <= refs
