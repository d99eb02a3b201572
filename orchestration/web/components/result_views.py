"""The components that show results: sections of the report, and the matrix of questions with its journeys.

Both are drawn by the templates, styles and scripts of the report, in a shadow root.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from rag_assay.evals.reporting.page import join_files, read_script
from rag_assay.orchestration.web.components.component import Listen, component, read
from rag_assay.warehouse.identity import Json

_SHARED = ("journey_parts.js", "journey_diff.js", "journey_table.js", "journey_view.js")
_MATRIX = (
    '<div class="as-questions"><div class="matrix-box journey"></div>'
    '<aside class="panel journey" tabindex="-1" hidden></aside></div>'
)


def show_sections(key: str, html: str, layout: str = "", lang: str = "") -> dict[str, str] | None:
    """Show HTML of `render_sections`; return the query of a link in it that was just used.

    layout: `two`, `sides`: the second section is beside the first where there is room
    lang: of its texts, where it is another than the page's
    """
    data = {"html": html, "layout": layout, "lang": lang}
    box, script = '<div class="as-sections"></div>', read("results/sections.js")
    show = component("sections", html=box, css=result_styles(), js=script)
    followed = getattr(show(key=key, data=data, on_follow_change=_pass), "follow", None)
    return (
        {str(name): str(value) for name, value in followed.items()} if isinstance(followed, Mapping) else None
    )


def show_questions(key: str, view: Mapping[str, Json], on_open: Listen, on_page: Listen) -> None:
    script = "\n".join([*map(read_script, _SHARED), read("results/questions.js")])
    show = component("questions", html=_MATRIX, css=result_styles(), js=script)
    show(key=key, data=dict(view), on_open_change=on_open, on_page_change=on_page)


@cache
def result_styles() -> str:
    of_report = join_files("styles").replace(":root", ":host")  # where a shadow root has its colours
    return f"{of_report}\n{read('results/results.css')}"


def _pass() -> None:
    """Streamlit returns a trigger's value only where a function listens to it."""
