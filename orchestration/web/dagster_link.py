"""The Dagster UI that is started beside the app."""

from __future__ import annotations

import json
from contextlib import suppress
from urllib.request import urlopen

import streamlit as st

from rag_assay.orchestration.loopback import is_loopback

_URL = "http://127.0.0.1:3000"


def dagster_url() -> str:
    """Return the address of the Dagster UI; empty where none is started on this machine."""
    # Any server may listen there; and for a reader on another machine it is none.
    if is_loopback(st.context.ip_address or "127.0.0.1"):
        with suppress(OSError, ValueError), urlopen(f"{_URL}/server_info", timeout=0.3) as reply:  # noqa: S310
            if "dagster_webserver_version" in json.load(reply):
                return _URL
    return ""
