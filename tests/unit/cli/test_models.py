"""`hermes models`: list and test; the server is real, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest

from tests.unit.cli.shop import Cli

KEY = "sk-verysecret-0123456789"
Request = Mapping[str, object]
Respond = Callable[[Request], Mapping[str, object]]

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "add", "arguments": '{"a": 17, "b": 25}'},
}


def last(request: Request) -> Mapping[str, object]:
    return cast("list[Mapping[str, object]]", request["messages"])[-1]


def able(request: Request) -> Mapping[str, object]:
    """A server that does all that it is asked."""
    if "tools" in request and "17" in str(last(request)["content"]):
        return {"content": None, "tool_calls": [CALL]}
    return plain(request)


def plain(request: Request) -> Mapping[str, object]:
    """A server whose chat template ignores tools."""
    form = cast("Mapping[str, object] | None", request.get("response_format"))
    if form is not None and form["type"] == "json_schema":
        held = {"colour": "red", "count": 3} if "colour" in str(form) else {"answer": 5}
        return {"content": json.dumps(held)}
    return {"content": '{"answer": 5}' if "JSON" in str(last(request)) else "hello"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    respond: Respond
    keys: list[str]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = cast("_Server", self.server)
        server.keys.append(self.headers.get("authorization", ""))
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = server.respond(request)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "finish_reason": reason}
        usage = {"prompt_tokens": 12, "completion_tokens": 3}
        if request.get("stream"):
            chunk = {"choices": [{**choice, "delta": message}], "usage": usage}
            body = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
        else:
            whole = {"choices": [{**choice, "message": message}], "usage": usage, "model": "m-1"}
            body = json.dumps(whole).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    found = _Server(("127.0.0.1", 0), _Handler)
    found.respond, found.keys = able, []
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("MODEL_NAME", "my-model")
    monkeypatch.setenv("API_BASE", f"http://127.0.0.1:{found.server_port}/v1")
    monkeypatch.setenv("API_KEY", KEY)
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def profile(workdir: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (workdir / "models.toml").write_text(f'["my-model"]\n{text}\n')
    monkeypatch.setenv("HERMES_MODEL_PROFILES", "models.toml")


def test_a_model_that_can_what_its_profile_claims_is_told_with_exit_0(
    cli: Cli, server: _Server, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile(workdir, 'json_mode = "schema"', monkeypatch)
    result = cli("models", "test")

    assert result.code == 0
    assert "all that the profile claims works" in result.out
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert KEY not in result.out + result.err


def test_a_template_that_ignores_tools_is_told_with_what_to_set(cli: Cli, server: _Server) -> None:
    server.respond = plain
    result = cli("models", "test")

    assert result.code == 1
    assert "answers in text, does not call tools" in result.out
    assert "native_tools = false" in result.out
    assert result.out.rstrip().endswith("does not work: tool call")


def test_the_profile_that_says_so_makes_it_right(
    cli: Cli, server: _Server, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.respond = plain
    profile(workdir, 'dialect = "react"', monkeypatch)

    assert cli("models", "test").code == 0


def test_the_checks_are_there_for_programs(cli: Cli, server: _Server) -> None:
    server.respond = plain
    result = cli("models", "test", "other-model", "--json")

    assert result.code == 1
    assert result.value["ok"] is False
    checks = cast("list[dict[str, object]]", result.value["checks"])
    faults = [item["name"] for item in checks if item["claimed"] and item["status"] == "fails"]
    assert faults == ["tool call"]
    assert cast("dict[str, object]", result.value["model"])["name"] == "other-model"


def test_a_server_that_is_not_there_is_told_once(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_NAME", "my-model")
    monkeypatch.setenv("API_BASE", "http://127.0.0.1:9/v1")
    result = cli("models", "test")

    assert result.code == 1
    assert result.out.count("cannot reach") == 1
    assert "not tried" in result.out


def test_a_playbook_cannot_be_tested(cli: Cli) -> None:
    result = cli("models", "test", "playbook:rules.yaml")

    assert result.code == 2
    assert "asks no model" in result.err


def test_no_model_says_what_to_set(cli: Cli) -> None:
    result = cli("models", "test")

    assert result.code == 2
    assert "MODEL_NAME" in result.err


def test_the_list_marks_what_is_in_force_and_says_where_it_comes_from(
    cli: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_NAME", "gpt-4o-mini")
    monkeypatch.setenv("HERMES_CONTEXT_WINDOW", "50000")
    (workdir / "models.toml").write_text('["gpt-4o*"]\nmax_output = 1234\n')
    monkeypatch.setenv("HERMES_MODEL_PROFILES", "models.toml")
    lines = cli("models", "list").out.splitlines()

    def line(begin: str) -> str:
        return next(line for line in lines if line.strip().startswith(begin))

    assert line("window").split()[1:] == ["50,000", "HERMES_CONTEXT_WINDOW"]
    assert line("max_output").split()[1:] == ["1,234", "models.toml", "[gpt-4o*]"]
    assert line("prices").endswith("hermes [gpt-4o-mini*]")
    assert line("alternates").split()[1:] == ["no", "assumed"]
    marked = [line.split()[1] for line in lines if line.startswith("*")]
    assert marked == ["gpt-4o-mini*", "gpt-4o*"]


def test_the_list_without_a_model_shows_what_is_known(cli: Cli) -> None:
    for words in (("models",), ("models", "list")):
        result = cli(*words)
        assert result.code == 0
        assert "no model is set" in result.out
        assert "claude-sonnet-4" in result.out


def test_an_unknown_model_says_what_is_assumed(cli: Cli) -> None:
    result = cli("models", "list", "nobody-knows", "--json")
    model = cast("dict[str, object]", result.value["model"])

    assert model["is_known"] is False
    assert model["window"] == 32768
    assert cast("dict[str, object]", model["sources"])["window"] == "assumed"


def test_profiles_may_stand_in_the_settings_file(cli: Cli, workdir: Path) -> None:
    (workdir / "hermes.toml").write_text('[model_profiles."my-model"]\nwindow = 5000\n')
    model = cast("dict[str, object]", cli("models", "list", "my-model", "--json").value["model"])

    assert (model["window"], model["is_known"]) == (5000, True)


def test_a_file_of_profiles_written_like_the_settings_file_is_told_how_it_must_look(
    cli: Cli, workdir: Path
) -> None:
    (workdir / "hermes.toml").write_text('model_profiles = ["models.toml"]\n')
    (workdir / "models.toml").write_text('[model_profiles."my-model"]\nwindow = 5000\n')
    result = cli("models", "list")

    assert result.code == 2
    assert 'write ["my-model"], not [model_profiles."my-model"]' in result.err


def test_a_misspelled_key_is_told_with_its_path(cli: Cli, workdir: Path) -> None:
    (workdir / "hermes.toml").write_text('[model_profiles."my-model"]\nwindw = 5000\n')
    result = cli("models", "list")

    assert result.code == 2
    assert 'model_profiles: ["my-model"]: unknown key `windw`; did you mean `window`?' in result.err


def test_a_run_is_charged_by_the_profile_of_its_model(
    cli: Cli, server: _Server, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile(workdir, "prices = { prompt = 1000.0, completion = 2000.0 }", monkeypatch)
    result = cli("run", "say hello", "--json", "--no-stream")

    assert result.code == 0
    usage = cast("dict[str, object]", result.value["usage"])
    assert usage["cost"] == pytest.approx(12 * 0.001 + 3 * 0.002)


@pytest.mark.parametrize("words", [("models", "test"), ("run", "hello"), ("doctor",)])
def test_a_proxy_that_cannot_be_used_stops_all_before_it_begins(
    cli: Cli, server: _Server, workdir: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("HERMES_PROXY", "ftp://user:hunter2hunter2@127.0.0.1:1")
    result = cli(*words)

    assert result.code in (1, 2)
    assert "HERMES_PROXY cannot be used" in result.out + result.err
    assert "hunter2" not in result.out + result.err
    assert server.keys == []
