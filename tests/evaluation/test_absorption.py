"""Absorption by labels: planted absorbers are found, and nothing is found where there are none."""

import numpy as np
import pytest
from scipy.sparse import csc_array

from monoseme.evaluation.absorption import absorption


def planted(absorbing: bool, n: int = 3000):
    """A label of one direction; a child of its rows has its own latent, which holds the parent's direction or not."""
    r = np.random.default_rng(0)
    on, other = r.random(n) < 0.4, r.random(n) < 0.3
    child = on & (r.random(n) < 0.04)  # rare, so that it does not count as a second main latent
    directions = np.eye(8)
    x = on[:, None] * 2 * directions[0] + child[:, None] * directions[1] + other[:, None] * directions[2]
    z = np.stack([on * 2.0, child * 1.0, other * 1.0], 1)
    atoms = directions[:3].copy()
    if absorbing:
        z[child, 0], z[child, 1] = 0.0, 5**0.5
        atoms[1] = np.array([2, 1, 0, 0, 0, 0, 0, 0]) / 5**0.5
    np.testing.assert_allclose(z @ atoms, x, atol=1e-12)
    return x + 0.01 * r.standard_normal(x.shape), csc_array(z), atoms, on, child


def test_the_child_that_holds_its_parent_is_found():
    x, z, atoms, on, child = planted(absorbing=True)
    found = absorption(x, z, atoms, np.zeros(8), {"on": on})
    assert found.main.tolist() == [True, False, False]
    assert found.absorbed[1] == found.holes[0] > 0
    assert found.absorbed[0] == found.absorbed[2] == found.holes[1] == 0
    assert found.rate["on"] == pytest.approx(child[on].mean(), abs=0.02)


def test_none_where_the_parent_fires_on_all_its_rows():
    x, z, atoms, on, _ = planted(absorbing=False)
    found = absorption(x, z, atoms, np.zeros(8), {"on": on})
    assert found.main[0]
    assert not found.absorbed.any()
    assert not found.holes.any()
    assert found.rate == {"on": 0.0}


def test_groups_stay_together_and_one_sided_labels_are_left_out():
    x, z, atoms, on, _ = planted(absorbing=True)
    groups = np.arange(len(x)) // 1500  # two groups: one to fit on, one to count on
    once = on & (groups == 0)
    found = absorption(x, z, atoms, np.zeros(8), {"on": on, "once": once}, groups=groups)
    assert set(found.rate) == {"on"}
    # every absorbed row is of one group, so no more than that group holds
    assert 0 < found.absorbed[1] <= max(on[groups == 0].sum(), on[groups == 1].sum())
