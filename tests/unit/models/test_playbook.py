import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from hermes.errors import ModelError
from hermes.models import ModelReply, ModelRequest, PlaybookModel, load_playbook
from hermes.models.base import CallDelta, TextDelta

Tool = Callable[..., object]

REPORT = """
    playbook: 1
    name: log-report
    rules:
      - name: five-worst
        when:
          all: [nginx]
          any: [error, 错误]
          regex: '(?P<date>\\d{4}[-/]\\d{2}[-/]\\d{2})'
        set: {order: count}
        steps:
          - call: summarise
            with: {path: "{{ vars.path }}", date: "{{ date }}", order: "{{ order }}"}
            as: summary
          - call: write
            if: "summary.total > 0"
            with:
              title: "{{ '报告' if lang == 'zh' else 'Report' }}"
              items: "{{ summary.items }}"
            as: report
          - foreach: "summary.items[:2]"
            item: group
            call: notify
            with: {text: "{{ group.kind }}!"}
            as: sent
        answer: "{{ report }} ({{ sent | length }} sent)"
    otherwise: "I know nothing of {{ goal }}."
"""


class Failing(Exception):
    """Raised by a tool of these tests."""


class Task:
    """A conversation with a playbook whose calls go to real functions."""

    def __init__(
        self, folder: Path, text: str, tools: Mapping[str, Tool], **variables: object
    ) -> None:
        path = folder / "book.yaml"
        path.write_text(dedent(text), encoding="utf-8")
        self.model = PlaybookModel(load_playbook(path))
        self.tools, self.variables = tools, variables
        self.messages: list[ChatMessage] = [SystemMessage(text="rules")]
        self.made: list[tuple[str, dict[str, object]]] = []

    def request(self) -> ModelRequest:
        specs = tuple(ToolSpec(name=name, description="", parameters={}) for name in self.tools)
        return ModelRequest(messages=self.messages, tools=specs, variables=self.variables)

    async def turn(self) -> ModelReply:
        """One reply and the results of its calls."""
        reply = await self.model.reply(self.request())
        self.messages.append(AssistantMessage(text=reply.text, calls=reply.calls))
        for call in reply.calls:
            arguments = json.loads(call.arguments)
            self.made.append((call.name, arguments))
            self.messages.append(self.result(call.id, call.name, arguments))
        return reply

    def result(self, id_: str, name: str, arguments: dict[str, object]) -> ToolMessage:
        try:
            value = self.tools[name](**arguments)
        except Failing as exc:
            error = {"error": {"code": "failed", "message": str(exc)}}
            text = json.dumps(error)
            return ToolMessage(call_id=id_, name=name, text=text, is_error=True)
        text = value if isinstance(value, str) else json.dumps(value)
        return ToolMessage(call_id=id_, name=name, text=text)

    async def run(self, goal: str) -> str:
        self.messages.append(UserMessage(text=goal))
        while (reply := await self.turn()).calls:
            pass
        return reply.text

    async def fault(self, goal: str) -> ModelError:
        with pytest.raises(ModelError) as caught:
            await self.run(goal)
        assert (caught.value.code, caught.value.retryable) == ("playbook", False)
        return caught.value


def report(tmp_path: Path, total: int = 3) -> Task:
    def summarise(**_: object) -> object:
        return {"total": total, "items": [{"kind": f"k{n}"} for n in range(total)]}

    def write(title: str, items: list[object]) -> str:
        return f"{title} of {len(items)}"

    def notify(text: str) -> object:
        return {"told": text}

    tools: dict[str, Tool] = {"summarise": summarise, "write": write, "notify": notify}
    return Task(tmp_path, REPORT, tools, path="/var/log/error.log")


def small(tmp_path: Path, steps: str, answer: str, **tools: Tool) -> Task:
    text = f"""
    playbook: 1
    name: small
    rules:
      - name: only
        steps: {steps}
        answer: "{answer}"
    """
    return Task(tmp_path, text, tools)


