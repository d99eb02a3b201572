"""The sample blog on loopback, whose pages a test may change, and a study of it that is run between."""

from __future__ import annotations

from pathlib import Path

from rag_assay.crawlers.sample_site.server import FOLDER, load
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.run_report import RunReport
from rag_assay.warehouse.paths import Home
from tests.fakes.site import Reply, Site

HOST = "https://blog.sample.example"
ON_CALL = "/2020/07/02/five-people-one-phone/"
LICENCES = "/2021/01/19/choosing-licences/"
DATASETS = "/2022/05/17/148-datasets/"
HERON = "/2023/11/28/grey-heron/"
HOSTING = "/2022/10/04/choosing-a-host/"
POSTS = {ON_CALL, LICENCES, DATASETS, HERON, HOSTING, "/2020/03/10/the-migration-that-failed/"}
STUDY = """\
study: harbour
sources:
  posts: {{spider: blog, start: ["{base}/"], allow_private: true, language: en, delay: 0}}
corpus: {{name: harbour, sources: [posts]}}
chunkings:
  t96: {{tokens: {{size: 96}}}}
embedders:
  minilm: {{model: all-MiniLM-L6-v2}}
retrievers:
  words: {{bm25: {{k: 3}}}}
  meaning: {{dense: {{k: 3}}}}
generators:
  quote: {{extractive: {{passages: 2, max_tokens: 40}}}}
questions: [{{file: harbour.questions.yaml}}]
metrics: [evidence_coverage@3, ndcg@10, rouge_l]
"""
QUESTIONS = """\
question_set: harbour
language: en
questions:
  - id: pay
    question: How much does the council pay for a week on call?
    ground_truth: £140.
    evidence: [{{url: "{base}/2020/07/02/five-people-one-phone/", quote: "pay £140 for the week"}}]
  - id: alarms
    question: How many of the 19 alarms were false?
    ground_truth: Eleven of the 19.
    evidence: [{{url: "{base}/2020/07/02/five-people-one-phone/", quote: "Eleven of the 19 were false"}}]
  - id: people
    question: How many people share one telephone?
    ground_truth: Five.
    evidence: [{{url: "{base}/2020/07/02/five-people-one-phone/", quote: "Five of us share one telephone"}}]
"""


class Blog:
    """Pages of the sample blog on a server of the test's: six of its posts, and what leads to them."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.pages: dict[str, tuple[str, str]] = {}
        for path, answer in load(FOLDER / "blog").items():
            kind = answer.headers.get("Content-Type", "")
            if answer.status == 200 and kind.startswith(("text/", "application/")):
                text = answer.body.decode().replace(HOST, site.base)
                self.pages[path] = (text, kind)
        self.put(*self.pages)
        for path in [path for path in self.pages if path.startswith("/20") and path not in POSTS]:
            self.remove(path)

    def put(self, *paths: str) -> None:
        """Serve pages as they are now."""
        for path in paths:
            text, kind = self.pages[path]
            self.site[path] = Reply(text, kind)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text of a page, which must be there."""
        text, kind = self.pages[path]
        assert old in text, (path, old)
        self.pages[path] = (text.replace(old, new), kind)
        self.put(path)

    def everywhere(self, old: str, new: str) -> None:
        """Replace a text in all pages that have it."""
        for path, (text, kind) in self.pages.items():
            self.pages[path] = (text.replace(old, new), kind)
        self.put(*self.pages)

    def move(self, path: str, to: str) -> None:
        """Let a page be at another address, by which all others know it."""
        self.pages[to] = self.pages.pop(path)
        del self.site.replies[path]
        self.everywhere(path, to)

    def remove(self, path: str) -> None:
        """Take a page away, and all links to it."""
        del self.pages[path]
        del self.site.replies[path]
        self.everywhere(f'href="{path}"', 'href="/"')


def write_harbour(folder: Path, site: Site) -> Path:
    """Write the study and its questions; return its path."""
    (folder / "harbour.questions.yaml").write_text(QUESTIONS.format(base=site.base))
    path = folder / "harbour.yaml"
    path.write_text(STUDY.format(base=site.base))
    return path


def run_harbour(path: Path, home: Home, *, again: bool = True) -> RunReport:
    """Crawl again and bring everything up to date."""
    report = Driver(read_study(path), home).run(again=again)
    assert report.ok, [stage for stage in report.stages if stage.failed]
    return report
