"""What a provider's refusal means: its words turned into one `ModelError`."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.core import json
from hermes.errors import CodecError, ModelError
from hermes.models.surrogates import read_json

MAX_REPLY_BYTES = 32 * 1024 * 1024

_SHOWN_CHARS = 300

_RETRYABLE_WORDS = (
    "rate_limit",
    "overloaded",
    "server_error",
    "internal",
    "timeout",
    "unavailable",
)
_TOO_LONG_WORDS = (
    "context_length",
    "context length",
    "context size",
    "context window",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "exceeds the maximum number of tokens",
    "range of input length",
)
_WHEN_LIMITED = (
    "wait, then do the task anew with `hermes retry`; HERMES_MODEL_RPM and HERMES_MODEL_TPM keep "
    "within what the key allows, HERMES_MODEL_FALLBACK names a stand-in"
)
_WHEN_SPENT = "check the balance of the account that API_KEY belongs to"
WHEN_BROKEN = (
    "the fault is the server's: look at its log or its provider's status page, then do the task "
    "anew with `hermes retry`; HERMES_MODEL_FALLBACK names a stand-in"
)
_SPENT_WORDS = ("insufficient_quota", "insufficient_balance", "billing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who answers, as messages call it.

    Attributes:
        model: The model's name.
        host: Host and port.
        secrets: Texts to take out of whatever is shown, such as the key.
    """

    model: str
    host: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"model {self.model!r} at {self.host}"

    def show(self, text: str | bytes) -> str:
        """At most 300 characters of what the peer said, on one line and without secrets."""
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        for secret in self.secrets:
            text = text.replace(secret, "***")
        line = " ".join(text.split())
        return line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole HTTP answer.

    Attributes:
        kind: The content type, with its parameters.
    """

    status: int
    kind: str
    body: bytes


def read_object(answer: Answer, peer: Peer) -> Mapping[str, object]:
    """The JSON object that an answer should be.

    Raises:
        ModelError: It is something else, such as the HTML page of a proxy.
    """
    try:
        body = json.as_object(read_json(answer.body.removeprefix(BOM_UTF8)))
    except CodecError:
        body = None
    if body is None:
        kind = peer.show(answer.kind.partition(";")[0]) or "no content type"
        raise ModelError(
            f"{peer} answered {answer.status} with no JSON object ({kind}): "
            f"{peer.show(answer.body)!r}",
            code="bad_reply",
            retryable=not answer.body.strip(),  # a proxy that lost its server
            hint="check API_BASE: for most servers it ends in /v1",
        )
    return body


def fault_of_status(
    answer: Answer, peer: Peer, *, path: str, retry_after_s: float | None
) -> ModelError:
    """The error for an HTTP status that is no success.

    Args:
        answer: What came.
        peer: Who answered.
        path: Path that was asked for.
        retry_after_s: What the server asked to wait.
    """
    said = _said(answer.body, peer)
    status = answer.status
    tail = f": {said}" if said else ""
    match status:
        case 401 | 403:
            return ModelError(
                f"{peer} refused the key ({status}){tail}",
                code="auth",
                hint="set API_KEY to a key that this server accepts for this model",
            )
        case 402:
            return ModelError(
                f"{peer} wants to be paid first ({status}){tail}",
                code="auth",
                hint="check the balance of the account that API_KEY belongs to",
            )
        case 404 if "model" in said.casefold():
            return ModelError(
                f"{peer.host} does not know model {peer.model!r} (404){tail}",
                code="unknown_model",
                hint="set MODEL_NAME to a model that this server offers",
            )
        case 404 | 405:
            return ModelError(
                f"{peer.host} has no {_api_at(path)} at {path} ({status}){tail}",
                code="bad_request",
                hint=_other_way(path, peer),
            )
        case 429:
            spent = any(word in said.casefold() for word in _SPENT_WORDS)
            return ModelError(
                f"{peer} allows no more requests now (429){tail}",
                code="rate_limited",
                retryable=not spent,
                retry_after_s=retry_after_s,
                hint=_WHEN_SPENT if spent else _WHEN_LIMITED,
            )
        case 408:
            return ModelError(
                f"{peer} timed out (408){tail}", code="timeout", retryable=True, hint=WHEN_BROKEN
            )
        case _ if status >= 500:
            return ModelError(
                f"{peer} failed ({status}){tail}",
                code="server",
                retryable=True,
                retry_after_s=retry_after_s,
                hint=WHEN_BROKEN,
            )
        case _ if status < 400:
            return ModelError(
                f"{peer.host} answered {status} instead of a reply: a redirect is not followed",
                code="bad_request",
                hint="set API_BASE to the address that the server redirects to",
            )
        case _ if any(words in said.casefold() for words in _TOO_LONG_WORDS):
            return ModelError(
                f"{peer} says that the request is too long ({status}){tail}",
                code="context_length",
                hint="set HERMES_CONTEXT_WINDOW to what the server takes, in tokens; "
                "`hermes retry` then does the task anew and keeps within it",
            )
        case _:
            return ModelError(f"{peer} refused the request ({status}){tail}", code="bad_request")


def _api_at(path: str) -> str:
    return "Messages API" if path.endswith("/messages") else "chat completions"


def _other_way(path: str, peer: Peer) -> str:
    if path.endswith("/messages"):
        return (
            "check API_BASE: the Messages API is at API_BASE/v1/messages; a server of chat "
            f"completions is asked with MODEL_NAME={peer.model}, without `anthropic:`"
        )
    return (
        "check API_BASE: for most servers it ends in /v1; a server of the Messages API is asked "
        f"with MODEL_NAME=anthropic:{peer.model}"
    )


def is_of_chat(body: Mapping[str, object]) -> bool:
    """Whether a body, or a part of a stream, is one of chat completions."""
    return "choices" in body


def is_of_messages(body: Mapping[str, object]) -> bool:
    """Whether a body, or a part of a stream, is one of the Messages API."""
    return body.get("type") in ("message", "message_start") and "choices" not in body


def other_protocol(peer: Peer, *, is_chat: bool) -> ModelError:
    """The error for a reply in the form of another API, which will come again."""
    seen, wanted = "chat completions", "the Messages API"
    hint = f"set MODEL_NAME={peer.model}, without `anthropic:`"
    if not is_chat:
        seen, wanted, hint = wanted, seen, f"set MODEL_NAME=anthropic:{peer.model}"
    return ModelError(
        f"{peer} answered in the form of {seen}, not of {wanted}", code="bad_reply", hint=hint
    )


def fault_of_body(body: Mapping[str, object], peer: Peer, *, code: str) -> ModelError | None:
    """The error that an answer with status 200 carries, or None if it carries none.

    Args:
        body: The JSON object, or one chunk of a stream.
        peer: Who answered.
        code: The `ModelError.code` to use.
    """
    error = _error_in(body)
    if not error:
        return None
    return ModelError(
        f"{peer} reported: {message_of(body, peer) or peer.show(json.dumps(error))}",
        code=code,
        retryable=_is_passing(error),
        hint=WHEN_BROKEN if _is_passing(error) else "",
    )


def _error_in(body: Mapping[str, object]) -> object:
    if error := body.get("error"):
        return error
    # FastAPI, vLLM and proxies put the words at the top; no chunk of an answer has them there.
    is_bare_error = "choices" not in body and bool(body.get("message") or body.get("detail"))
    return body if is_bare_error else None


def message_of(body: Mapping[str, object], peer: Peer) -> str:
    """The words of an error body, in any of the forms that providers use; empty if there are none.

    The type or code follows in brackets where it is a word that says more.
    """
    error = body.get("error")
    if isinstance(error, str):
        return peer.show(error)
    found = json.as_object(error) or body
    text = found.get("message") or found.get("msg") or found.get("detail")
    if not isinstance(text, str):
        text = json.dumps(text) if text else ""
    words = [word for key in ("type", "code") if isinstance(word := found.get(key), str) and word]
    tail = f" [{', '.join(words)}]" if words and text else ""
    return peer.show(text + tail)


def _said(body: bytes, peer: Peer) -> str:
    try:
        found = json.as_object(json.loads(body))
    except CodecError:
        found = None
    if found is None:
        return "" if body.lstrip().startswith(b"<") else peer.show(body)
    return message_of(found, peer)


def _is_passing(error: object) -> bool:
    """Whether an error object speaks of something that may be over at the next try."""
    found = json.as_object(error)
    if found is None:
        return False
    words = " ".join(str(found.get(key, "")) for key in ("type", "code", "status")).casefold()
    return any(word in words for word in _RETRYABLE_WORDS) or any(
        word in {"408", "429", "500", "502", "503", "504", "529"} for word in words.split()
    )
