"""Quirks of tool calls: their ids, indexes, names and arguments."""

from __future__ import annotations

from .quirks import KNOWLEDGE, Fails, Object, Quirk, Says, call, chunk, figures, stream, told, whole

PEKING = '{"city":"北京"}'
ROME = '{"city":"Rome"}'
ONE = (("call_a", "weather", PEKING),)
TWO = (("call_a", "weather", PEKING), ("call_b", "weather", ROME))


def piece(arguments: object, **more: object) -> Object:
    """A fragment of arguments."""
    return {"tool_calls": [{"function": {"arguments": arguments}, **more}]}


def begin(id_: object, name: str = "weather", arguments: object = "", **more: object) -> Object:
    """The first fragment of a call."""
    return {"tool_calls": [call(id_, name, arguments, **more)]}


def calls(*items: Object) -> Object:
    return {"tool_calls": list(items)}


A, B = call("call_a", "weather", PEKING), call("call_b", "weather", ROME)
WHOLE_ONE = whole(calls(A), "tool_calls")
WHOLE_TWO = whole(calls(A, B), "tool_calls")
SAYS_ONE = Says(calls=ONE, finish="tool_calls")
SAYS_TWO = Says(calls=TWO, finish="tool_calls")

NO_INDEX = "needs the index and crashes without it; the fragments can be told apart without"
JOINED_NAME = "joins the names to one of no tool; the name is the same one again"
JOINED_ID = "joins the ids to one that the server never gave"

