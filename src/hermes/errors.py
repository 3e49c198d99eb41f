"""Everything that Hermes raises on purpose.

HermesError
├── InputError             fix what you sent; trying again unchanged is useless
│   ├── ConfigError        a setting, agent file or playbook is wrong
│   ├── ToolDefinitionError  a tool cannot be registered as it is written
│   ├── CodecError         stored or foreign data has a form this version cannot read
│   ├── TransitionError    an event does not fit the state of its task
│   └── NotFoundError      no such task, session, blob or tool
├── StoreError             the journal could not be read or written
│   ├── StaleLeaseError    another worker holds the lane: stop, write nothing
│   ├── LeaseHeldError     the task is in the hands of a live worker
│   ├── ConcurrencyError   another writer appended first: read the stream again
│   ├── ConflictError      the same id was used for something else
│   │   └── EffectTakenError  another call has claimed the same business key
│   └── StoreUnavailableError  the database is locked, full or unreachable
│       └── StoreBrokenError   nobody knows what is on the disk: this process may write no more
├── ModelError             a model gave no usable reply; `retryable` says whether to try again
├── ToolError              raised by a tool: the model reads it
│   └── NotDone            raised by a tool that surely had no effect
└── DriftError             a resumed run differs from its record
└── RunCancelled           a run was cancelled before its end
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class HermesError(Exception):
    """Base of all errors raised on purpose; `hint` says what to do next, if that is known."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InputError(HermesError):
    """The caller has to change what was given."""


class ConfigError(InputError):
    """A setting, an agent file or a playbook is wrong; nothing was started."""


class ToolDefinitionError(InputError):
    """A function cannot become a tool as it is written."""


class CodecError(InputError):
    """Data has a form that this version cannot read."""


class TransitionError(InputError):
    """An event does not fit the state of its task; nothing was written."""


class NotFoundError(InputError):
    """Nothing has this id."""


class StoreError(HermesError):
    """The journal could not be read or written."""


class StaleLeaseError(StoreError):
    """Another worker has taken the lane over; this one must stop and write nothing."""

    def __init__(self, message_id: str, *, token: int) -> None:
        super().__init__(f"the lease of message {message_id!r}, token {token}, is no longer held")
        self.message_id, self.token = message_id, token


class LeaseHeldError(StoreError):
    """A live worker holds the task."""

    def __init__(self, task_id: str, *, worker: str, where: str) -> None:
        super().__init__(
            f"task {task_id} is being worked on by {worker} ({where})",
            hint="wait for it, or stop that process and try again",
        )
        self.task_id, self.worker, self.where = task_id, worker, where


class ConcurrencyError(StoreError):
    """Another writer appended first; read the stream again and retry."""

    def __init__(self, task_id: str, *, expected: int, actual: int) -> None:
        super().__init__(f"task {task_id} is at event {actual}, expected {expected}")
        self.task_id, self.expected, self.actual = task_id, expected, actual


class ConflictError(StoreError):
    """An id or dedupe key was used before for something else."""


class EffectTakenError(ConflictError):
    """Another call claimed this business key first; nothing was written. Read the ledger again."""

    def __init__(self, tool: str, key: str, *, task_id: str, path: str) -> None:
        super().__init__(f"{tool} with key {key!r} was begun by task {task_id} at {path}")
        self.tool, self.key, self.task_id, self.path = tool, key, task_id, path


class StoreUnavailableError(StoreError):
    """The database is locked, full, read-only or unreachable."""


class StoreBrokenError(StoreUnavailableError):
    """A write broke so that nobody knows what is on the disk; this process may write no more."""


class ModelError(HermesError):
    """A model gave no usable reply.

    Attributes:
        code: `unreachable`, `timeout`, `auth`, `rate_limited`, `refused`, `bad_request`,
            `context_length`, `server`, `bad_reply`, `stream`, `unknown_model`, `playbook`,
            `unavailable` (not sent: its breaker is open) or `cassette` (not recorded).
        retryable: The same request may succeed later.
        retry_after_s: What the server asked to wait, if it did.
        partial_text: What had arrived before a stream broke.
        charged: What the provider may charge for a reply that broke off, by an estimate: the
            figures of a `Usage`; empty for nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retryable: bool = False,
        retry_after_s: float | None = None,
        partial_text: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.code, self.retryable = code, retryable
        self.retry_after_s, self.partial_text = retry_after_s, partial_text
        self.charged: Mapping[str, int] = {}

    def reworded(self, message: str) -> ModelError:
        """The same error with another message."""
        other = ModelError(
            message,
            code=self.code,
            retryable=self.retryable,
            retry_after_s=self.retry_after_s,
            partial_text=self.partial_text,
            hint=self.hint,
        )
        other.charged = self.charged
        return other


class ToolError(HermesError):
    """A tool's own failure, told to the model.

    Attributes:
        code: A short word that the model and metrics can rely on.
        retryable: The same call may succeed later.
    """

    def __init__(
        self, message: str, *, code: str = "failed", retryable: bool = False, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.code, self.retryable = code, retryable


class NotDone(ToolError):
    """The tool surely had no effect, so the call may be made again whatever its effect class."""

    def __init__(self, message: str, *, code: str = "not_done", hint: str = "") -> None:
        super().__init__(message, code=code, retryable=True, hint=hint)


class DriftError(HermesError):
    """A resumed run would do something else than its record says; nothing was written.

    Attributes:
        path: The step where they differ, or `code` for the program as a whole.
        then: What the journal holds.
        now: What the present code or settings would do.
        differences: One line each; of a step, the one that `then` and `now` make.
    """

    def __init__(
        self,
        path: str,
        *,
        then: str = "",
        now: str = "",
        differences: Sequence[str] = (),
        hint: str = "",
    ) -> None:
        at_step = f"step {path} differs from the record: then {then}, now {now}"
        of_program = "the program is not the one that the task was begun with"
        super().__init__(
            f"{of_program}: {'; '.join(differences)}" if differences else at_step,
            hint=hint
            or "resume with the agent, tools and arguments of the record, or start a new task",
        )
        self.path, self.then, self.now = path, then, now
        self.differences = tuple(differences) or (f"{path}: then {then}, now {now}",)
