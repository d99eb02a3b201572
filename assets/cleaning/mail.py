"""Mails: messages of RFC 5322 (EML) and of Outlook (MSG)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import getaddresses, parsedate_to_datetime
from io import BytesIO
from typing import Any, NamedTuple

from rag_assay.assets.cleaning.blocks import paragraphs, read_blocks
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.tree import parse_page
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.pages import decode

_TITLE = 300
_MOST_PARTS = 1000
_SHOWN = ("From", "To", "Cc", "Date")


class _Mail(NamedTuple):
    """The parts of a mail; `html` is used if there is no `text`."""

    heads: dict[str, str]
    subject: str
    sent: datetime | None
    text: str
    html: str
    attachments: list[str]


def clean_eml(body: bytes) -> DocumentDraft:
    """Extract a mail: its subject as heading, sender, receivers and date, then its text, or its HTML
    if there is no plain text. Attachments are named in `metadata.attachments` and not read.
    """
    try:
        message = message_from_bytes(body, policy=policy.default)
        if not message.keys():
            raise UnusablePage("not a mail: it has no header")
        return _draft(_of_message(message))
    except (MessageError, LookupError, ValueError, RecursionError, AttributeError, TypeError) as error:
        raise UnusablePage(f"damaged: {type(error).__name__}: {str(error)[:100]}") from error


def _of_message(message: Any) -> _Mail:
    texts: list[str] = []
    htmls: list[str] = []
    attachments: list[str] = []
    waiting, count = [message], 0
    while waiting:
        part, count = waiting.pop(), count + 1
        if count > _MOST_PARTS:
            raise UnusablePage(f"more than {_MOST_PARTS} parts")
        kind, name = part.get_content_type(), part.get_filename()
        is_attached = name or part.get_content_disposition() == "attachment"
        if is_attached and (part is not message or not part.is_multipart()):
            attachments.append(tidy(name or kind))  # a mail that is attached, too
        elif part.is_multipart():
            waiting += reversed(part.get_payload())
        elif kind == "text/html":
            htmls.append(_decoded(part))
        elif kind.startswith("text/"):
            texts.append(_decoded(part))
        else:
            attachments.append(kind)
    heads = {name: head for name in _SHOWN if (head := _head(message, name))}
    return _Mail(
        heads,
        _head(message, "Subject"),
        _sent(heads),
        "\n\n".join(texts),
        "\n".join(htmls),
        attachments,
    )


def _head(message: EmailMessage, name: str) -> str:
    try:
        return tidy(str(message[name] or ""))
    except Exception:  # of the parser of addresses, of any kind: the header counts as it is written
        return next(tidy(str(value)) for key, value in message.raw_items() if key.lower() == name.lower())


def _decoded(part: EmailMessage) -> str:
    data = part.get_payload(decode=True)
    return decode(data, part["Content-Type"])[0] if isinstance(data, bytes) else ""


def _sent(heads: dict[str, str]) -> datetime | None:
    try:
        return parsedate_to_datetime(heads.get("Date", ""))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _draft(mail: _Mail) -> DocumentDraft:
    outline = OutlineBuilder()
    subject = " ".join(mail.subject.split())
    if subject:
        outline.begin(subject, 1)
    if heads := [f"{name}: {' '.join(value.split())}" for name, value in mail.heads.items()]:
        outline.add("\n".join(heads))
    texts = list(_body(mail))
    for text in texts:
        outline.add(text)
    if not texts and not subject:
        raise UnusablePage("no text in the mail")
    senders = getaddresses([mail.heads.get("From", "")])
    facts = {"date_source": "file" if mail.sent else "none", "attachments": ", ".join(mail.attachments)}
    return DocumentDraft(
        text=outline.closed().text,
        title=subject[:_TITLE] or None,
        published_at=mail.sent.date().isoformat() if mail.sent else None,
        authors=tuple(dict.fromkeys(name or address for name, address in senders if name or address)),
        sections=tuple(outline.sections),
        metadata={name: value for name, value in facts.items() if value},
        repaired=True,
    )


def _body(mail: _Mail) -> Iterator[str]:
    if mail.text.strip():
        yield from _tidied(mail.text.replace("\r\n", "\n").split("\n\n"))
    elif mail.html.strip():
        root = parse_page(mail.html)
        body = root.find("body")
        blocks = paragraphs(read_blocks(root if body is None else body))
        yield from _tidied(text for _, text in blocks)


def _tidied(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        lines = tidy(repair_encoding(text.strip("\n")))
        if lines.strip():
            yield lines


# -------------------------------------------------------------------------------------------- Outlook

_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_SENT = (0x0039, 0x0E06, 0x3007)  # submitted, delivered, created (MS-OXPROPS)
_TIME = 0x0040
_HEAD = 32  # bytes before the properties of a top-level message (MS-OXMSG, 2.4)


def clean_msg(body: bytes) -> DocumentDraft:
    """Extract a mail that Outlook saved, as `clean_eml` does; one whose text is RTF only is a drop."""
    require("olefile", "reading MSG files")
    import olefile  # type: ignore[import-untyped]

    try:
        with olefile.OleFileIO(BytesIO(body)) as file:
            mail = _of_outlook(file)
    except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
        raise UnusablePage(f"MSG: damaged: {type(error).__name__}: {str(error)[:100]}") from error
    if not mail.text.strip() and not mail.html.strip() and not mail.subject:
        raise UnusablePage("MSG: no text, or RTF only: save it as EML")
    return _draft(mail)


def _of_outlook(file: Any) -> _Mail:
    if not file.exists("__properties_version1.0"):
        raise UnusablePage("MSG: not a mail of Outlook")

    def stream(name: str, folder: str = "") -> bytes | None:
        path = f"{folder}__substg1.0_{name}"
        return file.openstream(path).read() if file.exists(path) else None

    def text(name: str, folder: str = "") -> str:
        if (data := stream(f"{name}001F", folder)) is not None:
            return tidy(data.decode("utf-16-le", "replace"))
        return tidy(decode(data)[0]) if (data := stream(f"{name}001E", folder)) else ""

    sent = _time_of(file.openstream("__properties_version1.0").read()[_HEAD:])
    address = text("5D01") or text("0C1F")
    heads = {
        "From": f"{text('0C1A')} <{address}>" if "@" in address else text("0C1A"),
        "To": text("0E04"),
        "Cc": text("0E03"),
        "Date": sent.strftime("%Y-%m-%d %H:%M") if sent else "",
    }
    html = stream("10130102")
    folders = {entry[0] for entry in file.listdir() if entry[0].startswith("__attach_version1.0_")}
    attached = [text("3707", f"{one}/") or text("3704", f"{one}/") for one in sorted(folders)]
    return _Mail(
        {name: value for name, value in heads.items() if value},
        text("0037"),
        sent,
        text("1000"),
        decode(html, "text/html")[0] if html else text("1013"),
        [name for name in attached if name],
    )


def _time_of(properties: bytes) -> datetime | None:
    times: dict[int, datetime] = {}
    for at in range(0, len(properties) - 15, 16):
        kind, name = (int.from_bytes(properties[at + n : at + n + 2], "little") for n in (0, 2))
        ticks = int.from_bytes(properties[at + 8 : at + 16], "little")
        if kind == _TIME and 0 < ticks < 3 * 10**18:
            times[name] = _EPOCH + timedelta(microseconds=ticks // 10)
    return next((times[name] for name in _SENT if name in times), None)
