"""Publish/subscribe that organises itself around who listens to what."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("coterie")
except PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "0.0.0"
