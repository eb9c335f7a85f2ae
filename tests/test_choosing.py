"""Featurizers on one budget, and what the model loses by each."""

from pathlib import Path

import pytest
import torch
from torch import nn

import monoseme as ms
from monoseme.core.seeds import generator
from monoseme.records import RunRecord

D = 8


class Net(nn.Module):
    """Tokens in, one vector a token out; the hook `mix` is half-way."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.out = nn.Linear(D, D), nn.Linear(D, 3)
        for parameter in self.parameters():
            nn.init.normal_(parameter, generator=generator(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.mix(x).relu())


def data(n: int = 40) -> torch.Tensor:
    return torch.randn(n, 6, D, generator=generator(0))


@pytest.fixture
def store(tmp_path: Path) -> ms.ActivationStore:
    return ms.harvest(Net(), data(), at="mix", out=tmp_path / "store")


OPTIONS = {"width": 32, "active": 4, "block_size": 2, "rates": (1e-3, 1e-2), "steps": 30, "batch_size": 64}


def test_everyone_has_the_same_budget_and_the_better_of_its_rates(store: ms.ActivationStore, tmp_path: Path) -> None:
    choices = ms.choose(store, tmp_path / "out", model=ms.open_model(Net()), source=data(), **OPTIONS)
    assert [choice.name for choice in choices][:2] == ["TopK, nonneg", "TopK, signed"]
    for choice in choices:
        assert choice.featurizer.n_blocks * choice.featurizer.block_size == 32
        assert choice.tried[choice.lr] == min(fvu for fvu in choice.tried.values() if fvu is not None)
        assert {"fvu", "l0", "output_recovered"} <= set(choice.numbers)
        again = ms.evaluate(choice.featurizer, store)
        assert again["fvu"].value == pytest.approx(choice.numbers["fvu"].value)
    record = RunRecord.load(tmp_path / "out")
    assert "at the edge of those tried" in record.notes[-1]  # of two rates, one is always at the edge
    table = record.comparisons[0]
    assert len(table.rows) == len(choices)
    assert (tmp_path / "out" / "pages" / "index.html").exists()


def test_a_second_call_measures_nothing_anew(store: ms.ActivationStore, tmp_path: Path, monkeypatch) -> None:
    first = ms.choose(store, tmp_path / "out", **OPTIONS)
    calls = []
    monkeypatch.setattr("monoseme.featurizers.objective.Objective.loss", lambda *a: calls.append(a))
    second = ms.choose(store, tmp_path / "out", **OPTIONS)
    assert not calls
    assert [c.numbers.to_json() for c in first] == [c.numbers.to_json() for c in second]


def test_fitted_anew_with_other_options_nothing_is_remembered(store: ms.ActivationStore, tmp_path: Path) -> None:
    ms.choose(store, tmp_path / "out", **OPTIONS)
    for choice in ms.choose(store, tmp_path / "out", **{**OPTIONS, "steps": 60, "resume": False}):
        assert choice.numbers.to_json() == ms.evaluate(choice.featurizer, store).to_json()


def test_what_the_splice_lacks_is_said_before_anything_is_fitted(store: ms.ActivationStore, tmp_path: Path) -> None:
    model = ms.open_model(Net())
    for name, given in (("source", {}), ("source", {"source": data(3)}), ("spliced", {"source": data(), "spliced": 0})):
        with pytest.raises(ms.UserError, match=rf"^{name} must [^\n]*$"):
            ms.choose(store, tmp_path / "out", model=model, **given, **OPTIONS)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "given"), [("rates", (1e-3, 1.00000001e-3)), ("rates", ()), ("block_size", 0), ("width", 0)]
)
def test_bad_budgets_are_refused(store: ms.ActivationStore, tmp_path: Path, name: str, given: object) -> None:
    with pytest.raises(ms.UserError, match=rf"^{name} must [^\n]*$"):
        ms.choose(store, tmp_path / "out", **{**OPTIONS, name: given})


def test_splice_refuses_other_pictures_under_the_same_names(store: ms.ActivationStore) -> None:
    f = ms.featurizers.TopK(D, 16, k=2)
    other = data().flip(0)
    for source in (other, data()[:, :3]):
        with pytest.raises(ms.UserError, match=r"^source must hold the pictures that were harvested[^\n]*$"):
            ms.evaluate(f, store, model=ms.open_model(Net()), source=source)


def test_a_width_that_blocks_do_not_divide_is_refused(store: ms.ActivationStore, tmp_path: Path) -> None:
    with pytest.raises(ms.UserError, match=r"^width must be a multiple of the block size, 2; got 33\. [^\n]*$"):
        ms.choose(store, tmp_path / "out", **{**OPTIONS, "width": 33})


def test_splice_of_a_featurizer_that_keeps_everything(store: ms.ActivationStore) -> None:
    f = ms.featurizers.BlockTopK(D, 1, D, k=1, norm="none", constraint="atoms")
    with torch.no_grad():
        f.dictionary.weight.copy_(torch.eye(D))
        f.encoder.start(f.dictionary.atoms, 1.0)
    numbers = ms.evaluate(f, store, model=ms.open_model(Net()), source=data())
    assert numbers["output_recovered"].value == pytest.approx(1, abs=1e-6)


def test_splice_refuses_another_model_missing_pictures_and_rows(store: ms.ActivationStore) -> None:
    f = ms.featurizers.TopK(D, 16, k=2)
    other = Net()
    with torch.no_grad():
        other.out.weight += 1
    for bad, kwargs in (
        ("model", {"data": store, "model": ms.open_model(other), "source": data()}),
        ("source", {"data": store, "model": ms.open_model(Net())}),
        ("source", {"data": store, "model": ms.open_model(Net()), "source": data(3)}),
        ("data", {"data": data(4)[:, 0], "model": ms.open_model(Net())}),
    ):
        with pytest.raises(ms.UserError, match=rf"^{bad} must [^\n]*$"):
            ms.evaluate(f, **kwargs)


def test_intervals_of_a_text_resample_documents_on_the_page_and_on_its_cards(tmp_path: Path) -> None:
    from tests.store.conftest import Bytes, TinyLM

    from monoseme.evaluation import gallery
    from monoseme.models import HookedModel, ModelFacts
    from monoseme.store import Texts, TokenPolicy

    lm = HookedModel(TinyLM(), ModelFacts("tiny lm", tokenizer=Bytes(), context=64))
    documents = [(f"d{i}", f"{i} one document of several windows, alike as its words are. " * 3) for i in range(10)]
    texts = ms.harvest(lm, Texts(documents), at="block", out=tmp_path / "s", tokens=TokenPolicy(context=32))
    f = ms.featurizers.TopK(texts.d_in, 8, k=2)
    ms.fit(f, texts, steps=20, batch_size=64)
    assert len(texts.samples("test")) > 1  # windows, all of one document
    assert (ms.evaluate(f, texts)["fvu"].low, ms.evaluate(f, texts)["fvu"].n) == (None, 1)
    numbers = {o.name: o for card in gallery(f, texts) for o in card.outcomes if o.known}
    assert (numbers["density"].low, numbers["density"].n, numbers["density"].n_unit) == (None, 1, "groups of samples")
