"""Agents: what they are, and how one carries a task."""

from .definition import AgentDefinition, load_agent
from .executor import Equipment, Executor, Holding
from .feed import (
    Broken,
    CallBegun,
    Feed,
    FeedItem,
    Happened,
    Piece,
    ToolSaid,
    item_object,
    streamed,
)
from .launch import Launch
from .migrations import Migration
from .report import response_of

__all__ = [
    "AgentDefinition",
    "Broken",
    "CallBegun",
    "Equipment",
    "Executor",
    "Feed",
    "FeedItem",
    "Happened",
    "Holding",
    "Launch",
    "Migration",
    "Piece",
    "ToolSaid",
    "item_object",
    "load_agent",
    "response_of",
    "streamed",
]
