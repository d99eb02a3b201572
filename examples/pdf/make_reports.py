"""Write the PDF files of this example: `python make_reports.py` turns text/*.txt into reports/*.pdf."""

from pathlib import Path

LINES, SIZE = 40, 11  # of a page; points


def page_of(lines: list[str]) -> bytes:
    """Return the drawing commands of a page; a line that begins with `# ` is a heading."""
    drawn = [b"BT", f"{SIZE + 5} TL 72 770 Td".encode()]
    for line in lines:
        font, size = ("F2", SIZE + 4) if line.startswith("# ") else ("F1", SIZE)
        text = line.removeprefix("# ").replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
        drawn.append(f"/{font} {size} Tf ({text}) '".encode("cp1252"))
    return b"\n".join([*drawn, b"ET"])


def pdf_of(text: str) -> bytes:
    """Return a PDF with the lines of a text, whose pages end at form feeds."""
    pages = [page_of(page.strip("\n").splitlines()[:LINES]) for page in text.split("\f")]
    fonts = [
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode()
        for name in ("Helvetica", "Helvetica-Bold")
    ]
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        *fonts,
    ]
    for n, drawn in enumerate(pages):
        resources = "/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >>"
        page = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] {resources} /Contents {6 + 2 * n} 0 R >>"
        )
        stream = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn)
        objects += [page.encode(), stream]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n%s%s" % (len(objects) + 1, table, end)


if __name__ == "__main__":
    for source in sorted((Path(__file__).parent / "text").glob("*.txt")):
        target = source.parents[1] / "reports" / f"{source.stem}.pdf"
        target.write_bytes(pdf_of(source.read_text(encoding="utf-8")))
