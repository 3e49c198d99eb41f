"""The `hermes` command."""

from .main import invoke, main

__all__ = ["invoke", "main"]
