"""Charts as PNG by matplotlib, which is loaded only when one is drawn; extra `charts`."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from hermes.errors import ToolError

from .charts_text import Bar

# In the order of preference; others that sound like it will do.
_CHINESE = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "SimHei",
    "PingFang SC",
    "Heiti SC",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)
_SOUND_CHINESE = ("CJK", "Hei", "Song", "Ming", "Kai", "Han Sans", "Han Serif", "Gothic")
_DEFAULT = "DejaVu Sans"
_MAX_LABEL_CHARS = 40
_TILTED_FROM = 8
# Matplotlib keeps its fonts and settings in one place for all threads.
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What a chart looks like."""

    kind: Literal["bar", "line"]
    title: str
    label: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A picture, and what had to be changed to draw it."""

    png: bytes
    notes: list[str]


def drawn(bars: Sequence[Bar], picture: Picture) -> Drawn:
    """A chart as PNG; the same bars give the same bytes.

    Raises:
        ToolError: Matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as exc:
        raise ToolError(
            "pictures need matplotlib, which is not installed",
            code="not_installed",
            hint="pip install 'hermes-courier[charts]'; chart_data draws text without it",
        ) from exc
    with _one_at_a_time:
        texts = Texts([picture.title, picture.label, picture.value, *(bar.label for bar in bars)])
        figure = Figure(figsize=(max(6.4, min(20.0, 0.4 * len(bars))), 4.8), layout="constrained")
        canvas = cast("_Canvas", FigureCanvasAgg(figure))
        _draw(cast("_Axes", figure.add_subplot()), bars, picture, texts)
        out = io.BytesIO()
        canvas.print_png(out, metadata={"Software": None})
    return Drawn(png=out.getvalue(), notes=texts.notes())


class _Axes(Protocol):
    """What is used of matplotlib's axes, whose own types are not complete."""

    def bar(self, x: Sequence[int], height: Sequence[float], *, color: str) -> object: ...

    def plot(
        self, x: Sequence[int], y: Sequence[float], *, color: str, marker: str, markersize: int
    ) -> object: ...

    def grid(self, *, axis: str, alpha: float) -> None: ...

    def set_axisbelow(self, below: bool, /) -> None: ...

    def set_ylim(self, *, bottom: float) -> object: ...

    def set_xticks(
        self,
        ticks: Sequence[int],
        labels: Sequence[str],
        *,
        rotation: int,
        ha: str,
        family: str,
    ) -> object: ...

    def set_xlabel(self, text: str, /, *, family: str) -> object: ...

    def set_ylabel(self, text: str, /, *, family: str) -> object: ...

    def set_title(self, text: str, /, *, family: str) -> object: ...


class _Canvas(Protocol):
    def print_png(self, file: io.BytesIO, /, *, metadata: Mapping[str, object]) -> None: ...


class _Font(Protocol):
    def get_charmap(self) -> Mapping[int, int]: ...


class Texts:
    """Texts in a font that has their characters, or numbers in their place."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._wanted = {char for text in texts for char in text if not char.isspace()}
        self.family, self._known = _font_for(self._wanted)
        self._replaced: dict[str, str] = {}

    def fit(self, text: str) -> str:
        """The text, or a number where the font lacks a character of it."""
        if all(char.isspace() or ord(char) in self._known for char in text):
            # A dollar sign would begin a formula.
            short = text if len(text) <= _MAX_LABEL_CHARS else f"{text[: _MAX_LABEL_CHARS - 1]}…"
            return short.replace("$", r"\$")
        return self._replaced.setdefault(text, f"#{len(self._replaced) + 1}")

    def notes(self) -> list[str]:
        if not self._replaced:
            return []
        legend = "; ".join(f"{mark} is {text}" for text, mark in self._replaced.items())
        return [
            f"no installed font has all characters of these texts (a font such as Noto Sans CJK "
            f"has the Chinese ones), so numbers stand in their place: {legend}"
        ]


def _font_for(wanted: set[str]) -> tuple[str, set[int]]:
    """The family that has most of the characters, and all that it has."""
    from matplotlib.font_manager import fontManager

    paths = {font.name: font.fname for font in reversed(fontManager.ttflist)}
    default = _characters(paths[_DEFAULT])
    codes = {ord(char) for char in wanted}
    if codes <= default:
        return _DEFAULT, default
    best = (_DEFAULT, default)
    others = [name for name in paths if any(part in name for part in _SOUND_CHINESE)]
    for name in dict.fromkeys([*(name for name in _CHINESE if name in paths), *sorted(others)]):
        known = _characters(paths[name])
        if codes <= known:
            return name, known
        if len(codes & known) > len(codes & best[1]):
            best = (name, known)
    return best


def _characters(path: str) -> set[int]:
    from matplotlib import font_manager

    font = cast("Callable[[str], _Font]", font_manager.get_font)(path)
    return set(font.get_charmap())


def _draw(axes: _Axes, bars: Sequence[Bar], picture: Picture, texts: Texts) -> None:
    places = range(len(bars))
    values = [float(bar.value) for bar in bars]
    if picture.kind == "bar":
        axes.bar(places, values, color="#3b6ea5")
    else:
        axes.plot(places, values, color="#3b6ea5", marker="o", markersize=3)
        axes.set_ylim(bottom=min(0.0, *values))
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    tilt = 60 if len(bars) > _TILTED_FROM else 0
    axes.set_xticks(
        places,
        [texts.fit(bar.label) for bar in bars],
        rotation=tilt,
        ha="right" if tilt else "center",
        family=texts.family,
    )
    axes.set_xlabel(texts.fit(picture.label), family=texts.family)
    axes.set_ylabel(texts.fit(picture.value), family=texts.family)
    if picture.title:
        axes.set_title(texts.fit(picture.title), family=texts.family)
