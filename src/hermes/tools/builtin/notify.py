"""Messages to webhooks and to the group bots of chat services; group `notify`."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, cast

import anyio
from pydantic import Field

from hermes.core.clock import Clock, SystemClock
from hermes.errors import ConfigError, ToolError
from hermes.tools.base import NOT_DONE, NotDoneType, Tool
from hermes.tools.function import tool

from .offered import chosen, offering
from .options import BuiltinOptions, Channel
from .senders import Address, LostAnswer, Reply, encoded, post
from .senders_chat import SERVICES, ChatKind, Format, Service
from .senders_pace import Pace, parts_of

MessageId = Annotated[str, Field(min_length=1, max_length=200)]

_WEBHOOKS_A_MINUTE = 60
_MAX_PAYLOAD_BYTES = 256 * 1024
_GOOD = ("", "0", "ok", "success", "succeeded", "true")

Sleep = Callable[[float], Awaitable[object]]


class Channels:
    """The configured channels of one sort, each with its pace."""

    def __init__(self, channels: tuple[Channel, ...], *, clock: Clock, sleep: Sleep) -> None:
        self._all = {each.name: each for each in channels}
        self._paces = {
            each.name: Pace(_per_minute(each), clock=clock, sleep=sleep) for each in channels
        }

    @property
    def names(self) -> list[str]:
        """In the order of the settings."""
        return list(self._all)

    def find(self, name: str) -> Channel:
        """A channel by its name; "" is the only one.

        Raises:
            ToolError: There is none of that name, or more than one to choose from.
        """
        return chosen(self._all, name, what="channel", setting="HERMES_NOTIFY_CHANNELS")

    def pace(self, channel: Channel) -> Pace:
        """The channel's pace."""
        return self._paces[channel.name]

    def fault(self) -> str | None:
        """What is wrong with the settings, for a health check."""
        if not self._all:
            return "no channel is configured: set HERMES_NOTIFY_CHANNELS"
        for each in self._all.values():
            try:
                Address.of(each.url)
            except ConfigError as exc:
                return f"channel {each.name}: {exc}"
        return None


def _per_minute(channel: Channel) -> int:
    if channel.per_minute is not None:
        return channel.per_minute
    return _WEBHOOKS_A_MINUTE if channel.kind == "webhook" else SERVICES[channel.kind].per_minute


def message_tool(channels: Channels, clock: Clock) -> Tool:
    """`send_message`."""

    async def send_message(
        message_id: MessageId, channel: str, text: str, format: Format = "text"
    ) -> dict[str, object]:
        """Send a message to a chat group: WeCom, Feishu, DingTalk or Slack.

        Use it to tell people what has happened or was found. Not for questions that need an
        answer: use ask_human; not for reports of many pages: send_email takes attachments. A
        message_id is sent once: a second call with it sends nothing and gets the first result.
        A text that is too long for the service goes out in numbered parts, at most 10.

        Example: send_message(message_id="returns-2026-11-29", channel="ops", text="退货率 12%").

        Args:
            message_id: Names this message to this channel, such as report-2026-11-29-ops; take
                another one for another text or channel.
            channel: A configured channel, by its name.
            text: The message; who reads it sees nothing of this conversation.
            format: text, or markdown as far as the service knows it.

        Returns:
            The channel, the service, and how many parts were sent.
        """
        target = channels.find(channel)
        kind = cast("ChatKind", target.kind)
        service = SERVICES[kind]
        address = Address.of(target.url)
        parts = parts_of(text, limit=service.limits[format], size=service.size, what=kind)
        await channels.pace(target).admit(len(parts), what=f"channel {target.name}")
        for sent, part in enumerate(parts):
            try:
                await _send_part(service, target, address, part, format, clock)
            except (ToolError, LostAnswer) as exc:
                if not sent:
                    raise
                # A repeat would send the first parts again.
                raise LostAnswer(f"{sent} of {len(parts)} parts were sent, then: {exc}") from None
        return {
            "message_id": message_id,
            "channel": target.name,
            "service": kind,
            "parts": len(parts),
        }

    made = tool(
        effect="unsafe",
        group="notify",
        key="{message_id}",
        key_scope="global",
        outbound=True,
        timeout_s=240,
        health=channels.fault,
    )(send_message)
    return offering(made, "channel", channels.names)


async def _send_part(
    service: Service, target: Channel, address: Address, part: str, form: Format, clock: Clock
) -> None:
    more, query = service.sign(target.secret, clock.now()) if target.secret else ({}, {})
    signed = Address.of(target.url, query=query, secret=target.secret) if query else address
    reply = await post(signed, more | service.body(part, form))
    service.check(reply, Address.of(target.url, secret=target.secret))


