"""E-mail, against a real SMTP server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hermes.errors import NotDone, ToolError
from hermes.testing import FakeClock
from hermes.tools.builtin import smtp
from hermes.tools.builtin.notify_mail import make
from hermes.tools.builtin.options import BuiltinOptions
from hermes.tools.builtin.senders import LostAnswer
from tests.unit.tools.calling import awaited_table
from tests.unit.tools.mail_server import PASSWORD, USER, Mailbox, certificate, receiving


@pytest.fixture
async def post(tmp_path: Path) -> AsyncIterator[Post]:
    async with receiving() as (mailbox, port):
        yield Post(mailbox, tmp_path, f"smtp://127.0.0.1:{port}")


class Post:
    """The tool, and the mailbox at the other end."""

    def __init__(self, mailbox: Mailbox, workspace: Path, url: str) -> None:
        self.mailbox = mailbox
        self.options = BuiltinOptions(
            workspace=workspace,
            smtp_url=url,
            smtp_from="小店 <bot@shop.example>",
            smtp_allowed=("ann@example.com", "@kunde.example", "ops@例子.example"),
        )

    async def send(
        self,
        message_id: str = "m1",
        to: tuple[str, ...] = ("ann@example.com",),
        subject: str = "退货率 12%",
        body: str = "今天的退货率是 12%。\n.\nBye",
        attachments: tuple[str, ...] = (),
    ) -> dict[str, object]:
        tool = make(self.options, clock=FakeClock())
        return await awaited_table(tool, message_id, [*to], subject, body, [*attachments])


async def test_a_message_arrives_as_it_was_written(post: Post) -> None:
    result = await post.send(to=("ann@example.com", "ops@例子.example", "ann@example.com"))
    [(sender, receivers, message)] = post.mailbox.envelopes
    assert sender == "bot@shop.example"
    assert receivers == ["ann@example.com", "ops@xn--fsqu00a.example"]
    assert str(message["from"]) == "小店 <bot@shop.example>"
    assert message["subject"] == "退货率 12%"
    assert message.get_content().splitlines() == ["今天的退货率是 12%。", ".", "Bye"]
    assert message["date"] == "Thu, 01 Jan 2026 00:00:00 +0000"
    assert post.mailbox.raw[0].isascii()
    assert result["server"] == "OK queued"


async def test_the_message_id_header_follows_from_the_message_id(post: Post) -> None:
    for message_id in ("报告-1", "报告-1", "报告-2"):
        await post.send(message_id)
    first, again, other = (message["message-id"] for message in post.mailbox.messages)
    assert first == again != other
    assert first.endswith("@shop.example>")


async def test_files_of_the_workspace_go_with_it(post: Post, tmp_path: Path) -> None:
    (tmp_path / "报表.csv").write_bytes("店,率\n".encode())
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    await post.send(attachments=("报表.csv", "a.bin"))
    table, binary = post.mailbox.messages[0].iter_attachments()
    assert (table.get_filename(), table.get_content_type()) == ("报表.csv", "text/csv")
    assert table.get_content() == "店,率\n"
    assert binary.get_content() == bytes(range(256))


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "link", ".env", "nothing", "."])
async def test_nothing_from_outside_the_workspace_goes_out(
    post: Post, tmp_path: Path, path: str
) -> None:
    inside = tmp_path / "work"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("s")
    (inside / ".env").write_text("API_KEY=1")
    (inside / "link").symlink_to(tmp_path / "secret.txt")
    post.options = replace(post.options, workspace=inside)
    with pytest.raises(ToolError):
        await post.send(attachments=(path,))
    assert post.mailbox.messages == []


async def test_attachments_have_a_bound_together(post: Post, tmp_path: Path) -> None:
    (tmp_path / "six").write_bytes(b"x" * 6 * 2**20)
    with pytest.raises(ToolError, match="more than 10 MiB"):
        await post.send(attachments=("six", "six"))


@pytest.mark.parametrize(
    "fields",
    [
        {"subject": "hi\r\nBcc: eve@evil.example"},
        {"subject": "hi\nX: y"},
        {"subject": "hi\x00"},
        {"subject": "hi\u2028Bcc: eve@evil.example"},
        {"to": ("ann@example.com\r\nBcc: eve@evil.example",)},
        {"to": ("ann@example.com, eve@evil.example",)},
        {"to": ("ann@example.com>\r\nRCPT TO:<eve@evil.example",)},
        {"to": ("Ann <ann@example.com>",)},
        {"to": ("ann",)},
        {"to": ("@example.com",)},
        {"to": ("",)},
    ],
)
async def test_no_text_breaks_out_of_its_header(post: Post, fields: dict[str, str]) -> None:
    with pytest.raises(ToolError) as caught:
        await post.send(**fields)  # pyright: ignore[reportArgumentType]  # case table
    assert caught.value.code == "bad_arguments"
    assert post.mailbox.messages == []


async def test_only_allowed_addresses_get_mail(post: Post) -> None:
    await post.send(to=("Karl@KUNDE.example", "ANN@example.com"))
    with pytest.raises(ToolError, match=r"eve@evil\.example may not get mail; allowed: ann@"):
        await post.send(to=("ann@example.com", "eve@evil.example"))
    with pytest.raises(ToolError, match="may not get mail"):
        await post.send(to=("eve@sub.kunde.example",))
    assert len(post.mailbox.messages) == 1
    post.options = replace(post.options, smtp_allowed=("*",))
    await post.send(to=("eve@evil.example",))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("smtp_url", "", "HERMES_SMTP_URL"),
        ("smtp_from", "", "HERMES_SMTP_FROM"),
        ("smtp_from", "Shop", "HERMES_SMTP_FROM"),
        ("smtp_allowed", (), "HERMES_SMTP_ALLOWED"),
        ("smtp_url", "smtp://u:p4ssw0rd@mail.example", "without encryption"),
        ("smtp_url", "https://u:p4ssw0rd@mail.example", "no address of a mail server"),
        ("smtp_url", "smtps://u:p4ssw0rd@mail.example:x", "no address of a mail server"),
        ("smtp_url", "smtps://u:p4ssw0rd密@mail.example", "must be ASCII"),
    ],
)
async def test_settings_that_are_wrong_are_named_and_not_shown(
    post: Post, name: str, value: object, said: str
) -> None:
    post.options = replace(post.options, **{name: value})
    health = make(post.options, clock=FakeClock()).health
    assert health is not None
    assert said in str(health())
    with pytest.raises(ToolError, match=said) as caught:
        await post.send()
    assert "p4ssw0rd" not in f"{caught.value!r} {post.options!r}"


async def test_if_one_address_is_refused_nobody_gets_the_message(post: Post) -> None:
    post.mailbox.refuse = {"b@kunde.example": "550 no such user"}
    with pytest.raises(ToolError, match="refused the address b@kunde.example: 550") as caught:
        await post.send(to=("ann@example.com", "b@kunde.example"))
    assert (caught.value.code, caught.value.retryable) == ("smtp_550", False)
    assert post.mailbox.messages == []


async def test_a_refusal_for_now_may_be_tried_again(post: Post) -> None:
    post.mailbox.refuse = {"ann@example.com": "450 busy"}
    with pytest.raises(NotDone, match="450"):
        await post.send()
    post.mailbox.refuse = {}
    post.mailbox.answer = "452 full"
    with pytest.raises(NotDone, match="452"):
        await post.send()
    post.mailbox.answer = "554 spam"
    with pytest.raises(ToolError, match="554") as caught:
        await post.send()
    assert not caught.value.retryable


async def test_a_connection_that_breaks_behind_the_message_leaves_it_in_doubt(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smtp, "TIMEOUT_S", 0.2)
    post.mailbox.silent = True
    with pytest.raises(LostAnswer, match="broke as the message was sent"):
        await post.send()
    assert len(post.mailbox.messages) == 1


async def test_a_server_that_is_away_was_sent_nothing(post: Post) -> None:
    post.options = replace(post.options, smtp_url="smtp://127.0.0.1:9")
    with pytest.raises(NotDone, match=r"no mail connection to 127\.0\.0\.1:9"):
        await post.send()


async def test_encrypted_after_a_greeting_and_logged_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, authority = certificate(tmp_path)
    async with receiving(tls=context, login=True) as (mailbox, port):
        where = f"127.0.0.1:{port}"
        post = Post(mailbox, tmp_path, f"smtp+starttls://{USER}:{PASSWORD}@{where}")
        with pytest.raises(NotDone, match="SSLCertVerificationError"):
            await post.send()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        await post.send()
        post.options = replace(post.options, smtp_url=f"smtp+starttls://{USER}:wrong-1@{where}")
        with pytest.raises(NotDone, match="refused the login") as caught:
            await post.send()
    assert mailbox.logins[0] == (USER.encode(), PASSWORD.encode())
    assert len(mailbox.messages) == 1
    assert "wrong-1" not in repr(caught.value)


async def test_encrypted_from_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, authority = certificate(tmp_path)
    async with receiving(tls=context, at_once=True) as (mailbox, port):
        post = Post(mailbox, tmp_path, f"smtps://127.0.0.1:{port}")
        with pytest.raises(NotDone, match="SSLCertVerificationError"):
            await post.send()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        await post.send()
    assert len(mailbox.messages) == 1


async def test_no_password_goes_to_a_server_that_does_not_encrypt(post: Post) -> None:
    where = post.options.smtp_url.removeprefix("smtp://")
    post.options = replace(post.options, smtp_url=f"smtp+starttls://{USER}:{PASSWORD}@{where}")
    with pytest.raises(NotDone, match="SMTPNotSupportedError"):
        await post.send()
    assert post.mailbox.logins == []
