"""Hooks in pipelines of diffusion, on one without diffusers: steps, halves of a guided batch, names, harvest."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.pipes import SIDE, WIDTH, Pipe, TwoPasses
from torch import Tensor, nn

import monoseme as ms
from monoseme.core.errors import UserError
from monoseme.models import HookedModel, HookedPipeline, TokenGrid, open_model
from monoseme.models.prompts import from_row, to_row
from monoseme.steering import Direction
from monoseme.store import Prompts

AT, LONG = "down.1.1", "unet.down_blocks.1.attentions.1"
TEXTS = ["a cat", "häuser\n"]
PUSH = Direction(torch.tensor([1.0, -1.0, 0.5, 2.0]))


def seen(pipe: Pipe, texts: list[str] = TEXTS, **call: Any) -> list[Tensor]:
    """Outputs of the module, pass by pass, by a plain hook."""
    found: list[Tensor] = []
    module = pipe.unet.get_submodule(LONG.partition(".")[2])
    handle = module.register_forward_hook(lambda m, a, o: found.append(o[0].clone()))
    pipe(texts, [torch.Generator().manual_seed(i) for i in range(len(texts))], output_type="np", **call)
    handle.remove()
    return found


def tokens(maps: Tensor) -> Tensor:
    return maps.flatten(2).transpose(1, 2)


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_run_reads_the_conditional_half_at_every_step(scale: float) -> None:
    pipe = Pipe()
    wanted = [tokens(maps)[-2:] for maps in seen(pipe, guidance_scale=scale)]
    model = HookedPipeline(pipe, guidance_scale=scale)
    found = model.run(TEXTS, at=AT)
    torch.testing.assert_close(found, torch.cat(wanted, 1), rtol=0, atol=0)
    assert model.grid(AT) == TokenGrid(3 * SIDE, SIDE, 0)
    torch.testing.assert_close(model.run(TEXTS, at=f"{LONG}#1"), wanted[1], rtol=0, atol=0)
    assert model.grid(f"{LONG}#1") == TokenGrid(SIDE, SIDE, 0)
    chosen = HookedPipeline(pipe, steps=[2, 0], guidance_scale=scale)
    torch.testing.assert_close(chosen.run(TEXTS, at=AT), torch.cat([wanted[2], wanted[0]], 1), rtol=0, atol=0)
    several = model.run(TEXTS, at=["text_encoder#0", f"{AT}#0", "mid.0#1"])
    assert list(several) == ["text_encoder#0", f"{AT}#0", "mid.0#1"]
    torch.testing.assert_close(several[f"{AT}#0"], wanted[0], rtol=0, atol=0)


def test_a_run_ends_at_the_last_step_it_needs() -> None:
    pipe, times = Pipe(), []
    pipe.unet.register_forward_pre_hook(lambda m, a, k: times.append(int(k["timestep"])), with_kwargs=True)
    model = HookedPipeline(pipe)
    model.run(TEXTS, at=f"{AT}#1")
    assert times == [3, 2]
    model.run(TEXTS, at=f"{AT}#1", stop=False)
    assert times == [3, 2, 3, 2, 1]


def test_pictures_are_those_of_the_pipeline() -> None:
    pipe = Pipe()
    streams = [torch.Generator().manual_seed(i) for i in range(2)]
    wanted = torch.as_tensor(pipe(TEXTS, streams, output_type="np").images)
    model = HookedPipeline(pipe)
    torch.testing.assert_close(model(TEXTS), wanted, rtol=0, atol=0)
    torch.testing.assert_close(model(torch.stack([to_row(TEXTS[1], 1)])), wanted[1:], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(model(TEXTS[0]), wanted[:1], rtol=1e-6, atol=1e-6)
    streams = [torch.Generator().manual_seed(i) for i in range(2)]
    torch.testing.assert_close(model({"prompt": TEXTS, "generator": streams}), wanted, rtol=0, atol=0)


def edited_passes(halves: str, steps: list[int] | None, direct: bool) -> tuple[list[Tensor], list[Tensor]]:
    """What the module gives with a push, and what its input of that pass would have given without."""
    pipe, pairs = Pipe(), ([], [])
    module = pipe.unet.get_submodule(LONG.partition(".")[2])
    model = HookedPipeline(pipe, halves=halves)
    before = module.register_forward_hook(lambda m, a, o: pairs[0].append(o[0].clone()))
    with ms.steer(model, AT, PUSH, steps=steps):
        after = module.register_forward_hook(lambda m, a, o: pairs[1].append(o[0].clone()))
        for _ in range(2):
            if direct:
                pipe(TEXTS, [torch.Generator().manual_seed(i) for i in range(2)], output_type="np")
            else:
                model(TEXTS)
    before.remove()
    after.remove()
    return pairs


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("halves", ["both", "conditional"])
@pytest.mark.parametrize("steps", [None, [0, 2]])
def test_steering_moves_the_chosen_halves_at_the_chosen_steps(halves: str, steps: Any, direct: bool) -> None:
    clean, moved = edited_passes(halves, steps, direct)
    assert len(clean) == len(moved) == 6
    for i, (x, y) in enumerate(zip(clean, moved, strict=True)):
        wanted = torch.zeros_like(x)
        if steps is None or i % 3 in steps:
            wanted[0 if halves == "both" else 2 :] = PUSH.vector[:, None, None]
        torch.testing.assert_close(y - x, wanted, atol=1e-5, rtol=0)


def test_guidance_multiplies_a_conditional_edit() -> None:
    """Of a linear rest of the network: scale times the edit of the conditional half, one time that of both."""
    pipe = Pipe()
    last: Any = pipe.unet.mid_block
    last.forward = lambda x, prompt: x
    for scale in (2.0, 5.0):
        moved = {}
        for halves in ("both", "conditional"):
            model = HookedPipeline(pipe, halves=halves, num_inference_steps=1, guidance_scale=scale)
            clean = model(TEXTS)
            with ms.steer(model, AT, PUSH):
                moved[halves] = model(TEXTS) - clean
        torch.testing.assert_close(moved["both"], (-0.3 * PUSH.vector[:3]).expand_as(moved["both"]))
        torch.testing.assert_close(moved["conditional"], scale * moved["both"])


def test_one_step_by_its_name_and_everything_is_as_before_afterwards() -> None:
    pipe = Pipe()
    model = HookedPipeline(pipe)
    clean = model(TEXTS)
    with model.edit(f"{AT}#1", lambda x: x + PUSH.vector):
        by_name = model(TEXTS)
    with ms.steer(model, AT, PUSH, steps=[1]):
        by_step = model(TEXTS)
    torch.testing.assert_close(by_name, by_step, rtol=0, atol=0)
    assert float((by_name - clean).abs().max()) > 0.01
    torch.testing.assert_close(model(TEXTS), clean, rtol=0, atol=0)
    assert not any(child._forward_hooks or child._forward_pre_hooks for child in model.module.modules())


def test_passes_of_one_time_are_one_step() -> None:
    pipe = TwoPasses()
    model = HookedPipeline(pipe, num_inference_steps=2)
    wanted = [tokens(maps) for maps in seen(pipe, num_inference_steps=2)]
    torch.testing.assert_close(model.run(TEXTS, at=AT), torch.cat([wanted[0], wanted[2]], 1), rtol=0, atol=0)
    model = HookedPipeline(pipe, halves="conditional")
    with (
        pytest.raises(UserError, match="halves must be 'both' for guidance that is not one batch"),
        ms.steer(model, AT, PUSH),
    ):
        model(TEXTS)


def test_harvest_of_prompts(tmp_path: Path) -> None:
    pipe = Pipe()
    model = HookedPipeline(pipe, steps=[0, 2])
    source = Prompts([f"a cat of kind {i}" for i in range(8)], seeds=2)
    store = ms.harvest(model, source, AT, tmp_path / "store", batch_size=3)
    assert (store.d_in, store.grid) == (WIDTH, (2 * SIDE, SIDE))
    counts = store.manifest["samples"]
    assert sum(counts.values()) == 16
    assert all(count % 2 == 0 for count in counts.values())  # the seeds of a prompt stay together
    held = store.sample(store.samples("test")[0])
    assert held.target is not None
    row = to_row(held.target["prompt"], held.target["seed"])
    wanted = model.run(row[None], at=AT)[0]
    test = store.rows("test").take(torch.arange(2 * SIDE * SIDE)).x
    torch.testing.assert_close(test, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match="revision"):
        ms.harvest(HookedPipeline(pipe, steps=[1, 2]), source, AT, tmp_path / "store", batch_size=3)
    with pytest.raises(UserError, match="data"):
        ms.harvest(model, Prompts(["another", "two"]), AT, tmp_path / "store", batch_size=3)


def test_rows_of_prompts() -> None:
    for text, seed in (("", 0), ("ein Häuschen\n", 7), ("x" * 30, 2**63 - 1)):
        assert from_row(to_row(text, seed, 60)) == (text, seed)
    for text, seed, width in (("abc", 0, 10), ("a\0", 0, 20), ("a", -1, 20), ("a", 2**63, 20)):
        with pytest.raises(UserError):
            to_row(text, seed, width)
    for wrong in (["a", "a"], [], "abc"):
        with pytest.raises(UserError, match="prompts must"):
            Prompts(wrong)
    with pytest.raises(UserError, match="seeds must"):
        Prompts(["a"], seeds=0)


def test_names() -> None:
    model = HookedPipeline(Pipe())
    assert model.find("down.0.1")[0] == "unet.down_blocks.0.resnets.1"
    assert model.find("mid.1#4")[:2] == ("unet.mid_block.attentions.1", 4)
    assert model.find(LONG) == model.find(AT)
    assert "unet.mid_block.attentions.0.mix" in model.hooks("*mix")
    for name in ("down.7.0", "up.0.0", "down.0", "unet.nothing"):
        with pytest.raises(UserError, match="at must name a module of Pipe"):
            model.find(name)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: HookedPipeline(object()), "pipeline must have a unet or a transformer"),
        (lambda: HookedPipeline(nn.Linear(2, 2)), "pipeline must have"),
        (lambda: HookedPipeline(Pipe(), halves="free"), "halves must be one of both, conditional"),
        (lambda: HookedPipeline(Silent(), halves="conditional"), "does not say whether it guides"),
        (lambda: HookedPipeline(Pipe()).run(TEXTS, at=f"{AT}#3"), "name a module and a step"),
        (lambda: HookedPipeline(Pipe(), steps=[0, 3]).run(TEXTS, at=AT), "steps must be denoising steps"),
        (lambda: HookedPipeline(Pipe()).run(TEXTS, at=AT, grad=True), "grad must be left out"),
    ],
)
def test_refusals(build: Any, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        build()
    assert "\n" not in str(error.value)


class Silent:
    """A pipeline that does not say whether it guides."""

    components = {"unet": Pipe().unet}  # noqa: RUF012


def test_open_model_without_diffusers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(UserError, match=r"without diffusers. Run: pip install \"monoseme\[diffusers\]\""):
        open_model("diffusers:owner/name")


def test_ordinary_models_count_their_passes() -> None:
    model = HookedModel(nn.Linear(2, 2), open_model(nn.Linear(2, 2)).facts)
    with model.counting() as step:
        assert step() == -1
        for i in range(3):
            model(torch.zeros(1, 2))
            assert step() == i