def webhook_tool(channels: Channels, clock: Clock) -> Tool:
    """`send_webhook_notification`."""

    def reconcile(_: str, arguments: Mapping[str, object]) -> NotDoneType:
        target = channels.find(str(arguments.get("webhook") or ""))
        if target.idempotent:
            return NOT_DONE  # or taken already: then the repeat changes nothing
        raise ToolError(
            f"webhook {target.name} cannot be asked whether the message arrived; if it takes each "
            "Idempotency-Key once, set idempotent = true for it"
        )

    async def send_webhook_notification(
        message_id: MessageId,
        text: str = "",
        payload: dict[str, object] = {},  # noqa: B006  # copied for each call
        webhook: str = "",
    ) -> dict[str, object]:
        """Post a notification as JSON to a configured webhook of another system.

        It gets {"message_id": …, "text": …} and the fields of payload, and the message_id as its
        Idempotency-Key. Use it to tell a system of an event; not to talk to people (send_message,
        send_email) and not to fetch anything. A message_id is sent once: a second call with it
        sends nothing and gets the first result.

        Example: send_webhook_notification(message_id="alert-42", text="disk full", webhook="ops").

        Args:
            message_id: Names this notification; take another one for other content or another
                webhook.
            text: What is told, for people; may be left out where payload says it all.
            payload: Further fields that the receiver expects.
            webhook: A configured webhook, by its name; may be left out if there is only one.

        Returns:
            The webhook, the HTTP status, and the beginning of what the receiver answered.
        """
        target = channels.find(webhook)
        if not text and not payload:
            raise ToolError("text and payload are both empty", code="bad_arguments")
        body: dict[str, object] = {"text": text, **payload, "message_id": message_id}
        raw = encoded(body)
        if len(raw) > _MAX_PAYLOAD_BYTES:
            raise ToolError(
                f"the notification has {len(raw)} bytes, allowed are {_MAX_PAYLOAD_BYTES}",
                code="too_long",
            )
        address = Address.of(target.url, secret=target.secret)
        await channels.pace(target).admit(1, what=f"webhook {target.name}")
        headers = {"idempotency-key": _header(message_id), **_signature(target, raw, clock)}
        reply = await post(address, body, headers=headers)
        _check(reply, target, address)
        return {
            "message_id": message_id,
            "webhook": target.name,
            "status": reply.status,
            "reply": address.shown(reply.text),
        }

    made = tool(
        effect="reconcile",
        reconcile=reconcile,
        group="notify",
        key="{message_id}",
        key_scope="global",
        outbound=True,
        timeout_s=60,
        health=channels.fault,
    )(send_webhook_notification)
    return offering(made, "webhook", channels.names)


def _header(message_id: str) -> str:
    """The id as a header can hold it."""
    if message_id.isascii() and message_id.isprintable():
        return message_id
    return hashlib.sha256(message_id.encode("utf-8", "replace")).hexdigest()


def _signature(target: Channel, raw: bytes, clock: Clock) -> dict[str, str]:
    """HMAC-SHA256 over `timestamp.body`, where the webhook has a secret."""
    if not target.secret:
        return {}
    at = str(int(clock.now().timestamp()))
    mac = hmac.new(target.secret.encode(), f"{at}.".encode() + raw, "sha256").hexdigest()
    return {"x-hermes-timestamp": at, "x-hermes-signature": f"sha256={mac}"}


def _check(reply: Reply, target: Channel, address: Address) -> None:
    """Refusals that come with the status 200.

    Raises:
        ToolError: The body says that the message was not taken.
    """
    table = reply.table
    bad = next((name for name in ("errcode", "code") if not _is_good(table.get(name))), None)
    if bad is None and table.get("error"):
        bad = "error"
    if bad is None:
        bad = next((name for name in ("ok", "success") if table.get(name) is False), None)
    if bad is not None:
        raise ToolError(
            f"webhook {target.name} answered {reply.status}, but refused the message "
            f"({bad}): {address.shown(reply.text)}",
            code="refused",
        )


def _is_good(code: object) -> bool:
    if code is None or isinstance(code, bool):
        return code is not False
    text = str(code).strip().lower()
    return text in _GOOD or (len(text) == 3 and text.startswith("2") and text.isdecimal())


def make(options: BuiltinOptions, *, clock: Clock, sleep: Sleep = anyio.sleep) -> tuple[Tool, Tool]:
    """Both tools, with a clock of the caller's."""
    chat = tuple(each for each in options.channels if each.kind != "webhook")
    hooks = tuple(each for each in options.channels if each.kind == "webhook")
    return (
        message_tool(Channels(chat, clock=clock, sleep=sleep), clock),
        webhook_tool(Channels(hooks, clock=clock, sleep=sleep), clock),
    )


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Messages to chat groups and webhooks."""
    return make(options, clock=SystemClock())
