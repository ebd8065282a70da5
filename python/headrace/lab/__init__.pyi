from .client import Lab as Lab
from .client import list_notes as list_notes
from .launch import Settings as Settings
from .launch import become_daemon as become_daemon
from .launch import serve_again as serve_again
from .launch import start_lab as start_lab
from .launch import stop_lab as stop_lab
from .place import Place as Place
from .wire import LabRefused as LabRefused
from .wire import NoLab as NoLab

__all__ = [
    "Lab",
    "LabRefused",
    "NoLab",
    "Place",
    "Settings",
    "stop_lab",
    "become_daemon",
    "list_notes",
    "serve_again",
    "start_lab",
]
