"""What the frame gives each page: workspace, study, language, and the state in the address."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

from rag_assay.orchestration.web.languages import PARAMETER, Language, Texts, Words, words_in
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage

Page = Literal["verdict", "questions", "compare", "documents", "review", "chat", "monitor"]
PAGES = get_args(Page)
"""The pages in the order of the navigation; `/` leads to the first one."""
STUDY, PERSON = "study", "name"
KEPT = (STUDY, PERSON, PARAMETER)
"""Parameters of the address that every page has, and that a link to another page keeps."""


@dataclass(frozen=True)
class UiOptions:
    """What `assay ui` was started with.

    study: the name of the study to show first; empty: the last one that was run
    reference: the name or path by which that study is found
    cell: key of the cell that answers first in the chat; empty: the recommended one
    model: the model that answers from its passages; empty: the cell's own
    usd: what calls of paid models may cost until the server ends
    """

    study: str = ""
    reference: str = ""
    cell: str = ""
    model: str = ""
    usd: float = 1.0
    time_zone: str = "UTC"

    def to_argument(self) -> str:
        return json.dumps(asdict(self))


@cache
def options_here() -> UiOptions:
    return UiOptions(**json.loads(sys.argv[1]))


def person_of(typed: str | None) -> str:
    """Return a person's name in the form in which it is kept; empty for what is none.

    >>> person_of("  Ada   Lovelace "), person_of("a\\u202eb"), person_of(None)
    ('Ada Lovelace', '', '')
    """
    try:
        from rag_assay.warehouse.human_scores import annotator_name  # heavy: the page is shown before

        return annotator_name(typed) if typed else ""
    except InputError:
        return ""


def set_address(**to: str | Sequence[str] | None) -> None:
    import streamlit as st

    for name, value in to.items():
        if value:
            st.query_params[name] = value if isinstance(value, str) else list(value)
        else:
            st.query_params.pop(name, None)


@dataclass(frozen=True)
class PageContext:
    """One run of a page.

    study: name of the chosen study; empty: none was run yet, which only Monitor shows
    studies: names of the studies that were run, the last one first
    pages: page -> what Streamlit knows it by
    """

    workspace: Home
    study: str
    studies: tuple[str, ...]
    language: Language
    person: str
    options: UiOptions
    page: str
    pages: Mapping[str, StreamlitPage]

    @property
    def reference(self) -> str:
        return self.options.reference if self.study == self.options.study else self.study

    def words(self, texts: Texts) -> Words:
        return words_in(texts, self.language)

    # State in the address ----------------------------------------------------------------------------------

    def get(self, name: str) -> str | None:
        import streamlit as st

        return st.query_params.get(name)

    def get_all(self, name: str) -> list[str]:
        import streamlit as st

        return st.query_params.get_all(name)

    def set(self, **to: str | Sequence[str] | None) -> None:
        set_address(**to)

    def address(self, **query: str | Sequence[str] | None) -> dict[str, str | list[str]]:
        kept = {name: self.get(name) for name in KEPT}
        kept[STUDY] = self.study
        return {
            name: value if isinstance(value, str) else list(value)
            for name, value in {**kept, **query}.items()
            if value
        }

    # Other pages -------------------------------------------------------------------------------------------

    def link(
        self,
        page: str,
        label: str,
        *,
        icon: str | None = None,
        help: str | None = None,  # noqa: A002 -- Streamlit's name
        **query: str | Sequence[str] | None,
    ) -> None:
        import streamlit as st

        st.page_link(self.pages[page], label=label, icon=icon, help=help, query_params=self.address(**query))

    def go(self, page: str, **query: str | Sequence[str] | None) -> None:
        import streamlit as st

        st.switch_page(self.pages[page], query_params=self.address(**query))
