"""Probes against loops and on planted concepts: what a block tells of a class, and what it must not be credited for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from tests.composition.refusals import check_refused

from monoseme.core.code import Code
from monoseme.core.seeds import generator
from monoseme.evaluation.one_block import one_block_r2
from monoseme.evaluation.one_concept import best_threshold, f1, one_concept_f1, one_concept_f1s, sample_scores
from monoseme.evaluation.probe_recovery import alignment, probe_recovery
from monoseme.evaluation.probing import code_matrix, iou, pool, probe


def planted(samples: int = 160, rows: int = 9, G: int = 12, b: int = 3, seed: int = 0) -> Any:
    """Codes in which block 4 fires everywhere, and turns one way in samples of the class: its size tells nothing."""
    stream = np.random.default_rng(seed)
    labels = stream.random(samples) < 0.4
    dense = np.where(stream.random((samples * rows, G, 1)) < 0.3, stream.normal(size=(samples * rows, G, b)), 0)
    sample = np.repeat(np.arange(samples), rows)
    angle = stream.normal(0, 0.4, samples * rows) + np.where(labels[sample], 0.0, np.pi)
    dense[:, 4] = 0
    dense[:, 4, 0], dense[:, 4, 1] = 2 * np.cos(angle), 2 * np.sin(angle)
    return Code.from_dense(torch.from_numpy(dense)), sample, labels, np.arange(samples) % 3 > 0


def test_the_matrix_and_its_pooling_are_those_of_the_dense_codes() -> None:
    code, sample, *_ = planted(samples=7)
    matrix, dense = code_matrix(code), code.to_dense().reshape(63, -1).numpy()
    np.testing.assert_allclose(matrix.toarray(), dense)
    pooled, names = pool(matrix, sample)
    by_hand = np.stack([dense[sample == s][np.abs(dense[sample == s]).argmax(0), np.arange(36)] for s in range(7)])
    np.testing.assert_allclose(pooled.toarray(), by_hand)
    np.testing.assert_allclose(pool(dense, sample)[0], by_hand)
    np.testing.assert_array_equal(names, np.arange(7))


def test_the_planted_block_is_found_by_its_direction() -> None:
    code, sample, labels, train = planted()
    found = one_concept_f1(code_matrix(code), sample, labels, train, block_size=3)
    assert found.units == (4,)
    assert found.f1.value is not None
    assert found.f1.value > 0.95
    assert found.chance < 0.75
    assert found.f1.low is not None
    assert found.f1.low > found.chance


def test_permuted_labels_are_near_chance() -> None:
    code, sample, labels, train = planted()
    shuffled = np.random.default_rng(1).permutation(labels)
    found = one_concept_f1(code_matrix(code), sample, shuffled, train, block_size=3)
    assert found.f1.low is not None
    assert found.f1.low < found.chance
    assert found.train > (found.f1.value or 0)  # chosen there


def test_an_sae_is_given_as_many_latents_as_a_block_has_dimensions() -> None:
    stream = np.random.default_rng(0)
    labels, train = stream.random(300) < 0.5, np.arange(300) % 2 == 0
    z = np.where(stream.random((300, 8)) < 0.1, 1.0, 0.0)
    z[:, 2], z[:, 5] = labels & (stream.random(300) < 0.6), labels & (stream.random(300) < 0.6)
    one = one_concept_f1(csr_array(z), np.arange(300), labels, train, block_size=1)
    two = one_concept_f1(csr_array(z), np.arange(300), labels, train, block_size=1, latents=2)
    assert set(two.units) == {2, 5}
    assert (two.f1.value or 0) > (one.f1.value or 0) + 0.05
    both = one_concept_f1s(csr_array(z), np.arange(300), labels, train, (1, 2), block_size=1)
    assert [found.f1 for found in both.values()] == [one.f1, two.f1]


def test_thresholds_are_those_of_a_loop() -> None:
    for seed in range(20):
        stream = np.random.default_rng(seed)
        scores, truth = np.round(stream.normal(size=30), 1), stream.random(30) < 0.4
        truth[0] = True
        cut, value = best_threshold(scores, truth)
        assert f1(truth, scores > cut) == pytest.approx(value)
        everywhere = [f1(truth, scores > c) for c in np.concatenate([[scores.min() - 1], np.unique(scores)])]
        assert value == pytest.approx(max(everywhere))
    np.testing.assert_allclose(sample_scores(np.array([1.0, 3, -2]), np.array([0, 0, 2]), 4), [3, 0, -2, 0])


def test_nothing_that_fires_is_not_known() -> None:
    labels = np.arange(8) % 2 == 0
    found = one_concept_f1(csr_array((8, 6)), np.arange(8), labels, np.arange(8) < 4, block_size=3)
    assert found.f1.value is None


def classes(seed: int = 0, n: int = 400) -> Any:
    stream = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n // 4), 4)
    y = stream.integers(0, 3, n // 4)[groups]
    x = stream.normal(size=(n, 20))
    x[:, :3] += 3 * np.eye(3)[y]
    return x, np.array(["a", "b", "c"])[y], groups


def test_classes_are_read_off_dense_and_sparse_alike() -> None:
    x, y, groups = classes()
    dense, sparse = probe(x, y, groups), probe(csr_array(x), y, groups)
    assert dense.score.value == sparse.score.value
    assert (dense.score.value or 0) > 0.85
    assert dense.balanced is not None
    assert (dense.balanced.value or 0) > 0.8
    assert dense.score.n == 30
    assert dense.baseline < 0.6
    assert dense.weights.shape == (3, 20)
    np.testing.assert_allclose(probe(1000 * x, y, groups).score.value or 0, dense.score.value or 0)


def test_groups_are_never_torn_apart() -> None:
    """Labels are by group and nothing else: a probe that sees other rows of a group could learn it by heart."""
    stream = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 10)
    marks = np.eye(60)[groups] + 0.01 * stream.normal(size=(600, 60))
    y = (stream.random(60) < 0.5)[groups]
    found = probe(marks, y, groups)
    assert found.score.low is not None
    assert found.score.low < 0.6
    leaky = probe(marks, y, np.arange(600))
    assert (leaky.score.value or 0) > 0.95


def test_values_are_read_off_and_noise_is_not() -> None:
    stream = np.random.default_rng(0)
    x, groups = stream.normal(size=(300, 10)), np.arange(300) // 3
    y = x @ stream.normal(size=10) + 0.1 * stream.normal(size=300)
    found = probe(x, y, groups, task="values")
    assert (found.score.value or 0) > 0.98
    assert found.score.low is not None
    assert found.score.low <= (found.score.value or 0)
    noise = probe(x, stream.normal(size=300), groups, task="values")
    assert noise.strength >= 10  # the penalty is chosen inside the training part
    assert (noise.score.value or 0) < 0.1


def test_the_test_part_may_be_given_and_what_is_said_of_it_comes_back() -> None:
    x, y, groups = classes()
    held = groups % 3 == 0
    found = probe(x, y, groups, held=held)
    np.testing.assert_array_equal(found.held, np.flatnonzero(held))
    assert float((found.predicted == y[held]).mean()) == found.score.value
    np.testing.assert_allclose(found.scale, np.sqrt(np.square(x[~held]).mean(0)))
    values = probe(x, x[:, 5] - 2 * x[:, 6], groups, task="values", held=held)
    np.testing.assert_allclose(values.weights[0] / values.scale, np.eye(20)[5] - 2 * np.eye(20)[6], atol=1e-3)
    np.testing.assert_allclose(values.predicted, (x[:, 5] - 2 * x[:, 6])[held], atol=0.01)


def test_intersection_over_union_is_of_all_rows() -> None:
    truth, said = np.array([1, 1, 0, 0, 1], dtype=bool), np.array([1, 0, 1, 0, 1], dtype=bool)
    found = iou(truth, said, np.array([0, 0, 1, 1, 2]))
    assert found.value == 0.5
    assert found.n == 3
    assert iou(truth & False, said & False, np.arange(5)).value == 0


def ring(b: int) -> Any:
    """Codes of 30 scenes under 12 lights: block 5 holds the light on a ring, and each scene shifts it a little."""
    stream = np.random.default_rng(b)
    scene, angle = np.repeat(np.arange(30), 12), np.tile(2 * np.pi * np.arange(12) / 12, 30)
    target = np.stack([np.cos(angle), np.sin(angle)], 1)
    codes = stream.normal(size=(360, 24 // b, b))
    place = codes.reshape(360, 24)  # a view
    place[:, 15:17] = target + 0.1 * stream.normal(size=(30, 2))[scene]
    return codes, target, scene, scene % 3 == 0


def test_one_block_holds_an_angle_and_one_latent_half_of_it() -> None:
    found = one_block_r2(*ring(3))
    assert found.units == (5,)
    assert found.r2.low is not None
    assert found.r2.low > 0.9
    assert found.r2.n == 10
    codes, *rest = ring(1)
    half = one_block_r2(codes, *rest)
    assert half.r2.value == pytest.approx(0.5, abs=0.1)
    pair = one_block_r2(codes, *rest, latents=2)
    assert set(pair.units) == {15, 16}
    assert pair.train > 0.9


def test_one_block_is_what_least_squares_gives() -> None:
    codes, target, scene, held = ring(3)
    found = one_block_r2(codes, target, scene, held)
    design = np.concatenate([codes[:, 5], np.ones((360, 1))], 1)
    weights = np.linalg.lstsq(design[~held], target[~held], rcond=None)[0]
    lost = np.square(design[held] @ weights - target[held]).sum()
    whole = np.square(target[held] - target[~held].mean(0)).sum()
    assert found.r2.value == pytest.approx(1 - lost / whole, abs=1e-3)


def test_blocks_that_never_fire_and_lights_that_were_permuted_tell_nothing() -> None:
    codes, target, scene, held = ring(3)
    dead = one_block_r2(0 * codes, target, scene, held)
    assert dead.r2.value == pytest.approx(0, abs=1e-6)
    permuted = target[np.random.default_rng(0).permutation(360)]
    assert (one_block_r2(codes, permuted, scene, held).r2.value or 0) < 0.1


def test_a_direction_in_a_block_is_recovered() -> None:
    draw = torch.randn(30, 3, 40, generator=generator(0, "atoms"), dtype=torch.float64)
    inside = draw[7, 0] - 2 * draw[7, 2]
    found = probe_recovery(draw, torch.stack([inside, inside * -5]), rows=draw[:5, 0])
    assert found.best.tolist() == [7, 7]
    np.testing.assert_allclose(found.each, 1.0)
    assert found.floor.value is not None
    assert 0.3 < found.floor.value < 0.7
    assert found.ceiling is not None
    assert found.ceiling.value == pytest.approx(1.0)


def test_alignment_is_that_of_projections() -> None:
    atoms = torch.randn(6, 2, 9, generator=generator(0, "atoms"), dtype=torch.float64)
    atoms[3, 1] = 2 * atoms[3, 0]  # a block of one direction only
    w = torch.randn(5, 9, generator=generator(1, "w"), dtype=torch.float64)
    best, each = alignment(atoms, w)
    for i in range(5):
        values = [float((torch.linalg.pinv(a) @ a @ w[i]).norm() / w[i].norm()) for a in atoms]
        assert each[i] == pytest.approx(max(values))
        assert best[i] == int(np.argmax(values))


CODE, SAMPLE, LABELS, TRAIN = planted(20)
CODES, TARGET, SCENE, HELD = ring(3)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: one_concept_f1(code_matrix(CODE), SAMPLE[:9], LABELS, TRAIN, block_size=3), "matrix"),
        (lambda: one_concept_f1(code_matrix(CODE), SAMPLE + 1, LABELS, TRAIN, block_size=3), "sample"),
        (lambda: one_concept_f1(code_matrix(CODE), SAMPLE, LABELS, TRAIN, block_size=3, latents=2), "latents"),
        (lambda: one_concept_f1(code_matrix(CODE), SAMPLE, LABELS & TRAIN, TRAIN, block_size=3), "labels"),
        (lambda: probe(np.ones((8, 2)), np.arange(7), np.arange(8)), "inputs"),
        (lambda: probe(np.ones((8, 2)), np.arange(8), np.arange(8), task="depth"), "task"),
        (lambda: probe(np.ones((8, 2)), np.arange(8), np.arange(8), test=1.0), "test"),
        (lambda: probe(np.ones((8, 2)), np.arange(8), np.arange(8) // 4), "groups"),
        (lambda: probe(np.ones((8, 2)), np.zeros(8), np.arange(8)), "targets"),
        (lambda: probe(np.ones((8, 2)), np.ones(8), np.arange(8), task="values"), "targets"),
        (lambda: probe(np.ones((8, 2)), np.arange(8), np.arange(8), held=np.ones(8, dtype=bool)), "held"),
        (lambda: probe(np.ones((8, 2)), np.arange(8), np.arange(8) // 2, held=np.arange(8) < 3), "held"),
        (lambda: one_block_r2(CODES, TARGET, SCENE, HELD, latents=2), "latents"),
        (lambda: one_block_r2(CODES, TARGET, SCENE, np.zeros(360, dtype=bool)), "targets"),
        (lambda: one_block_r2(CODES, TARGET, np.zeros(9, dtype=np.int64), HELD), "codes"),
        (lambda: alignment(torch.ones(2, 1, 4), torch.ones(1, 3)), "directions"),
        (lambda: alignment(torch.ones(2, 1, 4), torch.zeros(1, 4)), "directions"),
    ],
)
def test_wrong_input(call: Any, word: str) -> None:
    check_refused(call, word)
