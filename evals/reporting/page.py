"""Renders the HTML report: one file without scripts or outside resources."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evals.reporting import display, limits
from evals.reporting.answer_steps import verdict_words
from evals.reporting.breaks import breakable
from evals.reporting.contexts import context_words
from evals.reporting.data import ReportData
from evals.reporting.effect_words import effect_words, pair_words
from evals.reporting.links import safe_link
from evals.reporting.view import drops, effect_sentence, view
from warehouse.schemas import MIN_COVERAGE


def render_html(data: ReportData) -> str:
    """Return the report as one HTML document in UTF-8, with its style and script inside.

    Everything that comes from the data is escaped. The content security policy names the digests of the one
    style and the one script, so that nothing else on the page can load, run or send anything.
    """
    style, script = _joined("styles"), _joined("scripts")
    page = _environment().get_template("report.html")
    html = page.render(
        data=data,
        view=view(data),
        style=Markup(style),  # noqa: S704 -- our own file, no data in it
        script=Markup(script),  # noqa: S704
        policy=_policy(style, script),
    )
    return display.plain(html)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("evals.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        number=display.number,
        quantity=display.quantity,
        interval=display.interval,
        signed=display.signed,
        p_value=display.p_value,
        percent=display.percent,
        count=display.count,
        several=display.several,
        counted=display.counted,
        breakable=breakable,
        trimmed=display.trimmed,
        drops=drops,
        effect_sentence=effect_sentence,
        context_words=context_words,
        effect_words=effect_words,
        pair_words=pair_words,
        safe_link=safe_link,
        verdict_words=verdict_words,
        limits=limits,
        min_coverage=MIN_COVERAGE,
    )
    return environment


@cache
def _joined(folder: str) -> str:
    """Return the files of a folder of the templates one after the other, by name."""
    found = sorted((files("evals.reporting") / "templates" / folder).iterdir(), key=lambda file: file.name)
    return "\n".join(file.read_text(encoding="utf-8") for file in found)


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
