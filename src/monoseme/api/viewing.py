"""Runs for the local server: their records and pages, and what lets a reader try something of their own."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from monoseme.api.fitting import store_of
from monoseme.core.errors import UserError, refuse
from monoseme.core.protocols import Featurizes
from monoseme.explorer.live import Fired, LiveRun, Tried
from monoseme.featurizers import load
from monoseme.models import HookedModel, open_model
from monoseme.records import RunRecord
from monoseme.store import ActivationStore

__all__ = ["live_run", "tried"]

SHOWN = 24  # blocks of an answer
SIDE = 4096  # of a picture that is tried
CONTEXT = 128  # tokens of a text


def live_run(folder: Path | str, *, models: bool = True) -> LiveRun:
    """A fitted run with its pages; with its model too where that can be opened, unless `models` is off.

    Raises
    ------
    UserError
        No record or no pages there: make them with ``monoseme page``.
    """
    folder = Path(folder)
    if not (folder / "record.json").is_file() or not (folder / "pages" / "index.html").is_file():
        raise refuse("run", "hold a record and pages", folder, f"Make them: monoseme page {folder}.")
    record = RunRecord.load(folder)
    opened = _open(folder) if models else None
    if opened is None:
        return LiveRun(record, folder / "pages")
    kind, attempt = opened
    return LiveRun(record, folder / "pages", kind, attempt)


def _open(folder: Path) -> tuple[str, Callable[[bytes], Tried]] | None:
    """What can be tried, and how; None where the run has no store, or its model cannot be opened here."""
    try:
        store = store_of(folder)
        name, hook = str(store.manifest["model"]["name"]), str(store.manifest["hook"])
        model, featurizer = open_model(name), load(folder)
    except UserError:
        return None
    mean = store.rows("test").moments.mean
    if store.manifest["text"] is not None:
        return "text", lambda body: _text(model, featurizer, hook, mean, body)
    side = _side(store, model)
    return "picture", lambda body: _picture(model, featurizer, hook, mean, side, body)


def _side(store: ActivationStore, model: HookedModel) -> tuple[int, int]:
    """Height and width of the pictures that were harvested, by a held-out one's grid; 224 without patches."""
    held = [name for name in store.ids if store.sample(name).split == "test"]
    if model.facts.patch is None or not held:
        return (224, 224)
    height, width = store.sample(held[0]).grid
    return (height * model.facts.patch, width * model.facts.patch)


def _cropped(image: Any, side: tuple[int, int]) -> Any:
    """The largest middle part of that shape, at that size, of a PIL picture."""
    from PIL import Image

    height, width = side
    scale = min(image.width / width, image.height / height)
    w, h = width * scale, height * scale
    left, top = (image.width - w) / 2, (image.height - h) / 2
    box = (left, top, left + w, top + h)
    return image.resize((width, height), Image.Resampling.BICUBIC, box=box)


def _picture(
    model: HookedModel, featurizer: Featurizes, hook: str, mean: Tensor, side: tuple[int, int], body: bytes
) -> Tried:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(body)) as file:
            if max(file.size) > SIDE:
                raise refuse("picture", f"have at most {SIDE} pixels a side", file.size, "Make it smaller.")
            pixels = np.asarray(_cropped(file.convert("RGB"), side))
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise refuse("picture", "be an image file", type(error).__name__, "PNG, JPEG and WebP are read.") from None
    if model.preprocess is None:
        raise refuse("run", "be of a model that says how pictures are prepared", model.name, "Browse it instead.")
    tokens = model.run(model.preprocess(pixels)[None].to(model.device), at=hook)[0]
    grid = model.grid(hook)
    if grid is None:
        return tried(featurizer, tokens, (1, len(tokens)), mean)
    return tried(featurizer, tokens[grid.special :], (grid.height, grid.width), mean)


def _text(model: HookedModel, featurizer: Featurizes, hook: str, mean: Tensor, body: bytes) -> Tried:
    tokenizer = model.facts.tokenizer
    assert tokenizer is not None
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise refuse("text", "be UTF-8", "other bytes", "Send it as text.") from None
    ids = list(tokenizer.encode(text))[:CONTEXT]
    if not ids:
        raise refuse("text", "have at least one token", repr(text[:20]), "Write a sentence.")
    given = torch.tensor([ids], device=model.device)
    tokens = model.run({"input_ids": given, "attention_mask": torch.ones_like(given)}, at=hook)[0]
    return tried(featurizer, tokens, (1, len(ids)), mean, tokenizer.pieces(ids))


def tried(
    featurizer: Featurizes,
    rows: Float[Tensor, "T d"],
    grid: tuple[int, int],
    mean: Float[Tensor, " d"],
    tokens: list[str] | None = None,
) -> Tried:
    """The blocks with most energy on rows of one grid, and the unexplained share of their variance about `mean`."""
    x = rows.to(featurizer.atoms)
    code = featurizer.encode(x)
    z, blocks, where = code.values.double(), code.indices.long(), code.rows
    contribution = (
        torch.einsum("eb,ebd->ed", z, featurizer.atoms.double()[blocks]) if len(z) else z.new_zeros(0, x.shape[1])
    )
    energy = torch.zeros(code.n_blocks, dtype=torch.float64).index_add_(
        0, blocks.cpu(), contribution.square().sum(1).cpu()
    )
    order = [g for g in energy.argsort(descending=True)[:SHOWN].tolist() if energy[g] > 0]
    presence = code.presence.double()
    found = []
    for g in order:
        at = torch.zeros(len(x), dtype=torch.float64)
        mine = blocks == g
        at[where[mine].cpu()] = presence[mine].cpu()
        found.append(Fired(g, float(energy[g] / energy.sum()), [float(f"{v:.4g}") for v in at.tolist()]))
    error = float((x - featurizer.decode(code).to(x)).double().square().sum())
    total = float((x.double() - mean.to(x.device).double()).square().sum())
    return Tried(*grid, tokens or [], found, error / total if total > 0 else None)
