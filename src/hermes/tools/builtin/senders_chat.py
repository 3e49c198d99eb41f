"""How each chat service's group bots are spoken to: payload, signature, limits, error codes.

Source:
    WeCom "群机器人配置说明", Feishu "自定义机器人使用指南", DingTalk "自定义机器人接入" and
    "自定义机器人安全设置", Slack "Sending messages using incoming webhooks" and "Rate limits".
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from hermes.errors import NotDone, ToolError

from .senders import Address, LostAnswer, Reply

Format = Literal["text", "markdown"]
ChatKind = Literal["wecom", "feishu", "dingtalk", "slack"]
Body = dict[str, object]

_AT = re.compile(r"<(?=/?at\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One chat service.

    Attributes:
        body: The payload of a text.
        limits: The largest text of each format, as `size` counts.
        size: How large a text is for the service.
        per_minute: Messages that one bot may send.
        check: Raises if the answer, though of status 200, says that the message was refused.
        sign: What a secret adds: to the payload, and to the query.
    """

    body: Callable[[str, Format], Body]
    limits: Mapping[Format, int]
    size: Callable[[str], int]
    per_minute: int
    check: Callable[[Reply, Address], None]
    sign: Callable[[str, datetime], tuple[Body, dict[str, str]]]


def _utf8(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _as_json(text: str) -> int:
    """Bytes within a JSON body: a line break takes two."""
    return _utf8(json.dumps(text, ensure_ascii=False)) - 2


def _wecom(text: str, form: Format) -> Body:
    return {"msgtype": form, form: {"content": text}}


def _dingtalk(text: str, form: Format) -> Body:
    if form == "text":
        return {"msgtype": "text", "text": {"content": text}}
    title = next((line.strip("#*> ") for line in text.splitlines() if line.strip("#*> ")), "…")
    return {"msgtype": "markdown", "markdown": {"title": title[:60], "text": text}}


def _feishu(text: str, form: Format) -> Body:
    quiet = _quiet(text)
    if form == "text":
        return {"msg_type": "text", "content": {"text": quiet}}
    card = {"elements": [{"tag": "markdown", "content": quiet}]}
    return {"msg_type": "interactive", "card": card}


def _quiet(text: str) -> str:
    return _AT.sub("＜", text)  # `<at user_id="all">` would ring everybody's phone


def _slack(text: str, _: Format) -> Body:
    return {"text": _escaped(text)}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _unsigned(_: str, __: datetime) -> tuple[Body, dict[str, str]]:
    return {}, {}


def _signed_feishu(secret: str, now: datetime) -> tuple[Body, dict[str, str]]:
    timestamp = str(int(now.timestamp()))
    return {"timestamp": timestamp, "sign": _hmac(f"{timestamp}\n{secret}", "")}, {}


def _signed_dingtalk(secret: str, now: datetime) -> tuple[Body, dict[str, str]]:
    timestamp = str(int(now.timestamp() * 1000))
    return {}, {"timestamp": timestamp, "sign": _hmac(secret, f"{timestamp}\n{secret}")}


def _hmac(key: str, message: str) -> str:
    return base64.b64encode(hmac.digest(key.encode(), message.encode(), "sha256")).decode("ascii")


def _by_code(
    kind: str, names: tuple[str, ...], *, busy: frozenset[int], hints: Mapping[int, str]
) -> Callable[[Reply, Address], None]:
    """The check of an answer that holds its error code in its body."""

    def check(reply: Reply, address: Address) -> None:
        code = next((reply.table[name] for name in names if name in reply.table), None)
        if not isinstance(code, int) or isinstance(code, bool):
            raise LostAnswer(
                f"{address.host} answered {reply.status} without a result code: "
                f"{address.shown(reply.text)!r}"
            )
        if code == 0:
            return
        table = reply.table
        told = table.get("errmsg") or table.get("msg") or table.get("StatusMessage") or ""
        said = f"{kind} refused the message: {code} {address.shown(str(told))}".rstrip()
        if code in busy:
            raise NotDone(said, code="rate_limited", hint="try again in a minute or later")
        raise ToolError(said, code=f"{kind}_{code}", hint=hints.get(code, ""))

    return check


def _check_slack(reply: Reply, address: Address) -> None:
    text = reply.text.strip()
    if text == "ok" or reply.table.get("ok") is True:
        return
    raise ToolError(
        f"slack refused the message: {address.shown(text) or 'an empty answer'}", code="slack"
    )


SERVICES: Mapping[ChatKind, Service] = {
    "wecom": Service(
        body=_wecom,
        limits={"text": 2048, "markdown": 4096},
        size=_utf8,
        per_minute=20,
        check=_by_code(
            "wecom",
            ("errcode",),
            busy=frozenset({-1, 45009, 45033}),
            hints={93000: "the bot's key is wrong, or the bot was removed from the group"},
        ),
        sign=_unsigned,
    ),
    "dingtalk": Service(
        body=_dingtalk,
        limits={"text": 18_000, "markdown": 18_000},  # of a body of 20,000 bytes
        size=_as_json,
        per_minute=20,
        check=_by_code(
            "dingtalk",
            ("errcode",),
            busy=frozenset({-1, 90018, 130101, 410100}),
            hints={
                310000: "the bot wants a keyword, a signature or another IP address: compare its "
                "security settings with the configured secret",
                300001: "the token in the configured address is wrong",
                400101: "the token in the configured address is wrong",
            },
        ),
        sign=_signed_dingtalk,
    ),
    "feishu": Service(
        body=_feishu,
        limits={"text": 18_000, "markdown": 18_000},  # of a body of 20 KB
        size=lambda text: _as_json(_quiet(text)),
        per_minute=100,
        check=_by_code(
            "feishu",
            ("code", "StatusCode"),
            busy=frozenset({11232}),
            hints={
                19021: "the configured secret is wrong, or this machine's clock is off by an hour",
                19022: "this machine's IP address is not on the bot's list",
                19024: "the bot wants one of its keywords in each message",
            },
        ),
        sign=_signed_feishu,
    ),
    "slack": Service(
        body=_slack,
        limits={"text": 4_000, "markdown": 4_000},
        size=lambda text: len(_escaped(text)),
        per_minute=60,
        check=_check_slack,
        sign=_unsigned,
    ),
}
"""Slack cuts a text beyond 40,000 characters and advises 4,000."""
