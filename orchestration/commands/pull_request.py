"""The comment on a pull request of GitHub: what a study found there, and what has changed since the base."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_assay.orchestration.terminal.cli_errors import say
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    import httpx

    from rag_assay.evals.reporting.changes.results import HistoryEntry
    from rag_assay.warehouse.paths import Home

LONGEST = 60_000  # characters; GitHub takes 65,536
ROWS = 20  # of each table
TIMEOUT = 20.0  # seconds
PAGE = 100  # comments that are read at once


@dataclass(frozen=True)
class PullRequest:
    """A pull request, to which comments can be written.

    api: address of GitHub's API
    repository: as in OWNER/NAME
    """

    api: str
    repository: str
    number: int
    token: str = field(repr=False)

    def comment(self, mark: str, text: str) -> None:
        """Write a comment, or replace the bot's that begins with the same mark; a failure is a warning."""
        import httpx

        from rag_assay.warehouse.inference.egress import Destination, guard_client, only_to, origin
        from rag_assay.warehouse.inference.http_limits import limit

        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/vnd.github+json"}
        body = {"body": f"{mark}\n{_cut(text)}"}
        issue = f"/repos/{self.repository}/issues"
        try:
            opened = httpx.Client(base_url=self.api, headers=headers, timeout=TIMEOUT)
            with only_to(Destination(frozenset({origin(self.api)}))), guard_client(limit(opened)) as client:
                known = _comment_of(client, f"{issue}/{self.number}/comments", mark)
                if known is None:
                    reply = client.post(f"{issue}/{self.number}/comments", json=body)
                else:
                    reply = client.patch(f"{issue}/comments/{known}", json=body)
                reply.raise_for_status()
        except httpx.HTTPStatusError as error:
            code = error.response.status_code
            hint = "; the job needs `permissions: {pull-requests: write}`" if code in {401, 403, 404} else ""
            say(f"warning: no comment on pull request {self.number}: GitHub answered {code}{hint}")
        except (httpx.HTTPError, ValueError, TypeError, KeyError, AttributeError) as error:
            say(f"warning: no comment on pull request {self.number}: {type(error).__name__} at {self.api}")


def _comment_of(client: httpx.Client, url: str, mark: str) -> int | None:
    page = 1
    while True:
        reply = client.get(url, params={"per_page": PAGE, "page": page})
        reply.raise_for_status()
        found: list[dict[str, Any]] = reply.json()
        for one in found:  # what people write may begin with the mark, too
            author = one["user"] or {}  # null: the account is gone
            if (one["body"] or "").startswith(mark) and author.get("type") == "Bot":
                return int(one["id"])
        if len(found) < PAGE:
            return None
        page += 1


def _cut(text: str) -> str:
    """Keep whole lines of a text that is too long."""
    if len(text) <= LONGEST:
        return text
    return text[: text.rindex("\n", 0, LONGEST)] + "\n\n(cut; the report is complete)\n"


def pull_request() -> PullRequest | None:
    """Return the pull request of this run of GitHub Actions; None: it has none.

    Raises:
        InputError: the environment is not that of GitHub Actions, or there is no token.
    """
    names = ("GITHUB_REPOSITORY", "GITHUB_EVENT_PATH", "GITHUB_TOKEN")
    values = [os.environ.get(name, "") for name in names]
    if missing := [name for name, value in zip(names, values, strict=True) if not value]:
        hint = (
            "; give the step `env: {GITHUB_TOKEN: ${{ github.token }}}`"
            if missing == ["GITHUB_TOKEN"]
            else ""
        )
        raise InputError(f"--comment works in GitHub Actions, but {missing[0]} is not set{hint}")
    repository, event, token = values
    try:
        found = json.loads(Path(event).read_text(encoding="utf-8")).get("pull_request")
        number = int(found["number"]) if found else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"--comment: GITHUB_EVENT_PATH: {event} is not a GitHub event") from error
    if number is None:
        say("This run belongs to no pull request: nothing is commented on.")
        return None
    return PullRequest(
        os.environ.get("GITHUB_API_URL") or "https://api.github.com", repository, number, token
    )


def last_result(home: Home, study: str) -> HistoryEntry | None:
    from rag_assay.evals.reporting.changes.results import entries_of

    found = entries_of(home, study)
    return found[-1] if found else None


def changes_since(before: HistoryEntry | None, home: Home, study: str) -> str:
    """Return what differs between a result and the last one, in Markdown."""
    from rag_assay.evals.reporting.changes.diff import diff
    from rag_assay.evals.reporting.changes.diff_page import diff_page
    from rag_assay.evals.reporting.changes.pages import truncate_page
    from rag_assay.evals.reporting.markdown import render_page
    from rag_assay.warehouse.artifacts import ArtifactStore

    after = last_result(home, study)
    if before is None or after is None:
        return "There is no earlier result to compare with."
    page = diff_page(diff(before, after, ArtifactStore(home)))
    return render_page(truncate_page(page, ROWS, f"`assay diff {before.name} {after.name}`"))
