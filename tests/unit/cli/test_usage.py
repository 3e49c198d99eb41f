"""`hermes usage`, and the money and the budget of `hermes show`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermes import Agent, Child, Children, Hermes, Limits, tool
from hermes.cli.usage import since_of, tally
from hermes.core.chat import ToolCall, Usage
from hermes.core.events import ModelFailed, ModelRetried, ToolStarted
from hermes.core.task import Task
from hermes.errors import ConfigError, InputError, ModelError
from hermes.models import FailedAttempt, ModelReply, ModelRequest
from hermes.models.charges import charge
from hermes.models.profiles import Prices, Profile
from hermes.store import PAGE, TaskQuery
from hermes.telemetry import trace
from hermes.testing import FakeClock, ScriptedModel, call, calls
from tests.unit.cli.shop import Cli

DAY = timedelta(days=1)


@tool(effect="read")
async def stock(article: str) -> str:
    """Look up."""
    if article == "none":
        raise ValueError("no such article")
    return "12"


class Named(ScriptedModel):
    """Each reply takes 100 tokens in, 40 of them cached, and 20 out, for 0.001."""

    def __init__(self, name: str, replies: Sequence[ModelReply]) -> None:
        super().__init__(list(replies))
        self._called = name

    @property
    def name(self) -> str:
        return self._called

    @property
    def profile(self) -> Profile:
        return Profile(name=self._called, prices=Prices(prompt=1.0, completion=1.0))

    async def reply(self, request: ModelRequest) -> ModelReply:
        reply = await super().reply(request)
        usage = Usage(
            prompt_tokens=100, completion_tokens=20, cached_tokens=40, cost_nano=1_000_000
        )
        return ModelReply(
            text=reply.text,
            calls=reply.calls,
            finish_reason=reply.finish_reason,
            usage=usage,
            model=self._called,
        )


def asks(*articles: object) -> ModelReply:
    return calls(*(call("stock", article=article) for article in articles))


async def worked(app: Hermes, name: str, model: str, *replies: ModelReply) -> None:
    agent = Agent(name=name, model=Named(model, replies), tools=[stock])
    await app.run(agent, "how many?")


async def journal(url: str = "sqlite:///./.hermes/hermes.db") -> None:
    """Two agents with Chinese and English names, two models, two days."""
    clock = FakeClock()
    async with Hermes(url, clock=clock) as app:
        done = ModelReply(text="twelve")
        await worked(app, "仓库助理", "qwen", asks("lamp", "none"), done)
        broken = ModelReply(calls=(ToolCall(id="c", name="stock", arguments="{}"),))
        await worked(app, "clerk", "glm", broken, done)
    clock.advance(DAY.total_seconds())
    async with Hermes(url, clock=clock) as app:
        mended = ModelReply(
            calls=(ToolCall(id="d", name="stock", arguments='```json\n{"article": "lamp"}\n```'),)
        )
        await worked(app, "clerk", "qwen", mended, done)


async def test_usage_by_agent_aligns_wide_names(cli: Cli, workdir: Path) -> None:
    await journal()
    lines = await shown(cli, "usage")
    assert lines[0].split() == [
        *("agent", "tasks", "calls", "in", "out", "cached", "money", "retried", "failed"),
        *("tool", "calls", "repaired", "refused", "failed"),
    ]
    assert [line.split()[:7] for line in lines[1:]] == [
        ["clerk", "2", "4", "400", "80", "160", "0.004"],
        ["仓库助理", "1", "2", "200", "40", "80", "0.002"],
        ["all", "3", "6", "600", "120", "240", "0.006"],
    ]
    assert len({width(line) for line in lines[1:]}) == 1


def width(line: str) -> int:
    return sum(2 if "\u4e00" <= char <= "\u9fff" else 1 for char in line)


async def shown(cli: Cli, *words: str) -> list[str]:
    """What a command prints, run beside this event loop."""
    import anyio

    result = await anyio.to_thread.run_sync(lambda: cli(*words))
    assert result.code == 0, result.err
    return result.out.splitlines()


async def rows(cli: Cli, *words: str) -> list[dict[str, object]]:
    lines = await shown(cli, "usage", "--json", *words)
    return json.loads("\n".join(lines))["rows"]


async def test_a_models_habits_with_tools_show(cli: Cli, workdir: Path) -> None:
    await journal()
    by_tool = {row["model"]: row for row in await rows(cli, "--by", "tool")}
    assert by_tool["qwen"] == {
        "tool": "stock",
        "model": "qwen",
        "tasks": 2,
        "tool_calls": 3,
        "repaired": 1,
        "refused": 0,
        "tool_failed": 1,
    }
    assert (by_tool["glm"]["tool_calls"], by_tool["glm"]["refused"]) == (0, 1)
    by_model = {row["model"]: row for row in await rows(cli, "--by", "model")}
    assert (by_model["qwen"]["calls"], by_model["qwen"]["repaired"]) == (4, 1)
    assert (by_model["glm"]["tasks"], by_model["glm"]["refused"]) == (1, 1)


async def test_by_day_and_since(cli: Cli, workdir: Path) -> None:
    await journal()
    days = await rows(cli, "--by", "day")
    assert [row["calls"] for row in days] == [4, 2]
    later = await rows(cli, "--by", "day", "--since", str(days[1]["day"]))
    assert later == days[1:]


def test_without_a_journal_usage_says_so(cli: Cli) -> None:
    result = cli("usage")
    assert result.code == 0
    assert "no model or tool was called" in result.out
    assert json.loads(cli("usage", "--json").out) == {"by": "agent", "rows": []}


def test_an_unknown_heading_and_time_are_refused(cli: Cli) -> None:
    assert "agent" in cli("usage", "--by", "agents").err
    result = cli("usage", "--since", "yesterday-ish")
    assert (result.code, "is no time" in result.err) == (2, True)


NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("7d", NOW - 7 * DAY),
        ("2026-11-30", datetime(2026, 11, 30, tzinfo=UTC)),
        ("2026-11-30T08:00+08:00", datetime(2026, 11, 30, tzinfo=UTC)),
    ],
)
def test_since_takes_ages_and_instants(text: str, wanted: datetime) -> None:
    assert since_of(text, now=NOW) == wanted


@pytest.mark.parametrize("text", ["", "soon", "99999999999d"])
def test_since_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(InputError, match="is no time"):
        since_of(text, now=NOW)


class Failing(ScriptedModel):
    async def reply(self, request: ModelRequest) -> ModelReply:
        error = ModelError("busy", code="rate_limit", retryable=True)
        if request.watch is not None:
            await request.watch(FailedAttempt(model="slow", error=error, attempt=1, delay_s=0.0))
        raise ModelError("it is broken", code="server")


async def test_retried_attempts_and_failures_are_counted() -> None:
    async with Hermes("memory://") as app:
        await app.run(Agent(name="a", model=Failing([])), "go")
        found = await tally(app.store, "agent")
        events = [record.event for record in await app.store.events((await only(app)).task_id)]
    assert any(isinstance(event, ModelRetried) for event in events)
    assert any(isinstance(event, ModelFailed) for event in events)
    [used] = found.values()
    assert (used.calls, used.retried, used.failed) == (1, 1, 1)


class BreakingOff(ScriptedModel):
    """Each first attempt breaks off, 100 tokens read and 20 written by then; without a script the
    second one does so too.
    """

    async def reply(self, request: ModelRequest) -> ModelReply:
        error = ModelError("the stream broke", code="stream", retryable=True)
        usage = Usage(prompt_tokens=100, completion_tokens=20, cached_tokens=40, cost_nano=7)
        charge(error, usage)
        if request.watch is not None:
            await request.watch(FailedAttempt(model="slow", error=error, attempt=1, delay_s=0.0))
        if self._left:
            return await super().reply(request)
        raise error


async def test_what_broke_off_is_counted_as_an_estimate_wherever_usage_is() -> None:
    async with Hermes("memory://") as app:
        response = await app.run(Agent(name="a", model=BreakingOff([])), "go")
        found = await tally(app.store, "agent")
        task = await only(app)
        shown = trace(await app.store.events(task.task_id))
    both = Usage(
        prompt_tokens=200, completion_tokens=40, cached_tokens=80, cost_nano=14, estimated=True
    )
    assert (response.usage, task.status.spent.usage) == (both, both)
    [used] = found.values()
    assert (used.prompt_tokens, used.completion_tokens, used.cached_tokens) == (200, 40, 80)
    assert (used.cost_nano, used.estimated) == (14, True)
    assert sum(entry.tokens_used for entry in shown) == 240


async def test_what_broke_off_counts_against_a_budget() -> None:
    async with Hermes("memory://") as app:
        model = BreakingOff([asks("lamp")] * 9)
        agent = Agent(name="a", model=model, tools=[stock], limits=Limits(max_tokens=2_500))
        response = await app.run(agent, "go")
    assert response.status == "partial"
    assert response.error is not None
    assert "max_tokens = 2500 is reached" in response.error.message
    assert 40 <= response.usage.completion_tokens < 20 * 9


async def only(app: Hermes) -> Task:
    [task] = await app.store.tasks(TaskQuery())
    return task


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_pages_of_the_journal_add_up_to_the_whole(kind: str, workdir: Path) -> None:
    url = "memory://" if kind == "memory" else f"sqlite:///{workdir / 'hermes.db'}"
    async with Hermes(url) as app:
        for _ in range(7):
            await worked(app, "a", "m", asks("lamp"), ModelReply(text="twelve"))
        whole = await app.store.deeds()
        paged = [await app.store.deeds(after=deed.place, limit=1) for deed in whole]
        started = [deed for deed in whole if deed.type == ToolStarted.type]
    assert len(whole) < PAGE
    assert [deed for page in paged for deed in page] == whole[1:]
    assert len(started) == 7


async def test_show_tells_money_and_what_is_left(cli: Cli, workdir: Path) -> None:
    @tool
    async def spread() -> Children:
        """Spread."""
        return Children(tasks=[Child(goal="part")])

    done = ModelReply(text="done")
    model = Named("qwen", [calls(call("spread")), done, done])
    limits = Limits(max_tokens=5_000, max_cost=0.5)
    async with Hermes("sqlite:///./.hermes/hermes.db") as app:
        agent = Agent(name="a", model=model, tools=[spread], limits=limits)
        response = await app.run(agent, "go")
    assert (response.status, response.cost) == ("succeeded", 0.002)
    lines = await shown(cli, "show", response.task_id)
    text = "\n".join(lines)
    assert "240 tokens, money 0.002" in text
    assert "tree     2 tasks: 3 model calls, 1 tool call, 360 tokens, money 0.003" in text
    assert "left     4,640 of 5,000 tokens, 0.497 of 0.5 money" in text
    tree = json.loads("\n".join(await shown(cli, "show", "--json", response.task_id)))["tree"]
    assert tree["bounds"]["max_tokens"] == {"allowed": 5000.0, "spent": 360.0, "left": 4640.0}


async def test_money_cannot_be_bounded_where_no_price_is_known() -> None:
    agent = Agent(model=ScriptedModel(["never"]), limits=Limits(max_cost=1.0))
    async with Hermes("memory://") as app:
        with pytest.raises(ConfigError, match="no price is known of model") as caught:
            await app.run(agent, "go")
        assert await app.store.tasks(TaskQuery()) == []
    assert "HERMES_MODEL_PROFILES" in caught.value.hint


def test_the_flags_of_a_run_bound_it_and_are_kept(cli: Cli) -> None:
    result = cli("run", "hello", "--playbook", "rules.yaml", "--json", "--max-model-calls", "1")
    shown = json.loads(result.out)
    kept = json.loads(cli("show", shown["task_id"], "--json").out)
    assert kept["tree"]["bounds"]["max_model_calls"]["allowed"] == 1.0


@pytest.mark.parametrize("flag", ["--max-cost", "--max-seconds"])
def test_a_bound_that_is_none_is_refused(cli: Cli, flag: str) -> None:
    result = cli("run", "hello", "--playbook", "rules.yaml", flag, "0")
    assert result.code == 2
    assert f"{flag} must be above 0" in result.err


@pytest.mark.parametrize(
    ("flag", "least"), [("--max-cost", "0.000000001"), ("--max-seconds", "0.000001")]
)
def test_a_bound_below_the_unit_it_is_counted_in_is_refused(
    cli: Cli, flag: str, least: str
) -> None:
    result = cli("run", "hello", "--playbook", "rules.yaml", flag, "1e-300")
    assert result.code == 2
    assert f"{flag} must be at least {least}, got 1e-300" in result.err


async def test_a_program_cannot_bound_below_the_unit_either() -> None:
    async with Hermes("memory://") as app:
        agent = Agent(model=Named("m", []), limits=Limits(max_cost=1e-300))
        with pytest.raises(ConfigError, match="max_cost must be at least"):
            await app.run(agent, "go")
        assert await app.store.tasks(TaskQuery()) == []


def test_small_money_is_shown_whole(cli: Cli) -> None:
    made = cli("run", "hello", "--playbook", "rules.yaml", "--max-cost", "0.0000001", "--json")
    shown = cli("show", str(made.value["task_id"]))
    assert "0.0000001 of 0.0000001 money" in shown.out


class Dated(Named):
    """Its server gives it another name."""

    async def reply(self, request: ModelRequest) -> ModelReply:
        return replace(await super().reply(request), model=f"{self.name}-2026")


class Broken(Named):
    async def reply(self, request: ModelRequest) -> ModelReply:
        raise ModelError("it is broken", code="server")


async def test_models_are_rows_by_the_name_asked_for(cli: Cli, workdir: Path) -> None:
    done = ModelReply(text="twelve")
    async with Hermes("sqlite:///./.hermes/hermes.db") as app:
        for model in (Dated("qwen", [asks("lamp"), done]), Broken("qwen", [])):
            await app.run(Agent(name="a", model=model, tools=[stock]), "go")
    [row] = await rows(cli, "--by", "model")
    assert (row["model"], row["answered_as"]) == ("qwen", ["qwen-2026"])
    assert (row["tasks"], row["calls"], row["failed"], row["tool_calls"]) == (2, 3, 1, 1)
    assert (await shown(cli, "usage", "--by", "model"))[1].startswith("qwen (qwen-2026) ")
    [row] = await rows(cli, "--by", "tool")
    assert row["model"] == "qwen"


class Free(Named):
    async def reply(self, request: ModelRequest) -> ModelReply:
        return replace(await super().reply(request), usage=Usage(prompt_tokens=100))


async def test_what_costs_nothing_is_told_from_what_nobody_knows(cli: Cli, workdir: Path) -> None:
    prices = "prices = { prompt = 0.0, completion = 0.0 }"
    (workdir / "hermes.toml").write_text(f'[model_profiles."gratis"]\n{prices}\n')
    async with Hermes("sqlite:///./.hermes/hermes.db") as app:
        for name in ("gratis", "riddle"):
            await app.run(Agent(name=name, model=Free(name, [ModelReply(text="12")])), "go")
    assert {row["model"]: row["cost"] for row in await rows(cli, "--by", "model")} == {
        "gratis": 0.0,
        "riddle": None,
    }
    assert {row["agent"]: row["cost"] for row in await rows(cli)} == {"gratis": 0.0, "riddle": None}


async def test_by_tool_without_a_tool_call_says_so(cli: Cli, workdir: Path) -> None:
    async with Hermes("sqlite:///./.hermes/hermes.db") as app:
        await worked(app, "a", "m", ModelReply(text="twelve"))
    [line] = await shown(cli, "usage", "--by", "tool")
    assert line == "no tool was called; `hermes usage --by model` shows the rest"
