"""The verbs together, on a toy model: what a page and a record say of how they came about."""

import pytest
import torch
from torch import nn

import monoseme as ms
from monoseme.core.seeds import generator
from monoseme.records import RunRecord


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    torch_layers = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
    samples = [torch.randn(9, 6, generator=generator(i)) for i in range(30)]
    return ms.harvest(torch_layers, samples, at="0", out=tmp_path_factory.mktemp("api") / "store")


def test_several_featurizers_from_one_pass(store, tmp_path):
    several = {k: ms.featurizers.TopK(store.d_in, 16, k=int(k)) for k in ("1", "2")}
    results = ms.fit(several, store, steps=20, batch_size=32, out=tmp_path / "run")
    alone = ms.fit(ms.featurizers.TopK(store.d_in, 16, k=2), store, steps=20, batch_size=32)
    torch.testing.assert_close(results["2"].featurizer.atoms, alone.featurizer.atoms, rtol=0, atol=0)
    assert ms.load(tmp_path / "run" / "1").gate.k == 1


def test_a_page_says_how_the_run_was_made(store, tmp_path):
    run = tmp_path / "run"
    ms.fit(ms.featurizers.BlockTopK(store.d_in, 8, 2, k=2), store, steps=20, batch_size=32, lr=0.004, out=run)
    ms.page(run)
    facts = RunRecord.load(run).facts
    assert "lr 0.004" in facts["Training"]
    assert "seed 0" in facts["Training"]
    assert "torch" in facts["Versions"]


def test_numbers_carry_where_they_came_from(store):
    outcome = ms.evaluate(ms.featurizers.TopK(store.d_in, 16, k=2, norm="none"), store)["fvu"]
    assert outcome.provenance["hook"] == "0"
    assert outcome.provenance["revision"] == store.manifest["model"]["revision"]


def test_fewer_rows_than_a_batch_still_fit_in_the_manner_of_scikit_learn():
    x = torch.randn(50, 6, generator=generator(0))
    codes = ms.featurizers.TopK(6, 8, k=2).fit(x, steps=5).transform(x)
    assert codes.shape == (50, 8)
    assert codes.nnz <= 100