CALLS = [
    Quirk(
        name="R011 Gemini: one call without index",
        source="https://github.com/openai/openai-python/pull/3246",
        whole=WHOLE_ONE,
        stream=told(begin("call_a", arguments=PEKING), finish="tool_calls"),
        demand=SAYS_ONE,
        official_stream=NO_INDEX,
    ),
    Quirk(
        name="R011 two calls in turn without index",
        source="https://github.com/SamSaffron/term-llm/pull/314",
        whole=WHOLE_TWO,
        stream=told(
            begin("call_a"),
            piece(PEKING[:6]),
            piece(PEKING[6:]),
            begin("call_b"),
            piece(ROME[:3]),
            piece(ROME[3:]),
            finish="tool_calls",
        ),
        demand=SAYS_TWO,
        official_stream=NO_INDEX,
    ),
    Quirk(
        name="R011 two calls in one chunk without index",
        source="https://github.com/ollama/ollama/issues/7881",
        whole=WHOLE_TWO,
        stream=told(calls(A, B), finish="tool_calls"),
        demand=SAYS_TWO,
        official_stream=NO_INDEX,
    ),
    Quirk(
        name="R011 some fragments with index, some without",
        source="https://github.com/AstrBotDevs/AstrBot/pull/6692",
        whole=WHOLE_TWO,
        stream=told(
            begin("call_a", index=0),
            piece(PEKING[:6]),
            begin("call_b"),
            piece(PEKING[6:], index=0),
            piece(ROME, index=1),
            finish="tool_calls",
        ),
        demand=SAYS_TWO,
        official_stream=NO_INDEX,
    ),
    Quirk(
        name="R011 a fragment that could belong to two calls",
        source="FIELD_REPORTS R011",
        whole=WHOLE_TWO,
        stream=told(begin("call_a"), begin("call_b"), piece(PEKING), finish="tool_calls"),
        demand=Fails(code="stream", retryable=True, words="names no call"),
        demand_whole=SAYS_TWO,
        why_not="a whole reply has no fragments",
        official_stream=NO_INDEX,
    ),
    Quirk(
        name="R011 SGLang: arguments begin before the name",
        source="https://github.com/vercel/ai/pull/15879",
        whole=WHOLE_ONE,
        stream=told(
            piece("", id="call_a", index=0),
            {"tool_calls": [{"index": 0, "function": {"name": "weather"}}]},
            piece(PEKING, index=0),
            finish="tool_calls",
        ),
        demand=SAYS_ONE,
    ),
    Quirk(
        name="R011 the index counts from 1",
        source=KNOWLEDGE,
        whole=WHOLE_TWO,
        stream=told(
            begin("call_a", index=1),
            piece(PEKING, index=1),
            begin("call_b", index=2),
            piece(ROME, index=2),
            finish="tool_calls",
        ),
        demand=SAYS_TWO,
        official_stream="takes the index for a place in its list and crashes",
    ),
    Quirk(
        name="R011 Ollama: every call has index 0",
        source="https://github.com/ollama/ollama/issues/7881",
        whole=whole(calls({**A, "index": 0}, {**B, "index": 0}), "tool_calls"),
        stream=told(
            begin("call_a", arguments=PEKING, index=0),
            begin("call_b", arguments=ROME, index=0),
            finish="tool_calls",
        ),
        demand=SAYS_TWO,
        official_stream="glues the two calls to one that cannot be read",
    ),
    Quirk(
        name="R010 three calls with empty ids",
        source="https://github.com/microsoft/autogen/issues/4878",
        whole=whole(calls(*[call("", "weather", PEKING)] * 3), "tool_calls"),
        stream=told(
            *[begin("", arguments=PEKING, index=place) for place in range(3)], finish="tool_calls"
        ),
        demand=Says(calls=(("", "weather", PEKING),) * 3, finish="tool_calls"),
    ),
    Quirk(
        name="R010 the same id twice",
        source="FIELD_REPORTS R010",
        whole=whole(
            calls(*(call(id_, "weather", PEKING) for id_ in ("x", "x", "y"))), "tool_calls"
        ),
        stream=told(
            *[begin(id_, arguments=PEKING, index=n) for n, id_ in enumerate(("x", "x", "y"))],
            finish="tool_calls",
        ),
        demand=Says(
            calls=tuple((id_, "weather", PEKING) for id_ in ("x", "x", "y")), finish="tool_calls"
        ),
    ),
    Quirk(
        name="Qwen: an empty id in every later chunk",
        source="tests/providers/shapes.py, after DashScope's documentation",
        whole=WHOLE_ONE,
        stream=told(
            begin("call_a", index=0),
            *[piece(part, index=0, id="", type="function") for part in (PEKING[:6], PEKING[6:])],
            finish="tool_calls",
        ),
        demand=SAYS_ONE,
    ),
    Quirk(
        name="Fireworks: id and name again in every chunk",
        source="https://github.com/SillyTavern/SillyTavern/pull/5948",
        whole=WHOLE_ONE,
        stream=told(
            *[
                begin("call_a", arguments=part, index=0)
                for part in ("", PEKING[:6], PEKING[6:], "")
            ],
            finish="tool_calls",
        ),
        demand=SAYS_ONE,
        official_stream=JOINED_ID,
    ),
    Quirk(
        name="a new id in every chunk",
        source=KNOWLEDGE,
        whole=WHOLE_ONE,
        stream=told(
            begin("call_a", index=0),
            piece(PEKING[:6], index=0, id="call_z1"),
            piece(PEKING[6:], index=0, id="call_z2"),
            finish="tool_calls",
        ),
        demand=SAYS_ONE,
        official_stream=JOINED_ID,
    ),
    Quirk(
        name="the id only in the last chunk",
        source=KNOWLEDGE,
        whole=WHOLE_ONE,
        stream=told(
            {"tool_calls": [{"index": 0, "function": {"name": "weather", "arguments": ""}}]},
            piece(PEKING, index=0),
            {"tool_calls": [{"index": 0, "id": "call_a"}]},
            finish="tool_calls",
        ),
        demand=SAYS_ONE,
    ),
    Quirk(
        name="NVIDIA MiniMax: the name again in every chunk",
        source="https://github.com/NousResearch/hermes-agent/issues/8259",
        whole=WHOLE_ONE,
        stream=told(
            begin("call_a", index=0),
            *[
                {"tool_calls": [{"index": 0, "function": {"name": "weather", "arguments": part}}]}
                for part in (PEKING[:6], PEKING[6:])
            ],
            finish="tool_calls",
        ),
        demand=SAYS_ONE,
        official_stream=JOINED_NAME,
    ),
    Quirk(
        name="Gemini: the name in two pieces",
        source="https://github.com/continuedev/continue/pull/5849",
        whole=WHOLE_ONE,
        stream=told(
            begin("call_a", name="wea", index=0),
            {"tool_calls": [{"index": 0, "function": {"name": "ther", "arguments": PEKING}}]},
            finish="tool_calls",
        ),
        demand=SAYS_ONE,
    ),
    Quirk(
        name="llama.cpp: arguments as an object",
        source="https://github.com/ggml-org/llama.cpp/issues/20198",
        whole=whole(calls(call("call_a", "weather", {"city": "北京"})), "tool_calls"),
        stream=told(begin("call_a", arguments={"city": "北京"}, index=0), finish="tool_calls"),
        demand=SAYS_ONE,
        official_whole="hands on an object where it promises a text",
        official_stream="hands on an object where it promises a text",
    ),
    Quirk(
        name="R001 arguments null",
        source="FIELD_REPORTS R001",
        whole=whole(calls(call("call_a", "list_rooms", None)), "tool_calls"),
        stream=told(begin("call_a", "list_rooms", None, index=0), finish="tool_calls"),
        demand=Says(calls=(("call_a", "list_rooms", ""),), finish="tool_calls"),
        official_whole="hands on null where it promises a text",
        official_stream="hands on null where it promises a text",
    ),
    Quirk(
        name="R001 arguments missing",
        source="FIELD_REPORTS R001",
        whole=whole(
            calls({"id": "call_a", "type": "function", "function": {"name": "list_rooms"}}),
            "tool_calls",
        ),
        stream=told(
            {"tool_calls": [{"index": 0, "id": "call_a", "function": {"name": "list_rooms"}}]},
            finish="tool_calls",
        ),
        demand=Says(calls=(("call_a", "list_rooms", ""),), finish="tool_calls"),
        official_whole="has no arguments at all where it promises a text",
        official_stream="has no arguments at all where it promises a text",
    ),
    Quirk(
        name="R001 arguments empty",
        source="FIELD_REPORTS R001",
        whole=whole(calls(call("call_a", "list_rooms", "")), "tool_calls"),
        stream=told(begin("call_a", "list_rooms", "", index=0), finish="tool_calls"),
        demand=Says(calls=(("call_a", "list_rooms", ""),), finish="tool_calls"),
    ),
    Quirk(
        name="R003 arguments encoded twice",
        source="FIELD_REPORTS R003",
        whole=whole(calls(call("call_a", "weather", '"{\\"city\\":\\"Rome\\"}"')), "tool_calls"),
        stream=told(
            begin("call_a", index=0),
            piece('"{\\"city\\":', index=0),
            piece('\\"Rome\\"}"', index=0),
            finish="tool_calls",
        ),
        demand=Says(
            calls=(("call_a", "weather", '"{\\"city\\":\\"Rome\\"}"'),), finish="tool_calls"
        ),
    ),
    Quirk(
        name="R008 the output limit in the middle of a call",
        source="FIELD_REPORTS R008",
        whole=whole(calls(call("call_a", "weather", PEKING[:9])), "length"),
        stream=told(begin("call_a", index=0), piece(PEKING[:9], index=0), finish="length"),
        demand=Says(calls=(("call_a", "weather", PEKING[:9]),), finish="length"),
    ),
    Quirk(
        name="R009 a tool that does not exist",
        source="FIELD_REPORTS R009",
        whole=whole(calls(call("call_a", "find_files", "{}")), "tool_calls"),
        stream=told(begin("call_a", "find_files", "{}", index=0), finish="tool_calls"),
        demand=Says(calls=(("call_a", "find_files", "{}"),), finish="tool_calls"),
    ),
    Quirk(
        name="R013 Gemini: stop together with a call",
        source="https://github.com/googleapis/python-genai/issues/2868",
        whole=whole(calls(A), "stop"),
        stream=told(begin("call_a", arguments=PEKING, index=0), finish="stop"),
        demand=Says(calls=ONE, finish="stop"),
    ),
    Quirk(
        name="R013 tool_calls with an empty list and no text",
        source="FIELD_REPORTS R013",
        whole=whole({"content": "", "tool_calls": []}, "tool_calls"),
        stream=told({"content": "", "tool_calls": []}, finish="tool_calls"),
        demand=Says(finish="tool_calls"),
    ),
    Quirk(
        name="Mistral: calls whole in the chunk that finishes",
        source="https://github.com/openclaw/openclaw/pull/130532",
        whole=WHOLE_TWO,
        stream=stream(
            chunk({"role": "assistant", "content": ""}),
            chunk(
                {"content": "", **calls({**A, "index": 0}, {**B, "index": 1})},
                "tool_calls",
                usage={"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
            ),
        ),
        demand=SAYS_TWO,
    ),
    Quirk(
        name="OpenAI: the old function_call",
        source="https://platform.openai.com/docs/api-reference/chat/object",
        whole=whole({"function_call": {"name": "weather", "arguments": ROME}}, "function_call"),
        stream=told(
            {"function_call": {"name": "weather", "arguments": ""}},
            {"function_call": {"arguments": ROME[:4]}},
            {"function_call": {"arguments": ROME[4:]}},
            finish="function_call",
        ),
        demand=Says(calls=(("", "weather", ROME),), finish="tool_calls"),
    ),
    Quirk(
        name="a number for an id",
        source=KNOWLEDGE,
        whole=whole(calls(call(7, "weather", PEKING)), "tool_calls"),
        stream=told(begin(7, arguments=PEKING, index=0), finish="tool_calls"),
        demand=Says(calls=(("7", "weather", PEKING),), finish="tool_calls"),
        official_whole="hands on a number where it promises a text",
        official_stream="hands on a number where it promises a text",
    ),
    Quirk(
        name="Gemini: a signature beside the call",
        source="https://github.com/OpenRouterTeam/ai-sdk-provider/pull/288",
        whole=whole(
            calls({**A, "extra_content": {"google": {"thought_signature": "AbC="}}}), "tool_calls"
        ),
        stream=told(
            begin(
                "call_a",
                arguments=PEKING,
                index=0,
                extra_content={"google": {"thought_signature": "AbC="}},
            ),
            finish="tool_calls",
        ),
        demand=SAYS_ONE,
    ),
    Quirk(
        name="SGLang: null for every field that is not there",
        source="https://github.com/sgl-project/sglang/pull/9657",
        whole=whole(
            {"content": "Hi.", "reasoning_content": None, "tool_calls": None, "refusal": None}
        ),
        stream=told(
            {"role": None, "content": "Hi", "reasoning_content": None, "tool_calls": None},
            {"role": None, "content": ".", "reasoning_content": None, "tool_calls": None},
        ),
        demand=Says(text="Hi."),
    ),
    Quirk(
        name="name and arguments without a function around them",
        source=KNOWLEDGE,
        whole=whole(calls({"id": "call_a", "name": "weather", "arguments": PEKING}), "tool_calls"),
        stream=told(
            calls({"id": "call_a", "index": 0, "name": "weather", "arguments": PEKING}),
            finish="tool_calls",
        ),
        demand=SAYS_ONE,
        official_whole="has a call without a function",
        official_stream="crashes on a call without a function",
    ),
    Quirk(
        name="the whole list of calls again at the end",
        source=KNOWLEDGE,
        whole=WHOLE_ONE,
        stream=stream(
            chunk({"role": "assistant"}),
            chunk(begin("call_a", arguments=PEKING, index=0)),
            {
                **chunk({}),
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "tool_calls": [A]},
                        "finish_reason": "tool_calls",
                    }
                ],
            },
            figures(),
        ),
        demand=SAYS_ONE,
        official_stream="crashes on a chunk without a delta",
    ),
]
