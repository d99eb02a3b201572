"""`assay alerts`: the channels of a study's alerts, and a test alert through each."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from rag_assay.orchestration.commands.study_arguments import home_to_look_at, study_of
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, StudyArgument, plainly
from rag_assay.warehouse.errors import InputError


@plainly
def alerts(
    study: StudyArgument,
    test: Annotated[bool, Option("--test", help="Send a test alert through each channel.")] = False,
) -> int:
    """Show where a study's alerts go; --test sends a test alert."""
    from rag_assay.orchestration.alerts.delivery import channels_of, try_out
    from rag_assay.orchestration.alerts.journal import Journal

    found, where = study_of(study), home_to_look_at()
    channels = channels_of(found)
    if not channels:
        raise InputError(
            f"{study} sends no alerts: give it `alerts: {{email: [you@example.org]}}`, or set "
            "ASSAY_ALERTS_EMAIL or ASSAY_ALERTS_WEBHOOK"
        )
    if test:
        results = try_out(found, where)
        for name, reason in results:
            print(f"{name}: {reason or 'sent'}")
        return FAILED if any(reason for _, reason in results) else DONE
    waiting = [name for _, name in Journal(where, found.study).waiting([one.name for one in channels])]
    for channel in channels:
        n = waiting.count(channel.name)
        state = f"{n} not sent; the next run tries again" if n else "nothing is waiting"
        print(f"{channel.name}: {state}")
    return DONE
