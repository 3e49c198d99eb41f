"""Quirks of text, reasoning and finish reasons."""

from __future__ import annotations

from .quirks import (
    HEAD,
    KNOWLEDGE,
    Object,
    Quirk,
    Says,
    Wire,
    chunk,
    dumps,
    events,
    figures,
    stream,
    told,
    whole,
)

FILTER: Object = {"hate": {"filtered": False, "severity": "safe"}}
IN_TEXT = "leaves the reasoning in the answer; Hermes keeps them apart"
PARTS = "promises a text and hands on a list"

READ = '{"name":"read_file","arguments":{"path":"a.md"}}'
DIALECTS = {
    "Qwen: a call in tags": f"<tool_call>{READ}</tool_call>",
    "Qwen3-Coder: a call in function and parameter tags": (
        "<function=read_file>\n<parameter=path>\na.md\n</parameter>\n</function>"
    ),
    "a call whose tag is half closed": f"<tool_call>{READ}</tool_cal",
    "Mistral: a call after [TOOL_CALLS]": f"[TOOL_CALLS][{READ}]",
    "Llama: a call after python_tag": f"<|python_tag|>{READ}",
    "GLM: a call in arg_key tags": (
        "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.md</arg_value>\n</tool_call>"
    ),
    "DeepSeek: a call between tokens": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n"
        '```json\n{"path":"a.md"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "Kimi: a call between section tokens": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0"
        '<|tool_call_argument_begin|>{"path":"a.md"}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "a call as bare JSON": READ,
}
"""Calls that servers without a parser for the model's dialect leave in the text."""


def text(*pieces: str) -> list[Object]:
    return [{"content": piece} for piece in pieces]


def cut(words: str, size: int = 3) -> list[str]:
    return [words[start : start + size] for start in range(0, len(words), size)]


def written(name: str, words: str) -> Quirk:
    """A call in the text: the adapter leaves it there, the loop reads it."""
    return Quirk(
        name=f"R014 {name}",
        source="FIELD_REPORTS R014",
        whole=whole({"content": words}),
        stream=told(*text(*cut(words))),
        demand=Says(text=words),
    )


def thinking(name: str, source: str, **field: object) -> Quirk:
    """Reasoning in a field of its own."""
    return Quirk(
        name=name,
        source=source,
        whole=whole({"content": "Four.", **field}),
        stream=told({**field}, {"content": "Four."}),
        demand=Says(text="Four.", reasoning="先想 2+2"),
    )


def finished(
    name: str, source: str, word: object, *, demand: Says, official_stream: str = ""
) -> Quirk:
    """A finish reason."""
    return Quirk(
        name=name,
        source=source,
        whole=whole({"content": "Hi."}, word),
        stream=told(*text("Hi", "."), finish=word),
        demand=demand,
        official_stream=official_stream,
    )


THOUGHT = "<think>\n先想 2+2\n</think>\n\nFour."
SPLIT: Object = {"type": "thinking", "thinking": [{"type": "text", "text": "先想 2+2"}]}
HI = Says(text="Hi.")

