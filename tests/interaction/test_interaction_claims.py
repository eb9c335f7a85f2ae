"""The claims, judged on invented finished sweeps in which we know what holds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monoseme.core.errors import UserError
from monoseme.core.seeds import rng
from monoseme.interaction.across_budgets import optima, stability
from monoseme.interaction.shape_table import ShapeTable
from monoseme.learning import grid, sweep
from monoseme.papers import find
from monoseme.papers.interaction.finished import sweep_table
from monoseme.papers.interaction.law import law
from monoseme.papers.interaction.measures import recipe
from monoseme.papers.interaction.reanalysis import authors_table, reanalyse
from monoseme.records import Reproduction, reproduce

DEPTHS = (1, 2, 3, 4, 6, 8)


def shape(point: Mapping[str, Any], folder: Path, holds: bool = True, at: float = 0.03) -> dict[str, float]:
    """A network with its best R at 0.03 for every budget: the law holds, or ratio and energy go the other way."""
    ratio = point["depth"] / point["width"]
    x = np.log(ratio / at)
    noise = 0.001 * rng(point["seed"], "shape", point["depth"], point["budget"]).standard_normal(3)
    sign = 1 if holds else -1
    return {
        "test_loss": 1.5 + 0.03 * x * x + noise[0],
        "ratio_out": 0.93 - sign * 0.02 * x * x + noise[1],
        "normalised_aofe_out": float(10 ** (sign * 0.3 * max(x, 0.0) + noise[2])),
        "aofe_out": 1e10,
        "ratio_in": 0.95 + noise[1],
    }


def descent(point: Mapping[str, Any], folder: Path) -> dict[str, float]:
    """Like the summary of the authors' runs, at the precision a test needs."""
    size, noise = point["size"], rng(point["seed"], "descent", point["size"]).standard_normal(3)
    loss = {200: 1.25, 500: 1.53, 1000: 1.06}.get(size, 1.0 if size < 200 else 0.993)
    ratio = 0.6 + 0.02 * noise[2] if size <= 500 else 2 - 1.1 * loss
    log_energy = {200: 4.5, 500: 5.06, 1000: 2.9}.get(size, 1.0)
    return {
        "test_loss": loss + 0.02 * noise[0] * (size in (200, 500)),
        "ratio_out": float(ratio),
        "ratio_in": 0.96,
        "aofe_out": float(10 ** (log_energy + 0.05 * noise[1])),
        "aofe_in": 1.0,
    }


def widths(budget: float) -> list[dict[str, Any]]:
    return [{"budget": budget, "depth": d, "width": max(4, round((budget / (12 * d)) ** 0.5))} for d in DEPTHS]


def fill(work: Path, name: str, budgets: tuple[float, ...], seeds: tuple[int, ...] = (0, 1, 2), **world: Any):
    points = [point for budget in budgets for point in widths(budget)]
    sweep(partial(shape, **world), points, work / name, seeds=seeds)


def everything(work: Path, holds: bool) -> None:
    fill(work, "gpt", (60_000, 120_000, 240_000), holds=holds)
    fill(work, "gpt-paper", (240_000, 1_000_000, 2_000_000, 4_000_000), seeds=(0,), at=0.03 if holds else 0.012)
    for name in ("cnn", "vit", "gru"):
        fill(work, name, (120_000,), holds=holds)
    sizes = grid(size=[3, 10, 50, 100, 200, 500, 1000, 1395, 1946, 5282, 20000])
    sweep(descent, sizes, work / "double-descent", seeds=range(5))


def statuses(found: Reproduction) -> dict[str, str]:
    return {v.claim.id: v.detail if v.status == "stand-in" else v.status for v in found.verdicts}


