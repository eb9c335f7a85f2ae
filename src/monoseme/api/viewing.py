"""Runs for the local server: their records and pages, and what lets a reader try something of their own."""

from __future__ import annotations

import io
import math
import re
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from monoseme.api.fitting import store_of
from monoseme.api.shapes import Shapes
from monoseme.core.errors import UserError, refuse
from monoseme.core.protocols import Featurizes
from monoseme.explorer.live import Fired, LiveRun, Tried
from monoseme.featurizers import load
from monoseme.models import HookedModel, open_model
from monoseme.records import CertificateTable, RunRecord
from monoseme.records.certificates import TABLE
from monoseme.store import ActivationStore, Sample
from monoseme.store.pictures import fit, open_picture
from monoseme.store.single import Single, policy_of, single

__all__ = ["Attempt", "live_run", "tried"]

SHOWN = 24  # blocks of an answer
SIDE = 4096  # of a picture that is tried
LETTERS = 20_000  # of a text
UNPATCHED = 224  # pixels a side of a picture, for a model that does not say its patch


def live_run(folder: Path | str, *, models: bool = True) -> LiveRun:
    """A fitted run with its pages; with its model too where its store is there, unless `models` is off.

    The model is opened when something is tried first, so that a page is there at once.

    Raises
    ------
    UserError
        No record or no pages there: make them with ``monoseme page``.
    """
    folder = Path(folder)
    if not (folder / "record.json").is_file() or not (folder / "pages" / "index.html").is_file():
        raise refuse("run", "hold a record and pages", folder, f"Make them: monoseme page {folder}.")
    record, pages = RunRecord.load(folder), folder / "pages"
    shape = Shapes(record, *_certificates(folder))
    if not models:
        return LiveRun(record, pages, why="Models are not opened here.", shape=shape)
    try:
        attempt = Attempt(folder, store_of(folder))
    except UserError as error:
        return LiveRun(record, pages, why=f"Nothing can be tried: {error}", shape=shape)
    return LiveRun(record, pages, attempt.kind, attempt, shape=shape)


def _certificates(folder: Path) -> tuple[CertificateTable | None, str]:
    """Those kept with the run, or why there are none; damaged ones are no reason not to show the rest."""
    if not (folder / TABLE).is_file():
        return None, "None is kept with this run: monoseme optimality certify RUN --out RUN makes it."
    try:
        return CertificateTable.load(folder), ""
    except UserError as error:
        return None, f"It cannot be read: {error}"


class _Opened(NamedTuple):
    model: HookedModel
    featurizer: Featurizes
    mean: Tensor


class Attempt:
    """What a run's featurizer makes of a picture file or a text, one at a time: hooks of a model are not for two.

    Attributes
    ----------
    kind
        "picture" or "text".
    """

    def __init__(self, folder: Path, store: ActivationStore) -> None:
        self.folder, self.store = folder, store
        self.kind = "picture" if store.manifest["text"] is None else "text"
        self._lock, self._opened = threading.Lock(), None

    def __call__(self, body: bytes) -> Tried:
        """Encode the bytes of a picture file, or a text in UTF-8.

        Raises
        ------
        UserError
            For bytes that are neither, and for a model that is not here or not the one that was harvested.
        """
        item = _text(body) if self.kind == "text" else body
        with self._lock:
            if self._opened is None:
                self._opened = _open(self.folder, self.store)
            model, featurizer, mean = self._opened
            if isinstance(item, bytes):
                item = Sample("yours", _pixels(item, _side(self.store, model)))
            found = single(self.store, model, item)
            if self.store.grid is not None and found.grid != self.store.grid:
                got = f"{found.grid} for the store's {self.store.grid}"
                fix = "This model does not say its patch, so the size of its pictures is not known."
                raise refuse("picture", "give the token grid of the store", got, fix)
            with torch.no_grad():
                return tried(featurizer, found, mean)


