"""The words, English and Chinese, by which a description is told to say something."""

from __future__ import annotations

import re

MAX_DESCRIPTION = 1024
"""Source: OpenAI, "Function calling": a function's description has at most 1,024 characters."""


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


RETURNS = _any(
    r"\breturn(?:s|ed)?\b", r"\bgives?\b", r"\byields?\b", r"\bresults?\b", "返回|给出|结果|得到"
)
WHEN = _any(
    r"\b(?:use|call|choose|take|meant|made|good|useful|needed|right)\b[^.;\n]{0,30}"
    r"\b(?:when|whenever|for|if|to|where|before|after|once|as soon as)\b",
    r"\bwhen(?:ever)?\b",
    "用于|适用|适合|用来|用作|可用|当.{1,40}时|需要.{1,40}时|(?:时|时候|之前|之后|后)(?:再)?(?:使用|调用|用)",
)
NOT_WHEN = _any(
    r"\bnot\s+(?:for|when|to|if|where|meant|needed|on|in)\b",
    r"\b(?:do not|don't|never|cannot|does not|must not|should not)\b",
    r"\binstead\b|\brather than\b|\bexcept\b|\bno (?:use|need)\b",
    r"\bonly (?:for|when|if|in|on|where)\b",
    "不要|请勿|切勿|勿用|不用于|不适用|不适合|不能|不可|不得|而不是|改用|别用|仅用于|仅限|只用于|只能|只在|无需",
)
EXAMPLE = _any(
    r"\bfor (?:example|instance)\b|\bexamples?\b|\be\.\s?g\.|\bsuch as\b|\blike [\"'`]|\bas [\"'`]",
    "例如|比如|譬如|示例|例子|举例|形如|例[:：]|如[:：\"'`“「《0-9a-zA-Z]|诸如",
)
NAMES_A_RANGE = _any(
    r"\d[\d,.]*\s*(?:to|and|–|—|-|~|\.\.)\s*\d",
    r"\b(?:at (?:least|most)|up to|no more than|no less than|positive|non-negative|between|"
    r"greater than|less than|above|below|minimum|maximum|max\.?|min\.?)\b",
    "至少|至多|最多|最少|最大|最小|不小于|不大于|不超过|大于|小于|正整数|非负|之间|以上|以下|以内|\\d\\s*(?:到|至)\\s*\\d",
)
UNIT = _any(
    r"\b(?:(?:milli|micro|nano)?seconds?|ms|minutes?|hours?|days?|weeks?|months?|years?)\b",
    r"\b(?:bytes?|bits?|[kmgt]i?b|characters?|chars?|letters?|words?|tokens?|lines?|rows?|pages?|"
    r"items?|entries|records|messages|results|points?|percent(?:age)?|fractions?|ratios?|"
    r"times|tries|attempts|turns|pixels?)\b|%",
    r"\b(?:met(?:re|er)s?|cm|mm|km|miles?|feet|inch(?:es)?|grams?|kg|pounds?|lit(?:re|er)s?|"
    r"degrees?|celsius|fahrenheit|kelvin|volts?|watts?|hertz|hz)\b|°",
    r"\b(?:USD|EUR|CNY|RMB|GBP|JPY|dollars?|euros?|cents?|yuan|fen|yen)\b|[$€£¥￥]",
    "秒|毫秒|分钟|小时|天|周|个月|年|字节|字符|字|词|行|页|条|项|元|分|米|公里|厘米|毫米|克|公斤|千克|吨|升|度|摄氏|华氏|"
    "百分|％|次|像素|个|倍",
)
UNIT_IN_NAME = re.compile(
    r"(?:^|_)(?:s|sec|secs|seconds?|ms|us|ns|min|mins|minutes?|h|hours?|days?|weeks?|months?|years?|"
    r"bytes?|kb|mb|gb|kib|mib|gib|chars?|characters?|words?|tokens?|lines?|rows?|pages?|items?|"
    r"percent|pct|ratio|count|c|f|celsius|fahrenheit|m|km|cm|mm|kg|g|usd|eur|cny|rmb|cents|yuan|"
    r"px|hz)$",
    re.IGNORECASE,
)
QUANTITY = re.compile(
    r"(?:^|_)(?:timeout|duration|interval|delay|age|ttl|period|wait|size|length|distance|weight|"
    r"height|width|depth|speed|temperature|temp|price|amount|cost|fee|total|budget|salary|memory|"
    r"quota|volume|latency|pressure)(?:$|_)",
    re.IGNORECASE,
)
ASKS_FOR_MUCH = re.compile(
    r"(?:^|_)(?:limit|max|count|top|number|rows|lines|items|size|timeout|wait|delay|duration|days|"
    r"hours|retries|attempts)(?:$|_)",
    re.IGNORECASE,
)
IDENTIFIES = re.compile(r"(?:^|_)(?:id|key|code|year|version)$", re.IGNORECASE)
NAMES_A_DEFAULT = _any(
    r"\b(?:defaults?|omitted|left out|leave out|not given|if given|without (?:it|one|this)|"
    r"optional(?:ly)?|none|null|empty|unset|otherwise|all|any|every)\b",
    "默认|缺省|不填|省略|不给|未给|不传|未传|留空|为空|可选|否则|全部|所有|任意|不限",
)
LISTS_CHOICES = re.compile(
    r"\bone of\b|\beither\b|(?<![\w|])\w+(?:\|\w+)+|取值|可选值|之一|"
    r"[\"'`“][\w-]+[\"'`”]\s*(?:,|/|\||、|or|和|或)\s*(?:or\s+)?[\"'`“][\w-]+",
    re.IGNORECASE,
)
