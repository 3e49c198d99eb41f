"""No key comes out anywhere, whatever a server does: everything is searched for it (R067)."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
import traceback
from base64 import b64encode
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, quote_plus

import anyio
import pytest

from hermes.core.chat import UserMessage
from hermes.errors import ConfigError, HermesError
from hermes.models import Model, ModelRequest
from hermes.models.spec import open_model
from tests.providers.quirks import EVENTS, QuirkServer, Wire, chunk, dumps, events, refused, whole

KEY = "sk-t3st+Qm/9Zx=Kd2wP7vB0uY"
QUOTED = quote(KEY, safe="")
BASIC = b64encode(f"user:{KEY}".encode()).decode()
FORMS = {
    "plain": KEY,
    "quoted": QUOTED,
    "quoted otherwise": quote_plus(KEY, safe="/"),
    "lower-case escapes": QUOTED.replace("%2B", "%2b").replace("%2F", "%2f").replace("%3D", "%3d"),
    "base64": b64encode(KEY.encode()).decode(),
    "basic": BASIC,
    "escaped": KEY.replace("/", "\\/"),
}
ECHO = f"Bearer {KEY}, ?key={QUOTED}, Basic {BASIC}, {b64encode(KEY.encode()).decode()}"
SCENARIOS: Mapping[str, Wire] = {
    "401": refused(401, {"error": {"message": f"Incorrect API key provided: {ECHO}"}}),
    "404": refused(404, {"error": {"message": f"no model at /v1?key={QUOTED} for {ECHO}"}}),
    "429": refused(429, {"error": {"message": ECHO, "type": KEY, "code": KEY}}),
    "503": refused(503, f"upstream saw authorization: {ECHO}".encode(), kind="text/plain"),
    "silence": Wire(body=b"", held=True),
    "bad JSON": Wire(body=f'{{"oops": "{ECHO}'.encode()),
    "an error with status 200": Wire(body=dumps({"error": {"message": ECHO}})),
    "no choice": Wire(body=dumps({"choices": [], "echo": ECHO})),
    "broken off": whole({"content": "half"}, "abort"),
    "redirect": refused(307, b"", headers={"location": f"http://127.0.0.1:9/?key={QUOTED}"}),
    "an HTML page": Wire(body=f"<html>{ECHO}</html>".encode(), kind=f"text/{KEY}; x={KEY}"),
    "a stream that tells an error": Wire(
        body=events(chunk({"content": "a"}), {"error": {"message": ECHO}}), kind=EVENTS
    ),
    "a stream that is no JSON": Wire(body=f"data: {{{ECHO}\n\n".encode(), kind=EVENTS),
    "a stream that breaks": Wire(
        body=events(chunk({"content": "a"}), done=False), kind=EVENTS, cut=True
    ),
    "a stream that falls silent": Wire(
        body=events(chunk({"content": "a"}), done=False), kind=EVENTS, held=True
    ),
}
REFUSED = "connection refused"
WORDLESS = (
    REFUSED,
    "silence",
    "broken off",
    "a stream that breaks",
    "a stream that falls silent",
)
"""Where the server says nothing of the key, so that not even a variable may hold it."""
CLOSED = "http://127.0.0.1:9"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the key is given.

    Attributes:
        name: The model.
        path: Follows the server's address.
        user: Stands before its host.
        key: `API_KEY`.
    """

    name: str = "test-model"
    path: str = "/v1"
    user: str = ""
    key: str = KEY

    def wire(self, scenario: str) -> Wire:
        """The server's answer: no server can give back what it was never given."""
        wire = SCENARIOS.get(scenario, Wire(body=b""))
        unknown = b"" if self.user else BASIC.encode()
        return replace(wire, body=wire.body.replace(unknown, b"none")) if unknown else wire

    def url(self, origin: str) -> str:
        return origin.replace("//", f"//{self.user}", 1) + self.path