async def test_a_whole_task_from_goal_to_answer(tmp_path: Path) -> None:
    task = report(tmp_path)
    answer = await task.run("The worst NGINX errors of 2026/11/29, please")

    assert answer == "Report of 3 (2 sent)"
    items = [{"kind": "k0"}, {"kind": "k1"}, {"kind": "k2"}]
    path = "/var/log/error.log"
    assert task.made == [
        ("summarise", {"path": path, "date": "2026/11/29", "order": "count"}),
        ("write", {"title": "Report", "items": items}),
        ("notify", {"text": "k0!"}),
        ("notify", {"text": "k1!"}),
    ]


async def test_a_goal_in_chinese(tmp_path: Path) -> None:
    answer = await report(tmp_path).run("分析２０２６-11-29的ＮＧＩＮＸ错误")
    assert answer == "报告 of 3 (2 sent)"


async def test_all_calls_of_a_foreach_come_in_one_turn(tmp_path: Path) -> None:
    task = report(tmp_path)
    task.messages.append(UserMessage(text="nginx error 2026-11-29"))
    sizes = [len((await task.turn()).calls) for _ in range(4)]
    assert sizes == [1, 1, 2, 0]


async def test_replies_cost_nothing_and_say_who_made_them(tmp_path: Path) -> None:
    task = report(tmp_path)
    task.messages.append(UserMessage(text="nginx error 2026-11-29"))
    reply = await task.turn()
    assert (reply.usage, reply.model, reply.finish_reason) == (
        Usage(),
        "playbook:log-report",
        "tool_calls",
    )
    assert task.model.name == "playbook:log-report"


async def test_asking_again_gives_the_same_reply(tmp_path: Path) -> None:
    task = report(tmp_path)
    task.messages.append(UserMessage(text="nginx error 2026-11-29"))
    for _ in range(4):
        first = await task.model.reply(task.request())
        assert first == await task.model.reply(task.request())
        await task.turn()


async def test_ids_are_unique_over_all_tasks_of_a_session(tmp_path: Path) -> None:
    task = report(tmp_path)
    for _ in range(3):
        await task.run("nginx error 2026-11-29")
    ids = [call.id for m in task.messages if isinstance(m, AssistantMessage) for call in m.calls]
    assert len(ids) == len(set(ids)) == 12
    assert all(id_.isalnum() for id_ in ids)


async def test_a_skipped_step_leaves_its_name_undefined(tmp_path: Path) -> None:
    error = await report(tmp_path, total=0).fault("nginx error 2026-11-29")
    assert "rule 'five-worst', answer: " in error.message
    assert "'report' is undefined" in error.message


async def test_a_skipped_step_can_be_asked_for(tmp_path: Path) -> None:
    steps = '[{call: t, if: "false", as: x}, {call: t, foreach: "[]", as: xs}]'
    task = small(tmp_path, steps, "{{ x is defined }} {{ xs }}", t=lambda: 1)
    assert await task.run("go") == "false []"
    assert task.made == []


def one_in_a_list(n: int) -> list[int]:
    return [n]


async def test_a_condition_with_the_item_chooses_items(tmp_path: Path) -> None:
    steps = '[{foreach: "range(5)", call: t, if: "item is odd", with: {n: "{{ item }}"}, as: xs}]'
    task = small(tmp_path, steps, "{{ xs }}", t=one_in_a_list)
    assert await task.run("go") == "[[1],[3]]"


async def test_a_condition_without_the_item_decides_for_all(tmp_path: Path) -> None:
    steps = '[{foreach: "vars.missing", call: t, if: "vars.missing is defined", as: xs}]'
    assert await small(tmp_path, steps, "{{ xs }}", t=lambda: 1).run("go") == "[]"


