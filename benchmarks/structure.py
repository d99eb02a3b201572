"""How much of the structure of documentation pages cleaning keeps: headings, lists, definitions, cells, code.

    python -m benchmarks.structure FOLDER [--pages 4] [--seed 7] [--worst]

FOLDER holds a folder of HTML pages a generator, as Debian's `-doc` packages unpack to (`usr/share/doc` of
`dpkg -x`); of each, pages with three or more headings are drawn by the seed. What a page holds is counted in
its DOM, without navigation, header, footer and lists that are links alone. A heading counts as kept if it is
one of the document's sections; an item, term or definition if its first eight words stand there in a row; a
cell if a row holds it; a line of code if it stands there with its indentation. trafilatura and markitdown
read the same pages, where they are installed.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rag_assay.assets.cleaning.article import clean_article
from rag_assay.assets.cleaning.blocks import code_of, within, without_numbers
from rag_assay.assets.cleaning.draft import UnusablePage
from rag_assay.assets.cleaning.fidelity import is_beside
from rag_assay.assets.cleaning.tree import Element, parse_page
from rag_assay.warehouse.pages import decode

KINDS = ("headings", "items", "definitions", "cells", "code")


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def own(node: Element, without: tuple[str, ...] = ()) -> str:
    """Return the text of an element without that of blocks of their own within it."""
    parts = [node.text or ""]
    for child in node:
        if isinstance(child.tag, str) and child.tag not in {"script", "style", *without}:
            parts.append(own(child, without))
        parts.append(child.tail or "")
    return "".join(parts)


def content(root: Element) -> dict[str, list[str]]:  # noqa: C901 -- a loop for each kind
    """Return what a page holds of each kind."""
    without_numbers(root)
    inner = ("ul", "ol", "dl", "pre", "table", "p", "div", "blockquote")

    is_within = within(is_beside)

    def text_of(node: Element) -> str | None:
        if is_within((node, *node.iterancestors())):
            return None
        whole = words("".join(node.itertext()))
        away = (link for link in node.iter("a") if not str(link.get("href") or "#").startswith("#"))
        linked = words(" ".join("".join(link.itertext()) for link in away))
        return None if node.tag not in {"dt", "th"} and len(linked) >= 0.8 * len(whole) else whole

    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for node in root.iter("h1", "h2", "h3", "h4", "h5", "h6"):
        if text := text_of(node):
            found["headings"].append(text)
    for node in root.iter("li", "dt", "dd"):
        first = words(own(node, inner)) or words(own(next(node.iter("p"), node), inner[:-3]))
        if text_of(node) and first:
            found["items" if node.tag == "li" else "definitions"].append(first)
    for node in root.iter("td", "th"):
        text, layout = text_of(node), ".//table | .//pre | .//h1 | .//h2 | .//h3 | .//dl"
        if text and not next(node.iterancestors("table")).xpath(f"boolean({layout})"):
            found["cells"].append(text)
    for node in root.iter("pre"):
        if not is_within((node, *node.iterancestors())):
            found["code"] += [line.rstrip() for line in code_of(node).split("\n") if line.strip()]
    return found


def ours(page: bytes) -> tuple[str, list[str]]:
    draft = clean_article(page, "text/html", "")
    return draft.text, [section["heading"] for section in draft.sections]


def markdown_headings(text: str) -> tuple[str, list[str]]:
    return text, re.findall(r"(?m)^#{1,6} (.*)$", text)


def trafilatura(page: bytes) -> tuple[str, list[str]]:
    from trafilatura import extract

    return markdown_headings(extract(page.decode("utf-8", "replace"), output_format="markdown") or "")


def markitdown(page: bytes) -> tuple[str, list[str]]:
    import io

    from markitdown import MarkItDown

    return markdown_headings(
        MarkItDown().convert_stream(io.BytesIO(page), file_extension=".html").text_content
    )


def kept(found: dict[str, list[str]], text: str, headings: list[str]) -> Counter[str]:
    lines = Counter(line.rstrip() for line in text.split("\n"))
    plain = "\n".join(f" {words(line)} " for line in text.split("\n"))
    heads = {words(heading) for heading in headings}
    counts = Counter(
        headings=sum(one in heads for one in found["headings"]),
        code=(Counter(found["code"]) & lines).total(),
    )
    counts["cells"] = sum(f" {' '.join(one.split()[:8])} " in plain for one in found["cells"])
    flat = f" {words(text)} "
    for kind in ("items", "definitions"):
        counts[kind] = sum(f" {' '.join(one.split()[:8])} " in flat for one in found[kind])
    return counts


def pages(folder: Path, of_each: int, seed: int) -> Iterator[tuple[str, Path, bytes]]:
    draw = random.Random(seed)  # noqa: S311 -- a sample
    for generator in sorted(one for one in folder.iterdir() if one.is_dir()):
        files = sorted(one for one in generator.rglob("*.html") if one.is_file() and not one.is_symlink())
        draw.shuffle(files)
        taken = 0
        for file in files:
            page = file.read_bytes() if 3_000 < file.stat().st_size < 300_000 else b""
            if len(re.findall(rb"<h[1-6]\b", page, re.I)) >= 3:
                yield generator.name, file, page
                taken += 1
            if taken == of_each:
                break


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=4)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--worst", action="store_true", help="print the pages that lose most")
    options = parser.parse_args()
    tools: dict[str, Callable[[bytes], tuple[str, list[str]]]] = {"ours": ours, "trafilatura": trafilatura}
    try:
        import markitdown as _  # noqa: F401

        tools["markitdown"] = markitdown
    except ImportError:
        pass
    sample = list(pages(options.folder, options.pages, options.seed))
    holds = [content(parse_page(decode(page, "text/html")[0])) for _, _, page in sample]
    total = Counter({kind: sum(len(one[kind]) for one in holds) for kind in KINDS})
    print(f"{len(sample)} pages of {len({name for name, _, _ in sample})} generators: {dict(total)}")
    for tool, read in tools.items():
        counts, flat, begin = Counter[str](), 0, time.process_time()
        rows: list[tuple[float, str]] = []
        for (_name, file, page), found in zip(sample, holds, strict=True):
            try:
                text, headings = read(page)
            except (UnusablePage, ValueError) as error:
                text, headings = "", []
                rows.append((1.0, f"{file}: {error}"))
            here = kept(found, text, headings)
            flat += not headings
            counts += here
            lost: Any = {
                kind: len(found[kind]) - here[kind] for kind in KINDS if len(found[kind]) > here[kind]
            }
            share = max((n / len(found[kind]) for kind, n in lost.items()), default=0.0)
            rows.append((share, f"{file.relative_to(options.folder)}: lost {lost}"))
        milliseconds = 1000 * (time.process_time() - begin) / len(sample)
        shares = ", ".join(f"{kind} {counts[kind] / max(total[kind], 1):.3f}" for kind in KINDS)
        print(f"{tool}: {shares}; pages without a section {flat}; {milliseconds:.0f} ms a page")
        if options.worst and tool == "ours":
            print("\n".join(f"  {line}" for share, line in sorted(rows, reverse=True)[:15] if share > 0.05))


if __name__ == "__main__":
    main()
