"""What Hermes itself says to a model: parts, languages, and what a user overrides."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes import Agent, Hermes, tool
from hermes.config import Settings
from hermes.errors import ConfigError
from hermes.loop import prompts
from hermes.loop.prompts import LANGUAGES, Language, PromptBook, read_overrides, shipped
from hermes.loop.prompts.template import SYSTEM, check_part, holes
from hermes.models import ModelReply, ModelRequest
from hermes.testing import ScriptedModel, call, calls

EN, ZH = shipped("en"), shipped("zh")


def written(folder: Path, text: str, name: str = "prompts.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_overrides(path)
    return caught.value


def test_both_languages_have_the_same_parts_with_the_same_placeholders() -> None:
    assert {name: sorted(holes(text)) for name, text in EN.parts.items()} == {
        name: sorted(holes(text)) for name, text in ZH.parts.items()
    }
    assert set(SYSTEM) < set(EN.parts)
    assert EN.version == ZH.version == 1


@pytest.mark.parametrize(
    ("rule", "en", "zh"),
    [
        ("few calls", "as few times as needed", "次数尽量少"),
        ("facts need a tool", "Real-time facts", "实时信息"),
        ("knowledge", "plain knowledge may be answered directly", "常识可以直接回答"),
        ("arguments", "correct them once", "改正一次"),
        ("outside", "A fault outside", "外部故障"),
        ("invention", "Never invent", "绝不编造"),
        ("three failures", "three failures of the same tool", "连续失败三次"),
        ("handover", "what a person has to do", "需要人来做什么"),
        ("parallel", "only when none depends on another", "互不依赖"),
        ("strangers", "[from outside: …]", "[from outside: …]"),
        ("the end", "is enough known? Then finish now", "信息够了吗"),
        ("prose", "Answer in prose", "用完整的文字作答"),
        ("language", "in the language of the request", "与请求相同的语言"),
    ],
)
def test_each_rule_stands_in_both_languages(rule: str, en: str, zh: str) -> None:
    assert en in EN.rules, rule
    assert zh in ZH.rules, rule


def test_the_system_prompt_is_role_instructions_rules_variables_and_schema() -> None:
    text = prompts.system_prompt(
        role="a clerk",
        instructions="Be quick.",
        variables={"city": "北京", "long": "x" * 600},
        output_schema={"type": "object"},
    )
    parts = text.split("\n\n")
    assert parts[:3] == ["You are a clerk.", "Be quick.", EN.rules]
    assert parts[3].splitlines()[:2] == ["Variables of this task:", '- city = "北京"']
    assert parts[3].endswith("… (602 characters in all)")
    assert parts[4].endswith('JSON Schema:\n{"type":"object"}')


def test_what_is_not_there_leaves_no_gap() -> None:
    assert prompts.system_prompt(role="", instructions="", variables={}) == EN.rules


def test_values_with_braces_are_put_in_as_they_are() -> None:
    text = prompts.system_prompt(role="{schema}", instructions="{x}", variables={}, prompts=ZH)
    assert text.startswith("你是{schema}。\n\n{x}\n\n工作方式：")


def test_reminders_speak_the_language() -> None:
    assert prompts.missing_tools(["a", "b"], ZH).startswith("尚未完成：给出最终答案之前，a, b 必须")
    assert "错误" in prompts.wrong_output("错误。", ZH)
    assert prompts.empty_reply(ZH) == ZH.parts["empty_reply"]
    told = prompts.tools_changed({"a": "", "b": "down"}, ["c"], ZH).splitlines()
    assert told[1:4] == ["- a 暂时不能调用", "- b 暂时不能调用：down", "- c 可以重新调用"]
    assert prompts.criteria(["x"], ZH) == "结束时必须满足：\n- x"


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (("", "", ""), "en"),
        (("a clerk", "Look at the log.", "how many?"), "en"),
        (("", "", "北京天气怎么样？"), "zh"),
        (("查错助手", "分析 nginx 的 error.log", ""), "zh"),
        (("a clerk", "Answer questions about the weather in cities", "北京天气"), "en"),
        (("", "", "エラーログの件数を教えてください"), "en"),
        (("", "", "12345 !?"), "en"),
    ],
)
def test_auto_speaks_as_agent_and_goal_do(texts: tuple[str, ...], language: str) -> None:
    assert PromptBook().choose(*texts).language == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_that_is_set_holds_whatever_the_goal(language: Language) -> None:
    assert PromptBook(choice=language).choose("北京", "x", "天气").language == language


def test_a_user_overrides_parts_for_all_languages_or_for_one(tmp_path: Path) -> None:
    path = written(tmp_path, 'finish = ""\n[zh]\nanswer = "- 简短。"\n')
    book = PromptBook(overrides=read_overrides(path))
    en, zh = book.of("en"), book.of("zh")
    assert (en.overridden, zh.overridden) == (("finish",), ("finish", "answer"))
    assert "is enough known" not in en.rules
    assert zh.rules.endswith("\n- 简短。")
    assert en.parts["answer"] == EN.parts["answer"]


def test_a_folder_has_a_file_for_each_language(tmp_path: Path) -> None:
    written(tmp_path, 'answer = "- 简短。"', "system.zh.toml")
    assert read_overrides(tmp_path) == {"zh": {"answer": "- 简短。"}}
    written(tmp_path, 'answer = "x"', "system.cn.toml")
    assert "there is no prompt file `system.cn.toml`" in str(refusal(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('anwser = "x"', "there is no prompt part `anwser` (did you mean `answer`?)"),
        ("[zh]\nanwser = 'x'", "[zh]: there is no prompt part `anwser`"),
        ("answer = 3", "prompt part `answer` is no text, but 3"),
        ("en = 'x'", "`en` is no table of prompt parts"),
        ("empty_reply = ' '", "prompt part `empty_reply` is empty"),
        ("wrong_output = 'Again.'", "prompt part `wrong_output` lacks {problem}"),
        (
            "wrong_output = '{problem} {probelm}'",
            "unknown placeholder {probelm} (did you mean `problem`?; write {{probelm}}",
        ),
        ("answer = 'in {language}'", "placeholders of this part: none"),
        ("answer = ", "not TOML"),
    ],
)
def test_a_wrong_override_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    error = str(refusal(path))
    assert said in error
    assert str(path) in error


def test_a_path_that_holds_nothing_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in str(refusal(tmp_path / "none.toml"))
    assert "no prompt file" in str(refusal(tmp_path))


def test_braces_can_be_written(tmp_path: Path) -> None:
    path = written(tmp_path, """answer = '- As {{name}} or {"a": 1}.'""")
    book = PromptBook(overrides=read_overrides(path))
    assert book.of("en").rules.endswith('- As {name} or {"a": 1}.')


def test_an_override_changes_the_digests(tmp_path: Path) -> None:
    same = PromptBook(overrides={"en": {"answer": EN.parts["answer"]}}).of("en")
    other = PromptBook(overrides={"en": {"answer": "- Short."}}).of("en")
    assert (EN.overrides_digest, same.digest) == ("", EN.digest)
    assert other.digest != EN.digest
    assert other.overrides_digest not in ("", same.overrides_digest)


@given(st.sampled_from(sorted(EN.parts)), st.text(max_size=40))
def test_what_passes_the_check_can_be_put_in(name: str, text: str) -> None:
    try:
        part = check_part(name, text, where="x")
    except ConfigError:
        return
    said = EN.overriding({name: part})
    assert holes(part) == holes(EN.parts[name])
    values = dict.fromkeys(holes(part), "v")
    assert "{" in part or said.text(name, **values) == part


async def test_a_summary_is_asked_for_in_the_language_of_the_task(workdir: Path) -> None:
    asked: list[str] = []
    read: list[str] = []

    @tool(effect="read")
    def page(number: int) -> str:
        """Read a page."""
        read.append(str(number))
        return f"{number}: " + "word " * 400

    def answer(request: ModelRequest) -> ModelReply:
        asked.append(request.messages[0].text)
        if asked[-1].startswith(ZH.parts["summary"][:20]) or len(read) == 20:
            return ModelReply(text="都没有问题。")
        return calls(call("page", number=len(read)))

    settings = Settings.model_validate(
        {"context_window": 4000, "max_steps": 40, "tool_groups": ("core",)}
    )
    async with Hermes("memory://", settings=settings) as app:
        agent = Agent(model=ScriptedModel([answer] * 60), tools=[page])
        done = await app.run(agent, "把所有页面都读一遍。")
    assert (done.status, done.error) == ("succeeded", None)
    assert set(asked) == {ZH.rules, ZH.parts["summary"]}
