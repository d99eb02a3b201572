"""A RAG application that stands for yours: `python server.py 8765`, then POST {"question": "..."} to /ask."""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parent / "handbook").glob("*.txt"))
}
SENTENCES = [
    (name, one) for name, text in PAGES.items() for one in re.split(r"(?<=[.;])\s+|\n\n", text) if one.strip()
]


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


def answer(question: str) -> dict[str, object]:
    """Return the three sentences that share most words with the question, and the first as the answer."""
    asked = words(question)
    best = sorted(SENTENCES, key=lambda pair: -len(asked & words(pair[1])))[:3]
    return {"answer": best[0][1], "passages": [{"text": text, "url": name} for name, text in best]}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = json.dumps(answer(body["question"])).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