PLACES = {
    "header": Place(),
    "query": Place(path=f"/v1?key={QUOTED}&v=1", key=""),
    "password": Place(user=f"user:{QUOTED}@", key=""),
    "anthropic": Place(name="anthropic:test-model"),
    "anthropic query": Place(name="anthropic:test-model", path=f"/v1?key={QUOTED}", key=""),
}
each_place = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
each_scenario = pytest.mark.parametrize("scenario", [*SCENARIOS, REFUSED])


def found_in(text: str) -> list[str]:
    """The forms of the key that a text holds, each with what stands around it."""
    return [
        f"{form}: …{text[max(at - 60, 0) : at + 40]}…"
        for form, secret in FORMS.items()
        if (at := text.find(secret)) >= 0
    ]


@contextmanager
def every_log_line() -> Generator[io.StringIO]:
    """All that any logger says, at every level."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s %(args)s"))
    root = logging.getLogger()
    levels = {root: root.level}
    for name in ("httpx2", "httpcore2", "httpcore", "h11", "asyncio", "hermes"):
        logger = logging.getLogger(name)
        levels[logger] = logger.level
    for logger in levels:
        logger.setLevel(logging.DEBUG)
    root.addHandler(handler)
    asyncio.get_running_loop().set_debug(True)
    try:
        yield said
    finally:
        asyncio.get_running_loop().set_debug(False)
        root.removeHandler(handler)
        for logger, level in levels.items():
            logger.setLevel(level)


def everything_of(exc: BaseException, *, variables: bool) -> str:
    """Words, attributes and traceback of an exception and all its causes.

    Args:
        exc: The exception.
        variables: With the values of all variables in each frame but those of this file.
    """
    told = traceback.TracebackException.from_exception(exc, capture_locals=variables)
    frames: traceback.TracebackException | None = told
    while frames is not None:
        for frame in frames.stack:
            if frame.filename == __file__:
                frame.locals = None
        frames = frames.__cause__ or frames.__context__
    texts = ["".join(told.format())]
    link: BaseException | None = exc
    while link is not None:
        texts += [str(link), repr(link), repr(link.args), repr(vars(link))]
        if isinstance(link, HermesError):
            texts += [link.message, link.hint]
        link = link.__cause__ or link.__context__
    return "\n".join(texts)


async def ask(model: Model, *, stream: bool) -> None:
    request = ModelRequest(messages=[UserMessage(text="x")])
    if stream:
        async for _ in model.stream(request):
            pass
    else:
        await model.reply(request)


@each_place
@each_scenario
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_no_exception_and_no_log_line_holds_the_key(
    place: Place, scenario: str, stream: bool
) -> None:
    async with QuirkServer([place.wire(scenario)]) as server:
        origin = CLOSED if scenario == REFUSED else server.origin
        with every_log_line() as said:
            model = open_model(
                place.name, base_url=place.url(origin), api_key=place.key, timeout_s=0.3
            )
            try:
                with pytest.raises(HermesError) as caught:
                    await ask(model, stream=stream)
            finally:
                await model.aclose()
        # What a server has said stands in the variables of whoever reads it; what we say does not.
        told = everything_of(caught.value, variables=scenario in WORDLESS)

        assert found_in(told) == []
        lines = said.getvalue().splitlines()
        if scenario in ("redirect", "an HTML page"):
            # The HTTP library's own debug lines quote the headers of an answer, and this one's
            # hold the key; Hermes never turns those lines on.
            lines = [line for line in lines if not line.startswith("httpcore2.")]
        assert found_in("\n".join(lines)) == []
        assert found_in(repr(model)) == []
        # Whom it was about is still told, and the key did reach the server.
        assert "127.0.0.1" in str(caught.value)
        if scenario != REFUSED:
            sent = f"{server.targets[0]} {server.headers[0]}"
            assert any(secret in sent for secret in (KEY, QUOTED, BASIC))
            assert said.getvalue()


@pytest.mark.parametrize("key", [f"{KEY} ", f"{KEY}\n{KEY}", f"é{KEY}"])
@pytest.mark.parametrize("name", ["test-model", "anthropic:test-model"])
def test_a_key_that_cannot_be_sent_is_not_shown(name: str, key: str) -> None:
    try:
        open_model(name, base_url="http://127.0.0.1:9/v1", api_key=key)
    except ConfigError as exc:
        assert found_in(f"{exc} {exc!r} {exc.hint} {vars(exc)}") == []


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://user:{QUOTED}@host/v1?key={QUOTED}",
        f"http://user:{QUOTED}@[::1/v1",
        f"http://user:{QUOTED}@host:99999/v1",
        f"//{QUOTED}@host",
        f"http://user:{KEY}@host:x/v1?key={KEY}",
    ],
)
@pytest.mark.parametrize("name", ["test-model", "anthropic:test-model"])
def test_an_address_that_cannot_be_used_shows_no_secret(name: str, url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_model(name, base_url=url, api_key=None)
    link: BaseException | None = caught.value
    while link is not None:
        assert found_in(f"{link} {link!r} {getattr(link, 'hint', '')}") == []
        link = link.__cause__


async def command(folder: Path, place: Place, origin: str, *words: str, log: str = "json") -> str:
    """All that a command says."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HERMES_")},
        "MODEL_NAME": place.name,
        "API_BASE": place.url(origin),
        "HERMES_LOG_LEVEL": "debug",
        "HERMES_LOG_FORMAT": log,
        "HERMES_MODEL_ATTEMPTS": "2",
        "HERMES_MODEL_RETRY_S": "1",
        "HERMES_MODEL_TIMEOUT_S": "0.5",
        "HERMES_MODEL_CASSETTE": "cassette.jsonl",
        "HERMES_MODEL_CASSETTE_MODE": "record",
    }
    if place.key:
        environment["API_KEY"] = place.key
    done = await anyio.run_process(
        [sys.executable, "-m", "hermes", *words], cwd=folder, env=environment, check=False
    )
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def all_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("where", "scenario", "log", "run"),
    [
        ("header", "429", "text", "run hello --debug --stream"),
        ("query", "404", "json", "run hello --debug --json --no-stream"),
        ("password", "503", "text", "run hello --debug --no-stream"),
        ("anthropic", "a stream that tells an error", "json", "run hello --debug --stream"),
        ("anthropic query", REFUSED, "json", "run hello --json --stream"),
    ],
)
async def test_no_command_says_or_keeps_the_key(
    workdir: Path, where: str, scenario: str, log: str, run: str
) -> None:
    place = PLACES[where]
    async with QuirkServer([place.wire(scenario)]) as server:
        origin = CLOSED if scenario == REFUSED else server.origin
        said = {
            words: await command(workdir, place, origin, *words.split(), log=log)
            for words in (run, "run hello --detach", "worker --once", "trace --format jsonl")
        }
    kept = {
        str(path.relative_to(workdir)): path.read_bytes().decode("latin-1")
        for path in all_files(workdir)
    }

    assert {words: found for words, text in said.items() if (found := found_in(text))} == {}
    assert {path: found for path, text in kept.items() if (found := found_in(text))} == {}
    assert any("hermes.db" in path for path in kept), list(kept)
    assert "127.0.0.1" in said[run]


@pytest.mark.parametrize("where", ["header", "password"])
async def test_the_check_of_a_model_does_not_say_the_key(workdir: Path, where: str) -> None:
    async with QuirkServer([PLACES[where].wire("401")]) as server:
        said = await command(workdir, PLACES[where], server.origin, "models", "test", "--json")

    assert found_in(said) == []
    assert "127.0.0.1" in said


async def test_settings_that_are_wrong_do_not_say_a_secret(workdir: Path) -> None:
    (workdir / ".env").write_text(
        f'HERMES_NOTIFY_CHANNELS=\'{{"ops": {{"kind": "webhook", "url": "{KEY}", "x": 1}}}}\'\n'
        f"HERMES_SMTP_URL=smtp://user:{QUOTED}@host:x\n"
    )
    async with QuirkServer([SCENARIOS["401"]]) as server:
        said = await command(workdir, PLACES["header"], server.origin, "doctor", "--debug")

    assert found_in(said) == []
