"""The weather of any city, by Open-Meteo or a service with its interface; group `weather`."""

from __future__ import annotations

import re
from typing import Literal

from hermes.core import json
from hermes.errors import ToolError
from hermes.tools.base import Tool
from hermes.tools.function import tool
from hermes.tools.http_api import ApiFault, HttpApi

from .options import BuiltinOptions

_PLACES = "https://geocoding-api.open-meteo.com"
_FORECAST = "https://api.open-meteo.com"
_COUNTRY = re.compile(r"[A-Z]{2}")
_TIME = re.compile(r"[0-9T:-]{10,19}")
_CURRENT = "temperature_2m,relative_humidity_2m,weather_code,wind_speed_10m"

# Source: Open-Meteo, "WMO Weather interpretation codes (WW)".
_CONDITIONS = {
    0: "clear",
    1: "mainly clear",
    2: "partly cloudy",
    3: "overcast",
    45: "fog",
    48: "depositing rime fog",
    51: "light drizzle",
    53: "drizzle",
    55: "dense drizzle",
    56: "light freezing drizzle",
    57: "freezing drizzle",
    61: "light rain",
    63: "rain",
    65: "heavy rain",
    66: "light freezing rain",
    67: "freezing rain",
    71: "light snow",
    73: "snow",
    75: "heavy snow",
    77: "snow grains",
    80: "light rain showers",
    81: "rain showers",
    82: "violent rain showers",
    85: "light snow showers",
    86: "snow showers",
    95: "thunderstorm",
    96: "thunderstorm with light hail",
    99: "thunderstorm with heavy hail",
}


class WeatherTools:
    """The tool, around the two services that it asks.

    Args:
        places: Knows where cities are.
        forecast: Knows the weather of a place.
    """

    def __init__(self, places: HttpApi, forecast: HttpApi) -> None:
        self._places, self._forecast = places, forecast

    async def get_weather(
        self, city: str, unit: Literal["celsius", "fahrenheit"] = "celsius"
    ) -> dict[str, object]:
        """Look up the present weather of a city.

        Use it for the weather of now; not for forecasts or past days. Example: city="Zürich".

        Args:
            city: Its name alone, in any language: "北京", not "Beijing, China".
            unit: Of the temperature.

        Returns:
            {city, country_code, latitude, longitude, observed_at (local time), temperature, unit,
            condition, humidity_percent, wind_km_h}.
        """
        place = await self._place(city)
        answer = await self._forecast.get(
            "/v1/forecast",
            query={
                "latitude": _number(place, "latitude"),
                "longitude": _number(place, "longitude"),
                "current": _CURRENT,
                "temperature_unit": unit,
                "timezone": "auto",
            },
        )
        now = json.as_object((json.as_object(answer) or {}).get("current")) or {}
        code = int(_number(now, "weather_code"))
        # Numbers, codes and what was asked: nothing that could be anybody's words.
        return {
            "city": city.strip(),
            "country_code": _coded(place.get("country_code"), _COUNTRY),
            "latitude": _number(place, "latitude"),
            "longitude": _number(place, "longitude"),
            "observed_at": _coded(now.get("time"), _TIME),
            "temperature": _number(now, "temperature_2m"),
            "unit": unit,
            "condition": _CONDITIONS.get(code, f"WMO code {code}"),
            "humidity_percent": _number(now, "relative_humidity_2m"),
            "wind_km_h": _number(now, "wind_speed_10m"),
        }

    async def _place(self, city: str) -> dict[str, object]:
        name = city.strip()
        query = {"name": name, "count": 1, "language": "zh" if _is_chinese(name) else "en"}
        answer = await self._places.get("/v1/search", query=query)
        # Where nothing is found, the key is left out.
        found = json.as_list((json.as_object(answer) or {}).get("results"))
        place = json.as_object(found[0]) if found else None
        if place is None:
            raise ToolError(
                f"no city is called {city!r:.80}",
                code="unknown_city",
                hint="give the name of the city alone",
            )
        return place


def _number(told: dict[str, object], key: str) -> float:
    value = told.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ToolError(
            f"weather: the service tells no {key}",
            code="bad_answer",
            hint="is HERMES_WEATHER_URL a service with the interface of Open-Meteo?",
        )
    return value


def _coded(value: object, form: re.Pattern[str]) -> str:
    return value if isinstance(value, str) and form.fullmatch(value) else ""


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= mark <= "\u9fff" for mark in text)


def _error_of(body: object) -> ApiFault | None:
    """The error form of Open-Meteo: `{"error": true, "reason": …}`."""
    told = json.as_object(body) or {}
    if told.get("error") is not True:
        return None
    return ApiFault(code="weather", message=str(told.get("reason", "")))


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """The weather of now."""
    made = WeatherTools(
        HttpApi("weather", base_url=options.weather_url or _PLACES, error_of=_error_of),
        HttpApi("weather", base_url=options.weather_url or _FORECAST, error_of=_error_of),
    )
    # A city says little, but it goes out.
    reads = tool(effect="read", group="weather", timeout_s=45, outbound=True)
    return (reads(made.get_weather),)
