"""Agents: what they are, and how one carries a task."""

from .definition import AgentDefinition, load_agent, read_table
from .executor import Equipment, Executor, response_of

__all__ = [
    "AgentDefinition",
    "Equipment",
    "Executor",
    "load_agent",
    "read_table",
    "response_of",
]
