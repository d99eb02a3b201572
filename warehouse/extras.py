"""Optional packages, which the extras of the distribution install."""

from __future__ import annotations

from importlib.util import find_spec

from rag_assay.warehouse.errors import InputError

OPTIONAL = {
    "streamlit": ("streamlit", "app"),
    "xllamacpp": ("xllamacpp", "local"),
    "docx": ("python-docx", "formats"),
    "mlflow": ("mlflow-skinny", "mlflow"),
    "olefile": ("olefile", "formats"),
    "openpyxl": ("openpyxl", "formats"),
    "opentelemetry.proto": ("opentelemetry-proto", "traces"),
    "playwright": ("playwright", "render"),
    "pptx": ("python-pptx", "formats"),
    "xlrd": ("xlrd", "formats"),
}
"""Module -> the package that holds it, and the extra that installs it."""


class MissingPackageError(InputError):
    """An optional package is not installed; the message names it and its extra."""


def require(module: str, purpose: str) -> None:
    if find_spec(module) is None:
        package, extra = OPTIONAL[module]
        raise MissingPackageError(
            f"{purpose} needs {package}: install the extra `{extra}` of rag-assay, or `pip install {package}`"
        )
