"""Tools that need nothing outside, to learn and test with; group `mock`."""

from __future__ import annotations

from typing import Literal

from hermes.errors import ToolError
from hermes.tools.base import Tool, ToolContext
from hermes.tools.function import tool

from .options import BuiltinOptions

_CITIES = {"北京": (23, "晴朗"), "上海": (26, "多云"), "广州": (30, "阵雨")}
_OTHERWISE = {"beijing": "北京", "shanghai": "上海", "guangzhou": "广州"}


@tool(effect="read", group="mock")
def get_weather(
    city: str, ctx: ToolContext, unit: Literal["celsius", "fahrenheit"] = "celsius"
) -> dict[str, object]:
    """Look up made-up weather in 北京, 上海 or 广州, for tests and tutorials.

    Never use it where real weather is asked for. Example: city="北京".

    Args:
        city: In Chinese or English.
        unit: Of the temperature.
        ctx: Keeps the question as the variable `lastWeatherQuery`.

    Returns:
        {city, temperature, unit, condition}.
    """
    name = city.strip().removesuffix("市")
    name = _OTHERWISE.get(name.casefold(), name)
    if name not in _CITIES:
        raise ToolError(
            f"no weather for {city!r:.80}",
            code="unknown_city",
            hint=f"known cities: {', '.join(_CITIES)}",
        )
    celsius, condition = _CITIES[name]
    ctx.variables["lastWeatherQuery"] = {"city": name, "unit": unit}
    temperature = celsius if unit == "celsius" else round(celsius * 9 / 5 + 32, 1)
    return {"city": name, "temperature": temperature, "unit": unit, "condition": condition}


def tools(_: BuiltinOptions) -> tuple[Tool, ...]:
    """The weather of three cities."""
    return (get_weather,)
