"""The marks by which models set calls and reasoning apart from prose in a text."""

from __future__ import annotations

import re

_WORDS = r"(?:tool_calls?|toolcalls?|function_calls?|functioncalls?|tool_use)"
# DeepSeek writes a full-width bar and U+2581; some servers turn both into ASCII.
_TOKENS = (
    r"(?:tool_calls?|function_calls?|python_tag|tool[▁_]calls?[▁_](?:begin|start|end)"
    r"|tool_calls_section_(?:begin|end))"
)
_WRAP = (
    rf"<(?:[\w-]{{1,20}}:)?{_WORDS}>|<[|｜](?:DSML[|｜])?{_TOKENS}[|｜]?>|\[TOOL_CALLS\]"
    r"|```(?:tool_calls?|tool_code|tool_use|function_calls?)[ \t]*\r?\n"
)
_BLOCK = (
    r"<(?:[|｜]DSML[|｜])?(?:function|invoke)(?==|[ \t]{1,4}name=)"
    r"|^Action[ \t]?:[ \t]?(?=[\w.\-]{1,128}[ \t]*\r?\nAction Input[ \t]?:)"
    r"|(?:<\|start\|>assistant[ \t]?|<\|channel\|>\w{1,20}[ \t])(?=to=functions\.)"
)
_STOP = (
    r"<\|(?:im_end|eot_id|eom_id|end|call|return|endoftext|end_of_text)\|>|</s>|<eos>"
    r"|<end_of_turn>|<｜end▁of▁sentence｜>|(?:<\|im_start\|>|<\|start\|>)assistant\b(?![ \t]?to=)"
)
# The last alternative is a mark that was cut in its midst, at the very end of the text.
_CLOSE = (
    rf"</(?:[\w-]{{1,20}}:)?{_WORDS}>|<(?:/[|｜]|[|｜]/)(?:DSML[|｜])?{_TOKENS}[|｜]?>"
    r"|\[/TOOL_CALLS\]|</?[|｜]?[\w▁|｜:-]{0,40}\Z"
)
_FENCE = r"```(?:(?:json|xml|python|py|text)\b)?"

OPEN = re.compile(f"{_WRAP}|{_BLOCK}", re.MULTILINE)
"""Where calls begin that nobody could take for prose."""

BETWEEN = re.compile(rf"(?:\s|[,;]|{_STOP}|{_WRAP}|{_CLOSE}|{_FENCE})*", re.MULTILINE)
"""What may stand between calls, and after them."""

CUT = re.compile(f"{_WRAP}|{_BLOCK}|{_STOP}|{_CLOSE}|```", re.MULTILINE)
"""Where a call that cannot be read ends at the latest."""

CLOSE = re.compile(rf"\s*(?:{_CLOSE}|{_STOP})")
STOP = re.compile(rf"(?:\s|{_STOP})*")
"""White space, and what servers leave at the end of a reply."""

FENCES = re.compile(rf"(?:\s|[,;]|{_STOP}|{_FENCE})*")
"""What may stand before, between and after calls that have no marks."""

_REASONING = r"think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad|seed:think"
_PAIRS = (
    (r"\[THINK\]", r"\[/THINK\]"),
    ("◁think▷", "◁/think▷"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|channel\|>analysis<\|message\|>", r"<\|end\|>"),
)
REASONING = re.compile(
    "|".join([rf"<({_REASONING})(?:\s[^<>]{{0,80}})?>", *(f"({begin})" for begin, _ in _PAIRS)]),
    re.IGNORECASE,
)
REASONING_END = re.compile(
    "|".join([rf"</(?:{_REASONING})>", *(end for _, end in _PAIRS[:-1])]), re.IGNORECASE
)
"""The end of a block whose beginning the server has kept for itself."""

_ENDS = [re.compile(end, re.IGNORECASE) for _, end in _PAIRS]


def after_reasoning(text: str, opening: re.Match[str]) -> int | None:
    """Where a text goes on after a block of reasoning; None if the block is never closed."""
    if opening[1]:
        closing = re.compile(f"</{re.escape(opening[1])}>", re.IGNORECASE)
    else:
        closing = _ENDS[(opening.lastindex or 2) - 2]
    found = closing.search(text, opening.end())
    return None if found is None else found.end()


def past(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where a text goes on after what matches there, if anything does."""
    found = pattern.match(text, at)
    return at if found is None else found.end()
