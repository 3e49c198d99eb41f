"""The composition root: an agent to call, and the application that makes its runs durable."""

from .agent import Agent, RunOptions
from .application import CANCEL_WAIT_S, Hermes

__all__ = ["CANCEL_WAIT_S", "Agent", "Hermes", "RunOptions"]
