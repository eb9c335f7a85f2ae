"""The page of a reproduction: every claim, its status, the rule that was fixed beforehand, and what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from monoseme.core.outcome import Outcome
from monoseme.explorer.static.charts import curve_chart
from monoseme.explorer.static.numbers import outcome_tile
from monoseme.records.claims import Verdict
from monoseme.records.page import Html, Markup, tag
from monoseme.records.reproduce import Reproduction
from monoseme.records.rules import RuleResult
from monoseme.records.run import Curve

__all__ = ["claims_page"]

ORDER = ("reproduced", "partly", "not", "stand-in", "not run")
MEANING = {
    "reproduced": "all rules hold",
    "partly": "some rules hold",
    "not": "no rule holds",
    "stand-in": "another model or other data than the paper's",
    "not run": "not measured",
}


def claims_page(reproduction: Reproduction) -> Html:
    """Draw the verdicts of one paper."""
    claims = reproduction.claims
    counts = Counter(verdict.status for verdict in reproduction.verdicts)
    summary = [
        tag(
            "div",
            tag("dt", status),
            tag("dd", tag("span", counts[status], class_="value")),
            tag("dd", MEANING[status]),
            class_="tile",
        )
        for status in ORDER
        if counts[status]
    ]
    head = tag(
        "header",
        tag("p", "Reproduction", class_="kind"),
        tag("h1", claims.title),
        tag("p", f"{claims.source} · {len(claims.claims)} claims", class_="lead"),
        class_="top",
    )
    fixed = (
        "Every rule was written down and hashed before the first run; statuses are computed from the recorded numbers."
    )
    main = tag(
        "main",
        tag("section", tag("h2", "In short"), tag("p", fixed, class_="lead"), tag("dl", summary, class_="tiles")),
        tag("section", tag("h2", "Claims"), [_claim(v, reproduction) for v in reproduction.verdicts]),
        tag("section", tag("h2", "How it was run"), _environment(reproduction)),
    )
    return Html(f"{claims.title} – reproduction", Markup(head + main + tag("footer", "Drawn by monoseme.")))


def _claim(verdict: Verdict, reproduction: Reproduction) -> Markup:
    claim = verdict.claim
    stated = f"The paper gives {claim.stated}." if claim.stated else "The paper gives no number."
    failure = reproduction.failures.get(claim.id, "")
    took = reproduction.seconds.get(claim.id)
    conditions = [
        f"seeds {', '.join(map(str, claim.seeds))}" if claim.seeds else "",
        claim.hardware,
        f"planned cost {claim.cost}",
        f"took {took:.4g} s" if took is not None else "",
        f"hash {claim.hash[:12]}",
    ]
    said = tag(
        "div",
        tag("h3", claim.says),
        tag("p", f"{claim.id} · {claim.where}. {stated}", class_="small"),
        tag("p", f"Stand-in: {claim.reason}.") if claim.stand_in else None,
        tag("p", failure, class_="warning") if failure else None,
        tag("ul", [_rule(rule) for rule in verdict.rules]),
        tag("p", " · ".join(part for part in conditions if part), class_="small"),
    )
    found = tag(
        "div",
        tag("span", verdict.status, class_=f"status {verdict.status.replace(' ', '-')}"),
        tag("span", f" {verdict.detail}", class_="small") if verdict.detail and not failure else None,
        tag("dl", outcome_tile(verdict.measured)) if verdict.measured else None,
        _curve(verdict.measured) if verdict.measured else None,
    )
    return tag("article", said, found, class_="claim", id=f"claim-{claim.id}")


def _curve(outcome: Outcome) -> Markup | None:
    """Draw the number along the way, if the recipe kept it: ``provenance["curve"]``, x and y of equal length."""
    kept = outcome.provenance.get("curve")
    if not isinstance(kept, Mapping):
        return None
    return curve_chart(Curve(outcome.name, kept["x"], kept["y"], outcome.unit, str(kept.get("x_name", "step"))))


def _rule(rule: RuleResult) -> Markup:
    mark, word = {True: ("holds", "holds"), False: ("fails", "fails"), None: ("open", "undecided")}[rule.holds]
    return tag("li", rule.rule, tag("span", f" – {word}: {rule.seen}", class_="small"), class_=mark)


def _environment(reproduction: Reproduction) -> Markup:
    facts = {**reproduction.environment, "plan": reproduction.plan}
    return tag("dl", [[tag("dt", name), tag("dd", str(text))] for name, text in facts.items()], class_="facts")
