"""Faults once found by trying to break featurizers: odd rows, odd arguments, and what a calibration makes of them."""

import math
import subprocess
import sys

import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.featurizers import AuxK, BatchTopK, Featurizer, GroupLasso, ReLU, fit, load, map_penalty
from monoseme.featurizers.gates import cut_for
from monoseme.featurizers.objective import Objective

D = 6


def rows(n: int = 64, d: int = D) -> torch.Tensor:
    return torch.randn(n, d, generator=generator(0))


def refusal(act) -> str:
    with pytest.raises(UserError) as caught:
        act()
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("gate", ["soft", "threshold"])
def test_a_target_above_all_that_is_not_zero_leaves_thresholds_finite(gate):
    # half of the pre-codes are negative, so that no threshold gives 7.5 of 8: the calibration once took log 0
    f = GroupLasso(D, 8, 1, target_l0=7.5, sign="nonneg", gate=gate)
    for _ in range(2):  # the second fit starts from the calibrated thresholds
        fit(f, ArrayRows(rows()), steps=3, batch_size=16)
        assert torch.isfinite(f.gate.get_parameter("log_theta")).all()
    assert 2 < float(f.encode(rows()).l0.float().mean()) < 7.5


def test_a_single_norm_can_be_cut():
    assert float(cut_for(torch.tensor([[3.0]]), 1.0)) == 1.5
    f = BatchTopK(D, 1, k=1, norm="none", sign="free")
    fit(f, ArrayRows(rows(1)), steps=1, batch_size=1)
    assert f.encode(rows(1)).l0.tolist() == [1]


def test_a_cut_never_lies_on_a_norm():
    tied = torch.tensor([[5.0, 3.0, 1.0, 0.0]] * 10 + [[9.0, 8.0, 7.0, 6.0]])
    possible = [1, 2, 3, 4, 14, 24, 34]  # norms above one another; what is zero is never active
    for l0 in (0.3, 1.0, 1.5, 2.0, 2.2, 3.0, 3.9):
        cut = cut_for(tied, l0)
        assert not (tied[tied > 0] == cut).any()
        wanted = round(l0 * len(tied))
        assert abs(int((tied > cut).sum()) - wanted) == min(abs(each - wanted) for each in possible)
    assert float(cut_for(torch.full((4, 2), 2.0), 1.0)) == 1.0


def test_rows_that_are_mostly_one_row_have_codes_that_do_not_depend_on_the_batch():
    x = rows() * (torch.arange(64) == 3)[:, None]
    for f in (BatchTopK(D, 8, 2, k=2), GroupLasso(D, 8, 2, target_l0=1.5, gate="threshold")):
        fit(f, ArrayRows(x), steps=3, batch_size=16)
        alone = [int(f.encode(x[i : i + 1]).l0) for i in range(8)]
        assert alone == f.encode(x).l0[:8].tolist()


def test_nothing_to_revive_adds_nothing_to_the_loss():
    def loss(aux: AuxK | None) -> float:
        f = ReLU(D, 8)
        objective = Objective(f, 0.1, aux, ArrayRows(rows()))
        objective.begin(ArrayRows(rows()))
        with torch.no_grad():
            f.encoder.get_parameter("bias")[:3] = -100.0  # three latents that no row switches on
        objective.idle[:3] = 1_000_000
        return float(objective.loss(rows(), 0)[0].detach())

    assert loss(AuxK()) == loss(AuxK(on="runners-up")) == loss(None)


def test_the_penalty_is_known_beyond_the_range_of_the_volume():
    # λ = σ² (log((1−π)/π) + (b/2) log π + b log r − log Γ(b/2 + 1)); the volume itself is e^−940 here
    expected = 0.01 * (math.log(49) + 500 * math.log(math.pi) + 1000 * math.log(3) - math.lgamma(501))
    assert map_penalty(0.1, 0.02, 3.0, 1000) == pytest.approx(expected)
    assert map_penalty(0.1, 0.02, 1e300, 4) == pytest.approx(
        0.01 * (math.log(49) + 4 * math.log(1e300) + math.log(math.pi**2 / 2))
    )
    assert math.isfinite(map_penalty(0.1, 0.02, 1e-300, 4))


def short(**options) -> Featurizer:
    return fit(BatchTopK(D, 8, k=2), ArrayRows(rows()), **{"steps": 2, "batch_size": 8, **options}).featurizer


def test_held_out_rows_are_looked_at_before_training():
    assert "held_out must have the width" in refusal(lambda: short(held_out=rows(d=3)))
    assert "held_out must be finite" in refusal(lambda: short(held_out=ArrayRows(rows() * math.nan)))


# In the tests a shape checker stands before every function; users have none, so these run in a process without it.
MISTAKES = {
    "map_penalty('a', 0.1, 1.0, 2)": "sigma must be positive and finite; got 'a'.",
    "map_penalty(0.1, 0.1, 1.0, True)": "b must be a positive integer; got True.",
    "GroupLasso(6, 8, 2, target_l0=1.0, norm='foo')": "norm must be 'sqrt_d', 'unit' or 'none'; got 'foo'.",
    "GroupLasso(6, 8, 2, target_l0=1.0, norm=[])": "norm must be 'sqrt_d', 'unit' or 'none'; got [].",
    "GroupLasso(6, 8, 2, target_l0=True)": "target_l0 must lie above 0 and below 8; got True.",
    "TopK(6, 10**400, k=1)": "n_blocks must fit into memory; got ",
    "AuxK(k=1.5)": "k must be a whole number, at least 1; got 1.5.",
    "AuxK(k='a')": "k must be a whole number, at least 1; got 'a'.",
    "AuxK(weight='x')": "weight must be at least 0; got 'x'.",
    "fit(f, rows, lam='a')": "lam must be a number; got 'a'.",
    "fit(f, rows, lr='a')": "lr must be positive and finite; got a.",
    "fit(f, rows, clip='a')": "clip must be positive and finite, or None for no clipping; got a.",
    "fit(f, rows, held_out=[1.0])": "held_out must be a store, rows in memory, or a RowSource; got list.",
}


def test_mistakes_without_the_shape_checker():
    script = f"""
import torch
from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows
from monoseme.featurizers import *
f, rows = TopK(6, 8, k=1), ArrayRows(torch.rand(9, 6))
for mistake in {list(MISTAKES)!r}:
    try:
        eval(mistake)
    except UserError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line, expected in zip(done.stdout.splitlines(), MISTAKES.values(), strict=True):
        assert line.startswith(expected)


def test_held_out_rows_may_be_a_tensor():
    assert float(short(held_out=rows(32)).encode(rows(32)).l0.float().mean()) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("gate.threshold", torch.tensor(math.nan), "gate.threshold with NaN"),
        ("dictionary.weight", torch.zeros(8, D, dtype=torch.int32), "atoms of type torch.int32"),
    ],
)
def test_a_saved_threshold_that_is_no_number_is_refused(tmp_path, key, value, said):
    from safetensors.torch import load_file, save_file

    short().save(tmp_path / "f")
    file = tmp_path / "f" / "featurizer.safetensors"
    save_file({**load_file(file), key: value}, file)
    assert said in refusal(lambda: load(tmp_path / "f"))