@pytest.mark.parametrize("holds", [True, False])
def test_every_claim_is_decided_by_finished_sweeps(tmp_path: Path, holds: bool):
    everything(tmp_path / "work", holds)
    claims, run = find("interaction")
    found = reproduce(claims, run, tmp_path)
    assert found.failures == {}
    seen = statuses(found)
    assert len(seen) == 13
    shapes = ("law-rise", "law-energy", "law-plane", "cnn", "vit", "gru", "optimum")
    for name in shapes:
        good = seen[name] == "reproduced" or seen[name].startswith("holds;") or seen[name] == "holds"
        assert good == holds, (name, seen[name])
    for name in ("descent-peak", "descent-energy", "descent-plateau", "descent-regimes"):
        assert seen[name] == "reproduced", found.table()
    for verdict in found.verdicts:
        paper_sized = verdict.claim.id.startswith(("descent", "optimum"))
        assert (verdict.status == "stand-in") == (not paper_sized), verdict.claim.id


def test_without_sweeps_nothing_is_run_and_the_command_is_named(tmp_path: Path):
    claims, run = find("interaction")
    found = reproduce(claims, run, tmp_path)
    status = {v.claim.id: v.status for v in found.verdicts}
    assert status.pop("small-llms") == "stand-in"
    assert set(status.values()) == {"not run"}
    assert "python -m benchmarks.double_descent" in found.failures["descent-peak"]
    assert "--paper-size" in found.failures["optimum"]
    assert str(tmp_path) not in "".join(found.failures.values())  # kept in records: no folder of this machine
    everything(tmp_path / "work", True)
    again = reproduce(claims, run, tmp_path)
    assert again.failures == {}
    assert "not run" not in statuses(again).values()


def test_budgets_below_a_million_leave_the_interval_undecided(tmp_path: Path):
    fill(tmp_path, "gpt-paper", (60_000, 240_000), seeds=(0,))
    with pytest.raises(UserError, match="at least 1M parameters; got a largest of 240,000") as error:
        recipe(["optimum"], tmp_path)
    assert "\n" not in str(error.value)


def broken(point: Mapping[str, Any], folder: Path) -> dict[str, float]:
    raise RuntimeError("no data")


def test_an_unfinished_sweep_is_refused(tmp_path: Path):
    sweep(broken, widths(60_000), tmp_path / "gpt")
    with pytest.raises(UserError, match="0 of 6 trials done, 6 failed") as error:
        sweep_table(tmp_path, "gpt")
    assert "\n" not in str(error.value)


def table(seeds: int, budget: float = 240_000) -> ShapeTable:
    points = [(p, s) for p in widths(budget) for s in range(seeds)]
    numbers = [shape({**p, "seed": s}, Path()) for p, s in points]
    columns = {name: np.array([n[name] for n in numbers]) for name in numbers[0]}
    cells = [np.array([float(p[name]) for p, _ in points]) for name in ("budget", "depth", "width")]
    return ShapeTable(*cells, seed=np.array([s for _, s in points], np.int64), numbers=columns)


def test_the_laws_differences_by_hand():
    data = table(1)
    found = law(data)
    inside = (data.ratio >= 0.023) & (data.ratio <= 0.047)
    rise = data.column("ratio_out")[inside].mean() - data.column("ratio_out")[data.ratio < 0.023].mean()
    assert found["law/ratio_rise"].value == pytest.approx(rise)
    assert found["law/ratio_rise_low"].value is None  # one seed
    energy = np.log10(data.column("normalised_aofe_out"))
    step = energy[data.ratio > 0.047].mean() - energy[inside].mean()
    assert found["law/energy_rise"].value == pytest.approx(step)
    assert found["law/loss_inside"].value == pytest.approx(data.column("test_loss")[inside].mean())
    assert found["law/loss_outside"].value == pytest.approx(data.column("test_loss")[~inside].mean())
    three = law(table(3))["law/ratio_rise"]
    assert three.low is not None
    assert three.high is not None
    assert three.low < rise < three.high
    none_inside = law(data.where(~inside))
    assert all(outcome.value is None for outcome in none_inside.values())


AUTHORS = Path(__file__).parents[2].parent / "shared/data/interaction/authors_ntp_sweep.csv"


