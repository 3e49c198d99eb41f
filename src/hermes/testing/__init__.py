"""Real implementations to test agents and tools with: nothing here needs patching."""

from hermes.store import MemoryStore
from hermes.testing.clock import FakeClock
from hermes.testing.model import Scripted, ScriptedModel, call, calls

__all__ = ["FakeClock", "MemoryStore", "Scripted", "ScriptedModel", "call", "calls"]