def _open(folder: Path, store: ActivationStore) -> _Opened:
    """Model, featurizer and mean of the rows; refused unless the model's bytes are those that were harvested."""
    named = store.manifest["model"]
    random = re.fullmatch(r"random \(seed (-?\d+)\)", named["weights"])
    if random is None and named["weights"] != "pretrained":
        got = f"{named['name']} ({named['weights']})"
        raise refuse("run", "be of a model that can be opened by its name", got, "Its blocks can be browsed.")
    weights, seed = ("pretrained", 0) if random is None else ("random", int(random[1]))
    model = open_model(named["name"], weights, seed)
    if model.revision != named["revision"]:
        got = f"{named['name']} with other weights"
        raise refuse("run", "find the model that was harvested", got, "Install the version that it was made with.")
    return _Opened(model, load(folder), store.rows("test").moments.mean)


def _side(store: ActivationStore, model: HookedModel) -> tuple[int, int]:
    """Height and width of the pictures that were harvested, by a held-out one's grid and the patch."""
    held = store.samples("test")[:1]
    if model.facts.patch is None or not held:
        return (UNPATCHED, UNPATCHED)
    height, width = store.grid or store.sample(held[0]).grid
    if policy_of(store).special and model.facts.special_tokens:  # the grid is one line then, CLS and registers in front
        height = width = math.isqrt(width - model.facts.special_tokens)
    return (height * model.facts.patch, width * model.facts.patch)


def _pixels(body: bytes, side: tuple[int, int]) -> UInt8[np.ndarray, "H W 3"]:
    """The largest middle part of a picture file that has this shape, as a harvest would read it."""
    try:
        return fit(open_picture(io.BytesIO(body), SIDE), side)
    except OSError as error:
        got = " ".join(str(error).split()).replace(repr(body), "bytes")[:200]
        if "cannot identify" in got:
            got = "bytes that are none"
        raise refuse("picture", "be an image file that can be read", got, "PNG, JPEG and WebP are read.") from None


def _text(body: bytes) -> str:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise refuse("text", "be UTF-8", "other bytes", "Send it as text.") from None
    if len(text) > LETTERS:
        raise refuse("text", f"have at most {LETTERS:,} characters", f"{len(text):,}", "Try a part of it.")
    if not text.strip():
        raise refuse("text", "have a word", repr(text[:20]), "Write a sentence.")
    return text


def tried(featurizer: Featurizes, found: Single, mean: Float[Tensor, " d"]) -> Tried:
    """The blocks with most energy on rows of one sample, and the unexplained share of their variance about `mean`."""
    x = found.rows.to(featurizer.atoms)
    code = featurizer.encode(x)
    z, blocks, rows = code.values.double(), code.indices.long(), code.rows
    contribution = torch.zeros(len(z), x.shape[1], dtype=torch.float64, device=z.device)
    if len(z):
        contribution = torch.einsum("eb,ebd->ed", z, featurizer.atoms.double()[blocks])
    square = contribution.square().sum(1).cpu()
    energy = torch.zeros(code.n_blocks, dtype=torch.float64).index_add_(0, blocks.cpu(), square)
    presence, where = code.presence.double().cpu(), found.positions[rows.cpu()]
    shown = []
    for g in energy.argsort(descending=True, stable=True)[:SHOWN].tolist():
        if energy[g] <= 0:
            break
        mine = blocks.cpu() == g
        at = torch.zeros(math.prod(found.grid), dtype=torch.float64).index_put_((where[mine],), presence[mine])
        shown.append(Fired(g, float(energy[g] / energy.sum()), [float(f"{v:.4g}") for v in at.tolist()]))
    error = float((x - featurizer.decode(code).to(x)).double().square().sum())
    total = float((x.double() - mean.to(x.device).double()).square().sum())
    more = f"Only its first {found.grid[1]:,} tokens: the store's windows are that long." if found.windows > 1 else ""
    return Tried(*found.grid, list(found.pieces), shown, error / total if total > 0 else None, more)
