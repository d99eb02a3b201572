"""The machine that this process runs on.

Numbers of processes hold on one machine only, and seconds can be compared within one class of machines only.
"""

from __future__ import annotations

import math
import os
import platform
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

from rag_assay.warehouse.identity import sha256_text

CLASS = "ASSAY_MACHINE_CLASS"
LONGEST = 80  # characters of a class
_PROCESSORS = Path("/proc/cpuinfo")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


@cache
def machine_mark() -> str:
    """Return 12 hexadecimal digits that stand for this machine's name, for names of files.

    >>> len(machine_mark())
    12
    """
    return sha256_text(platform.node())[:12]


def machine_class() -> str:
    """Return the class of this machine, within which seconds can be compared.

    `ASSAY_MACHINE_CLASS` names it; unless set, it is the processor's model and how many of its cores
    this process may use.
    """
    named = " ".join(os.environ.get(CLASS, "").split())
    return (named or f"{_model()} x {_cores()}")[:LONGEST]


@cache
def _model() -> str:
    text = ""
    with suppress(OSError):
        text = _PROCESSORS.read_text(encoding="utf-8", errors="replace")
    found = model_of(text)
    return found or platform.processor() or platform.machine() or "unknown processor"


def model_of(text: str) -> str:
    r"""Return the model that `/proc/cpuinfo` names first; empty: it names none, as on many ARM machines.

    >>> model_of("processor\t: 0\nmodel name\t: Some(R)   CPU @ 2.50GHz\n"), model_of("processor\t: 0\n")
    ('Some(R) CPU @ 2.50GHz', '')
    """
    found = re.search(r"^model name\s*:(.*)$", text, flags=re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _cores() -> int:
    """Return how many cores this process may use, by its affinity and the quota of its container."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    there = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = ""
    with suppress(OSError):
        quota = _QUOTA.read_text(encoding="ascii")
    return cores_of(quota, there)


def cores_of(quota: str, there: int) -> int:
    """Return how many cores `cpu.max` of a control group leaves of those that are there.

    >>> cores_of("max 100000", 8), cores_of("250000 100000", 8), cores_of("", 4), cores_of("900000 100000", 4)
    (8, 3, 4, 4)
    """
    parts = quota.split()
    if len(parts) != 2 or not all(part.isdecimal() for part in parts) or int(parts[1]) == 0:
        return there
    return max(1, min(there, math.ceil(int(parts[0]) / int(parts[1]))))