TEXTS = [
    *[written(name, words) for name, words in DIALECTS.items()],
    Quirk(
        name="R014 a call inside the reasoning",
        source="FIELD_REPORTS R014",
        whole=whole({"content": f"<think>I send <tool_call>{READ}</tool_call></think>Empty."}),
        stream=told(*text(*cut(f"<think>I send <tool_call>{READ}</tool_call></think>Empty."))),
        demand=Says(text="Empty.", reasoning=f"I send <tool_call>{READ}</tool_call>"),
        official_whole=IN_TEXT,
        official_stream=IN_TEXT,
    ),
    thinking(
        "DeepSeek: reasoning_content",
        "https://api-docs.deepseek.com/guides/reasoning_model",
        reasoning_content="先想 2+2",
    ),
    thinking(
        "vLLM: reasoning",
        "https://docs.vllm.ai/en/latest/features/reasoning_outputs.html",
        reasoning="先想 2+2",
    ),
    thinking(
        "OpenRouter: reasoning and the same once more in reasoning_details",
        "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        reasoning="先想 2+2",
        reasoning_details=[{"type": "reasoning.text", "text": "先想 2+2", "format": None}],
    ),
    thinking(
        "SGLang and Qwen: reasoning_content and reasoning alike",
        "https://github.com/sgl-project/sglang/pull/9657",
        reasoning_content="先想 2+2",
        reasoning="先想 2+2",
    ),
    thinking(
        "Ollama: thinking", "https://docs.ollama.com/capabilities/thinking", thinking="先想 2+2"
    ),
    Quirk(
        name="Qwen and MiniMax: think tags in the text",
        source="https://docs.vllm.ai/en/latest/features/reasoning_outputs.html",
        whole=whole({"content": THOUGHT}),
        stream=told(*text(THOUGHT)),
        demand=Says(text="Four.", reasoning="先想 2+2"),
        official_whole=IN_TEXT,
        official_stream=IN_TEXT,
    ),
    Quirk(
        name="think tags cut after every character",
        source=KNOWLEDGE,
        whole=whole({"content": THOUGHT}),
        stream=told(*text(*THOUGHT)),
        demand=Says(text="Four.", reasoning="先想 2+2"),
        official_whole=IN_TEXT,
        official_stream=IN_TEXT,
    ),
    Quirk(
        name="DeepSeek R1 and QwQ: the reasoning ends, but never began",
        source="https://docs.vllm.ai/en/latest/features/reasoning_outputs.html",
        whole=whole({"content": "先想 2+2\n</think>\n\nFour."}),
        stream=told(*text(*cut("先想 2+2\n</think>\n\nFour."))),
        demand=Says(text="Four.", reasoning="先想 2+2"),
        late=True,
        official_whole=IN_TEXT,
        official_stream=IN_TEXT,
    ),
    Quirk(
        name="a think tag that is never closed",
        source=KNOWLEDGE,
        whole=whole({"content": "<think>先想 2+2"}, "length"),
        stream=told(*text(*cut("<think>先想 2+2")), finish="length"),
        demand=Says(reasoning="先想 2+2", finish="length"),
        official_whole=IN_TEXT,
        official_stream=IN_TEXT,
    ),
    Quirk(
        name="a think tag in the midst of an answer",
        source=KNOWLEDGE,
        whole=whole({"content": "Write <think> first, </think> last."}),
        stream=told(*text(*cut("Write <think> first, </think> last."))),
        demand=Says(text="Write <think> first, </think> last."),
    ),
    Quirk(
        name="Mistral: content as a list of parts",
        source="https://docs.mistral.ai/inference/conversations/reasoning",
        whole=whole({"content": [SPLIT, {"type": "text", "text": "Four."}]}),
        stream=told({"content": [SPLIT]}, {"content": [{"type": "text", "text": "Four."}]}),
        demand=Says(text="Four.", reasoning="先想 2+2"),
        official_whole=PARTS,
        official_stream="crashes where a list follows a text",
    ),
    Quirk(
        name="content as a list of plain texts",
        source=KNOWLEDGE,
        whole=whole({"content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "."}]}),
        stream=told({"content": [{"type": "text", "text": "Hi"}]}, {"content": "."}),
        demand=HI,
        official_whole=PARTS,
        official_stream="crashes where a list follows a text",
    ),
    Quirk(
        name="OpenAI: a refusal in its own field",
        source="https://platform.openai.com/docs/guides/structured-outputs#refusals",
        whole=whole({"refusal": "I cannot."}),
        stream=told({"refusal": "I "}, {"refusal": "cannot."}),
        demand=Says(text="I cannot.", finish="content_filter"),
        official_whole="calls it stop; a refusal is no answer, so Hermes gives it its own status",
        official_stream="calls it stop; a refusal is no answer, so Hermes gives it its own status",
    ),
    Quirk(
        name="R021 an empty final message",
        source="FIELD_REPORTS R021",
        whole=whole({"content": ""}),
        stream=told(),
        demand=Says(),
    ),
    Quirk(
        name="R021 null for a final message",
        source="FIELD_REPORTS R021",
        whole=whole({"content": None}),
        stream=told({"content": None}),
        demand=Says(),
    ),
    finished(
        "R013 OpenAI: content_filter",
        "https://platform.openai.com/docs/api-reference/chat/object",
        "content_filter",
        demand=Says(text="Hi.", finish="content_filter"),
        official_stream="throws the text away; Hermes keeps it and says how it ended",
    ),
    finished(
        "Zhipu: sensitive",
        "https://docs.bigmodel.cn/api-reference",
        "sensitive",
        demand=Says(text="Hi.", finish="content_filter"),
    ),
    finished(
        "R013 the finish reason is missing",
        "FIELD_REPORTS R013",
        None,
        demand=Says(text="Hi.", finish="unknown"),
    ),
    finished(
        "R013 the finish reason is an unknown word",
        "FIELD_REPORTS R013",
        "eos_token_found",
        demand=Says(text="Hi.", finish="unknown"),
    ),
    finished(
        "R013 Gemini: the finish reason in capitals",
        "https://github.com/Portkey-AI/gateway/pull/1534",
        "STOP",
        demand=HI,
    ),
    finished(
        "R008 OpenAI: length",
        "https://platform.openai.com/docs/api-reference/chat/object",
        "length",
        demand=Says(text="Hi.", finish="length"),
    ),
    Quirk(
        name="Gemini proxies: stop in every chunk",
        source="https://github.com/su-kaka/gcli2api/issues/403",
        whole=whole({"content": "Hi."}),
        stream=stream(*[chunk({"content": part}, "stop") for part in ("H", "i", ".")], figures()),
        demand=HI,
    ),
    Quirk(
        name="an empty finish reason in every chunk but the last",
        source=KNOWLEDGE,
        whole=whole({"content": "Hi."}),
        stream=stream(
            *[chunk({"content": part}, "") for part in ("H", "i", ".")],
            chunk({}, "stop"),
            figures(),
        ),
        demand=HI,
    ),
    Quirk(
        name="Azure: first a chunk without choices",
        source="https://github.com/AbanteAI/archive-old-cli-mentat/issues/429",
        whole=whole({"content": "Hi."}, prompt_filter_results=[{"prompt_index": 0}]),
        stream=stream(
            {
                "id": "",
                "choices": [],
                "created": 0,
                "model": "",
                "object": "",
                "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": FILTER}],
            },
            chunk({"role": "assistant", "content": "Hi."}),
            chunk({}, "stop"),
            figures(),
        ),
        demand=HI,
    ),
    Quirk(
        name="Azure: a choice without a delta",
        source="https://github.com/microsoft/autogen/issues/6465",
        whole=whole({"content": "Hi."}),
        stream=stream(
            chunk({"role": "assistant", "content": "Hi."}),
            chunk({}, "stop"),
            {
                "id": "",
                "object": "",
                "created": 0,
                "model": "",
                "choices": [{"finish_reason": None, "index": 0, "content_filter_results": FILTER}],
            },
            figures(),
        ),
        demand=HI,
    ),
    Quirk(
        name="a delta that is null",
        source=KNOWLEDGE,
        whole=whole({"content": "Hi."}),
        stream=stream(
            chunk({"role": "assistant", "content": "Hi."}),
            chunk(None),
            chunk({}, "stop"),
            figures(),
        ),
        demand=HI,
        official_stream="crashes on a null delta; it holds nothing of the answer",
    ),
    Quirk(
        name="many chunks with a role and nothing else",
        source=KNOWLEDGE,
        whole=whole({"content": "Hi."}),
        stream=stream(
            *[chunk({"role": "assistant"})] * 5,
            chunk({"content": "Hi."}),
            chunk({"role": "assistant"}, "stop"),
            figures(),
        ),
        demand=HI,
    ),
    Quirk(
        name="the whole message again at the end",
        source=KNOWLEDGE,
        whole=whole({"content": "Hi."}),
        stream=stream(
            chunk({"role": "assistant", "content": "Hi"}),
            chunk({"content": "."}),
            {
                **HEAD,
                "choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}],
            },
            figures(),
        ),
        demand=HI,
        official_stream="loses the finish reason that stands beside the message",
    ),
    Quirk(
        name="OpenRouter: another model answers",
        source="https://openrouter.ai/docs/features/model-routing",
        whole=whole({"content": "Hi."}, model="vendor/other-7b"),
        stream=stream(
            chunk({"role": "assistant", "content": "Hi."}, model="vendor/other-7b"),
            chunk({}, "stop", model="vendor/other-7b"),
            {**figures(), "model": "vendor/other-7b"},
        ),
        demand=Says(text="Hi.", model="vendor/other-7b"),
    ),
    Quirk(
        name="no model, id or time at all",
        source=KNOWLEDGE,
        whole=Wire(body=dumps({"choices": [{"message": {"content": "Hi."}}], "usage": None})),
        stream=stream(
            {"choices": [{"delta": {"content": "Hi."}}]},
            {"choices": [{"delta": None, "finish_reason": "stop"}]},
        ),
        demand=Says(text="Hi.", usage=None),
        demand_whole=Says(text="Hi.", usage=None, finish="unknown"),
        why_not="the whole one has no finish reason either, which a stream may not lack",
        official_stream="crashes on a chunk without the number of its choice",
    ),
    Quirk(
        name="an error that is null",
        source=KNOWLEDGE,
        whole=whole({"content": "Hi."}, error=None),
        stream=stream(
            chunk({"role": "assistant", "content": "Hi."}, error=None),
            chunk({}, "stop", error=None),
            figures(),
        ),
        demand=HI,
    ),
    Quirk(
        name="fields that nobody knows",
        source=KNOWLEDGE,
        whole=whole({"content": "Hi.", "mood": {"a": [1]}}, citations=["x"], timings={"ms": 1.5}),
        stream=stream(
            chunk({"role": "assistant", "content": "Hi.", "mood": "calm"}, citations=["x"]),
            chunk({}, "stop", timings={"ms": 1.5}),
            figures(),
        ),
        demand=HI,
    ),
    Quirk(
        name="two choices",
        source="https://platform.openai.com/docs/api-reference/chat/object",
        whole=Wire(
            body=dumps(
                {
                    **HEAD,
                    "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
                    "choices": [
                        {
                            "index": place,
                            "message": {"role": "assistant", "content": words},
                            "finish_reason": "stop",
                        }
                        for place, words in enumerate(("Hi.", "Ho."))
                    ],
                }
            )
        ),
        stream=stream(
            *[
                {
                    **HEAD,
                    "choices": [
                        {"index": place, "delta": {"content": words}, "finish_reason": finish}
                    ],
                }
                for place, words, finish in (
                    (0, "Hi", None),
                    (1, "Ho", None),
                    (0, ".", None),
                    (1, ".", None),
                    (0, "", "stop"),
                    (1, "", "stop"),
                )
            ],
            figures(),
        ),
        demand=HI,
        official_stream="crashes on the second choice; the first one is whole",
    ),
    Quirk(
        name="an emoji cut into the two halves of UTF-16",
        source=KNOWLEDGE,
        whole=Wire(
            body=dumps({**HEAD, "usage": None, "choices": [{"message": {"content": "@@"}}]})
            .replace(b"@@", b"\\ud83d\\ude00")
            .replace(b'"message"', b'"finish_reason":"stop","index":0,"message"')
        ),
        stream=Wire(
            kind="text/event-stream",
            body=events(
                chunk({"role": "assistant", "content": "@1"}),
                chunk({"content": "@2"}),
                chunk({}, "stop"),
            )
            .replace(b"@1", b"\\ud83d")
            .replace(b"@2", b"\\ude00"),
        ),
        demand=Says(text="😀", usage=None),
        late=True,
        official_stream="leaves two halves that no UTF-8 can hold",
    ),
    Quirk(
        name="a line of two million characters",
        source=KNOWLEDGE,
        whole=whole({"content": "霜" * 1_000_000 + "x" * 1_000_000}),
        stream=told({"content": "霜" * 1_000_000 + "x" * 1_000_000}),
        demand=Says(text="霜" * 1_000_000 + "x" * 1_000_000),
    ),
]
