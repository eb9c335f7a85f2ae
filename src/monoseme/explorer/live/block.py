"""The page of one block on the local server: the static one, and what is computed when it is asked for."""

from __future__ import annotations

from dataclasses import replace

from monoseme.explorer.static.overview import block_page
from monoseme.records.page import Html, Markup, tag
from monoseme.records.run import RunRecord

__all__ = ["live_block_page"]

ASSETS = "live/"  # folder beside the page under which the server has its style sheets and scripts


def live_block_page(record: RunRecord) -> Html:
    """Draw the frame; which block stands in the address after ``#``, and a script asks the server for the rest."""
    page = block_page(record, above=(_walk(),), below=(_dimension(), _certificate()))
    scripts = ("page.js", "cloud.js", "block.js", "live-block.js")
    return replace(
        page,
        styles=tuple(ASSETS + name for name in ("page.css", "live.css")),
        scripts=(*(ASSETS + name for name in scripts), "data/index.js"),
        connects=True,
    )


def _walk() -> Markup:
    return tag(
        "section",
        tag("h2", "A walk along it"),
        tag("p", id="walk-said", class_="lead", role="status"),
        tag("div", id="ways"),
        id="walk",
    )


def _dimension() -> Markup:
    lead = "How many of its dimensions the block's contributions use where it fires, read in several ways; 1 is a line."
    return tag(
        "section",
        tag("h2", "Dimensions"),
        tag("p", lead, class_="lead"),
        tag("dl", id="dimension", class_="tiles"),
        id="dimensions",
    )


def _certificate() -> Markup:
    return tag(
        "section",
        tag("h2", "Certificate"),
        tag("p", id="uncertified", class_="lead"),
        tag("div", id="verdicts"),
        id="certificate",
    )
