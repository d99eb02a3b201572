"""Files of every kind through reader and cleaner: each a document or a reason, and the words that are kept.

    python -m benchmarks.readers FOLDER [--most 10] [--worst]

FOLDER holds files, such as the unpacked test data of packages; `--most` files of each suffix are read, in
order of their names. Recall is the share of the words of markitdown or pdftotext (if on the PATH) that the
document holds too; the mean over the files of a kind.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from rag_assay.assets.cleaning.page_cleaner import clean_page
from rag_assay.crawlers.readers import pages_of
from rag_assay.warehouse.pages import write_body
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source

_ADDED = re.compile(
    r"\]\([^)\s]*|\bNaN\b|\bUnnamed: \d+"
)  # by markitdown: addresses of links, pandas' empty cells


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", _ADDED.sub(" ", text).casefold()))


def ours(file: Path, home: Home) -> tuple[str | None, str]:
    """Return a file's text, or None and the reason."""
    with TemporaryDirectory(dir=home.root) as folder:
        shutil.copy(file, folder)
        reasons = []
        for page in pages_of(Source(reader="folder", path=folder)):
            if page.body is None:
                reasons.append(str(page.reason))
                continue
            row = {
                "url": page.url,
                "content_type": page.content_type,
                "fields": json.dumps(page.fields or {}),
                "sha256": write_body(home, page.body),
                "fetched_at": None,
            }
            cleaned = clean_page("files", row, home, None)
            if cleaned.document is not None:
                return str(cleaned.document["text"]), ""
            reasons.append(str((cleaned.dropped or {}).get("reason")))
    return None, "; ".join(reasons)


def read_by(command: str, file: Path) -> str | None:
    """Return what a command of the PATH makes of a file, or None."""
    arguments = {"markitdown": [str(file)], "pdftotext": [str(file), "-"]}[command]
    if not shutil.which(command) or (command == "pdftotext" and file.suffix.lower() != ".pdf"):
        return None
    done = subprocess.run([command, *arguments], capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def recall(text: str, reference: str | None) -> float | None:
    wanted = words(reference or "")
    return (wanted & words(text)).total() / wanted.total() if wanted else None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=10)
    parser.add_argument("--worst", action="store_true", help="print reasons, and files below 90 %")
    options = parser.parse_args()
    kinds: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(options.folder.rglob("*")):
        if file.is_file() and len(kinds[file.suffix.lower()]) < options.most:
            kinds[file.suffix.lower()].append(file)
    with TemporaryDirectory() as place:
        home = Home(Path(place))
        for suffix, files in sorted(kinds.items()):
            found = [(file, *ours(file, home)) for file in files]
            silent = [file for file, text, reason in found if text is None and not reason]
            documents = sum(text is not None for _, text, _ in found)
            line = f"{suffix or 'none':<10} {len(files):>3} files, {documents} documents, "
            for tool in ("markitdown", "pdftotext"):
                shares = {
                    file: recall(text, read_by(tool, file)) for file, text, _ in found if text is not None
                }
                known = [share for share in shares.values() if share is not None]
                line += f"recall of {tool} {mean(known):.3f} ({len(known)}), " if known else ""
                if options.worst:
                    low = [f"  {share:.2f} {file}" for file, share in shares.items() if (share or 1) < 0.9]
                    print(*low, sep="\n", end="\n" * bool(low))
            print(f"{line}{len(silent)} without a reason", flush=True)
            if options.worst:
                reasons = [f"  {file}: {reason[:150]}" for file, text, reason in found if text is None]
                print(*reasons, sep="\n", end="\n" * bool(reasons))


if __name__ == "__main__":
    main()
