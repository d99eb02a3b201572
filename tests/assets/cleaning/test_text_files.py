"""Markdown: headings as CommonMark has them, front matter as facts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.page_cleaner import clean_page
from rag_assay.assets.cleaning.text_files import clean_markdown
from rag_assay.warehouse.pages import write_body
from rag_assay.warehouse.paths import Home

NOTES = """---
title: "The ferry: a story"
date: 2024-05-03 10:00:00 +0200
authors: [Ada, {name: Ben}]
tags: ferry, harbour
---

Before all headings.

# One #

```sh
# no heading
~~~
```

~~~ text
```
# nor this
~~~

    # nor this

Two [words](https://a.example)
*over* two lines
===

- an item
---

### Deep `code`
words
---

#hashtag

***

## Last
end
"""


def clean(text: str) -> DocumentDraft:
    return clean_markdown(text.encode(), "text/markdown")


def outline(draft: DocumentDraft) -> list[tuple[int, str]]:
    return [(section["level"], section["heading"]) for section in draft.sections]


def test_headings_are_sections_and_code_is_none() -> None:
    draft = clean(NOTES)
    assert outline(draft) == [
        (1, "One"),
        (1, "Two words over two lines"),
        (3, "Deep code"),
        (2, "words"),
        (2, "Last"),
    ]
    texts = [draft.text[section["start"] : section["end"]] for section in draft.sections]
    assert texts[0].startswith("# One #\n\n```sh\n# no heading")
    assert texts[0].endswith("    # nor this")
    assert texts[1].startswith("Two [words]")
    assert texts[2:] == ["### Deep `code`", "words\n---\n\n#hashtag\n\n***", "## Last\nend"]
    assert texts[1].endswith(texts[-1]), "level 2 lies within level 1"


def test_front_matter_is_facts_and_not_text() -> None:
    draft = clean(NOTES)
    assert draft.text.startswith("Before all headings.")
    assert (draft.title, draft.published_at) == ("The ferry: a story", "2024-05-03T10:00:00+02:00")
    assert (draft.authors, draft.keywords) == (("Ada", "Ben"), ("ferry", "harbour"))
    assert draft.metadata == {"date_source": "file"}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\nA rule above\n---\nwords", "A rule above"),
        ("---\ntitle: [broken\n---\nwords", "title: [broken"),
        ("First line\n\n## Second **level**\n", "Second level"),
        ("First line\n\nwords\n", "First line"),
        ("---\n&a [*a]\n---\nwords", "&a [*a]"),
        ("---\r\ntitle: Windows\r\n---\r\nwords\r\n", "Windows"),
    ],
)
def test_titles(text: str, title: str) -> None:
    assert clean(text).title == title


def test_front_matter_of_aliases_in_aliases_ends() -> None:
    levels = "\n".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9 if n else ['x'] * 9)}]" for n in range(12)
    )
    assert clean(f"---\n{levels}\ntags: *a11\n---\nwords").keywords == ()


def test_a_file_of_front_matter_only_is_empty() -> None:
    with pytest.raises(UnusablePage, match="empty"):
        clean("---\ntitle: x\n---\n")


def test_a_markdown_file_becomes_a_document_with_sections(tmp_path: Path) -> None:
    home = Home(tmp_path)
    body = write_body(
        home, b"# Moorings\n\nTwelve pounds a night in the summer months.\n\n# Pilots\n\nBy radio.\n"
    )
    page = {"url": "a.md", "content_type": "text/markdown", "sha256": body, "fields": "{}"}
    document = clean_page("notes", page, home, None).document
    assert document is not None
    assert [section["heading"] for section in document["sections"]] == ["Moorings", "Pilots"]
    assert document["title"] == "Moorings"
    assert json.loads(document["metadata"])["date_source"] == "none"


LINES = [
    "# A",
    "## B",
    "### FuÃŸ",
    "words",
    "",
    "===",
    "---",
    "```",
    "~~~",
    "    # x",
    "- x",
    "Cafe\u0301",
    "> q",
]


@settings(deadline=None)  # the first example imports ftfy and yaml
@given(st.lists(st.sampled_from(LINES) | st.text(max_size=12), min_size=1, max_size=30))
def test_sections_are_exact_and_nest(lines: list[str]) -> None:
    try:
        draft = clean("\n".join(lines).encode("utf-8", "ignore").decode())
    except UnusablePage:
        return
    ends: list[tuple[int, int]] = []
    for section in draft.sections:
        text = draft.text[section["start"] : section["end"]]
        assert text
        assert text == text.strip("\n \t")
        assert draft.text[: section["start"]].endswith("\n") or section["start"] == 0
        while ends and ends[-1][0] >= section["level"]:
            ends.pop()
        assert all(section["end"] <= end for _, end in ends)
        ends.append((section["level"], section["end"]))
