"""Refinement against slow twins: scipy's solvers row by row, and pursuit written out block by block."""

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

from monoseme.core.cones import Sign
from monoseme.core.seeds import generator
from monoseme.core.support import Support
from monoseme.featurizers import BlockTopK
from monoseme.featurizers.refine import least_squares, pursue

D, G, N = 10, 12, 24


def make(b: int, kind: str) -> tuple[Tensor, Tensor]:
    """Rows and atoms: at random, or with the degeneracies that training can leave behind."""
    stream = generator(0, b, kind)
    atoms = torch.randn(G, b, D, generator=stream, dtype=torch.float64)
    x = torch.randn(N, D, generator=stream, dtype=torch.float64)
    if kind == "alike":
        atoms = atoms[:1, :1] + 0.01 * atoms
    if kind == "degenerate":
        atoms[1], atoms[2], atoms[3] = atoms[0], 0, atoms[3, :1]
    if kind == "mixed scales":
        x *= 10.0 ** torch.linspace(-12, 6, N, dtype=torch.float64)[:, None]
    return x, atoms


def solve(design: np.ndarray, x: np.ndarray, sign: Sign) -> np.ndarray:
    """Best codes on these atoms, (p, d), by scipy or LAPACK."""
    return nnls(design.T, x, maxiter=10_000)[0] if sign == "nonneg" else np.linalg.lstsq(design.T, x)[0]


def left(design: np.ndarray, x: np.ndarray, z: np.ndarray) -> float:
    return float(np.linalg.norm(x - z @ design) / np.linalg.norm(x))


@pytest.mark.parametrize("sign", ["free", "nonneg"])
@pytest.mark.parametrize("kind", ["random", "alike", "degenerate", "mixed scales"])
@pytest.mark.parametrize("b", [1, 3])
def test_least_squares_is_optimal_on_every_row(b: int, kind: str, sign: Sign) -> None:
    x, atoms = make(b, kind)
    support = Support.from_mask(torch.rand(N, G, generator=generator(1)) < 0.4)
    values = least_squares(x, support, atoms, sign)
    assert sign == "free" or bool((values >= 0).all())
    for i in range(N):
        part = slice(int(support.indptr[i]), int(support.indptr[i + 1]))
        design = atoms[support.indices[part].long()].reshape(-1, D).numpy()
        best = left(design, x[i].numpy(), solve(design, x[i].numpy(), sign))
        assert left(design, x[i].numpy(), values[part].reshape(-1).numpy()) <= best + 1e-8


def chase(x: np.ndarray, atoms: np.ndarray, size: int, sign: Sign) -> set[int]:
    """Block pursuit in so many words."""
    chosen: list[int] = []
    rest = x
    for _ in range(size):
        errors = [np.linalg.norm(rest - solve(block, rest, sign) @ block) for block in atoms]
        chosen.append(min((g for g in range(len(atoms)) if g not in chosen), key=lambda g: errors[g]))
        design = atoms[chosen].reshape(-1, D)
        rest = x - solve(design, x, sign) @ design
    return set(chosen)


@pytest.mark.parametrize("sign", ["free", "nonneg"])
@pytest.mark.parametrize("kind", ["random", "correlated", "degenerate"])
@pytest.mark.parametrize("b", [1, 2, 3])
def test_pursuit_takes_the_block_that_explains_most(b: int, kind: str, sign: Sign) -> None:
    x, atoms = make(b, kind)
    if kind == "correlated":
        atoms = atoms + 2 * atoms[:, :1]
    if kind == "degenerate":  # without two equal blocks, of which either would do
        atoms[1] = -atoms[1].flip(-1)
    support, values = pursue(x, torch.full((N,), 3), atoms, sign)
    for i in range(N):
        part = slice(int(support.indptr[i]), int(support.indptr[i + 1]))
        found = support.indices[part].tolist()
        assert set(found) <= chase(x[i].numpy(), atoms.numpy(), 3, sign)
        design = atoms[found].reshape(-1, D).numpy()
        best = left(design, x[i].numpy(), solve(design, x[i].numpy(), sign))
        assert left(design, x[i].numpy(), values[part].reshape(-1).numpy()) <= best + 1e-8
        assert len(found) == 3 or sign == "nonneg"


@pytest.mark.parametrize("sign", ["free", "nonneg"])
def test_pursuit_with_more_atoms_than_dimensions(sign: Sign) -> None:
    featurizer = BlockTopK(4, 5, 6, k=2, sign=sign)
    x = torch.randn(N, 4, generator=generator(2))
    code = featurizer.encode(x, refine="omp")
    assert int(code.l0.max()) <= 2
    error = (featurizer.decode(code) - x).square().sum()
    assert error <= (featurizer.decode(featurizer.encode(x)) - x).square().sum()


@pytest.mark.parametrize("kind", ["random", "alike", "degenerate"])
def test_a_row_does_not_depend_on_its_neighbours(kind: str) -> None:
    x, atoms = make(3, kind)
    support = Support.from_mask(torch.ones(N, G, dtype=torch.bool))  # more atoms than dimensions: many best codes
    alone = Support.from_mask(torch.ones(1, G, dtype=torch.bool))
    together = least_squares(x, support, atoms, "nonneg").reshape(N, G, 3)
    for i in range(N):
        torch.testing.assert_close(least_squares(x[i : i + 1], alone, atoms, "nonneg"), together[i])
