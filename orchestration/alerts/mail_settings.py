"""The mail server that alerts go through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Security = Literal["starttls", "tls", "none"]


@dataclass(frozen=True)
class MailSettings:
    """A server, and how it is spoken to; port 0: the usual one."""

    host: str = ""
    port: int = 0
    security: Security = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""
