"""What the composition claims are judged by, on tables with known answers; targets; runs as the protocol has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.composition.public_genomes import PUBLIC, fer, present
from tests.composition.refusals import check_refused

from monoseme.core.errors import UserError
from monoseme.learning import sweep
from monoseme.papers import find
from monoseme.papers.composition.cuts import METHODS
from monoseme.papers.composition.measures import cuts, optimisers, recipe, shapes, trap
from monoseme.papers.composition.protocol import delta_of, protocol
from monoseme.papers.composition.runs import RUNS, points, seeds, trial
from monoseme.papers.composition.targets import PHOTOGRAPHS, SEVERAL, public_dense, target
from monoseme.records.claims import judge

Point = Mapping[str, Any]
Trial = Callable[[Point], dict[str, float]]


def made(run: str, work: Path, numbers: Trial) -> None:
    sweep(lambda point, folder: numbers(point), points(run), work / run, seeds=seeds(run))


def trap_numbers(point: Point) -> dict[str, float]:
    known = point["kind"] == "known"
    found = {"score absolute": 0.6 if known else 0.9, "score visible": 0.9 if known else 0.4}
    for where in ("0.02-0.05", "0.05-0.1", "0.1-0.2", "0.2-0.4"):
        few = where == "0.2-0.4"  # too few moves to count, and the other way round
        found[f"n {where}"] = 2.0 if few else 50.0
        found[f"asymmetry {where}"] = (0.5 if known else 0.0) if few else (0.0 if known else 0.03)
        found |= {f"yes {where}": 1.0, f"cosine {where}": 0.9}
    return found


def test_the_trap(tmp_path: Path) -> None:
    made("trap", tmp_path, trap_numbers)
    found = trap(tmp_path)
    assert found["trap/raw_dense_minus_known"].value == pytest.approx(0.3)
    assert found["trap/known_minus_dense_low"].value == pytest.approx(0.5)
    assert found["trap/asymmetry_dense_minus_known"].value == pytest.approx(0.03)
    assert found["trap/0.02-0.05/known_yes"].n == 4


def cut_numbers(point: Point) -> dict[str, float]:
    found = {}
    for level in protocol()["levels"]:
        score = {"similarity": 0.5, "shuffled": 0.1, "random-neurons": 0.3, "lottery": 0.2}.get(point["method"], 0.0)
        passes = level <= 0.5 or (point["method"] == "similarity" and level < 0.9)
        if point["target"] in SEVERAL and point["method"] == "lottery":
            score = 0.4
        found |= {f"{level:g} score visible": score if passes else 0.0, f"{level:g} passes": float(passes)}
        found[f"{level:g} score absolute"] = score if passes else 0.0
    return found


def test_cuts_are_compared_where_every_picture_passes(tmp_path: Path) -> None:
    made("cuts", tmp_path, cut_numbers)
    found = cuts(tmp_path)
    assert {found[f"cuts/common_sparsity/{name}"].value for name in ("face", "temple")} == {0.5}
    assert found["cuts/advantage_one"].value == pytest.approx(0.3)
    assert found["cuts/advantage_several"].value == pytest.approx(0.1)
    assert found["cuts/similarity_minus_shuffled"].value == pytest.approx(0.4)
    assert found["cuts/similarity_minus_pairs"].value == pytest.approx(0.2)
    assert found["cuts/photo_minus_best_baseline"].value == pytest.approx(0.2)
    assert found["cuts/similarity_last"].value == 0.0  # nothing passes at the last level
    assert found["cuts/similarity/0.85/score_visible"].value == pytest.approx(0.5)


def shape_numbers(point: Point) -> dict[str, float]:
    best = {"face": 3, "butterfly": 4, "apple": 6, "house": 3}[point["target"]]
    score = 1 - 0.1 * abs(point["depth"] - best) - 0.001 * point["width"]
    return {"cut score visible": score, "full score visible": 0.5}


def test_the_best_depth_of_each_target_is_found(tmp_path: Path) -> None:
    made("shapes", tmp_path, shape_numbers)
    found = shapes(tmp_path)
    assert found["shapes/inside_share"].value == 1.0
    assert found["shapes/best_depths"].value == 3.0
    assert found["shapes/best_depth/apple"].value == 6.0
    assert found["shapes/peak_above_ends_low"].value is not None
    assert found["shapes/peak_above_ends"].value == pytest.approx((0.1 + 0.2 + 0.2 + 0.1) / 4)
    spearman = found["shapes/volume_spearman"].value
    assert spearman is not None
    assert -1 <= spearman <= 1


def optimiser_numbers(point: Point) -> dict[str, float]:
    muon = point["optimiser"] == "muon"
    best = point["lr"] == (protocol()["rates_muon"][1] if muon else protocol()["rates_adam"][2])
    loss = (1e-4 if muon else 1e-3) if best else 1.0
    score = (0.8 if muon else 0.5) if best else 0.99  # of a rate that is not the best one by loss
    return {"loss": loss, "score visible": score, "score absolute": score, "top": 1.0, "trace": 10.0, "rise": 1e-5}


def test_each_optimiser_counts_at_its_best_rate(tmp_path: Path) -> None:
    made("optimisers", tmp_path, optimiser_numbers)
    found = optimisers(tmp_path)
    assert found["optimisers/log10_loss_muon_minus_adam_high"].value == pytest.approx(-1.0)
    assert found["optimisers/score_muon_minus_adam_low"].value == pytest.approx(0.3)
    assert found["optimisers/log10_top_muon_minus_adam"].value == pytest.approx(0.0)


def test_every_claim_finds_its_quantities(tmp_path: Path) -> None:
    claims, run = find("composition")
    for name, numbers in (
        *(("trap", trap_numbers), ("cuts", cut_numbers)),
        *(("shapes", shape_numbers), ("optimisers", optimiser_numbers)),
    ):
        made(name, tmp_path, numbers)
    outcomes = run([claim.id for claim in claims.claims], tmp_path)
    for claim in claims.claims:
        assert judge(claim, outcomes).status == "stand-in", claim.id


def test_a_sweep_that_is_not_there_or_not_finished_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"benchmarks\.composition trap OUT"):
        recipe(["trap-raw"], tmp_path)

    def fails(point: Point) -> dict[str, float]:
        if point["kind"] == "dense":
            raise ValueError("no")
        return trap_numbers(point)

    made("trap", tmp_path, fails)
    with pytest.raises(UserError, match="12 failed"):
        recipe(["trap-raw"], tmp_path)


def test_runs_are_what_the_protocol_says() -> None:
    assert len(points("cuts")) == 5 * len(METHODS)
    assert len(points("shapes")) == 4 * 20
    assert len(points("optimisers")) == 6 * 6
    assert [delta_of(words).kind for words in protocol()["deltas"]] == ["absolute", "relative", "visible"]
    assert all(callable(trial(run, "folder")) for run in RUNS)
    check_refused(lambda: trial("trap-public"), "genomes")


@pytest.mark.parametrize("name", ["house", *PHOTOGRAPHS])
def test_targets_are_pictures_of_the_asked_size(name: str) -> None:
    small, large = target(name, 24), target(name, 48)
    assert small.shape == (24, 24, 3)
    assert large.shape == (48, 48, 3)
    assert 0 <= float(small.min()) < float(small.max()) <= 1
    shrunk = large.reshape(24, 2, 24, 2, 3).mean((1, 3))
    assert float((shrunk - small).abs().mean()) < 0.05


def test_an_unknown_target_is_refused() -> None:
    check_refused(lambda: target("skull", 24), "target")


@present
def test_public_parameters_are_read_as_before() -> None:
    for name in ("skull", "butterfly"):
        net, other = public_dense(PUBLIC, name), fer(name, "sgd")
        for one, two in zip(net.weights, other.weights, strict=True):
            assert torch.equal(one, two)
