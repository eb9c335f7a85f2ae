"""AGOPs from a model's name and data: inputs, pages, cards of a run, and the two commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.cli.conftest import Toy, preprocess
from torch import nn

import monoseme as ms
from monoseme import UserError
from monoseme.api.interacting import agop_record, block_gradients, model_inputs
from monoseme.cli.interaction import parameters
from monoseme.cli.main import main
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.open import REGISTRY
from monoseme.records import RunRecord
from monoseme.store import PictureFolder

X = torch.randn(24, 6, generator=generator(0, "x"))


def network(seed: int = 0) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 3))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator(seed, "net")))
    return net


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    facts = ModelFacts("toy", "random", "A toy.", patch=14, preprocess=preprocess)
    monkeypatch.setitem(REGISTRY, "toy", lambda weights, seed: HookedModel(Toy(seed), facts))
    return "toy"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, stream = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for i in range(12):
        Image.fromarray(stream.integers(0, 256, (84, 84, 3), dtype=np.uint8)).save(folder / f"{i:02d}.png")
    return folder


def test_the_first_result_is_one_call() -> None:
    found = ms.agop(network(), X, "2")
    assert found.matrix.shape == (9, 9)
    one = found.aofe_ratio(population=True)
    assert one.known
    assert one.low is not None
    assert one.provenance["at"] == "2"


def test_a_page_of_one_place_and_of_several(tmp_path: Path) -> None:
    net = network()
    index = ms.agop_page(ms.agop(net, X, "2"), tmp_path / "one", model="a network of mine")
    record = RunRecord.load(tmp_path / "one")
    assert "a network of mine" in index.read_text(encoding="utf-8")
    assert record.outcomes[0].heading == "Energies at 2"
    assert len(record.heats[0].values) == 9
    picture = np.asarray(Image.open(tmp_path / "one" / "pages" / "data" / "heat-0.png"))
    assert picture.shape == (9, 9, 3)
    several = agop_record(ms.agop(net, X, ["0", "2", "4"]))
    assert [row[0] for row in several.comparisons[0].rows] == ["0", "2", "4"]
    assert len(several.curves) == len(several.heats) == 3
    assert ms.agop_page(ms.agop(net, X, ["0", "4"]), tmp_path / "two").exists()


def test_wide_and_unformed_matrices_are_shown_as_far_as_they_can_be(tmp_path: Path) -> None:
    wide = nn.Sequential(nn.Linear(300, 4))
    x = torch.randn(16, 300, generator=generator(1, "wide"))
    record = agop_record(ms.agop(wide, x))
    assert len(record.heats[0].values) == 128
    assert "largest diagonal" in record.heats[0].note
    kept = agop_record(ms.agop(wide, x, how=ms.interaction.How(memory=1 << 20)))
    assert not kept.heats
    assert kept.outcomes[0].outcomes[2].known
    assert "not known" in kept.comparisons[-1].note
    assert ms.agop_page(ms.agop(wide, x, how=ms.interaction.How(memory=1 << 20)), tmp_path).exists()


def test_inputs_are_spread_over_the_data_and_windows_have_one_length(pictures: Path) -> None:
    facts = ModelFacts("toy", "random", "A toy.", patch=14, preprocess=preprocess)
    model = HookedModel(Toy(0), facts)
    made = model_inputs(model, PictureFolder(pictures, 84), 4)
    assert isinstance(made, torch.Tensor)
    assert made.shape == (4, 3, 84, 84)
    with pytest.raises(UserError, match="samples"):
        model_inputs(model, PictureFolder(pictures), 0)


def test_blocks_of_a_fit_on_its_cards(tmp_path: Path) -> None:
    model, rows = HookedModel(network(), ModelFacts("mine", "random", "A network.")), X.repeat(8, 1)
    store = ms.harvest(model, rows, at="1", out=tmp_path / "store")
    run = ms.fit(ms.featurizers.TopK(store.d_in, 12, k=3), store, out=tmp_path / "run", steps=5, batch_size=32)
    energies = block_gradients(model, rows, "1", run.featurizer, 24)
    ms.page(tmp_path / "run", gradients=energies)
    record = RunRecord.load(tmp_path / "run")
    for card in record.cards:
        found = {o.name: o for o in card.outcomes}
        assert len(found) == len(card.outcomes)
        assert found["sensitivity"].value == pytest.approx(energies.sensitivity[card.block])
    assert record.outcomes[-1].outcomes[0].name == "off_block"
    other = ms.featurizers.TopK(store.d_in, 7, k=3)
    with pytest.raises(UserError, match="gradients"):
        ms.page(other, store, out=tmp_path / "other", gradients=energies)


def test_commands(toy: str, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "agop"
    asked = ["interaction", "agop", toy, str(pictures), "--at", "blocks.3:out", "blocks.9:out", "--samples", "9"]
    assert main([*asked, "--size", "84", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "blocks.3:out: width 12, 9 samples" in said
    assert "rotation_baseline" in said
    assert (out / "pages" / "index.html").exists()
    assert main(["interaction", "agop", toy, str(pictures)]) == 2
    assert "--at" in capsys.readouterr().err
    assert main(["interaction", "shapes", "--family", "gpt", "--budget", "3M"]) == 0
    said = capsys.readouterr().out
    assert "2,970,000" in said
    assert main(["interaction", "shapes", "--budget", "1k"]) == 2
    assert "3,288" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "value"), [("60000", 6e4), ("60k", 6e4), ("1.3M", 1.3e6), ("1_000", 1e3), ("2b", 2e9)]
)
def test_budgets_as_people_write_them(text: str, value: float) -> None:
    assert parameters(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "many", "-3M", "3MM", "0"])
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="--budget"):
        parameters(text)
