"""Any dictionary of blocks is brought to frames without changing what it says; what cannot be read is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.optimality.blocks.dense import codes_of, frames_of, hat

from monoseme import Code, UserError
from monoseme.core.rows import ArrayRows
from monoseme.optimality.blocks import blocks
from monoseme.optimality.blocks.frames import batches


def test_contributions_stay_when_blocks_become_frames() -> None:
    r = np.random.default_rng(0)
    atoms, z = r.standard_normal((5, 3, 7)), codes_of(r, 30, 5, 3)
    atoms[1] = frames_of(r, 1, 3, 7)[0]  # stays as it is
    atoms[2, 2] = atoms[2, 0] - 2 * atoms[2, 1]  # rank 2
    atoms[3] = 0.0
    on = blocks(atoms, None, z)
    gram = on.frames @ on.frames.transpose(0, 2, 1)
    for g, rank in enumerate((3, 3, 2, 0, 3)):
        np.testing.assert_allclose(gram[g] @ gram[g], gram[g], atol=1e-12)
        assert np.trace(gram[g]) == pytest.approx(rank)
    contribution = np.einsum("ngb,gbd->ngd", z, atoms)
    np.testing.assert_allclose(np.einsum("ngb,gbd->ngd", on.to_dense(), on.frames), contribution, atol=1e-12)
    np.testing.assert_allclose(on.norms, np.linalg.norm(contribution[on.rows, on.indices], axis=1))
    np.testing.assert_array_equal(on.frames[1], atoms[1])
    assert not (on.indices == 3).any(), "a block of zeros is never on"
    spare = np.linalg.eigvalsh(on.moment[2])
    assert spare[0] < 1e-12 < spare[1]
    assert "4 of 5 blocks were not orthonormal" in on.notes[0]
    assert "2 of them had a rank below 3" in on.notes[0]


def test_frames_are_left_alone_and_columns_are_sorted() -> None:
    r = np.random.default_rng(1)
    frames, z = frames_of(r, 4, 2, 6), codes_of(r, 50, 4, 2)
    on = blocks(frames, torch.ones(6), Code.from_dense(torch.from_numpy(z)))
    assert on.notes == ()
    np.testing.assert_array_equal(on.frames, frames)
    for g in range(4):
        np.testing.assert_array_equal(on.rows[on.of(g)], np.flatnonzero(z[:, g].any(1)))
        on_rows = z[z[:, g].any(1), g]
        slow = sum(np.outer(v, v) / np.linalg.norm(v) for v in on_rows) / 50
        np.testing.assert_allclose(on.moment[g], slow)
    x = r.standard_normal((50, 6))
    np.testing.assert_allclose(on.residual(x[10:], 10), (x - hat(on))[10:], atol=1e-12)


def test_rows_come_in_order_from_arrays_and_sources() -> None:
    x = np.arange(40.0).reshape(20, 2)
    for source in (x, torch.from_numpy(x), ArrayRows(x)):
        parts = list(batches(source, 1 << 22))  # so wide that 16 rows are a batch
        assert [start for start, _ in parts] == [0, 16]
        np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), x)


FRAMES, Z = np.eye(4).reshape(2, 2, 4), np.ones((3, 2, 2))
BAD = {
    "integers": ((FRAMES.astype(int), None, Z), "frames"),
    "two axes": ((FRAMES[0], None, Z), "frames"),
    "more directions than dimensions": ((np.ones((2, 5, 4)), None, np.ones((3, 2, 5))), "frames"),
    "nan frames": ((FRAMES * np.nan, None, Z), "frames"),
    "bias of another width": ((FRAMES, np.zeros(3), Z), "bias"),
    "bias of two axes": ((FRAMES, np.zeros((1, 4)), Z), "bias"),
    "codes of other blocks": ((FRAMES, None, Z[:, :1]), "codes"),
    "nan codes": ((FRAMES, None, Z * np.nan), "codes"),
    "integer codes": ((FRAMES, None, Z.astype(int)), "codes"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_is_refused_in_one_line(case: str) -> None:
    arguments, name = BAD[case]
    with pytest.raises(UserError) as caught:
        blocks(*arguments)
    assert str(caught.value).startswith(name)
    assert "\n" not in str(caught.value)
