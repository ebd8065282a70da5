"""`headrace page`: what the command line answers, in a browser."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Annotated

import typer

from headrace.base.lazy import defer_imports
from headrace.base.waiting import wait_until
from headrace.cli.options import LabOption, make_flag
from headrace.cli.output import say
from headrace.cli.sharing import read_epilog

with defer_imports():
    import webbrowser

    from headrace import lab as headrace_lab
    from headrace.ui import server as ui_server

EPILOG = read_epilog("page")
# The page serves within a second; a browser that is opened much later surprises. A guess.
SERVES_S, LOOK_S = 10.0, 0.02


def page(
    *,
    lab: LabOption = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="PORT", help="Port on 127.0.0.1; 0: any that is not in use.")
    ] = 0,
    allow_changes: Annotated[
        bool, make_flag("--allow-changes", "Let the page create, attach, modify and fail volumes of the lab.")
    ] = False,
    open_browser: Annotated[
        bool, make_flag("--open/--no-open", "Open the page in a browser, where there is a display or BROWSER is set.")
    ] = True,
) -> None:
    """Open a page on this machine: plans, databases, fleets, the lab, replicas, studies and proofs,
    to view and to change."""
    server = ui_server.PageServer(port, lambda: headrace_lab.Lab(lab), allow_changes)
    say(f"{server.address}\nCtrl-C ends it.")
    if open_browser and _has_display():
        # Some browsers return when they are closed.
        threading.Thread(target=_open_browser, args=(server,), name="headrace-page-browser", daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):  # the way to end it
        server.run()


def _has_display() -> bool:
    """Returns whether a browser of this machine can show the page. On Linux without a display there
    are those of the terminal, which run no scripts; BROWSER names the user's own choice."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _open_browser(server: ui_server.PageServer) -> None:
    """Opens the page in a browser once it is served."""
    if wait_until(lambda: server.is_serving, SERVES_S, LOOK_S):
        webbrowser.open(server.address)
