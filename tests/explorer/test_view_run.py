"""What is tried on a run goes through the model that was harvested, prepared as its harvest prepared it."""

from __future__ import annotations

import io
import json
import struct
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.composition.refusals import check_refused
from tests.explorer.serving import ask, served, two_runs
from tests.store.conftest import WORDS, Bytes, TinyLM, TinyViT, make_samples, preprocess

import monoseme as ms
from monoseme.api import store_of
from monoseme.api.viewing import Attempt, live_run, tried
from monoseme.core.code import Code
from monoseme.explorer.live import LiveRun
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.open import REGISTRY
from monoseme.store import TokenPolicy
from monoseme.store.single import Single

SEED = 3


def tiny_vit(weights: str, seed: int) -> HookedModel:
    said = "pretrained" if weights == "pretrained" else f"random (seed {seed})"
    vit = TinyViT()
    if weights == "random":
        vit.get_buffer("weights").copy_(torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(seed + 100)))
    return HookedModel(vit, ModelFacts("tiny-vit", said, patch=4, special_tokens=1, preprocess=preprocess))


def tiny_lm(weights: str, seed: int) -> HookedModel:
    return HookedModel(TinyLM(), ModelFacts("tiny-lm", weights, tokenizer=Bytes(), context=64))


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "tiny-vit", tiny_vit)
    monkeypatch.setitem(REGISTRY, "tiny-lm", tiny_lm)


@pytest.fixture
def run_of(tmp_path: Path) -> Callable[..., Path]:
    def made(model: HookedModel, data: Any, policy: TokenPolicy | None = None) -> Path:
        store = ms.harvest(model, data, "block", tmp_path / "store", tokens=policy or TokenPolicy())
        ms.fit(ms.featurizers.BlockTopK(6, 8, 2, k=2), store, out=tmp_path / "run", steps=30, batch_size=64)
        ms.page(tmp_path / "run")
        return tmp_path / "run"

    return made


@pytest.fixture
def documents() -> list[tuple[str, str]]:
    return [(f"d{i}", " ".join(WORDS[(i * j) % len(WORDS)] for j in range(1, 2 + i))) for i in range(20)]


