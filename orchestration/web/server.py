"""The process that serves a page: `python -m orchestration.web.server SCRIPT OPTIONS ARGUMENTS…`.

It does what `streamlit run` does, and three things more: it loads the page's modules while a browser still
loads its own, asks no other host for its address, and ends when the process that started it does.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Thread, main_thread

_GRACE = 3.0  # seconds to end in


def main(arguments: Sequence[str]) -> None:
    """Serve a page until a signal comes, or the other end of the standard input is closed.

    arguments: the page's script, Streamlit's options as a JSON object, what the script gets
    """
    script, options, *own = arguments
    from streamlit import config, net_util
    from streamlit.web import bootstrap

    flags = {name.replace(".", "_"): value for name, value in json.loads(options).items()}
    config._main_script_path = script  # as `streamlit run` sets it
    bootstrap.load_config_options(flags)
    net_util.get_external_ip = lambda: None  # it would ask a host of the internet
    Thread(target=_end_with_parent, daemon=True).start()
    Thread(target=_load, args=(Path(script),), daemon=True).start()
    bootstrap.run(script, False, list(own), flags)


def _load(script: Path) -> None:
    """Import what a script imports, before anybody opens it; what fails here fails there with its reason."""
    for line in script.read_text(encoding="utf-8").splitlines():
        if line.startswith("from orchestration."):
            try:
                importlib.import_module(line.split()[1])
            except Exception:
                return


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    # The main thread sleeps until something happens; a signal to it wakes it.
    signal.pthread_kill(main_thread().ident or 0, signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
