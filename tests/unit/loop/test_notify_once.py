"""A message is sent once: from two tasks, after a refusal in a 200, and after a crash."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hermes.testing import call
from hermes.tools import Tool
from hermes.tools.builtin import notify, notify_mail
from hermes.tools.builtin.options import BuiltinOptions, Channel
from tests.unit.loop.stage import Stage
from tests.unit.tools.chat_services import KEY, ChatServices, serving
from tests.unit.tools.mail_server import Mailbox, receiving

ALERT = call("send_webhook_notification", message_id="alert-1", text="磁盘已满")
MAIL = call(
    "send_email", message_id="r-1", to=["ann@example.com"], subject="退货率", body="12 %"
)  # fmt: skip
HELLO = call("send_message", message_id="m-1", channel="ops", text="hello")


@pytest.fixture
def services() -> Iterator[ChatServices]:
    with serving() as server:
        yield server


@pytest.fixture
async def mailbox() -> AsyncIterator[tuple[Mailbox, int]]:
    async with receiving() as (mailbox, port):
        yield mailbox, port


def chat(stage: Stage, services: ChatServices) -> Tool:
    channel = Channel(name="ops", kind="wecom", url=services.url("wecom"))
    tool, _ = notify.make(BuiltinOptions(channels=(channel,)), clock=stage.clock)
    return replace(tool, group="")  # a stage has other groups


def hook(stage: Stage, services: ChatServices, *, idempotent: bool = False) -> Tool:
    channel = Channel(
        name="hook", kind="webhook", url=services.url("webhook"), idempotent=idempotent
    )
    _, tool = notify.make(BuiltinOptions(channels=(channel,)), clock=stage.clock)
    return replace(tool, group="")


def post(stage: Stage, port: int) -> Tool:
    options = BuiltinOptions(
        workspace=Path("/"),
        smtp_url=f"smtp://127.0.0.1:{port}",
        smtp_from="bot@shop.example",
        smtp_allowed=("*",),
    )
    return replace(notify_mail.make(options, clock=stage.clock), group="")


async def test_two_tasks_send_one_message(stage: Stage, services: ChatServices) -> None:
    stage.play([HELLO, "Sent.", HELLO, "Sent."], chat(stage, services))
    await stage.start()
    await stage.start()
    assert services.taken == ["hello"]


async def test_two_tasks_send_one_mail(stage: Stage, mailbox: tuple[Mailbox, int]) -> None:
    stage.play([MAIL, "Sent.", MAIL, "Sent."], post(stage, mailbox[1]))
    await stage.start()
    await stage.start()
    assert len(mailbox[0].messages) == 1


async def test_a_receiver_that_refuses_in_a_200_gets_the_message_at_the_second_try(
    stage: Stage, services: ChatServices
) -> None:
    services.next = [(200, {}, '{"errcode": 45009, "errmsg": "busy"}')]
    stage.play([ALERT, ALERT, "Sent.", ALERT, "Sent."], hook(stage, services))
    assert (await stage.start()).status == "succeeded"
    await stage.start()
    assert len(services.bodies) == 2
    assert len(services.taken) == 1


async def test_after_a_crash_a_person_decides_about_a_mail_that_may_have_left(
    stage: Stage, mailbox: tuple[Mailbox, int]
) -> None:
    stage.play([MAIL, MAIL, "Not sent again."], post(stage, mailbox[1]))
    task_id = await stage.submit()
    await stage.break_off(task_id)
    assert (await stage.carry(task_id)).status == "waiting"
    await stage.start()  # the same message, from another task
    assert len(mailbox[0].messages) == 1


async def test_after_a_crash_a_webhook_that_takes_each_key_once_gets_the_same_key_again(
    stage: Stage, services: ChatServices
) -> None:
    stage.play([ALERT, "Sent."], hook(stage, services, idempotent=True))
    task_id = await stage.submit()
    await stage.break_off(task_id)
    assert (await stage.carry(task_id)).status == "succeeded"
    assert [headers["idempotency-key"] for headers in services.headers] == ["alert-1"] * 2


async def test_after_a_crash_any_other_webhook_is_not_posted_to_again(
    stage: Stage, services: ChatServices
) -> None:
    stage.play([ALERT, "Sent."], hook(stage, services))
    task_id = await stage.submit()
    await stage.break_off(task_id)
    assert (await stage.carry(task_id)).status == "waiting"
    assert len(services.taken) == 1


async def test_no_key_gets_into_the_journal(stage: Stage, services: ChatServices) -> None:
    services.next = [(401, {}, f"who is {KEY}"), (502, {}, f"down {KEY}")]
    stage.play([HELLO, HELLO, "Sent."], chat(stage, services))
    response = await stage.start()
    records = await stage.store.events(response.task_id)
    assert "401" in repr(records)
    assert "in_doubt" in repr(records)
    assert KEY not in repr(records)