async def test_a_step_that_was_made_is_not_undone_by_a_changed_variable(tmp_path: Path) -> None:
    steps = '[{call: a, if: "vars.on", as: x}, {call: b, as: y}]'
    task = small(tmp_path, steps, "{{ x }}{{ y }}", a=lambda: "A", b=lambda: "B")
    task.variables["on"] = True
    task.messages.append(UserMessage(text="go"))
    await task.turn()
    task.variables["on"] = False
    await task.turn()
    assert (await task.turn()).text == "AB"
    assert [name for name, _ in task.made] == ["a", "b"]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"a": 1}, "1"),
        ('{"a": 1}', "1"),
    ],
)
async def test_json_results_are_read(tmp_path: Path, result: object, shown: str) -> None:
    task = small(tmp_path, "[{call: t, as: x}]", "{{ x.a }}", t=lambda: result)
    assert await task.run("go") == shown


@pytest.mark.parametrize("result", ["12", "true", "{not json", "[cut", "", '"x"', "plain"])
async def test_texts_stay_texts(tmp_path: Path, result: str) -> None:
    task = small(tmp_path, "[{call: t, as: x}]", "<{{ x }}>", t=lambda: result)
    assert await task.run("go") == f"<{result}>"


async def test_an_answer_that_is_an_object_is_json(tmp_path: Path) -> None:
    task = small(tmp_path, "[{call: t, as: x}]", "{{ x }}", t=lambda: {"n": [1, None]})
    assert json.loads(await task.run("go")) == {"n": [1, None]}


def broken(**_: object) -> object:
    raise Failing("disk full")


async def test_a_failed_call_ends_the_playbook_with_its_error(tmp_path: Path) -> None:
    steps = "[{call: ok}, {call: bad, as: x}, {call: ok}]"
    task = small(tmp_path, steps, "done", ok=lambda: 1, bad=broken)
    error = await task.fault("go")
    assert error.message == "playbook 'small', rule 'only', step 2 (bad) failed: disk full"
    assert [name for name, _ in task.made] == ["ok", "bad"]


async def test_a_failed_call_that_may_fail_is_a_result(tmp_path: Path) -> None:
    steps = "[{call: bad, as: x, on_error: continue}]"
    task = small(tmp_path, steps, "{{ x.error.message }} {{ x.error.code }}", bad=broken)
    assert await task.run("go") == "disk full failed"


async def test_an_error_in_plain_words_is_a_result_too(tmp_path: Path) -> None:
    steps = "[{call: t, as: x, on_error: continue}]"
    task = small(tmp_path, steps, "{{ x.error.message }}", t=lambda: 1)
    task.messages.append(UserMessage(text="go"))
    reply = await task.model.reply(task.request())
    task.messages += [
        AssistantMessage(calls=reply.calls),
        ToolMessage(call_id=reply.calls[0].id, name="t", text="timed out", is_error=True),
    ]
    assert (await task.turn()).text == "timed out"


async def test_no_rule_and_no_otherwise_says_what_the_rules_want(tmp_path: Path) -> None:
    task = report(tmp_path)
    assert await task.run("bake bread") == "I know nothing of bake bread."

    text = REPORT.replace("otherwise", "# otherwise")
    error = await Task(tmp_path, text, {}).fault("bake bread")
    assert "no rule fits the goal 'bake bread'" in error.message
    assert "five-worst wants all of 'nginx' and any of 'error', '错误' and regex" in error.hint


async def test_the_first_rule_that_fits_wins(tmp_path: Path) -> None:
    text = """
    playbook: 1
    rules:
      - {name: a, when: {all: [x, y]}, answer: a}
      - {name: b, when: {all: [x]}, answer: b}
      - {name: c, answer: c}
    """
    answers = [await Task(tmp_path, text, {}).run(goal) for goal in ("y x", "x", "z")]
    assert answers == ["a", "b", "c"]


async def test_a_missing_variable_names_rule_step_and_template(tmp_path: Path) -> None:
    task = report(tmp_path)
    task.variables.clear()
    error = await task.fault("nginx error 2026-11-29")
    assert "rule 'five-worst', step 1 (summarise), with.path: '{{ vars.path }}'" in error.message
    assert "--var NAME=VALUE" in error.hint


