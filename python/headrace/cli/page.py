"""`headrace page`: what the command line answers, in a browser."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from headrace.base.lazy import defer_imports
from headrace.cli.options import LabOption, make_flag
from headrace.cli.output import say
from headrace.cli.sharing import read_epilog

with defer_imports():
    import webbrowser

    from headrace import lab as headrace_lab
    from headrace.ui import server as ui_server

EPILOG = read_epilog("page")


def page(
    *,
    lab: LabOption = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="PORT", help="Port on 127.0.0.1; 0: any that is not in use.")
    ] = 0,
    allow_changes: Annotated[
        bool, make_flag("--allow-changes", "Let the page create, attach, modify and fail volumes of the lab.")
    ] = False,
    open_browser: Annotated[bool, make_flag("--open/--no-open", "Open the page in a browser.")] = True,
) -> None:
    """Open a page on this machine: plans, databases, fleets, the lab, replicas, studies and proofs,
    to view and to change."""
    server = ui_server.PageServer(port, lambda: headrace_lab.Lab(lab), allow_changes)
    say(f"{server.address}\nCtrl-C ends it.")
    if open_browser:
        webbrowser.open(server.address)
    with contextlib.suppress(KeyboardInterrupt):  # the way to end it
        server.run()
