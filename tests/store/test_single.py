"""One more sample gives the very rows that the harvest made of it."""

import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.models import HookedModel, ModelFacts
from monoseme.store import TokenPolicy, harvest
from monoseme.store.single import policy_of, single

from .conftest import TinyViT, preprocess

POLICIES = [
    TokenPolicy(context=24),
    TokenPolicy(context=24, special=True, padding="left"),
    TokenPolicy(context=24, positions=(2, 9)),
    TokenPolicy(context=24, max_norm=1.05),
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_texts_are_those_of_the_store(lm, texts, tmp_path, policy, dtype) -> None:
    store = harvest(lm, texts, "block", tmp_path / "s", tokens=policy, dtype=dtype)
    assert policy_of(store) == policy
    tried = 0
    for name, text in texts:
        if f"{name}@0" not in store.ids or not len(store.sample(f"{name}@0").rows):
            continue
        want, found = store.sample(f"{name}@0"), single(store, lm, text)
        # in bfloat16, a sum in another order may round to the neighbour
        close = 1e-5 if dtype == "float32" else 1e-2
        torch.testing.assert_close(found.rows, want.rows, rtol=close, atol=close)
        assert found.positions.tolist() == want.positions.tolist()
        assert found.grid == want.grid
        assert len(found.pieces) == found.grid[1]
        assert found.windows == sum(other.split("@")[0] == name for other in store.ids)
        tried += 1
    assert tried > 5


@pytest.mark.parametrize("policy", [TokenPolicy(), TokenPolicy(special=True), TokenPolicy(positions=(1, 4))])
def test_pictures_are_those_of_the_store(model, samples, tmp_path, policy) -> None:
    store = harvest(model, samples, "block", tmp_path / "s", tokens=policy)
    for sample in samples[:8]:
        want, found = store.sample(sample.id), single(store, model, sample)
        torch.testing.assert_close(found.rows, want.rows, rtol=1e-5, atol=1e-5)
        assert (found.positions.tolist(), found.grid) == (want.positions.tolist(), want.grid)
        assert found.pieces == ()


@pytest.mark.parametrize("text", ["", "  \n", "\x03"])
def test_a_text_without_rows_is_refused(lm, texts, tmp_path, text) -> None:
    store = harvest(lm, texts, "block", tmp_path / "s", tokens=TokenPolicy(context=24))
    with pytest.raises(UserError) as error:
        single(store, lm, text)
    assert "\n" not in str(error.value)


def test_norms_above_the_limit_are_refused_when_nothing_is_left(lm, texts, tmp_path) -> None:
    store = harvest(lm, texts, "block", tmp_path / "s", tokens=TokenPolicy(context=24, max_norm=1.05))
    store.manifest["tokens"]["norm"]["limit"] = 1e-6
    with pytest.raises(UserError, match=r"^item must have a token [^\n]*$"):
        single(store, lm, "the sea")


def test_another_models_width_is_refused(model, samples, tmp_path) -> None:
    store = harvest(model, samples, "block", tmp_path / "s")
    other = HookedModel(TinyViT(7), ModelFacts("other", patch=4, special_tokens=1, preprocess=preprocess))
    with pytest.raises(UserError, match=r"^model must give rows of width 6[^\n]*$"):
        single(store, other, samples[0])
