"""Agents: what they are, and how one carries a task."""

from .definition import AgentDefinition, load_agent
from .executor import Equipment, Executor, response_of
from .launch import Launch

__all__ = [
    "AgentDefinition",
    "Equipment",
    "Executor",
    "Launch",
    "load_agent",
    "response_of",
]