# r(ratio), rho(ratio), r(AOFE), r(log AOFE), r(ratio of the weights) with the test loss, worked out before by others
EXPECTED = {
    "300000": (-0.48, -0.49, -0.86, -0.92, -0.90),
    "600000": (0.51, 0.41, -0.37, -0.25, -0.79),
    "1000000": (0.30, 0.34, 0.10, -0.03, -0.72),
    "1300000": (-0.64, -0.72, -0.02, -0.39, -0.43),
    "1600000": (-0.59, -0.50, 0.26, 0.17, -0.48),
    "2000000": (-0.72, -0.55, 0.81, 0.64, -0.15),
    "2300000": (-0.84, -0.78, 0.41, 0.20, -0.08),
    "2700000": (-0.76, -0.71, 0.71, 0.83, 0.07),
    "3000000": (-0.84, -0.64, 0.82, 0.80, 0.11),
    "5000000": (-0.61, -0.42, 0.99, 0.96, -0.04),
    "10000000": (-0.90, -0.89, 0.91, 0.84, 0.89),
    "pooled": (0.14, None, None, None, -0.94),
}


@pytest.mark.skipif(not AUTHORS.exists(), reason="the authors' table is not beside this checkout")
def test_the_authors_table():
    data = authors_table(AUTHORS)
    assert len(data.budgets) == 11
    assert len(data.seed) == 123
    found = reanalyse(data, draws=500)
    names = [
        ("ratio_out", "pearson"), ("ratio_out", "spearman"), ("aofe_out", "pearson"), ("log10 aofe_out", "pearson"),
        ("ratio_weights", "pearson"),
    ]  # fmt: skip
    for place, row in EXPECTED.items():
        for (number, kind), value in zip(names, row, strict=True):
            if value is not None:
                assert found[f"authors/{place}/{number}/{kind}"].value == pytest.approx(value, abs=0.006), (
                    place,
                    number,
                )
    # the best shapes of the grid, and basins, as the authors list them
    for budget, best in (("1000000", 5 / 120), ("3000000", 5 / 216), ("5000000", 8 / 224), ("10000000", 10 / 284)):
        assert found[f"authors/{budget}/lowest_ratio"].value == pytest.approx(best)
    for budget, low, high in (("2700000", 0.0175, 0.091), ("5000000", 0.018, 0.067), ("10000000", 0.0165, 0.058)):
        assert found[f"authors/{budget}/basin_low"].value == pytest.approx(low, rel=0.02)
        assert found[f"authors/{budget}/basin_high"].value == pytest.approx(high, rel=0.02)
    assert found["authors/300000/best_ratio"].value is None
    assert "at the edge" in found["authors/300000/best_ratio"].note
    claims, _ = find("interaction-reanalysis")
    assert {q for claim in claims.claims for q in claim.quantities} <= set(found)


def test_the_reanalysis_of_an_invented_table(tmp_path: Path):
    head = "target_n,depth,d_model,test_ce,aofe_ratio,aofe,wtw_aofe_ratio\n"
    lines = []
    for budget in (300_000, 1_000_000, 2_000_000, 4_000_000):
        for point in widths(budget):
            n = shape({**point, "seed": 0}, Path())
            lines.append(f"{budget},{point['depth']},{point['width']},{n['test_loss']},{n['ratio_out']},1e10,0.5\n")
    lines.append("4000000,12,999,,0.3,1,0.5\n")  # of another task
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "authors_ntp_sweep.csv").write_text(head + "".join(lines))
    claims, run = find("interaction-reanalysis")
    found = reproduce(claims, run, tmp_path)
    assert found.failures == {}
    seen = statuses(found)
    assert seen["optimum"] == seen["stable"] == seen["correlation"] == "reproduced"
    data = authors_table(tmp_path / "work" / "authors_ntp_sweep.csv")
    assert 999 not in data.width
    assert stability(optima(data)).n == 4
    (tmp_path / "b").mkdir()
    assert "work must hold authors_ntp_sweep.csv" in reproduce(claims, run, tmp_path / "b").failures["stable"]
