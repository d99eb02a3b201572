"""Systems that are objects of this process: a study file names them as if they were functions of this module.

Without a version, each object is a system of its own, in this process alone: what it is made of is not known.
"""

from __future__ import annotations

import inspect
import uuid
from typing import Any

from rag_assay.warehouse.identity import digest

_objects: dict[str, Any] = {}


def hold(thing: Any, name: str, version: str | None = None) -> str:
    """Keep an object until the process ends, and return its place, `module:name`.

    name: of the system; version: of what the object does: the place is then the same in every process
    """
    if version is not None:
        kind = thing if inspect.isroutine(thing) or inspect.isclass(thing) else type(thing)
        held = f"object_{digest([kind.__module__, kind.__qualname__, name, version])[:12]}"
    else:
        known = (one for one, there in _objects.items() if there is thing or _is_same_method(there, thing))
        held = next(known, f"object_{uuid.uuid4().hex[:12]}")
    _objects[held] = thing
    return f"{__name__}:{held}"


def is_held(place: str) -> bool:
    return place.partition(":")[0] == __name__


def find(place: str) -> Any:
    """Return the object of a place.

    Raises:
        LookupError: it was one of another process.
    """
    try:
        return _objects[place.partition(":")[2]]
    except KeyError as error:
        text = "this system was an object of another Python process; call `ra.evaluate` with it again"
        raise LookupError(text) from error


def _is_same_method(one: Any, other: Any) -> bool:
    return inspect.ismethod(one) and inspect.ismethod(other) and one == other
