"""Writes real PDF files for tests: text at its place, in two weights of Helvetica."""

from __future__ import annotations

import textwrap
import zlib
from dataclasses import dataclass, field

A4 = (595, 842)
REGULAR, BOLD = "F1", "F2"


@dataclass
class Sheet:
    """One page; places are in points from its lower left corner."""

    width: float = A4[0]
    height: float = A4[1]
    rotate: int = 0
    marks: list[str] = field(default_factory=list)

    def put(self, x: float, y: float, text: str, size: float = 10, font: str = REGULAR) -> None:
        """Write a line; characters beyond Latin-1 are not in the font."""
        self.draw(f"1 0 0 1 {x} {y} Tm", text, size, font)

    def draw(self, matrix: str, text: str, size: float, font: str = REGULAR) -> None:
        """Write a line with a text matrix of one's own."""
        safe = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        self.marks.append(f"BT /{font} {size} Tf {matrix} ({safe}) Tj ET")

    def put_signs(self, x: float, y: float, signs: str, size: float = 10) -> None:
        """Draw signs of any script from left to right, each half as wide as high."""
        self.marks.append(f"BT /F3 {size} Tf 1 0 0 1 {x} {y} Tm <{signs.encode('utf-16-be').hex()}> Tj ET")

    def flow(self, x: float, y: float, text: str, columns: int, size: float = 10) -> float:
        """Write a paragraph in lines of so many characters; return where the next line would stand."""
        for line in textwrap.wrap(text, columns, break_on_hyphens=False):
            self.put(x, y, line, size)
            y -= 1.2 * size
        return y

    def picture(self, width: float, height: float) -> None:
        """Put an image of one grey dot over a part of the page, as large as this."""
        dot = "BI /W 1 /H 1 /CS /G /BPC 8 ID x EI"
        self.marks.append(f"q {width} 0 0 {height} 0 0 cm {dot} Q")


def pdf(*sheets: Sheet, title: str = "", created: str = "", author: str = "") -> bytes:
    """Return a PDF file with these pages."""
    font = "<</Type/Font/Subtype/Type1/BaseFont/{}/Encoding/WinAnsiEncoding>>"
    fonts = [font.format(name).encode() for name in ("Helvetica", "Helvetica-Bold")]
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", *fonts]
    objects.append(f"<</Title({title})/CreationDate({created})/Author({author})>>".encode("latin-1"))
    signs = _signs(len(objects))
    objects += signs
    kids = []
    for sheet in sheets:
        stream = zlib.compress("\n".join(sheet.marks).encode("cp1252"))
        head = f"<</Length {len(stream)}/Filter/FlateDecode>>\nstream\n".encode()
        objects.append(head + stream + b"\nendstream")
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {sheet.width} {sheet.height}]/Rotate {sheet.rotate}"
            f"/Contents {len(objects)} 0 R/Resources<</Font<</F1 3 0 R/F2 4 0 R/F3 6 0 R>>>>>>".encode()
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(kids)}]>>".encode()
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<</Size {len(objects) + 1}/Root 1 0 R/Info 5 0 R>>\nstartxref\n{len(out)}\n%%EOF\n"
    )
    return bytes(out) + end.encode()


def _signs(before: int) -> list[bytes]:
    """Return the objects of a font that draws nothing and says which sign is meant."""
    cmap = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n"
        b"1 begincodespacerange\n<0000> <ffff>\nendcodespacerange\n"
        b"1 beginbfrange\n<0000> <ffff> <0000>\nendbfrange\nendcmap end end"
    )
    system = "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
    return [
        f"<</Type/Font/Subtype/Type0/BaseFont/Signs/Encoding/Identity-H/DescendantFonts[{before + 2} 0 R]"
        f"/ToUnicode {before + 3} 0 R>>".encode(),
        f"<</Type/Font/Subtype/CIDFontType2/BaseFont/Signs{system}/DW 500>>".encode(),
        f"<</Length {len(cmap)}>>\nstream\n".encode() + cmap + b"\nendstream",
    ]
