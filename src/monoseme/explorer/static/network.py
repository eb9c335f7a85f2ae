"""The page of an image network: the graph of its maps, a slider on any weight, and what moved weights did."""

from __future__ import annotations

from monoseme.explorer.static.overview import facts_list, notes_aside, outcome_group
from monoseme.records.network import NetworkView
from monoseme.records.page import Html, Markup, tag

__all__ = ["network_page"]

KEY = (
    ("yes", "the thing is still there"),
    ("no", "it is gone"),
    ("unsure", "unsure"),
    ("invalid", "no valid answer"),
    ("none", "not moved"),
)


def network_page(view: NetworkView) -> Html:
    """Draw it. Needs ``data/network.js`` beside it; pictures are computed in the page, in float64."""
    sections = [
        ("weight", "Move a weight", [_mover()]),
        ("graph", "What every neuron shows", [_graph()]),
        ("numbers", "Numbers", [outcome_group(group) for group in view.outcomes]),
        ("scores", "What moved weights did", [_scores()] if view.moved else []),
        ("facts", "How it was made", facts_list(view.facts)),
    ]
    present = [(id_, title, body) for id_, title, body in sections if body]
    nav = tag("nav", [tag("a", title, href=f"#{id_}") for id_, title, _ in present], aria_label="Sections")
    count = f"{len(view.activations)} hidden layers, {len(view.weights):,} weights that are not zero."
    head = tag(
        "header",
        tag("p", "Image network", class_="kind"),
        tag("h1", view.title),
        notes_aside(view.notes),
        tag("p", count, class_="lead"),
        nav,
        class_="top",
    )
    warn = tag("noscript", tag("p", "This page computes pictures, and needs JavaScript.", class_="lead"))
    body = [tag("section", tag("h2", title), parts, id=id_) for id_, title, parts in present]
    foot = tag("footer", "Drawn by monoseme. Works without a network connection.")
    return Html(
        view.title,
        Markup(head + tag("main", warn, body) + foot),
        styles=("page.css", "network.css"),
        scripts=("page.js", "network.js", "data/network.js"),
    )


def _mover() -> Markup:
    lead = "Choose a weight here, or click an edge, a neuron or a cell below. The picture is computed anew as you move."
    controls = tag(
        "div",
        tag("label", "Weight ", tag("select", id="choice"), class_="field"),
        tag(
            "div",
            tag("label", "Value ", for_="slider"),
            tag("output", id="value", for_="slider"),
            tag("input", id="slider", type="range", step="any"),
            class_="field",
        ),
        tag(
            "p",
            tag("button", "Put it back", id="reset", type="button"),
            " ",
            tag("button", "Film strip", id="film", type="button", aria_describedby="strip"),
        ),
        tag("p", id="about", class_="lead", role="status"),
        class_="controls-column",
    )
    picture = tag("canvas", id="picture", width=96, height=96, role="img", aria_label="The network's picture")
    return Markup(
        tag("p", lead, class_="lead")
        + tag("div", tag("div", picture, class_="shot"), controls, class_="mover")
        + tag("div", id="strip", class_="strip")
    )


def _graph() -> Markup:
    lead = (
        "Columns are layers, from the inputs to the outputs. Blue is below zero, red above. Lines are weights: wider "
        "is larger, blue negative, red positive."
    )
    lines = tag("svg", id="lines", aria_hidden="true")  # in the page, because scripts must name no address
    words = "Layers; scroll sideways to see all"
    graph = tag("div", lines, id="layers", class_="layers", tabindex=0, role="group", aria_label=words)
    return Markup(tag("p", lead, class_="lead") + tag("p", id="kept", class_="lead quiet") + graph)


def _scores() -> Markup:
    lead = (
        "One square a matrix: rows are where a weight goes to, columns where it comes from. Point at a cell to read it."
    )
    key = tag("ul", [tag("li", tag("span", class_=f"swatch {name}"), words) for name, words in KEY], class_="key")
    return Markup(tag("p", lead, class_="lead") + key + tag("div", id="matrices", class_="matrices"))
