"""An export that names a server, in whatever parameter, is refused unless its reader trusts that server."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
import yaml
from pydantic import AnyHttpUrl, Field, JsonValue, SecretStr

from rag_assay.assets.embedding.component_embedders import EMBEDDERS
from rag_assay.assets.embedding.hashing import Hashing
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.export.checksums import seal
from rag_assay.evals.export.loader import read_export
from rag_assay.evals.export.writer import export
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference import egress
from rag_assay.warehouse.inference.egress import is_allowed, origin
from rag_assay.warehouse.inference.model_servers import UnknownServerError, permitted
from tests.fakes.named import named
from tests.fakes.shipped import Shipped

pytestmark = pytest.mark.models


@pytest.fixture
def folder(shipped: Shipped, work: BuildContext, tmp_path: Path) -> Path:
    """An export."""
    found = tmp_path / "out"
    export(shipped.bench.study, shipped.cell("hybrid", "gated"), found, work)
    return found


def change(folder: Path, **parts: object) -> None:
    """Write other parts into the recipe of an export, as whoever made it could."""
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **parts}))
    seal(folder)


class Elsewhere(Hashing):
    """An embedder of another package, which asks a server of its own."""

    kind: ClassVar[str] = "acme_elsewhere"
    package: ClassVar[str | None] = "acme 1.0"

    endpoint: str = ""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    url: AnyHttpUrl | None = None
    place: SecretStr | None = Field(default=None, exclude=True)


ELSEWHERE: list[tuple[dict[str, object], str]] = [
    ({"endpoint": "https://thief.example/v1"}, "https://thief.example"),
    ({"endpoint": "thief.example"}, "http://thief.example"),
    ({"endpoint": "thief.example:8443/v1"}, "http://thief.example:8443"),
    ({"options": {"any": ["see https://thief.example/v1."]}}, "https://thief.example"),
    ({"options": {"any": {"how": "grpc://thief.example:50051"}}}, "http://thief.example:50051"),
    ({"url": "https://thief.example/v1"}, "https://thief.example"),
    ({"place": "https://thief.example/v1"}, "https://thief.example"),
    ({"options": {"base_url": "//thief.example/v1"}}, "http://thief.example"),
]


def test_a_server_in_a_parameter_of_another_package_is_trusted_by_name_alone(
    folder: Path, work: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EMBEDDERS._built_in, Elsewhere.kind, Elsewhere)
    for parameters, trusted in ELSEWHERE:
        with named(parameters):
            monkeypatch.setattr(egress, "opened", None)
            change(folder, embedder={Elsewhere.kind: parameters})
            with pytest.raises(InputError, match=r"acme_elsewhere \(acme 1\.0\) names .*--trust http"):
                read_export(folder, work, anyway=True)
            for other in (
                "http://other.example",
                f"{trusted}:1" if trusted.count(":") == 1 else f"{trusted}1",
            ):
                with pytest.raises(InputError, match="--trust"):
                    read_export(folder, work, [other], anyway=True)
            assert isinstance(read_export(folder, work, [trusted], anyway=True).recipe.embedder, Elsewhere)
            assert is_allowed(origin(trusted))
            assert not is_allowed("https://other.example:443")
    harmless = {"endpoint": "http://127.0.0.1:8000/v1", "options": {"unit": "km/h", "at": "12:30"}}
    change(folder, embedder={Elsewhere.kind: harmless})
    assert read_export(folder, work, anyway=True)
    change(folder, embedder={Elsewhere.kind: {"endpoint": "https://user:secret-0815@thief.example/v1"}})
    with pytest.raises(InputError) as refused:
        read_export(folder, work, anyway=True)
    assert "secret-0815" not in str(refused.value)


def test_an_opened_export_asks_none_but_its_own_servers(
    folder: Path, work: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever code asks: the list is that of the recipe, and of what its reader trusts."""
    monkeypatch.delenv("OPENAI_BASE_URL")
    far = {"model": "openai/x", "api_base": "https://known.example/v1", "fallback": ["anthropic/x"]}
    change(folder, generator={"llm": far})
    with pytest.raises(InputError, match="--trust"):
        read_export(folder, work, anyway=True)
    assert egress.opened is None, "what is refused is not opened"
    read_export(folder, work, ["https://known.example"], anyway=True)
    assert permitted("openai/other", "https://known.example/v2").origins == {"https://known.example:443"}
    assert permitted("anthropic/x", None).origins == {"https://api.anthropic.com:443"}
    assert permitted("openai/x", "http://127.0.0.1:9/v1")
    for model, base in (("openai/x", "https://thief.example/v1"), ("openai/x", None), ("mistral/x", None)):
        with pytest.raises(UnknownServerError, match="not among the servers"):
            permitted(model, base)
