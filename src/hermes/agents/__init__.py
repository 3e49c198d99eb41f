"""Agents: what they are, and how one carries a task."""

from .definition import AgentDefinition, load_agent
from .executor import Equipment, Executor, Holding
from .launch import Launch
from .migrations import Migration
from .report import response_of

__all__ = [
    "AgentDefinition",
    "Equipment",
    "Executor",
    "Holding",
    "Launch",
    "Migration",
    "load_agent",
    "response_of",
]
