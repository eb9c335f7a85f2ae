"""Cards show what the codes say: checked against dense codes, and independent of a block's rotation."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows, Batch
from monoseme.core.seeds import generator
from monoseme.evaluation import gallery
from monoseme.evaluation.block_numbers import NOT_COMPUTED
from monoseme.evaluation.dimension import RANKS
from monoseme.evaluation.place import principal_frame

GRIDS = {"cat": (2, 3), "dog": (1, 4), "owl": (3, 3)}


@dataclass
class Picture:
    grid: tuple[int, int]


class Tokens(ArrayRows):
    """Rows of pictures, token by token."""

    def __init__(self, x, sample, position):
        super().__init__(x, sample)
        self._position = position

    def in_order(self, size):
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield Batch(self.x[part], self._sample[part], self._position[part])


class Shelf:
    """The least a store must be."""

    def __init__(self, x, grids=GRIDS):
        self.grids = grids
        counts = [6, 4, 9]
        # held-out samples 2, 3 and 5 of six: Batch.sample counts over all splits
        sample = torch.repeat_interleave(torch.tensor([2, 3, 5]), torch.tensor(counts))
        self._rows = Tokens(x, sample, torch.cat([torch.arange(count) for count in counts]))

    def rows(self, split):
        assert split == "test"
        return self._rows

    @property
    def ids(self):
        cat, dog, owl = self.grids
        return ["train a", "train b", cat, dog, "train c", owl]

    def sample(self, id):
        return Picture(self.grids[id])


@pytest.fixture(scope="module")
def x():
    return torch.randn(19, 8, generator=generator(0, "gallery"), dtype=torch.float64)


@pytest.fixture(scope="module")
def featurizer(known):
    atoms = torch.randn(6, 4, 8, generator=generator(1, "gallery"), dtype=torch.float64)
    atoms[5] = 0  # never fires
    return known(atoms, k=2)


@pytest.fixture(scope="module")
def cards(featurizer, x):
    return gallery(featurizer, Shelf(x), shown=2, cloud=5)


def numbers(card):
    return {outcome.name: outcome for outcome in card.outcomes}


def test_numbers_equal_those_of_the_dense_codes(cards, featurizer, x):
    dense = featurizer.encode(x).to_dense()
    contributions = torch.einsum("ngb,gbd->ngd", dense, featurizer.atoms)
    fires, presence = (dense != 0).any(2).double(), dense.norm(dim=2)
    for g, card in enumerate(cards):
        got = numbers(card)
        assert (card.block, card.block_size) == (g, 4)
        assert got["density"].value == pytest.approx(float(fires[:, g].mean()))
        share = contributions[:, g].square().sum() / contributions.square().sum()
        assert got["energy_share"].value == pytest.approx(float(share))
        if g == 5:
            assert got["mean_presence"].value is None
            assert got["max_presence"].note == "it never fires"
            continue
        assert got["mean_presence"].value == pytest.approx(float(presence[:, g].sum() / fires[:, g].sum()))
        assert got["max_presence"].value == pytest.approx(float(presence[:, g].max()))
        pictures = [fires[:6, g].any(), fires[6:10, g].any(), fires[10:, g].any()]
        assert got["reach"].value == pytest.approx(sum(map(bool, pictures)) / 3)
        assert got["density"].low is not None
        assert got["density"].n == 3
    assert sum(float(numbers(card)["energy_share"].value or 0) for card in cards) == pytest.approx(1)


def test_rank_and_smoothness_are_those_of_the_dense_codes(cards, featurizer, x):
    dense = featurizer.encode(x).to_dense()
    starts = {"cat": 0, "dog": 6, "owl": 10}
    for card in cards:
        named = {o.name: o for o in card.outcomes}
        z = dense[:, card.block]
        fires = (z != 0).any(1)
        if int(fires.sum()) >= 8:
            made = (z[fires] - z[fires].mean(0)) @ featurizer.atoms[card.block]
            values = np.linalg.svd(made.numpy(), compute_uv=False)[:4] ** 2
            share = values / values.sum()
            effective = float(np.exp(-(share * np.log(share)).sum()))
            assert named["effective_rank"].value == pytest.approx(effective)
            assert named["utilisation"].value == pytest.approx(effective / 4)
            assert named["stable_rank_codes"].value == pytest.approx(1 / share[0])
            assert named["stable_rank_covariance"].value == pytest.approx(np.square(share).sum() / share[0] ** 2)
            assert named["participation_ratio"].value == pytest.approx(1 / np.square(share).sum())
        else:
            assert {named[name].value for name in RANKS} == {None}
            assert "8 are needed" in named["utilisation"].note
        energies = []
        for name, (height, width) in GRIDS.items():
            part = z[starts[name] : starts[name] + height * width].norm(dim=1).reshape(height, width).numpy()
            if part.any():
                part = part / np.linalg.norm(part)
                energies.append(np.square(np.diff(part, axis=0)).sum() + np.square(np.diff(part, axis=1)).sum())
        if energies:
            assert named["smoothness"].value == pytest.approx(np.mean(energies))
        else:
            assert named["smoothness"].value is None


def test_rooms_not_built_yet_say_so(cards):
    for name, _ in NOT_COMPUTED:
        assert numbers(cards[0])[name].value is None
        assert str(numbers(cards[0])[name]) == "not known (not computed)"


def test_maps_hold_presence_and_place_of_every_token(cards, featurizer, x):
    presence = featurizer.encode(x).to_dense().norm(dim=2)
    parts = {"cat": slice(0, 6), "dog": slice(6, 10), "owl": slice(10, 19)}
    for card in cards[:5]:
        for shown in card.shown:
            expected = presence[parts[shown.sample], card.block].numpy()
            np.testing.assert_allclose(shown.presence, expected, rtol=1e-6)
            assert shown.grid == GRIDS[shown.sample]
            assert shown.presence.shape == (shown.grid[0] * shown.grid[1],)
            assert (shown.place[shown.presence == 0] == 0).all()
            assert (shown.place[shown.presence > 0] != 0).any(1).all()


def test_the_strongest_samples_come_first(cards, featurizer, x):
    presence = featurizer.encode(x).to_dense().norm(dim=2)
    for card in cards[:5]:
        peaks = {"cat": presence[:6], "dog": presence[6:10], "owl": presence[10:]}
        order = sorted(peaks, key=lambda name: -float(peaks[name][:, card.block].max()))
        order = [name for name in order if peaks[name][:, card.block].max() > 0]
        assert [shown.sample for shown in card.shown] == order[:2]


def test_clouds_are_small_and_drawn_from_the_firing_rows(cards, featurizer, x):
    full = gallery(featurizer, Shelf(x))
    for small, all_of_it in zip(cards, full, strict=True):
        fires = int((featurizer.encode(x).to_dense()[:, small.block] != 0).any(1).sum())
        assert len(all_of_it.cloud) == fires
        assert len(small.cloud) == min(fires, 5)
        assert {tuple(point) for point in small.cloud} <= {tuple(point) for point in all_of_it.cloud}


def test_a_dead_block_has_an_empty_card(cards):
    assert cards[5].shown == ()
    assert cards[5].cloud.shape == (0, 3)
    assert numbers(cards[5])["density"].value == 0


def test_rotating_a_block_changes_nothing(known, x):
    draw = generator(2, "rotate")
    atoms = torch.randn(4, 5, 8, generator=draw, dtype=torch.float64)
    frames = torch.linalg.qr(atoms.mT)[0].mT
    turn = torch.linalg.qr(torch.randn(4, 5, 5, generator=draw, dtype=torch.float64))[0]
    plain, turned = (gallery(known(a.contiguous(), k=2), Shelf(x)) for a in (frames, turn @ frames))
    for a, b in zip(plain, turned, strict=True):
        np.testing.assert_allclose(b.cloud, a.cloud, atol=1e-6)
        assert len(a.shown) == len(b.shown) > 0
        for left, right in zip(a.shown, b.shown, strict=True):
            np.testing.assert_allclose(right.place, left.place, atol=1e-6)
            np.testing.assert_allclose(right.presence, left.presence, atol=1e-6)


@pytest.mark.parametrize("b", [1, 2, 3, 5])
def test_places_are_the_first_principal_directions_of_the_contributions(b):
    draw = generator(b, "place")
    z = torch.randn(40, b, generator=draw, dtype=torch.float64).numpy()
    atoms = torch.randn(b, 9, generator=draw, dtype=torch.float64).numpy()
    place = z @ principal_frame(z, atoms)
    left, size, right = np.linalg.svd(z @ atoms, full_matrices=False)
    expected = left[:, : min(b, 3)] * size[: min(b, 3)]
    flip = np.sign(right[np.arange(len(right)), np.abs(right).argmax(1)])[: min(b, 3)]
    np.testing.assert_allclose(place, expected * flip, atol=1e-9)


def test_a_block_that_fires_once_still_has_a_place():
    place = np.array([[0.0, 2.0]]) @ principal_frame(np.array([[0.0, 2.0]]), np.eye(2, 5))
    np.testing.assert_allclose(np.abs(place), [[2.0, 0.0]], atol=1e-12)


def test_only_the_wanted_blocks_and_in_their_order(cards, featurizer, x):
    some = gallery(featurizer, Shelf(x), blocks=[3, 0], shown=2, cloud=5)
    assert [card.block for card in some] == [3, 0]
    for card in some:
        assert numbers(card)["energy_share"].value == pytest.approx(numbers(cards[card.block])["energy_share"].value)
        np.testing.assert_array_equal(card.cloud, cards[card.block].cloud)


def test_bad_input_is_refused_in_one_line(featurizer, x):
    cases = [
        (lambda: gallery(featurizer, Shelf(x), blocks=[6]), "blocks must lie in 0..5; got 6"),
        (lambda: gallery(featurizer, Shelf(x[:, :5])), "data must have d_in = 8"),
        (lambda: gallery(featurizer, Shelf(x, {**GRIDS, "dog": (1, 3)})), "data must keep every token on its sample's"),
    ]
    for call, start in cases:
        with pytest.raises(UserError) as caught:
            call()
        assert str(caught.value).startswith(start)
        assert "\n" not in str(caught.value)
