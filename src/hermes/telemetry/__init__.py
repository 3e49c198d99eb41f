"""Views of the journal, and log lines."""

from .trace import TraceView, as_jsonl, as_object, children_of, trace

__all__ = ["TraceView", "as_jsonl", "as_object", "children_of", "trace"]
