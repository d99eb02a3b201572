"""Structure chunking: a chunk is a section of the document, such as an article of an act."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, Self

from pydantic import Field, model_validator

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Tools, strip_span
from rag_assay.assets.chunking.recursive import recursive_spans
from rag_assay.assets.chunking.ruler import fit_chunks
from rag_assay.assets.chunking.sections import SectionSpan, SectionTree
from rag_assay.assets.chunking.tokens import token_windows

if TYPE_CHECKING:
    from rag_assay.assets.tokenization.tokenizer import Tokenizer


class Structure(Chunker):
    """One chunk a section; what stands between sections (a chapter's heading, a preamble) is one of its own.

    limit: most tokens of a chunk as the embedder reads it, its prefix and the special tokens counted; a
        longer section is cut as `recursive` does
    overlap: most tokens that the parts of one section share, in whole pieces
    merge_below: join neighbours under one heading that each have fewer tokens than this, until they have as
        many together; 0 joins none
    prefix_heading: embed each chunk after the headings above it ("Chapter II > Article 5"). They take at most
        half of the limit: the outermost are left out first.

    A document without sections is cut as `recursive` does.
    """

    kind: ClassVar[str] = "structure"

    limit: Annotated[int, Field(ge=16, le=8192)] = 256
    overlap: Annotated[int, Field(ge=0)] = 0
    merge_below: Annotated[int, Field(ge=0)] = 0
    prefix_heading: bool = False

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if 2 * self.overlap >= self.limit:
            raise ValueError(f"overlap ({self.overlap}) must be smaller than half of limit ({self.limit})")
        if self.merge_below > self.limit:
            raise ValueError(f"merge_below ({self.merge_below}) must not be larger than limit ({self.limit})")
        return self

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        spans: list[ChunkSpan] = []
        room = self.limit - tools.tokenizer.special_tokens
        for part in self._parts(material, tools.tokenizer, room):
            spans += self._cut(material.text, part, room, tools.tokenizer)
        return spans

    def _cut(self, text: str, part: _Part, room: int, tokenizer: Tokenizer) -> list[ChunkSpan]:
        inside = text[part.start : part.end]

        def cut(most: int) -> list[ChunkSpan]:
            size = max(1, most - part.prefix_tokens)
            found = recursive_spans(inside, tokenizer, size, min(self.overlap, size - 1))
            counts = [part.prefix_tokens + span.n_tokens for span in found]
            if part.prefix and not tokenizer.steady:
                counts = tokenizer.count([part.prefix + inside[span.start : span.end] for span in found])
            return [
                ChunkSpan(part.start + span.start, part.start + span.end, n_tokens, part.prefix)
                for span, n_tokens in zip(found, counts, strict=True)
            ]

        return fit_chunks(cut, room, tokenizer)

    def _parts(self, material: ChunkerInput, tokenizer: Tokenizer, room: int) -> list[_Part]:
        groups = [[span] for span in _with_text(material)]
        if self.merge_below:
            groups = self._joined(material.text, groups, tokenizer, room)
        prefixes = (self._prefix(group, tokenizer, room) for group in groups)
        return [_Part(g[0].start, g[-1].end, *prefix) for g, prefix in zip(groups, prefixes, strict=True)]

    def _joined(
        self, text: str, alone: list[list[SectionSpan]], tokenizer: Tokenizer, room: int
    ) -> list[list[SectionSpan]]:
        counts = tokenizer.count([text[one.start : one.end] for (one,) in alone])
        groups: list[list[SectionSpan]] = []
        total = 0
        for (one,), n_tokens in zip(alone, counts, strict=True):
            small = bool(groups) and total < self.merge_below and n_tokens < self.merge_below
            if small and groups[-1][0].group == one.group:
                _, prefix_tokens = self._prefix([*groups[-1], one], tokenizer, room)
                if total + n_tokens + prefix_tokens <= room:
                    groups[-1].append(one)
                    total += n_tokens
                    continue
            groups.append([one])
            total = n_tokens
        return groups

    def _prefix(self, joined: list[SectionSpan], tokenizer: Tokenizer, room: int) -> tuple[str, int]:
        if not self.prefix_heading:
            return "", 0
        return heading_prefix(_shared(joined), tokenizer, room // 2)


class _Part(NamedTuple):
    start: int
    end: int
    prefix: str
    prefix_tokens: int


def _with_text(material: ChunkerInput) -> list[SectionSpan]:
    found = SectionTree(material.sections, len(material.text)).spans
    places = [strip_span(material.text, span.start, span.end) for span in found]
    return [span for span, (start, end) in zip(found, places, strict=True) if start < end]


def _shared(spans: list[SectionSpan]) -> list[str]:
    first, *others = [span.chain for span in spans]
    levels = zip(first, *others, strict=False)
    return [sections[0].heading for sections in takewhile(lambda equal: len(set(equal)) == 1, levels)]


def heading_prefix(headings: list[str], tokenizer: Tokenizer, most: int) -> tuple[str, int]:
    """Return headings joined as a prefix of at most ``most`` tokens, and its tokens."""
    path = [" ".join(heading.split()) for heading in headings if heading.strip()]
    while path:
        prefix = " > ".join(path) + "\n"
        (n_tokens,) = tokenizer.count([prefix])
        if n_tokens <= most:
            return prefix, n_tokens
        if len(path) == 1:
            prefix = path[0][: token_windows(path[0], tokenizer, most)[0].end] + "\n"
            return prefix, tokenizer.count([prefix])[0]
        del path[0]
    return "", 0
