"""Messages to chat groups and webhooks, against a server that plays the services' own replies."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hermes.core.chat import ToolCall
from hermes.errors import NotDone, ToolError
from hermes.testing import FakeClock
from hermes.tools import Prepared, Tool, ToolContext, ToolRegistry, builtin_tools, prepare, run
from hermes.tools.builtin.notify import make
from hermes.tools.builtin.options import BuiltinOptions, Channel, ChannelKind
from hermes.tools.builtin.senders import LostAnswer
from hermes.tools.builtin.senders_chat import SERVICES, ChatKind
from tests.unit.tools.calling import awaited
from tests.unit.tools.chat_services import KEY, SECRET, ChatServices, serving

KINDS: tuple[ChatKind, ...] = ("wecom", "feishu", "dingtalk", "slack")
LONG = "第一行：库存不足😀 & <b>\n" * 1_000


@pytest.fixture
def services() -> Iterator[ChatServices]:
    with serving() as server:
        server.now_s = FakeClock().now().timestamp()
        yield server


class Notifier:
    """Both tools over the local services, time standing still.

    Attributes:
        slept: What the tools waited.
    """

    def __init__(self, *channels: Channel) -> None:
        self.clock = FakeClock()
        self.slept: list[float] = []
        options = BuiltinOptions(channels=channels)
        self.message, self.webhook = make(options, clock=self.clock, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    async def send(self, text: str, *, channel: str = "ops", format: str = "text") -> object:
        return await awaited(self.message, "m1", channel, text, format)

    async def post(self, message_id: str = "m1", **fields: object) -> object:
        return await awaited(self.webhook, message_id, **fields)


def channel(
    services: ChatServices,
    kind: ChannelKind,
    *,
    name: str = "ops",
    secret: str = SECRET,
    idempotent: bool = False,
) -> Channel:
    signs = kind in ("feishu", "dingtalk", "webhook")
    return Channel(
        name=name,
        kind=kind,
        url=services.url(kind),
        secret=secret if signs else "",
        idempotent=idempotent,
    )


def test_both_are_in_the_group_and_say_what_they_do() -> None:
    tools = {tool.name: tool for tool in builtin_tools(["notify"])}
    for name in ("send_message", "send_webhook_notification", "send_email"):
        assert tools[name].outbound
        assert tools[name].key_scope == "global"
    assert tools["send_message"].effect == "unsafe"
    assert tools["send_webhook_notification"].effect == "reconcile"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["text", "markdown"])
async def test_each_service_takes_a_message(
    services: ChatServices, kind: ChatKind, form: str
) -> None:
    notifier = Notifier(channel(services, kind))
    result = await notifier.send("退货率 12% 😀", format=form)
    assert services.taken == ["退货率 12% 😀"]
    assert result == {"message_id": "m1", "channel": "ops", "service": kind, "parts": 1}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_long_text_comes_in_numbered_parts_that_fit_and_lose_nothing(
    services: ChatServices, kind: ChatKind
) -> None:
    notifier = Notifier(channel(services, kind))
    text = LONG if SERVICES[kind].limits["text"] > 10_000 else LONG[:6_000]
    await notifier.send(text)
    count = len(services.taken)
    assert count > 1
    assert [part.partition("\n")[0] for part in services.taken] == [
        f"({number}/{count})" for number in range(1, count + 1)
    ]
    whole = "\n".join(part.partition("\n")[2] for part in services.taken)
    shown = {"slack": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    assert whole.strip() == shown.get(kind, text).strip()


async def test_a_character_is_never_cut_where_there_is_no_line_break(
    services: ChatServices,
) -> None:
    notifier = Notifier(channel(services, "wecom"))
    text = "👩‍👩‍👧" * 200
    await notifier.send(text)
    parts = [part.partition("\n")[2] for part in services.taken]
    assert "".join(parts) == text
    assert all(part.startswith("👩‍👩‍👧") and part.endswith("👧") for part in parts)


async def test_a_text_that_would_flood_the_group_is_refused_before_anything_is_sent(
    services: ChatServices,
) -> None:
    with pytest.raises(ToolError, match="more than 10 messages") as caught:
        await Notifier(channel(services, "wecom")).send("字" * 20_000)
    assert caught.value.code == "too_long"
    assert services.bodies == []


@pytest.mark.parametrize(
    ("kind", "answer", "code", "hint"),
    [
        ("wecom", '{"errcode": 93000, "errmsg": "invalid webhook url"}', "wecom_93000", "key"),
        ("feishu", '{"code": 19024, "msg": "Key Words Not Found"}', "feishu_19024", "keywords"),
        ("dingtalk", '{"errcode": 310000, "errmsg": "no sign"}', "dingtalk_310000", "keyword"),
        ("slack", '{"ok": false, "error": "invalid_blocks"}', "slack", ""),
    ],
)  # fmt: skip
async def test_an_error_code_in_a_200_is_an_error(
    services: ChatServices, kind: ChatKind, answer: str, code: str, hint: str
) -> None:
    services.next = [(200, {}, answer)]
    with pytest.raises(ToolError, match="refused the message") as caught:
        await Notifier(channel(services, kind)).send("hello")
    assert caught.value.code == code
    assert not caught.value.retryable
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "status", "answer"),
    [
        ("wecom", 200, '{"errcode": 45009, "errmsg": "api freq out of limit"}'),
        ("feishu", 200, '{"code": 11232, "msg": "frequency limited"}'),
        ("dingtalk", 200, '{"errcode": 130101, "errmsg": "send too fast"}'),
        ("slack", 429, "rate_limited"),
    ],
)
async def test_a_rate_limit_of_the_service_may_be_tried_again(
    services: ChatServices, kind: ChatKind, status: int, answer: str
) -> None:
    services.next = [(status, {"Retry-After": "7"}, answer)]
    with pytest.raises(NotDone, match=r"refused the message|429") as caught:
        await Notifier(channel(services, kind)).send("hello")
    assert caught.value.retryable
    assert kind != "slack" or caught.value.hint == "try again in 7 s"


@pytest.mark.parametrize("kind", ["feishu", "dingtalk"])
async def test_a_wrong_secret_is_refused_by_the_service_itself(
    services: ChatServices, kind: ChatKind
) -> None:
    with pytest.raises(ToolError, match="sign"):
        await Notifier(channel(services, kind, secret="SECwrong")).send("hello")


@pytest.mark.parametrize(
    "answer",
    [(200, {}, ""), (502, {}, "bad gateway"), (200, {}, "<html>login</html>")],
    ids=["dropped", "gateway", "no-code"],
)
async def test_an_answer_that_tells_nothing_leaves_the_call_in_doubt(
    services: ChatServices, context: ToolContext, answer: tuple[int, dict[str, str], str]
) -> None:
    services.next = [answer]
    notifier = Notifier(channel(services, "wecom"))
    result = await called(notifier.message, context, channel="ops", text="hello")
    assert result[0] == "in_doubt"


async def test_a_fault_after_the_first_part_leaves_the_call_in_doubt(
    services: ChatServices, context: ToolContext
) -> None:
    services.next = [
        (200, {}, '{"errcode": 0}'),
        (200, {}, '{"errcode": 45009, "errmsg": "api freq out of limit"}'),
    ]
    notifier = Notifier(channel(services, "wecom"))
    status, content = await called(notifier.message, context, channel="ops", text="字" * 1_000)
    assert status == "in_doubt"
    assert "1 of 2 parts were sent" in content


async def test_a_service_that_is_down_was_sent_nothing(services: ChatServices) -> None:
    gone = Channel(name="ops", kind="wecom", url=f"http://127.0.0.1:9/send?key={KEY}")
    with pytest.raises(NotDone, match=r"cannot connect to 127\.0\.0\.1:9"):
        await Notifier(gone).send("hello")


async def test_the_21st_message_of_a_minute_waits_or_is_told_when_to_come_back(
    services: ChatServices,
) -> None:
    notifier = Notifier(channel(services, "wecom"))
    for _ in range(20):
        await notifier.send("hello")
    with pytest.raises(NotDone, match="20 messages a minute; nothing was sent") as caught:
        await notifier.send("hello")
    assert caught.value.hint == "try again in 60 s"

    notifier.clock.advance(50)
    await notifier.send("hello")
    assert notifier.slept == [10.0]
    assert len(services.taken) == 21


async def test_more_parts_than_a_minute_takes_are_refused(services: ChatServices) -> None:
    slow = replace(channel(services, "wecom"), per_minute=2)
    with pytest.raises(ToolError, match="which takes 2 a minute; nothing was sent"):
        await Notifier(slow).send("字" * 2_000)
    assert services.bodies == []


async def test_feishu_rings_nobody_through_the_text(services: ChatServices) -> None:
    await Notifier(channel(services, "feishu")).send('<at user_id="all">all</at> ok')
    assert services.taken == ['＜at user_id="all">all＜/at> ok']


async def test_an_unknown_channel_names_the_ones_there_are(services: ChatServices) -> None:
    notifier = Notifier(channel(services, "wecom"), channel(services, "slack", name="dev"))
    with pytest.raises(
        ToolError, match="no channel is called 'opps'; configured: ops, dev"
    ) as caught:
        await notifier.send("hello", channel="opps")
    assert "ops" in caught.value.hint


def test_the_model_is_offered_the_configured_names(services: ChatServices) -> None:
    notifier = Notifier(
        channel(services, "wecom"),
        channel(services, "slack", name="dev"),
        channel(services, "webhook", name="hook"),
    )
    assert enum(notifier.message, "channel") == ["ops", "dev"]
    assert enum(notifier.webhook, "webhook") == ["hook", ""]


def test_without_channels_the_tools_say_what_is_missing() -> None:
    for tool in Notifier().message, Notifier().webhook:
        assert tool.health is not None
        assert "HERMES_NOTIFY_CHANNELS" in str(tool.health())


async def test_a_webhook_gets_the_fields_the_id_as_key_and_a_signature(
    services: ChatServices,
) -> None:
    notifier = Notifier(channel(services, "webhook"))
    await notifier.post("告警-1", text="磁盘已满", payload={"level": "crit", "message_id": "x"})
    [body], [headers] = services.bodies, services.headers
    assert body == {"text": "磁盘已满", "level": "crit", "message_id": "告警-1"}
    assert headers["idempotency-key"] == hashlib.sha256("告警-1".encode()).hexdigest()
    raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    signed = f"{headers['x-hermes-timestamp']}.".encode() + raw
    mac = hmac.new(SECRET.encode(), signed, "sha256").hexdigest()
    assert headers["x-hermes-signature"] == f"sha256={mac}"


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        ('{"errcode": 40001, "errmsg": "bad"}', False),
        ('{"code": "5003"}', False),
        ('{"code": "E1"}', False),
        ('{"error": "no such user"}', False),
        ('{"ok": false}', False),
        ('{"success": false}', False),
        ('{"code": 0}', True),
        ('{"code": 200, "msg": "OK"}', True),
        ('{"code": "SUCCESS", "error": null}', True),
        ('{"ok": true}', True),
        ("thanks", True),
        ("[1]", True),
    ],
)
async def test_what_a_webhook_says_in_its_body_counts(
    services: ChatServices, answer: str, taken: bool
) -> None:
    services.next = [(200, {}, answer)]
    notifier = Notifier(channel(services, "webhook"))
    if taken:
        await notifier.post(text="hello")
        return
    with pytest.raises(ToolError, match="refused the message") as caught:
        await notifier.post(text="hello")
    assert caught.value.code == "refused"


async def test_a_webhook_is_told_something_that_is_not_too_large(services: ChatServices) -> None:
    notifier = Notifier(channel(services, "webhook"))
    with pytest.raises(ToolError, match="both empty"):
        await notifier.post()
    with pytest.raises(ToolError, match="allowed are 262144"):
        await notifier.post(text="字" * 100_000)
    assert services.bodies == []


@pytest.mark.parametrize("kind", [*KINDS, "webhook"])
@pytest.mark.parametrize(
    "answer",
    [
        (401, {}, f"who is {KEY}"),
        (404, {}, f"no {KEY}"),
        (302, {"Location": "http://elsewhere.example/"}, "moved"),
        (503, {}, f"down {KEY}"),
        (200, {}, ""),
        (200, {}, f'{{"errcode": 93000, "code": 93000, "errmsg": "no {KEY} {SECRET}"}}'),
    ],
    ids=["401", "404", "302", "503", "dropped", "200"],
)  # fmt: skip
async def test_no_key_gets_into_an_error_or_a_log(
    services: ChatServices,
    kind: ChannelKind,
    answer: tuple[int, dict[str, str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    services.next = [answer]
    notifier = Notifier(channel(services, kind))
    with pytest.raises((ToolError, LostAnswer)) as caught:
        await (notifier.post(text="hello") if kind == "webhook" else notifier.send("hello"))
    chain: list[BaseException | None] = [caught.value]
    while chain[-1] is not None:
        chain += [chain[-1].__cause__ or chain[-1].__context__]
    shown = " ".join([*map(repr, chain), str(caught.value), caplog.text, repr(notifier.message)])
    assert KEY not in shown
    assert SECRET not in shown or kind in ("wecom", "slack")  # they were given none
    assert kind in str(caught.value) or "127.0.0.1" in str(caught.value)


def enum(tool: Tool, parameter: str) -> object:
    properties = tool.parameters["properties"]
    assert isinstance(properties, dict)
    return properties[parameter]["enum"]  # pyright: ignore[reportUnknownVariableType]  # JSON


async def called(tool: Tool, context: ToolContext, **arguments: object) -> tuple[str, str]:
    raw = json.dumps({"message_id": "m1", **arguments})
    prepared = prepare(ToolRegistry([tool]), ToolCall(id="1", name=tool.name, arguments=raw))
    assert isinstance(prepared, Prepared)
    result = await run(prepared, context, clock=FakeClock())
    return result.status, result.content
