"""Which tokens become rows: norms and positions, counted to the last one, for pictures and tensors."""

import pytest
import torch
from torch import nn

from monoseme.core.errors import UserError
from monoseme.store import ActivationStore, Recipe, TokenPolicy, harvest, predict_size

NET = nn.Sequential(nn.Identity())


def clean() -> torch.Tensor:
    return torch.randn(200, 20, 8, generator=torch.Generator().manual_seed(0)) + 1


def with_sinks(share: float = 0.01) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of which some are a thousand times as long as the median, and which those are."""
    x = clean()
    sinks = torch.rand(x.shape[:2], generator=torch.Generator().manual_seed(1)) < share
    x[sinks] *= 1000 * x.norm(dim=-1).median() / x[sinks].norm(dim=-1, keepdim=True)
    return x, sinks


def test_sinks_are_dropped_and_counted(tmp_path) -> None:
    x, sinks = with_sinks()
    store = harvest(NET, x, "0", tmp_path / "s", tokens=TokenPolicy(max_norm=10), shard_rows=500)
    plain = harvest(NET, clean(), "0", tmp_path / "c", shard_rows=500)
    unfiltered = harvest(NET, x, "0", tmp_path / "u", shard_rows=500)
    tokens = store.manifest["tokens"]
    for split in ("train", "validation", "test"):
        numbers = [int(name) for name in store.samples(split)]
        dropped = int(sinks[numbers].sum())
        assert tokens["high_norm"][split] == dropped
        assert store.manifest["rows"][split] == 20 * len(numbers) - dropped == len(store.rows(split))
        total = store.rows(split).moments.mean_square_norm
        assert total == pytest.approx(plain.rows(split).moments.mean_square_norm, rel=0.01)
        assert f"{split} {dropped / (20 * len(numbers)):.2%}" in repr(store)
    assert unfiltered.rows("train").moments.mean_square_norm > 100 * plain.rows("train").moments.mean_square_norm
    assert tokens["norm"]["limit"] == pytest.approx(10 * tokens["norm"]["median"])
    first = [int(name) for name in store.samples("train")][:64]
    assert tokens["norm"]["median"] == pytest.approx(float(x[first].norm(dim=-1).flatten().double().median()), rel=1e-6)
    assert tokens["norm"]["probe_rows"] == 64 * 20
    assert "medians" in repr(store)
    assert "medians" not in repr(plain)


def test_rows_know_their_tokens_when_some_are_gone(tmp_path) -> None:
    x, sinks = with_sinks(0.2)
    x[3], sinks[3] = x[3] * 1e4, True  # a sample without any row
    store = harvest(NET, x, "0", tmp_path / "s", tokens=TokenPolicy(max_norm=10), split=(0.5, 0, 0.5), shard_rows=300)
    for i in range(200):
        sample = store.sample(str(i))
        assert sample.grid == store.grid == (1, 20)
        assert sample.positions.tolist() == (~sinks[i]).nonzero().flatten().tolist()
        torch.testing.assert_close(sample.rows, x[i, ~sinks[i]], rtol=0, atol=0)
    batches = list(store.rows("test").in_order(64))
    keys = torch.cat([20 * batch.sample + batch.position for batch in batches])
    assert torch.equal(keys, keys.sort().values)
    torch.testing.assert_close(store[-1], store.sample(store.samples("test")[-1]).rows[-1], rtol=0, atol=0)


def test_sinks_that_overflow_are_dropped_before_they_are_narrowed(tmp_path) -> None:
    x, _ = with_sinks()
    x *= 100
    with pytest.raises(UserError, match="dtype must hold"):
        harvest(NET, x, "0", tmp_path / "u", dtype="float16")
    store = harvest(NET, x, "0", tmp_path / "s", dtype="float16", tokens=TokenPolicy(max_norm=10))
    assert sum(store.manifest["tokens"]["high_norm"].values()) > 0


def test_size_is_predicted_from_the_probe(tmp_path) -> None:
    x, _ = with_sinks()
    policy = TokenPolicy(max_norm=10)
    predicted = predict_size(NET_MODEL(), x, Recipe("0", tokens=policy))
    store = harvest(NET, x, "0", tmp_path / "s", tokens=policy)
    assert abs(predicted / store.manifest["bytes"]["actual"] - 1) < 0.01


def NET_MODEL():
    from monoseme.models import open_model

    return open_model(NET)


def test_positions_of_a_picture(model, samples, tmp_path) -> None:
    """The grid stays; rows outside are not there."""
    whole = harvest(model, samples, "block", tmp_path / "w")
    part = harvest(model, samples, "block", tmp_path / "p", tokens=TokenPolicy(positions=(2, 5)))
    for name in whole.ids:
        sample = part.sample(name)
        assert (sample.grid, sample.positions.tolist()) == ((2, 3), [2, 3, 4])
        torch.testing.assert_close(sample.rows, whole.sample(name).rows[2:5], rtol=0, atol=0)
        assert sample.mask is None or len(sample.mask) == 6
        assert sample.pieces is None
        assert sample.input_ids is None
    tokens, counted = part.manifest["tokens"], part.manifest["samples"]
    for split, n in counted.items():
        assert [tokens[key][split] for key in ("seen", "special", "outside", "high_norm")] == [7 * n, n, 3 * n, 0]
    with pytest.raises(UserError, match=r"positions must keep some of 0\.\.5"):
        harvest(model, samples, "block", tmp_path / "n", tokens=TokenPolicy(positions=(6, 9)))


def test_a_word_and_its_policy_are_one_request(model, samples, tmp_path) -> None:
    harvest(model, samples, "block", tmp_path / "s", tokens="all")
    ran = []
    harvest(model, samples, "block", tmp_path / "s", tokens=TokenPolicy(special=True), progress=ran.append)
    assert not ran
    with pytest.raises(UserError, match="differs in tokens"):
        harvest(model, samples, "block", tmp_path / "s", tokens=TokenPolicy(special=True, max_norm=20))


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("max_norm", {"max_norm": 1.0}),
        ("max_norm", {"max_norm": float("nan")}),
        ("max_norm", {"max_norm": float("inf")}),
        ("positions", {"positions": (3, 3)}),
        ("positions", {"positions": (-1, 3)}),
        ("context", {"context": 0}),
    ],
)
def test_bad_policies_are_one_line(word, options) -> None:
    with pytest.raises(UserError) as error:
        TokenPolicy(**options)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{word} must")


def test_stores_of_version_1_are_told_what_to_do(model, samples, tmp_path) -> None:
    import json

    harvest(model, samples, "block", tmp_path / "s")
    path = tmp_path / "s" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 1}))
    with pytest.raises(UserError, match=r"be a monoseme-store of version 2; got .* of version 1\. Harvest it anew\."):
        ActivationStore.open(tmp_path / "s")
