"""Results as CI servers read them: GitHub annotations and JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from rag_assay.evals.reporting.display import plain, truncate

LONGEST = 2_000  # characters of a message


@dataclass(frozen=True)
class WorkflowAnnotation:
    """A sentence at a line (from 1) of a file of the repository."""

    level: Literal["error", "warning", "notice"]
    title: str
    message: str
    file: str = ""
    line: int = 0

    @property
    def command(self) -> str:
        """The line for the runner.

        >>> WorkflowAnnotation("error", "answers: x", "50% failed\\nno key", "a,b.yaml", 3).command
        '::error file=a%2Cb.yaml,line=3,title=answers%3A x::50%25 failed%0Ano key'
        """
        properties = {"file": self.file, "line": str(self.line) if self.line else "", "title": self.title}
        listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
        return f"::{self.level} {listed}::{_data(truncate(plain(self.message), LONGEST))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(plain(text)).replace(":", "%3A").replace(",", "%2C")


Ending = Literal["passed", "failed", "error", "skipped"]
_ELEMENTS: dict[Ending, str] = {"failed": "failure", "error": "error", "skipped": "skipped"}
_NO_XML = re.compile(
    "[\ufffe\uffff]"
)  # beside control characters and lone surrogates, which `plain` replaces


@dataclass(frozen=True)
class JUnitCase:
    """A cell of a stage, a check, or a gate.

    ending: failed: it was measured and does not hold; error: it could not be built; skipped: left out
    """

    name: str
    ending: Ending = "passed"
    reason: str = ""


@dataclass(frozen=True)
class Suite:
    """Cases of one kind; seconds: in all."""

    name: str
    cases: tuple[JUnitCase, ...]
    seconds: float = 0.0

    def count(self, ending: Ending) -> int:
        return sum(case.ending == ending for case in self.cases)


def junit_xml(name: str, suites: Sequence[Suite], timestamp: str) -> str:
    """timestamp: of the run, as ISO 8601

    >>> print(junit_xml("s", [Suite("gates", (JUnitCase("a < b", "failed", "no"),))], "2026-01-01T00:00:00"))
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="s" tests="1" failures="1" errors="0" time="0.000">
      <testsuite name="gates" tests="1" failures="1" errors="0" skipped="0" time="0.000" timestamp="2026-01-01T00:00:00">
        <testcase classname="s.gates" name="a &lt; b">
          <failure message="no">no</failure>
        </testcase>
      </testsuite>
    </testsuites>
    """  # noqa: E501 -- XML as it is written
    root = ElementTree.Element("testsuites", {"name": _text(name), **_counts(suites)})
    for suite in suites:
        counts = _counts([suite])
        seconds = {"skipped": str(suite.count("skipped")), "time": counts.pop("time")}
        facts = {"name": _text(suite.name), **counts, **seconds, "timestamp": timestamp}
        element = ElementTree.SubElement(root, "testsuite", facts)
        for case in suite.cases:
            _add(element, name, suite, case)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _counts(suites: Sequence[Suite]) -> dict[str, str]:
    return {
        "tests": str(sum(len(suite.cases) for suite in suites)),
        "failures": str(sum(suite.count("failed") for suite in suites)),
        "errors": str(sum(suite.count("error") for suite in suites)),
        "time": f"{sum(suite.seconds for suite in suites):.3f}",
    }


def _add(parent: ElementTree.Element, name: str, suite: Suite, case: JUnitCase) -> None:
    of_class = {"classname": _text(f"{name}.{suite.name}"), "name": _text(case.name)}
    element = ElementTree.SubElement(parent, "testcase", of_class)
    if case.ending != "passed":
        reason = _text(case.reason)
        message = reason.partition("\n")[0]
        ElementTree.SubElement(element, _ELEMENTS[case.ending], {"message": message}).text = reason


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", plain(text))
