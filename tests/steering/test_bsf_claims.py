"""Claims of the block, curve and steering runs: every quantity that a rule names is measured, from tables made up."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.composition.refusals import check_refused

from monoseme.core.outcome import Outcome
from monoseme.learning import SweepResult
from monoseme.learning.points import Trial
from monoseme.learning.results import TrialResult
from monoseme.papers import find
from monoseme.papers.bsf.block_charts import block_record, write_block_pages
from monoseme.papers.bsf.block_measures import OCTAVES, of_model, one
from monoseme.papers.bsf.block_sizes import FLOORS, SIZES, points
from monoseme.papers.bsf.curve_measures import of_curves
from monoseme.papers.bsf.curves import KINDS, SHUFFLED
from monoseme.papers.bsf.curves import points as curve_points
from monoseme.papers.bsf.digit_measures import UNITS, of_digits
from monoseme.papers.bsf.steered_topics import protocol
from monoseme.papers.bsf.steering_measures import KINDS as WAYS
from monoseme.papers.bsf.steering_measures import of_topics
from monoseme.papers.bsf.walked_digits import KINDS as MOVERS
from monoseme.papers.bsf.walked_digits import points as digit_points


def blocks(number: Callable[[Mapping[str, Any], str], float]) -> list[dict[str, Any]]:
    names = [f"{kind} {floor:g}" for kind in ("total", "joint") for floor in FLOORS]
    names += ["stable_rank_codes", "tv", *(f"{n} at {2**i}" for n in ("maps", "tv") for i in range(OCTAVES))]
    names += ["shuffled joint 0.2", *(f"dealt {b} joint 0.2" for b in SIZES[1:])]
    return [point | {name: number(point, name) for name in names} for point in points("vision") + points("text")]


def planted(point: Mapping[str, Any], name: str) -> float:
    """Least bits at b = 3; dealt blocks dearer; larger blocks smoother; a rank that stops at 3."""
    b = point["block_size"]
    if name.startswith("stable"):
        return min(b, 3.0)
    if name.startswith("tv"):
        return 10.0 / b
    if name.startswith("maps"):
        return 1.0
    bits = 100 + (b - 3) ** 2 + 0.1 * point["draw"] * b
    return bits + (50 if name.startswith(("shuffled", "dealt")) else 0)


def curves() -> list[dict[str, Any]]:
    kinds = ["neurons", *KINDS, *(f"{name} shuffled" for name in SHUFFLED)]
    rows = []
    for point in curve_points():
        row: dict[str, Any] = dict(point)
        for i, kind in enumerate(kinds):
            share = (0.9 if kind == "blocks 16" else 0.1 + 0.01 * i) + 0.001 * point["draw"]
            row |= {f"{kind} single": share if point["weights"] == "pretrained" else 0.05}
            row |= {f"{kind} units": 1.0 if kind == "blocks 16" else float("nan"), f"{kind} width": 0.2}
            row |= {f"{kind} coverage": 1.0, f"{kind} floor": 0.001, f"{kind} live": 9}
            row |= {f"{kind} harmonic {h}": 0.5 / h for h in range(1, 5)}
            row |= {f"{kind} deviations {h}": 100.0 / h for h in range(1, 5)}
            if kind != "neurons":
                row |= {f"{kind} answers": 4, f"{kind} complex": 1, f"{kind} ripple": float("nan")}
        rows.append(row)
    return rows


def topics(gain: float) -> dict[str, dict[str, Any]]:
    found = {}
    for topic in protocol()["topics"]:
        row: dict[str, Any] = {"topical rows": 100, "perplexity without": 9.0}
        for way, kl in itertools.product(WAYS, protocol()["kl"]):
            for what in ("shift", "off_target", "perplexity", "kl", "strength"):
                row[f"{way} {kl:g} {what}"] = 1.0
            row[f"block - {way} {kl:g}"] = Outcome("difference", gain, "nats", gain - 0.2, gain + 0.2, n=120)
        found[topic] = row
    return found


def digits(gap: float) -> list[dict[str, Any]]:
    numbers = {f"{kind} {what}": 1.0 for kind in MOVERS for what in UNITS}
    numbers |= {f"{kind} - block": gap for kind in MOVERS[1:]}
    return [{**point, **numbers} for point in digit_points()]


MADE = {
    "bsf-blocks": lambda: {f"{m}/{k}": o for m in ("vision", "text") for k, o in of_model(made_of(m), m).items()},
    "bsf-curves": lambda: of_curves(curves()),
    "bsf-digits": lambda: of_digits(digits(0.5)),
    "bsf-steering": lambda: of_topics(topics(0.5), protocol()["kl"]),
}


def made_of(model: str) -> list[dict[str, Any]]:
    return [row for row in blocks(planted) if row["model"] == model]


@pytest.mark.parametrize("paper", MADE)
def test_every_quantity_of_a_claim_is_measured(paper: str) -> None:
    claims, outcomes = find(paper)[0], MADE[paper]()
    for claim in claims.claims:
        for quantity in claim.quantities:
            assert quantity in outcomes, f"{claim.id}: {quantity}"


def test_the_planted_block_size_is_found() -> None:
    found = of_model(made_of("vision"), "vision")
    for width in (1536, 3072):
        assert found[f"best_size/{width}"].value == 3
    assert found["stable_rank_growth"].value == 0
    assert found["smoother_equal_active"].value == 4
    assert found["smoother_matched"].value == 4
    assert found["shuffled_minus_fitted"].value == 50


def test_two_trials_of_one_setting_are_refused() -> None:
    check_refused(lambda: one(made_of("vision") * 2, "total 0.2", block_size=3), "sweep")


def test_units_that_do_not_reach_are_one_more_than_were_tried() -> None:
    found = of_curves(curves())
    assert found["units/latents"].value == 25
    assert found["units/blocks 16"].value == 1


def test_the_untrained_network_is_kept_apart_and_unknown_numbers_stay_unknown() -> None:
    found = of_curves(curves())
    assert found["single/blocks 16"].value == pytest.approx(0.901)
    assert found["random single/blocks 16"].value == 0.05
    assert found["ripple/latents"].value is None
    assert "answers/neurons" not in found


def test_differences_to_controls_are_paired_over_seeds() -> None:
    over = of_curves(curves())["over/latents"]
    assert over.n == 3
    assert over.value == pytest.approx(0.9 - 0.11)
    # every seed differs by the same: the pairs have no spread, the shares themselves do
    assert over.low == pytest.approx(0.9 - 0.11)


@pytest.mark.parametrize(("gain", "above"), [(0.5, True), (0.1, False)])
def test_the_least_advantage_over_topics_decides(gain: float, above: bool) -> None:
    made = topics(0.9)
    made["errors"]["block - latent 0.1"] = Outcome("difference", gain, "nats", gain - 0.2, gain + 0.2, n=120)
    found = of_topics(made, protocol()["kl"])
    assert found["text/least/latent"].value == gain
    low = found["text/least_low/latent"].value
    assert low is not None
    assert (low > 0) == above


def test_a_fit_that_never_moved_the_target_leaves_its_kind_unknown() -> None:
    table = digits(0.5)
    next(row for row in table if row["attribute"] == "hue")["random - block"] = float("nan")
    found = of_digits(table)
    assert found["hue/random"].value is None
    assert "1 of 3 fits" in found["hue/random_low"].note
    assert found["hue/latent"].value == found["hue/latent_low"].value == 0.5


def test_the_page_of_block_sizes_keeps_fits_and_controls_apart(tmp_path: Path) -> None:
    rows = tuple(
        TrialResult(Trial(point, 0), "done", {"total 0.2": Outcome("total", 100.0, "bits/row", 90.0, 110.0)})
        for point in points("text")
    )
    made = SweepResult(rows, {}, tmp_path)
    record = block_record(made, "text")
    assert len(record.comparisons[0].rows) == sum(1 + (point["block_size"] > 1) for point in points("text"))
    own, fits = record.scatters
    assert len(fits.points) == len(points("text"))
    bits = own.columns.index("bits a row (paper)")
    assert {point.values[bits].known for point in own.points if "shuffled" in point.series} == {False}
    assert {point.series.split(", ")[2] for point in own.points} == {"1536 wide"}
    index = write_block_pages(made, "text", tmp_path / "shown")
    assert "Block sizes: text" in index.read_text()
