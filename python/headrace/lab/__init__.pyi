from .client import Lab as Lab
from .client import notes as notes
from .launch import Settings as Settings
from .launch import down as down
from .launch import foreground as foreground
from .launch import serve_again as serve_again
from .launch import up as up
from .place import Place as Place
from .wire import LabRefused as LabRefused
from .wire import NoLab as NoLab

__all__ = ["Lab", "LabRefused", "NoLab", "Place", "Settings", "down", "foreground", "notes", "serve_again", "up"]
