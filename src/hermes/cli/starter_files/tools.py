"""Tools of this agent: a tool is one function, its types and its docstring."""

from hermes import ToolError, tool

WEATHER = {"Beijing": ("sunny", 23), "Shanghai": ("cloudy", 26), "Guangzhou": ("showers", 30)}


@tool(effect="read")
def get_weather(city: str) -> dict[str, object]:
    """Look up today's weather in a city.

    Args:
        city: Name in English, for example Beijing.
    """
    if city not in WEATHER:
        raise ToolError(f"no weather for {city!r}", hint=f"known cities: {', '.join(WEATHER)}")
    sky, celsius = WEATHER[city]
    return {"city": city, "sky": sky, "celsius": celsius}
