"""JUnit XML and GitHub's annotations: what other programs read, whatever the texts in them say."""

from __future__ import annotations

from lxml import etree

from rag_assay.evals.reporting.ci_formats import JUnitCase, Suite, WorkflowAnnotation, junit_xml
from rag_assay.evals.reporting.markdown import NOWHERE, markdown_table

HOSTILE = 'a]]> <b attr="1">&amp; \x00\x1b[31m \ufffe \ud800 {{7*7}}\n::error::two\r\nlines\u202e'


def element(name: str, parts: str, *attributes: str) -> str:
    """A complex type of the schema: parts in their order, attributes of which those with `!` are required."""
    use = {True: "required", False: "optional"}
    listed = "".join(
        f'<xs:attribute name="{one.strip("!")}" type="xs:string" use="{use["!" in one]}"/>'
        for one in attributes
    )
    return f'<xs:element name="{name}"><xs:complexType{parts}{listed}</xs:complexType></xs:element>'


def of(*names: str) -> str:
    """A sequence of elements; those with `?` come at most once, others as often as they like."""
    most = {True: "1", False: "unbounded"}
    listed = "".join(
        f'<xs:element ref="{one.strip("?")}" minOccurs="0" maxOccurs="{most["?" in one]}"/>' for one in names
    )
    return f"><xs:sequence>{listed}</xs:sequence>"


COUNTS = ("tests!", "failures", "errors", "time", "disabled")
SCHEMA = etree.XMLSchema(
    etree.fromstring(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
        + element("failure", ' mixed="true">', "type", "message")
        + element("error", ' mixed="true">', "type", "message")
        + element("skipped", ' mixed="true">', "type", "message")
        + element("testcase", of("skipped?", "error", "failure"), "name!", "classname", "time", "status")
        + element("testsuite", of("testcase"), "name!", *COUNTS, "skipped", "timestamp", "hostname", "id")
        + element("testsuites", of("testsuite"), "name", *COUNTS)
        + "</xs:schema>"
    )
)
"""The elements in their order, and the attributes, that the xUnit plugin of Jenkins takes."""


def test_the_xml_is_valid_and_says_what_happened() -> None:
    suites = [
        Suite(
            "answers",
            (JUnitCase("s.a"), JUnitCase("s.b", "error", "no key\nat all"), JUnitCase("s.c", "skipped", "x")),
            2.5,
        ),
        Suite("gates", (JUnitCase("ndcg@10 is at least 0.7", "failed", "it has 0.6"),)),
    ]
    root = etree.fromstring(junit_xml("s", suites, "2026-01-01T00:00:00").encode())
    SCHEMA.assertValid(root)
    assert dict(root.attrib) == {"name": "s", "tests": "4", "failures": "1", "errors": "1", "time": "2.500"}
    answers, gates = root
    assert (answers.get("errors"), answers.get("skipped"), gates.get("failures")) == ("1", "1", "1")
    error = answers[1][0]
    assert (error.tag, error.get("message"), error.text) == ("error", "no key", "no key\nat all")


def test_hostile_text_stays_text() -> None:
    suites = [
        Suite(HOSTILE, (JUnitCase(HOSTILE, "failed", HOSTILE), JUnitCase(HOSTILE, "error", "x" * 1_000_000)))
    ]
    root = etree.fromstring(
        junit_xml(HOSTILE, suites, "2026-01-01T00:00:00").encode(), etree.XMLParser(huge_tree=True)
    )
    SCHEMA.assertValid(root)
    assert [one.tag for one in root.iter()] == [
        "testsuites",
        "testsuite",
        "testcase",
        "failure",
        "testcase",
        "error",
    ]
    failure = root[0][0][0]
    assert failure.text.startswith('a]]> <b attr="1">&amp; ')
    assert "two" in failure.text


def test_an_annotation_is_one_line_and_one_command() -> None:
    line = WorkflowAnnotation("error", f"t,:{HOSTILE}", HOSTILE, "x,y:z.yaml", 4).command
    assert "\n" not in line
    assert "\r" not in line
    head, _, message = line.removeprefix("::error ").partition("::")
    assert [part.partition("=")[0] for part in head.split(",")] == ["file", "line", "title"]
    assert "%0A%3A%3Aerror" in head
    assert "%0A::error::two" in message
    assert len(WorkflowAnnotation("error", "t", "x" * 100_000).command) < 2_100


def test_a_table_holds_what_would_be_markup() -> None:
    table = markdown_table(["a", "b"], [[HOSTILE, "@everyone [x](javascript:1) <img src=x>"]])
    assert len(table.splitlines()) == 3
    row = table.splitlines()[2]
    assert "<" not in row.replace("\\<", "")
    assert f"@{NOWHERE}everyone \\[x\\]" in row
