"""A film strip as a table: a row a way, a column a step, a picture a cell."""

from __future__ import annotations

from collections.abc import Iterator

from monoseme.explorer.static.numbers import figure
from monoseme.records.film import FilmStrip, png
from monoseme.records.page import Markup, tag

__all__ = ["film_figure", "film_files"]

SMALL = 64  # pixels a side up to which pixels are drawn as squares


def film_files(film: FilmStrip, number: int) -> Iterator[tuple[str, bytes]]:
    """Name and content of every picture."""
    for row, (_, frames) in enumerate(film.rows):
        for step, frame in enumerate(frames):
            yield _name(number, row, step), png(frame)


def film_figure(film: FilmStrip, number: int) -> Markup:
    """Draw the strip from the files that `film_files` names. Every picture says its row and step."""
    count, height, width = film.rows[0][1].shape[:3]
    steps = tag("tr", tag("td"), [tag("th", figure(step + 1), scope="col") for step in range(count)])
    rows = [
        tag("tr", tag("th", label, scope="row"), [
            tag("td", tag(
                "img", src=_name(number, row, step), alt=f"{label}, step {step + 1} of {count}",
                width=width, height=height, loading="lazy", decoding="async",
            ))
            for step in range(count)
        ])
        for row, (label, _) in enumerate(film.rows)
    ]  # fmt: skip
    table = tag("table", tag("thead", steps), tag("tbody", rows))
    return tag(
        "figure",
        tag("figcaption", tag("h3", film.title), tag("p", film.note, class_="lead") if film.note else None),
        tag("p", "Scroll sideways to see all steps →", class_="hint") if count > 4 else None,
        tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=f"{film.title}, {count} steps"),
        class_="film small-pixels" if max(height, width) <= SMALL else "film",
    )


def _name(number: int, row: int, step: int) -> str:
    return f"data/film-{number}/{row}-{step}.png"