def png(pixels: np.ndarray, kind: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def opened(run: Path) -> Attempt:
    attempt = live_run(run).attempt
    assert isinstance(attempt, Attempt)
    return attempt


@pytest.mark.parametrize("weights", ["pretrained", "random"])
@pytest.mark.parametrize("special", [False, True])
def test_a_picture_is_seen_as_at_harvest(run_of: Callable[..., Path], weights: str, special: bool) -> None:
    """Also of a run on random weights: the pretrained model's blocks would be another's."""
    size = 8 if special else 12  # CLS kept: the grid is one line, and its picture is taken for a square
    samples, model = make_samples(30, 8, size), tiny_vit(weights, SEED)
    run = run_of(model, samples, TokenPolicy(special=special))
    live, store = live_run(run), store_of(run)
    assert (live.tries, live.why) == ("picture", "")
    assert live.attempt is not None
    image = samples[0].image
    found = live.attempt(png(image))
    featurizer = ms.load(run)
    code = featurizer.encode(model.run(preprocess(image)[None], at="block")[0, 0 if special else 1 :])
    tokens = size // 4 * 2 + special
    assert (found.height, found.width) == ((1, tokens) if special else (2, size // 4))
    dense = code.to_dense().norm(dim=2)
    for block in found.blocks:
        np.testing.assert_allclose(block.presence, dense[:, block.block].tolist(), rtol=1e-3, atol=1e-4)
    assert {b.block for b in found.blocks} == set(code.indices.tolist())
    assert sum(b.share for b in found.blocks) == pytest.approx(1)
    want = float((store.sample("s/0").rows - featurizer.decode(code)).square().sum())
    total = float((store.sample("s/0").rows - store.rows("test").moments.mean).square().sum())
    assert found.fvu == pytest.approx(want / total, rel=1e-3)


def test_a_picture_is_turned_cropped_and_laid_on_grey(run_of: Callable[..., Path]) -> None:
    samples = make_samples(30)
    attempt = opened(run_of(tiny_vit("pretrained", 0), samples))
    image = samples[0].image
    want = attempt(png(image))
    exif = Image.Exif()
    exif[0x0112] = 8  # turned by a camera: to be shown a quarter turn to the left
    assert attempt(png(np.rot90(image, -1).copy(), exif=exif)) == want
    wide = np.concatenate([np.zeros((8, 20, 3), np.uint8), image, np.zeros((8, 20, 3), np.uint8)], 1)
    assert attempt(png(wide)) == want
    seen = np.dstack([image, np.full((8, 12), 255, np.uint8)])
    seen[:, :6, 3] = 0
    grey = image.copy()
    grey[:, :6] = 128
    assert attempt(png(seen)) == attempt(png(grey))


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


def test_what_is_no_picture_is_refused(run_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import EpsImagePlugin

    def started(*_: Any, **__: Any) -> None:
        raise AssertionError("Ghostscript was asked for")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", started)
    attempt = opened(run_of(tiny_vit("pretrained", 0), make_samples(30)))
    whole = png(make_samples(1)[0].image)
    for body in (b"", b"hello", whole[: len(whole) // 2], POSTSCRIPT, b"<svg xmlns='http://www.w3.org/2000/svg'/>"):
        check_refused(lambda body=body: attempt(body), "picture must be an image file")
    check_refused(lambda: attempt(png(np.zeros((2, 5000, 3), np.uint8))), "at most 4096 a side")
    check_refused(lambda: attempt(png(np.zeros((9, 9), np.uint16))), "8 bits")


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes that says it has this many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [4096, 10_000, 60_000])  # truncated; one that Pillow warns of; one it refuses
def test_pictures_that_would_fill_the_memory_are_refused_unopened(run_of: Callable[..., Path], side: int) -> None:
    attempt = opened(run_of(tiny_vit("pretrained", 0), make_samples(30)))
    check_refused(lambda: attempt(bomb(side, side)), "picture must be an image file")


def test_a_run_that_is_taken_away_while_it_is_served(run_of: Callable[..., Path]) -> None:
    run = run_of(tiny_vit("pretrained", 0), make_samples(30))
    body = png(make_samples(1)[0].image)
    with served([live_run(run)]) as at:
        (run / "featurizer").rename(run / "elsewhere")
        answer, content = ask(at, "/api/runs/0/try", "POST", body)
        assert answer.status == 400
        assert "featurizer" in json.loads(content)["error"]
        (run / "elsewhere").rename(run / "featurizer")
        assert ask(at, "/api/runs/0/try", "POST", body)[0].status == 200  # it is asked for again
        (run / "pages").rename(run / "gone")
        answer, content = ask(at, "/run/0/index.html")
        assert answer.status >= 400
        assert str(run).encode() not in content
        assert answer.getheader("Cross-Origin-Resource-Policy") == "same-origin"
        assert ask(at, "/api/runs")[0].status == 200


def test_an_error_of_the_disk_is_one_line(run_folder: Path) -> None:
    def fails(body: bytes) -> Any:
        raise OSError(5, "Input/output\nerror")

    one = two_runs(run_folder)[0]
    with served([LiveRun(one.record, one.pages, "text", fails)]) as at:
        answer, content = ask(at, "/api/runs/0/try", "POST", b"x")
        assert answer.status == 500
        assert "Input/output error" in json.loads(content)["error"]
        assert answer.getheader("X-Content-Type-Options") == "nosniff"


POLICY = TokenPolicy(context=24, positions=(2, None))


def test_a_text_begins_and_is_cut_as_at_harvest(run_of: Callable[..., Path], documents: list[tuple[str, str]]) -> None:
    run = run_of(tiny_lm("pretrained", 0), documents, POLICY)
    live, store = live_run(run), store_of(run)
    assert live.tries == "text"
    assert live.attempt is not None
    for name, text in documents[8:]:
        found, want = live.attempt(text.encode()), store.sample(f"{name}@0")
        assert found.width == want.grid[1] == len(found.tokens)
        assert found.tokens == ["<256>", *text[:23]]
        dense = ms.load(run).encode(want.rows).to_dense().norm(dim=2)
        for block in found.blocks:
            np.testing.assert_allclose(block.presence[2:], dense[:, block.block].tolist(), rtol=1e-3, atol=1e-4)
            assert block.presence[:2] == [0, 0]
        assert found.note == ("" if len(text) <= 23 else "Only its first 24 tokens: the store's windows are that long.")


def test_what_is_no_text_is_refused(run_of: Callable[..., Path], documents: list[tuple[str, str]]) -> None:
    attempt = opened(run_of(tiny_lm("pretrained", 0), documents, POLICY))
    check_refused(lambda: attempt(b"\xff\xfe\x00"), "text must be UTF-8")
    check_refused(lambda: attempt(b" \n "), "text must have a word")
    check_refused(lambda: attempt(b"a" * 20_001), "20,000")
    check_refused(lambda: attempt(b"\x03"), "must")
    assert attempt("mañana 🙂 \ud7ff".encode()).tokens


def test_another_model_than_the_harvested_one_is_refused(
    run_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tiny_vit("pretrained", 0), make_samples(30))
    body = png(make_samples(1)[0].image)
    monkeypatch.setitem(REGISTRY, "tiny-vit", lambda weights, seed: tiny_vit("random", 9))
    check_refused(lambda: opened(run)(body), "find the model that was harvested")
    monkeypatch.delitem(REGISTRY, "tiny-vit")
    live = live_run(run)  # it is browsed all the same
    assert live.attempt is not None
    check_refused(lambda: live.attempt(body), "model")  # pyright: ignore[reportOptionalCall]


def test_a_module_of_ones_own_and_a_lost_store_say_why(run_of: Callable[..., Path]) -> None:
    own = HookedModel(TinyViT(), ModelFacts("mine", patch=4, special_tokens=1, preprocess=preprocess))
    run = run_of(own, make_samples(30))
    check_refused(lambda: opened(run)(png(make_samples(1)[0].image)), "mine (as given)")
    assert live_run(run, models=False).why == "Models are not opened here."
    (run.parent / "store" / "manifest.json").rename(run.parent / "store" / "gone.json")
    live = live_run(run)
    assert (live.tries, live.attempt) == ("", None)
    assert "manifest.json" in live.why


def test_the_model_is_opened_once_when_first_asked_and_used_by_one_at_a_time(
    run_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tiny_vit("pretrained", 0), make_samples(30))
    opens, inside, most = [], [0], [0]

    def slow(weights: str, seed: int) -> HookedModel:
        opens.append(weights)
        return tiny_vit(weights, seed)

    whole = HookedModel.run

    def counted(self: HookedModel, *given: Any, **more: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.02)
        inside[0] -= 1
        return whole(self, *given, **more)

    monkeypatch.setitem(REGISTRY, "tiny-vit", slow)
    attempt = opened(run)
    assert opens == []
    monkeypatch.setattr(HookedModel, "run", counted)
    bodies = [png(sample.image) for sample in make_samples(6)]
    found: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda i=i: found.update({i: attempt(bodies[i])})) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (len(opens), most[0]) == (1, 1)
    assert [found[i] for i in range(6)] == [attempt(body) for body in bodies]


class Eye:
    """Four blocks of one direction each, of length 2."""

    atoms, bias = 2 * torch.eye(4)[:, None, :], torch.zeros(4)

    def encode(self, x: torch.Tensor, refine: object = None) -> Code:
        return Code.from_dense((x / 2 * (x > 0.5))[:, :, None])

    def decode(self, code: Code) -> torch.Tensor:
        return 2 * code.to_dense()[:, :, 0]


def test_tried_is_what_the_featurizer_says() -> None:
    x = torch.tensor([[1.0, 0, 3, 0], [0.2, 0, 4, 0]])
    found = tried(Eye(), Single(x, torch.tensor([0, 2]), (1, 3), ("a", "b", "c"), 1), torch.zeros(4))
    assert [(one.block, one.presence) for one in found.blocks] == [(2, [1.5, 0.0, 2.0]), (0, [0.5, 0.0, 0.0])]
    assert found.blocks[0].share == pytest.approx(25 / 26)
    assert found.fvu == pytest.approx(0.04 / float(x.square().sum()), rel=1e-5)
    assert found.tokens == ["a", "b", "c"]


def test_rows_on_which_nothing_fires() -> None:
    found = tried(Eye(), Single(torch.full((2, 4), 0.1), torch.arange(2), (1, 2), (), 1), torch.zeros(4))
    assert (found.blocks, found.fvu) == ([], pytest.approx(1))
    still = tried(Eye(), Single(torch.zeros(1, 4), torch.arange(1), (1, 1), (), 1), torch.zeros(4))
    assert still.fvu is None
