"""`audit` in the API: pictures and text, what is on its page, nothing done twice, and a killed one that goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.store.conftest import Bytes, TinyLM, TinyViT, make_samples, preprocess
from torch import nn

import monoseme as ms
from monoseme.api.defaults import default_steps, middle_hook, shape
from monoseme.api.remembering import Remembered
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, ModelFacts
from monoseme.records import RunRecord

SMALL = {"at": "block", "n_blocks": 8, "block_size": 2, "k": 2, "steps": 12, "batch_size": 32, "spliced": 6}
WORDS = ["the", "blue", "boat", "sails", "on", "a", "grey", "sea", "while", "nine", "gulls", "look"]


def language_model() -> HookedModel:
    return HookedModel(TinyLM(), ModelFacts("tiny lm", tokenizer=Bytes(), context=64))


def picture_model(caveat: str = "") -> HookedModel:
    return HookedModel(TinyViT(), ModelFacts("tiny", caveat=caveat, patch=4, special_tokens=1, preprocess=preprocess))


def documents() -> list[tuple[str, str]]:
    stream = np.random.default_rng(0)
    return [(f"d{i}", "\n".join(stream.choice(WORDS, 8))) for i in range(24)]


def options(**more: Any) -> dict[str, Any]:
    from monoseme.store import TokenPolicy

    return {**SMALL, "tokens": TokenPolicy(context=24), **more}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> tuple[ms.Audit, Path]:
    out = tmp_path_factory.mktemp("audit") / "text"
    return ms.audit(language_model(), documents(), out, **options()), out


def headings(record: RunRecord) -> list[str]:
    return [group.heading.split(":")[0].split(",")[0] for group in record.outcomes]


def test_the_page_of_a_text_has_every_group_of_numbers_and_a_card_a_block(text: tuple[ms.Audit, Path]) -> None:
    result, out = text
    record = RunRecord.load(out)
    assert headings(record)[0] == "Fidelity"
    assert headings(record)[1:] == [
        *("What the model loses when reconstructions are put back", "Stability"),
        *("What the network downstream does with the parts", "Tokens", "Not known"),
    ]
    assert result["fvu"].known
    assert result["kl_recovered"].known
    assert 0 < (result["stability"].value or 0) <= 1
    assert result["firing_agreement"].known
    assert [card.block for card in record.cards] == list(range(8))
    assert any(view.tokens for view in record.samples.values())
    assert all(not o.known and o.note.startswith("not computed: ") for o in record.outcomes[-1].outcomes)
    assert not any("room of" in o.note or "AGOP" in o.note for o in record.outcomes[-1].outcomes)
    assert [o.name for o in record.outcomes[3].outcomes] == ["off_block_ratio", "rotated_ratio"]
    for card in record.cards:
        drawn = {o.name: o for o in card.outcomes}
        assert len(drawn) == len(card.outcomes)
        assert drawn["sensitivity"].known
        assert drawn["interaction"].known
    assert "training mean" in record.outcomes[1].note  # FVU and the splice have different baselines
    (seeds,) = record.comparisons
    assert [row[0] for row in seeds.rows] == ["first (shown here)", "second"]
    assert "loss" in [curve.name for curve in record.curves]
    assert all(list(curve.x) == sorted(set(curve.x)) for curve in record.curves)  # one fit, not both interleaved
    assert result.page.read_text(encoding="utf-8").count("Stability: does another seed") == 1


def test_block_numbers_on_cards_are_those_of_stability(text: tuple[ms.Audit, Path]) -> None:
    from monoseme.evaluation import stability

    result, out = text
    other = ms.load(out / "run" / "second-seed")
    rows = next(result.store.rows("test").in_order(len(result.store))).x
    codes = [f.encode(rows) for f in (result.featurizer, other)]
    (pair,) = stability([result.featurizer, other], codes=codes).pairs
    for card in RunRecord.load(out).cards:
        found = next(o for o in card.outcomes if o.name == "stability")
        if np.isnan(pair.similarity[card.block]):
            assert not found.known
            assert found.note
        else:
            assert found.value == pytest.approx(pair.similarity[card.block])
            assert f"block {pair.match[card.block]} of a second seed" in found.note


def test_the_run_of_an_audit_is_a_run(text: tuple[ms.Audit, Path]) -> None:
    result, out = text
    again = ms.evaluate(ms.load(out / "run"), ms.ActivationStore.open(out / "store"))
    assert again["fvu"].value == result["fvu"].value


def test_the_second_time_nothing_is_done_and_the_numbers_are_the_same(
    text: tuple[ms.Audit, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, out = text
    written = {
        p: p.stat().st_mtime_ns for p in (out / "pages" / "index.html", out / "record.json", out / "numbers.json")
    }
    passes, forward = [], TinyLM.forward

    def counted(self: TinyLM, *args: Any, **kwargs: Any) -> torch.Tensor:
        passes.append(1)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(TinyLM, "forward", counted)
    monkeypatch.setattr("monoseme.api.measuring.evaluate", broken)
    monkeypatch.setattr("monoseme.api.measuring.stability", broken)
    steps: list[str] = []
    second = ms.audit(language_model(), documents(), out, watch=ms.Watch(steps.append), **options())
    assert second.evaluation.to_json() == first.evaluation.to_json()
    assert {p: p.stat().st_mtime_ns for p in written} == written
    assert len(passes) == 1  # the one that learns the shapes
    assert steps[-1] == "the page is there already"


def broken(*_: object, **__: object) -> None:
    raise AssertionError("done twice")


def test_another_number_of_spliced_samples_is_measured_anew(tmp_path: Path) -> None:
    first = ms.audit(language_model(), documents(), tmp_path, **options(spliced=0))
    assert "kl_recovered" not in first.evaluation
    assert "no sample was to be spliced" in first.page.read_text(encoding="utf-8")
    second = ms.audit(language_model(), documents(), tmp_path, **options(spliced=2))
    assert second["kl_recovered"].known
    assert "no sample was to be spliced" not in second.page.read_text(encoding="utf-8")


def test_pictures_beside_a_control(tmp_path: Path) -> None:
    control = picture_model()
    control.module.get_buffer("weights").mul_(-3).add_(torch.randn(6, 3, 4, 4, generator=generator(1)))
    result = ms.audit(picture_model("A caveat."), make_samples(30), tmp_path, control=control, title="Both", **SMALL)
    assert result["output_recovered"].known
    assert set(result.controls) == {"random weights"}
    assert result.controls["random weights"]["fvu"].value != result["fvu"].value
    record = RunRecord.load(tmp_path)
    beside = record.comparisons[1]
    assert len(beside.rows) == 2
    assert {"fvu", "output_recovered", "stability"} <= set(beside.columns)
    assert record.title == "Both"
    assert "A caveat." in record.notes
    assert not any("(s)" in note for note in record.notes)
    assert "control" not in [o.name for o in record.outcomes[-1].outcomes]
    assert (tmp_path / "pages" / "pictures").exists()


def test_tensors_of_a_module_of_your_own(tmp_path: Path) -> None:
    x = torch.randn(30, 4, 6, generator=generator(0))
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    result = ms.audit(model, x, tmp_path, steps=5, batch_size=32, k=1, n_blocks=6, featurizer="TopK", spliced=3)
    assert result.store.manifest["hook"] == "1"  # two of three layers are done
    assert result["output_recovered"].known


STEPS: list[Callable[[str], bool]] = [
    lambda text: text.startswith("fit"),
    lambda text: text.startswith("measure"),
    lambda text: text.startswith("compare"),
    lambda text: text.startswith("page"),
]


@pytest.mark.parametrize("when", STEPS)
def test_an_audit_stopped_before_any_step_goes_on(
    when: Callable[[str], bool], text: tuple[ms.Audit, Path], tmp_path: Path
) -> None:
    def stop(said: str) -> None:
        if when(said):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ms.audit(language_model(), documents(), tmp_path, watch=ms.Watch(stop), **options())
    assert not (tmp_path / "record.json").exists()
    resumed = ms.audit(language_model(), documents(), tmp_path, **options())
    assert [o.value for o in resumed.evaluation.outcomes] == [o.value for o in text[0].evaluation.outcomes]


KILLED = """
import os, signal, sys
from tests.test_audit import documents, language_model, ms, options
kill = lambda progress: os.kill(os.getpid(), signal.SIGKILL)
ms.audit(language_model(), documents(), sys.argv[1], watch=ms.Watch(fit=kill), **options())
"""


def test_an_audit_killed_in_the_middle_of_a_fit_goes_on(text: tuple[ms.Audit, Path], tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    paths = os.pathsep.join([str(root / "src"), str(root)])
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "store" / "manifest.json").exists()
    assert not (tmp_path / "numbers.json").exists()
    resumed = ms.audit(language_model(), documents(), tmp_path, **options())
    assert [o.value for o in resumed.evaluation.outcomes] == [o.value for o in text[0].evaluation.outcomes]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"at": "blocks"}, "at must name a module"),
        ({"nblocks": 3}, "Did you mean n_blocks"),
        ({"spliced": -1}, "spliced must be at least 0"),
        ({"featurizer": "TopKK"}, "featurizer must be in the zoo"),
        ({"featurizer": "TopK"}, "block_size must be left out for TopK"),
        ({"featurizer": "ReLU", "block_size": None}, "k must be left out for ReLU"),
        ({"featurizer": "ReLU", "block_size": None, "k": None}, "lam must be above 0 for ReLU"),
        ({"k": 9}, "k must be at most n_blocks = 8"),
        ({"control": True}, "control must be a module for a module of your own"),
    ],
)
def test_mistakes_are_one_line(more: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ms.UserError) as error:
        ms.audit(language_model(), documents(), tmp_path, **options(**more))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_too_few_documents_and_other_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ms.UserError, match=r"split must hold rows; got 'test' with none"):
        ms.audit(language_model(), documents()[:1], tmp_path / "few", **options())
    ms.harvest(language_model(), documents(), "block", tmp_path / "a" / "store", tokens=options()["tokens"])
    with pytest.raises(ms.UserError, match="differs in data"):
        ms.audit(language_model(), documents()[:9], tmp_path / "a", **options())


def test_rules_of_hooks() -> None:
    layers = [f"transformer.h.{i}" for i in range(6)]
    inner = [f"transformer.h.0.mlp.{i}" for i in range(9)]
    assert middle_hook(["transformer", *layers, *inner, "stem.0", "stem.1"]) == "transformer.h.3"
    assert middle_hook(["0"]) == "0"
    with pytest.raises(ms.UserError, match=r"^at must name a hook .* Choose one of embed, head\.$"):
        middle_hook(["embed", "head"])


def test_rules_of_sizes() -> None:
    assert shape("Grassmannian", 576, 130_000, {}) == {"d_in": 576, "n_blocks": 768, "block_size": 3, "k": 12}
    few = shape("Grassmannian", 384, 7_000, {})
    assert few["n_blocks"] * 200 <= 7_000 * few["k"]
    assert shape("TopK", 384, 10**6, {}) == {"d_in": 384, "n_blocks": 1536, "k": 24}
    assert shape("GroupLasso", 384, 10**6, {"k": 5})["target_l0"] == 5
    assert shape("Grassmannian", 2, 50, {}) == {"d_in": 2, "n_blocks": 2, "block_size": 2, "k": 1}
    assert default_steps(10**9, 2048) == 1000


def test_numbers_are_remembered_for_one_identity_and_not_when_edited(tmp_path: Path) -> None:
    path, made = tmp_path / "n.json", []

    def make() -> list[float]:
        made.append(1)
        return [1.5]

    assert Remembered(path, {"a": 1}).get("x", make) == Remembered(path, {"a": 1}).get("x", make) == [1.5]
    assert len(made) == 1
    Remembered(path, {"a": 2}).get("x", make)
    assert len(made) == 2
    path.write_text(path.read_text().replace("1.5", "2.5"))
    assert Remembered(path, {"a": 2}).get("x", make) == [1.5]
    assert len(made) == 3
