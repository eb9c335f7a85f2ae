"""An outcome as a person reads it: value, unit, interval, direction, and how it was measured."""

from __future__ import annotations

from collections.abc import Iterable

from monoseme.core.outcome import Outcome, plural
from monoseme.records.page import Markup, tag

__all__ = ["cell", "direction", "figure", "folded", "outcome_tile", "pager", "spoken", "whisker_domain"]


def pager(label: str) -> Markup:
    """Buttons that turn the pages of a long table or gallery; `label` says of what."""
    return tag(
        "nav",
        tag("button", "← Previous", type="button", id="earlier"),
        tag("span", id="where"),
        tag("button", "Next →", type="button", id="later"),
        class_="pager",
        aria_label=label,
    )


NOTHING = "not computed"  # a note that begins so says, behind a colon, why


def figure(value: float) -> str:
    """Write a number to four significant digits, with a real minus sign and thin spaces between thousands.

    Examples
    --------
    >>> figure(0.123456), figure(-1234567.0), figure(2e-7)
    ('0.1235', '−1\u2009234\u2009567', '2e−07')
    """
    if abs(value) >= 1e4 and abs(value) < 1e12:
        text = f"{value:,.0f}".replace(",", "\u2009")
    else:
        text = f"{value:.4g}"
    return text.replace("-", "−")


def spoken(name: str) -> str:
    """Write the name of a quantity for reading.

    Examples
    --------
    >>> spoken("energy_share")
    'energy share'
    """
    return name.replace("_", " ")


def direction(outcome: Outcome) -> str:
    """Say which way is better, or nothing."""
    return f"{outcome.better} is better" if outcome.better else ""


def _unit(outcome: Outcome) -> str:
    return "" if outcome.unit in ("", "1") else outcome.unit


def _interval(outcome: Outcome) -> str:
    if outcome.low is None or outcome.high is None or outcome.low != outcome.low or outcome.high != outcome.high:
        return ""
    return f"{figure(outcome.low)} to {figure(outcome.high)}"


def _unknown(outcome: Outcome) -> tuple[str, str]:
    """Return the word for a missing number, and why it is missing."""
    if outcome.note in ("", NOTHING):
        return NOTHING, ""
    if outcome.note.startswith(f"{NOTHING}: "):
        return NOTHING, outcome.note.removeprefix(f"{NOTHING}: ")
    return "not known", outcome.note


def _beaten(outcome: Outcome) -> str:
    """Words for a number that a trivial answer beats: an FVU above 1, where the mean row explains more."""
    return "worse than the mean" if outcome.name == "fvu" and outcome.value is not None and outcome.value > 1 else ""


def folded(outcomes: Iterable[Outcome]) -> tuple[list[Outcome], list[str]]:
    """Take apart what deserves a tile and what one line says: quantities ``name/setting`` that are all 0."""
    families: dict[str, list[Outcome]] = {}
    rest = list(outcomes)
    for outcome in rest:
        if "/" in outcome.name:
            families.setdefault(outcome.name.split("/")[0], []).append(outcome)
    lines, gone = [], []
    for family, members in families.items():
        if len(members) < 2 or any(o.value != 0 for o in members):
            continue
        gone += members
        at = ", ".join(o.name.removeprefix(f"{family}/") for o in members)
        ranges = {_interval(o) for o in members}
        sure = (
            f" ({members[0].confidence * 100:.3g} % interval of each {ranges.pop()})"
            if len(ranges) == 1 and ranges != {""}
            else ""
        )
        first = f" The first: {members[0].note}." if members[0].note else ""
        lines.append(f"{spoken(family)} at {at}: 0 throughout{sure}.{first}")
    return [o for o in rest if o not in gone], lines


def outcome_tile(outcome: Outcome) -> Markup:
    """Draw one outcome large: the value first, then everything that says whether to believe it."""
    name = tag("dt", spoken(outcome.name))
    if not outcome.known:
        word, why = _unknown(outcome)
        return tag(
            "div", name, tag("dd", tag("span", word, class_="unknown")), tag("dd", why, class_="how"), class_="tile off"
        )
    assert outcome.value is not None
    interval, lines = _interval(outcome), []
    if interval:
        lines.append(f"{outcome.confidence * 100:.3g} % interval {interval}")
    if outcome.n is not None:
        lines.append(f"over {figure(outcome.n)} {plural(outcome.n, outcome.n_unit)}".strip())
    head = tag(
        "dd", tag("span", figure(outcome.value), class_="value"), " ", tag("span", _unit(outcome), class_="unit")
    )
    return tag(
        "div",
        name,
        head,
        tag("dd", _beaten(outcome), class_="beaten") if _beaten(outcome) else None,
        tag("dd", ", ".join(lines), class_="sure") if lines else None,
        tag("dd", direction(outcome), class_=f"better {outcome.better}") if outcome.better else None,
        tag("dd", outcome.note, class_="how") if outcome.note else None,
        class_="tile",
    )


def whisker_domain(outcomes: Iterable[Outcome]) -> tuple[float, float] | None:
    """Range that holds all values and intervals of outcomes with one unit, from 0 if none is negative.

    None when there is nothing to compare: fewer than two values, several units, no interval, or nothing but 0.
    """
    known = [o for o in outcomes if o.known]
    if len(known) < 2 or len({o.unit for o in known}) > 1 or not any(map(_interval, known)):
        return None
    ends = [e for o in known for e in (o.value, o.low, o.high) if e is not None and e == e]
    low, high = min(0.0, *ends), max(ends)
    return (low, high) if high > low else None


def _whisker(outcome: Outcome, domain: tuple[float, float]) -> Markup:
    low, high = domain

    def x(value: float) -> str:
        return f"{4 + 112 * (value - low) / (high - low):.1f}"

    assert outcome.value is not None
    parts = [tag("line", x1=4, x2=116, y1=7, y2=7, class_="rail")]
    if _interval(outcome):
        assert outcome.low is not None
        assert outcome.high is not None
        parts.append(tag("line", x1=x(outcome.low), x2=x(outcome.high), y1=7, y2=7, class_="range"))
    parts.append(tag("circle", cx=x(outcome.value), cy=7, r=3.5, class_="dot"))
    # the numbers stand beside it: decoration for a reader of the page's text
    return tag("svg", parts, viewBox="0 0 120 14", width=120, height=14, class_="whisker", aria_hidden="true")


def cell(outcome: Outcome, domain: tuple[float, float] | None = None) -> Markup:
    """Draw one outcome in a table: value, interval, and a whisker on the column's common axis."""
    if not outcome.known:
        word, why = _unknown(outcome)
        return tag("td", tag("span", word, class_="unknown"), tag("small", why) if why else None, data_value="")
    assert outcome.value is not None
    interval, unit = _interval(outcome), _unit(outcome)
    return tag(
        "td",
        tag("span", figure(outcome.value), class_="value"),
        [" ", tag("span", unit, class_="unit")] if unit else None,
        tag("small", interval) if interval else None,
        tag("small", _beaten(outcome), class_="beaten") if _beaten(outcome) else None,
        _whisker(outcome, domain) if domain else None,
        title=outcome.note or None,
        class_="number",
        data_value=repr(float(outcome.value)),
    )
