"""Line charts and histograms as SVG: axes, round ticks, log scales, tooltips. A few hundred bytes each, no library.

A plotting library of the usual kind weighs megabytes a page; these two charts are all that the pages need. Colours come
from the style sheet by class, so that one drawing serves the light and the dark page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monoseme.core.outcome import plural
from monoseme.explorer.static.numbers import figure, spoken
from monoseme.records.page import Markup, tag
from monoseme.records.run import Curve, Histogram

__all__ = ["curve_chart", "histogram_chart", "log_ticks", "ticks"]

WIDTH, HEIGHT = 350, 226
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 42
TOOLTIPS = 60


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2, 5 times a power of ten) inside [low, high].

    Examples
    --------
    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m for m in (1, 2, 5, 10) if m * power >= rough * 0.999) * power
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    return [round(i * step, digits) + 0.0 for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between the exponents `low` and `high`, thinned to at most seven; also 2 and 5 in a short range.

    Examples
    --------
    >>> log_ticks(-2.0, 0.0)
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    """
    steps = (1, 2, 5) if high - low <= 2.2 else (1,)
    powers = range(math.floor(low), math.ceil(high) + 1)
    values = [m * 10.0**p for p in powers for m in steps]
    inside = [v for v in values if low - 1e-9 <= math.log10(v) <= high + 1e-9]
    return inside[:: max(1, math.ceil(len(inside) / 7))]


@dataclass(frozen=True)
class Axis:
    """A scale from data to pixels, with its ticks."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Pixel of a value."""
        at = math.log10(value) if self.log else value
        return self.start + (self.end - self.start) * (at - self.low) / ((self.high - self.low) or 1.0)

    def ticks(self) -> list[float]:
        """Values to label."""
        return log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high)


def _tick(value: float, log: bool) -> str:
    """Label of a tick; far powers of ten as 10⁻⁵."""
    power = math.log10(value) if log else 0.0
    if abs(power - round(power)) < 1e-9 and abs(power) > 3.5:
        return "10" + str(round(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return figure(value)


def _frame(x: Axis, y: Axis, x_label: str, y_label: str) -> list[Markup]:
    parts = []
    for value in y.ticks():
        at = f"{y(value):.1f}"
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
        parts.append(tag("text", _tick(value, y.log), x=LEFT - 8, y=f"{y(value) + 4:.1f}", class_="tick end"))
    floor = HEIGHT - BOTTOM
    for value in x.ticks():
        at = f"{x(value):.1f}"
        parts.append(tag("line", x1=at, x2=at, y1=floor, y2=floor + 4, class_="axis"))
        parts.append(tag("text", _tick(value, x.log), x=at, y=floor + 17, class_="tick middle"))
    parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=floor, y2=floor, class_="axis"))
    parts.append(tag("text", x_label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="label middle"))
    parts.append(tag("text", y_label, x=LEFT, y=TOP - 4, class_="label")) if y_label else None
    return parts


def _figure(title: str, note: str, summary: str, parts: Sequence[Markup]) -> Markup:
    svg = tag("svg", tag("title", summary), parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=summary)
    caption = tag("figcaption", tag("b", spoken(title)), " ", tag("span", note))
    return tag("figure", caption, svg, class_="chart")


def _label(name: str, unit: str) -> str:
    return f"{spoken(name)} ({unit})" if unit not in ("", "1") else spoken(name)


def _thin(points: list[tuple[float, float]], column: Callable[[float], float]) -> list[tuple[float, float]]:
    """Keep the lowest and highest point of every pixel column: the drawing is the same, the page is small."""
    kept: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        kept.setdefault(int(column(point[0])), []).append(point)
    ends = ({min(group, key=lambda p: p[1]), max(group, key=lambda p: p[1])} for group in kept.values())
    return sorted(point for pair in ends for point in pair)