async def test_a_tool_that_the_agent_lacks_is_named(tmp_path: Path) -> None:
    error = await small(tmp_path, "[{call: tel}]", "a", tell=lambda: 1).fault("go")
    assert "this agent has no tool 'tel'" in error.message
    assert error.hint == "it has tell"


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ('[{call: t, foreach: "3"}]', "foreach: '3' gives no list: 3"),
        ('[{call: t, foreach: "range(2000)"}]', "foreach: 2000 calls, at most 1000 are allowed"),
    ],
)
async def test_a_foreach_needs_a_list_of_sane_size(tmp_path: Path, steps: str, words: str) -> None:
    assert words in (await small(tmp_path, steps, "a", t=lambda: 1).fault("go")).message


async def test_a_conversation_of_another_rule_is_refused(tmp_path: Path) -> None:
    task = report(tmp_path)
    task.messages.append(UserMessage(text="nginx error 2026-11-29"))
    await task.turn()
    other = small(tmp_path, "[{call: t}]", "a", t=lambda: 1)
    other.messages = task.messages
    with pytest.raises(ModelError, match="does not belong to this rule.*start a new one"):
        await other.turn()


async def test_a_conversation_without_a_goal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no user message"):
        await report(tmp_path).turn()


async def test_a_stream_gives_the_same_reply(tmp_path: Path) -> None:
    task = report(tmp_path)
    task.messages.append(UserMessage(text="nginx error 2026-11-29"))
    parts = [part async for part in task.model.stream(task.request())]
    assert parts == [CallDelta(name="summarise"), await task.model.reply(task.request())]
    task.messages[-1] = UserMessage(text="bread")
    parts = [part async for part in task.model.stream(task.request())]
    assert parts[0] == TextDelta(text="I know nothing of bread.")


class TestChanged:
    """A task that began under other rules."""

    async def begun(self, tmp_path: Path, steps: str) -> Task:
        task = small(tmp_path, steps, "ok", a=lambda: 1, b=lambda: 2)
        task.messages.append(UserMessage(text="go"))
        await task.turn()
        return task

    async def go_on(self, task: Task, tmp_path: Path, steps: str) -> list[str]:
        """Names of the calls that are made under the new rules."""
        later = small(tmp_path, steps, "ok", **task.tools)
        later.messages = task.messages
        later.model = later.model.after_change()
        while (await later.turn()).calls:
            pass
        return [name for name, _ in later.made]

    async def test_a_made_step_is_known_though_others_came_before_it(self, tmp_path: Path) -> None:
        task = await self.begun(tmp_path, "[{call: a}]")
        assert await self.go_on(task, tmp_path, "[{call: b}, {call: a}, {call: b}]") == ["b"]

    async def test_steps_with_one_tool_are_told_apart(self, tmp_path: Path) -> None:
        task = await self.begun(tmp_path, "[{call: a}, {call: a}]")
        assert await self.go_on(task, tmp_path, "[{call: a}, {call: b}, {call: a}]") == ["b", "a"]

    async def test_a_call_of_a_step_that_is_gone_is_passed_over(self, tmp_path: Path) -> None:
        task = await self.begun(tmp_path, "[{call: a}]")
        assert await self.go_on(task, tmp_path, "[{call: b}]") == ["b"]

    async def test_call_ids_of_version_0_1_0_are_read(self, tmp_path: Path) -> None:
        task = await self.begun(tmp_path, "[{call: b}, {call: a}]")
        [_, _, asked, result] = task.messages
        assert isinstance(asked, AssistantMessage)
        assert isinstance(result, ToolMessage)
        assert asked.calls[0].id == "pb1n1"
        old = [replace(asked, calls=(replace(asked.calls[0], id="pb1s1"),))]
        task.messages[2:] = [*old, replace(result, call_id="pb1s1")]
        assert await self.go_on(task, tmp_path, "[{call: b}, {call: a}]") == ["a"]
