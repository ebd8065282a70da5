"""The version of this installation, from the metadata of the package."""

from importlib.metadata import version

__version__ = version("headrace")