def _reach(scaled: Sequence[float], curve: Curve) -> tuple[float, float]:
    """Ends of the upright axis: 0 below what is small against its spread, and never outside 0 to 1 for a share."""
    low, high = min(scaled), max(scaled)
    margin = 0.06 * (high - low) or abs(high) * 0.1 or 1.0
    if curve.unit == "share" and not curve.log_y and 0 <= low <= high <= 1:
        if low == high:
            return 0.0, 1.0
        return (0.0 if low < 0.4 * high else max(low - margin, 0.0)), min(high + margin, 1.0)
    from_zero = not curve.log_y and (0 <= low < 0.4 * high or low == high == 0)
    return (0.0 if from_zero else low - margin), high + margin


def curve_chart(curve: Curve) -> Markup:
    """Draw a curve. With `log_y`, values that are not positive have no place and are left out."""
    points = [
        (float(a), float(b))
        for a, b in zip(curve.x, curve.y, strict=True)
        if math.isfinite(a) and math.isfinite(b) and (b > 0 or not curve.log_y)
    ]
    note = f"{curve.better} is better" if curve.better else ""
    if not points:
        empty = tag("text", "no points", x=WIDTH / 2, y=HEIGHT / 2, class_="label middle")
        return _figure(curve.name, note, f"{curve.name}: no points", [empty])
    scaled = [math.log10(b) if curve.log_y else b for _, b in points]
    x = Axis(
        points[0][0] if len(points) == 1 else min(p[0] for p in points), max(p[0] for p in points), LEFT, WIDTH - RIGHT
    )
    y = Axis(*_reach(scaled, curve), HEIGHT - BOTTOM, TOP, curve.log_y)
    line = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in _thin(sorted(points), x))
    every = max(1, math.ceil(len(points) / TOOLTIPS))
    dots = [
        tag(
            "circle",
            tag("title", f"{curve.x_name} {figure(a)}: {figure(b)}"),
            cx=f"{x(a):.1f}",
            cy=f"{y(b):.1f}",
            r=5,
            class_="hover",
        )
        for a, b in [*points[::every], points[-1]]
    ]
    last = tag("circle", cx=f"{x(points[-1][0]):.1f}", cy=f"{y(points[-1][1]):.1f}", r=3, class_="dot")
    ends = f"from {figure(points[0][1])} to {figure(points[-1][1])}"
    summary = f"{curve.name}: {ends} over {len(points)} {plural(len(points), 'points')}"
    frame = _frame(x, y, _label(curve.x_name, curve.x_unit), "")
    note = ", ".join(
        part for part in ("" if curve.unit == "1" else curve.unit, f"last {figure(points[-1][1])}", note) if part
    )
    return _figure(curve.name, note, summary, [*frame, tag("polyline", points=line, class_="line"), last, *dots])


def histogram_chart(histogram: Histogram) -> Markup:
    """Draw counts as bars; what has no place on the axis is said in the caption."""
    counts, edges = [int(c) for c in histogram.counts], [float(e) for e in histogram.edges]
    x = Axis(edges[0], edges[-1], LEFT, WIDTH - RIGHT, histogram.log10)
    y = Axis(0.0, max([*counts, 1]) * 1.06, HEIGHT - BOTTOM, TOP)
    values = [10.0**e for e in edges] if histogram.log10 else edges
    bars = []
    for count, low, high in zip(counts, values, values[1:], strict=False):
        left, right = x(low), x(high)
        text = f"{figure(low)} to {figure(high)}: {count} {histogram.counted}"
        bars.append(
            tag(
                "rect",
                tag("title", text),
                x=f"{left + 0.5:.1f}",
                width=f"{max(right - left - 1, 0.5):.1f}",
                y=f"{y(count):.1f}",
                height=f"{HEIGHT - BOTTOM - y(count):.1f}",
                class_="bar",
            )
        )
    aside = [f"{figure(count)} {name}" for name, count in histogram.aside.items()]
    total = sum(counts) + sum(histogram.aside.values())
    note = ", ".join([f"{figure(total)} {histogram.counted}", *aside])
    label = _label(histogram.name, ", ".join(p for p in (histogram.unit, "log scale" if histogram.log10 else "") if p))
    return _figure(histogram.name, note, f"{histogram.name}: {note}", [*_frame(x, y, label, ""), *bars])
