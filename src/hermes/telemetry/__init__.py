"""Views of the journal, and log lines."""

from .trace import TraceView, as_jsonl, as_object, trace

__all__ = ["TraceView", "as_jsonl", "as_object", "trace"]
