"""Quirks of usage figures: each that is missing or impossible is estimated, and says so."""

from __future__ import annotations

from .quirks import KNOWLEDGE, USAGE, Object, Quirk, Says, chunk, figures, stream, told, whole

HI = Says(text="Hi.")
GUESSED = Says(text="Hi.", usage=None)
NOTHING: Object = {}
TEXT: Object = {"content": "Hi."}
BEGIN = chunk({"role": "assistant", "content": "Hi."})
END = chunk({}, "stop")
ELSEWHERE = "does not look for figures where this server puts them"


def used(name: str, source: str, usage: object, *, demand: Says, official: str = "") -> Quirk:
    """Figures that are odd in themselves."""
    return Quirk(
        name=name,
        source=source,
        whole=whole(TEXT, usage=usage),
        stream=stream(BEGIN, END, figures(usage)),
        demand=demand,
        official_whole=official,
        official_stream=official,
    )


def tokens(prompt: object, completion: object, **more: object) -> Object:
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


USAGES = [
    used("R015 usage null", "FIELD_REPORTS R015", None, demand=GUESSED),
    used("R015 figures null", "FIELD_REPORTS R015", tokens(None, None), demand=GUESSED),
    used("R015 one figure null", "FIELD_REPORTS R015", tokens(11, None), demand=GUESSED),
    used("negative figures", KNOWLEDGE, tokens(-1, -1), demand=GUESSED),
    used("figures as text", KNOWLEDGE, tokens("11", "7"), demand=GUESSED),
    used(
        "zeros for figures",
        "https://github.com/langgenius/dify/issues/2144",
        tokens(0, 0, total_tokens=0),
        demand=GUESSED,
    ),
    used("figures with a decimal point", KNOWLEDGE, tokens(11.0, 7.0), demand=HI),
    used("an impossibly large figure", KNOWLEDGE, tokens(10**15, 7), demand=GUESSED),
    used(
        "a word for usage",
        KNOWLEDGE,
        "none",
        demand=GUESSED,
        official="hands on a word where it promises figures",
    ),
    used(
        "figures with the names of another API",
        KNOWLEDGE,
        {"input_tokens": 11, "output_tokens": 7},
        demand=HI,
        official=ELSEWHERE,
    ),
    used(
        "OpenAI: cached tokens in the details",
        "https://platform.openai.com/docs/guides/prompt-caching",
        {**USAGE, "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0}},
        demand=Says(text="Hi.", usage=(11, 7, 4)),
    ),
    used(
        "OpenRouter: details that are null",
        KNOWLEDGE,
        {**USAGE, "prompt_tokens_details": None, "completion_tokens_details": None},
        demand=HI,
    ),
    used(
        "DeepSeek: prompt_cache_hit_tokens",
        "https://api-docs.deepseek.com/guides/kv_cache",
        {**USAGE, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 7},
        demand=Says(text="Hi.", usage=(11, 7, 4)),
    ),
    used(
        "Kimi: cached_tokens at the top",
        "https://platform.moonshot.ai/docs/api/chat",
        {**USAGE, "cached_tokens": 4},
        demand=Says(text="Hi.", usage=(11, 7, 4)),
    ),
    Quirk(
        name="R015 no usage at all",
        source="FIELD_REPORTS R015",
        whole=whole(TEXT, usage=None),
        stream=stream(BEGIN, END),
        demand=GUESSED,
    ),
    Quirk(
        name="R015 usage in a last chunk without choices",
        source="https://platform.openai.com/docs/api-reference/chat-streaming",
        whole=whole(TEXT),
        stream=told(TEXT),
        demand=HI,
    ),
    Quirk(
        name="R015 usage counted twice",
        source="FIELD_REPORTS R015",
        whole=whole(TEXT),
        stream=stream(BEGIN, chunk({}, "stop", usage=USAGE), figures()),
        demand=HI,
    ),
    Quirk(
        name="vLLM: usage in every chunk, growing",
        source="https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
        whole=whole(TEXT),
        stream=stream(
            chunk({"role": "assistant", "content": "H"}, usage=tokens(11, 1, total_tokens=12)),
            chunk({"content": "i."}, usage=tokens(11, 5, total_tokens=16)),
            chunk({}, "stop", usage=USAGE),
        ),
        demand=HI,
    ),
    Quirk(
        name="usage first, then null to the end",
        source=KNOWLEDGE,
        whole=whole(TEXT),
        stream=stream(
            chunk({"role": "assistant", "content": "Hi."}, usage=USAGE),
            chunk({}, "stop", usage=None),
            figures(None),
        ),
        demand=HI,
        official_stream="forgets the figures that it has had",
    ),
    Quirk(
        name="Kimi: usage in the choice",
        source="https://github.com/northes/go-moonshot/issues/17",
        whole=whole(TEXT),
        stream=stream(
            BEGIN,
            {
                **END,
                "choices": [
                    {"index": 0, "delta": NOTHING, "finish_reason": "stop", "usage": USAGE}
                ],
            },
        ),
        demand=HI,
        official_stream=ELSEWHERE,
    ),
    Quirk(
        name="Groq: usage in x_groq",
        source="https://console.groq.com/docs/api-reference",
        whole=whole(TEXT, x_groq={"id": "req_1"}),
        stream=stream(
            chunk({"role": "assistant", "content": "Hi."}, x_groq={"id": "req_1"}),
            chunk({}, "stop", x_groq={"id": "req_1", "usage": USAGE}),
        ),
        demand=HI,
        official_stream=ELSEWHERE,
    ),
    Quirk(
        name="GLM: usage in the chunk that finishes",
        source="https://docs.bigmodel.cn/api-reference",
        whole=whole(TEXT, request_id="r1"),
        stream=stream(BEGIN, chunk({}, "stop", usage=USAGE)),
        demand=HI,
    ),
]
