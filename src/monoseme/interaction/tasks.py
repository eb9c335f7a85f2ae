"""What shapes are compared on: rows whose first columns are inputs and whose other columns are targets.

So the one training loop serves supervised tasks as it stands. Tokens and classes are written as numbers, which float32
holds exactly below 2²⁴.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor
from torch.nn.functional import cross_entropy

from monoseme.core.errors import refuse
from monoseme.core.rows import ArrayRows, RowSource
from monoseme.core.seeds import rng
from monoseme.interaction.byte_rows import ByteRows

__all__ = ["SPLITS", "Task", "digits_task", "narma_task", "pictures_task", "text_task"]

SPLITS = ("train", "validation", "test")
MEMORY = 30  # steps that NARMA-30 looks back


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to learn from and to be measured on, and what a row means.

    Attributes
    ----------
    name, data
        Of the task, and which data it is made of. Data that stand in for a paper's are called a stand-in there.
    kind
        ``"tokens"``: the targets are the next token at every position. ``"classes"``: one class. ``"values"``: numbers.
    unit
        Of the loss: ``"nats/byte"``, ``"nats/picture"``, or 1 for a squared error ÷ the variance of the targets.
    train, validation, test
        Rows; no sample or document is on two sides.
    shape
        Of one input: (T,) tokens, (channels, height, width) of a picture, (T, 1) of a sequence.
    outputs
        Symbols, classes, or numbers a step.
    """

    name: str
    data: str
    kind: Literal["tokens", "classes", "values"]
    unit: str
    train: RowSource
    validation: RowSource
    test: RowSource
    shape: tuple[int, ...]
    outputs: int

    @property
    def targets(self) -> int:
        """Targets of a row: bytes that are predicted, classes, values."""
        return self.train.d_in - int(np.prod(self.shape))

    def split(self, x: Float[Tensor, "n columns"]) -> tuple[Tensor, Tensor]:
        """Inputs as the model takes them, (n, *shape), and targets."""
        columns = int(np.prod(self.shape))
        inputs, targets = x[:, :columns].reshape(-1, *self.shape), x[:, columns:]
        if self.kind == "values":
            return inputs, targets
        targets = targets.long() if self.kind == "tokens" else targets[:, 0].long()
        return (inputs.long() if self.kind == "tokens" else inputs), targets

    def losses(self, outputs: Tensor, targets: Tensor) -> Float[Tensor, " n"]:
        """Loss of every row, averaged over its targets; lower is better.

        Of a sequence of values, (n, T, 1), the last steps are compared, as many as there are targets.
        """
        if self.kind == "values":
            return (outputs[:, -targets.shape[1] :, 0] - targets).square().mean(1)
        if self.kind == "tokens":
            return cross_entropy(outputs.transpose(1, 2), targets, reduction="none").mean(1)
        return cross_entropy(outputs, targets, reduction="none")

    def identity(self) -> dict[str, Any]:
        """Plain JSON values: what must be the same for results to be comparable."""
        found: dict[str, Any] = {
            "name": self.name,
            "data": self.data,
            "shape": list(self.shape),
            "outputs": self.outputs,
        }
        for split in SPLITS:
            rows: RowSource = getattr(self, split)
            hashed = hashlib.sha256(rows.moments.mean.numpy().tobytes()).hexdigest()
            found[split] = {"rows": len(rows), "mean": hashed[:16]}
        return found


def text_task(
    documents: Sequence[tuple[str, str]] | Mapping[str, Sequence[tuple[str, str]]],
    data: str,
    *,
    window: int = 256,
    held_out: float = 0.05,
    seed: int = 0,
) -> Task:
    """Next byte in UTF-8 text: windows of `window` bytes that follow one another.

    Parameters
    ----------
    documents
        (id, text) pairs, which are split here, whole documents at a time; or ``{"train": ..., "validation": ...,
        "test": ...}`` where the split is given. Within a side documents are joined by an empty line, in order of id.
    data
        Which text it is.
    held_out
        Share of the documents for validation, and again for the test; at least one each.
    """
    sides = dict(documents) if isinstance(documents, Mapping) else _dealt(documents, held_out, seed)
    if sides.keys() != set(SPLITS):
        raise refuse("documents", f"have the sides {', '.join(SPLITS)}", ", ".join(sides), "Name all three.")
    rows = {}
    for side, pairs in sides.items():
        text = "\n\n".join(text for _, text in sorted(pairs)).encode()
        if len(text) <= window:
            got = f"{len(text)} in {side}"
            raise refuse("documents", f"have more than {window} bytes on every side", got, "Bring more text.")
        rows[side] = ByteRows(text, window)
    return Task(f"next byte, {window} at a time", data, "tokens", "nats/byte", **rows, shape=(window,), outputs=256)


def _dealt(documents: Sequence[tuple[str, str]], held_out: float, seed: int) -> dict[str, list[tuple[str, str]]]:
    pairs = sorted(documents)
    if len(pairs) < 3:
        fix = "Split the text into chapters, or pass a mapping of three sides."
        raise refuse("documents", "be at least 3, to be split whole", len(pairs), fix)
    if not 0 < held_out < 0.5:
        raise refuse("held_out", "lie between 0 and 0.5", held_out, "0.05 is a twentieth for each side.")
    order, many = rng(seed, "documents").permutation(len(pairs)), max(1, round(held_out * len(pairs)))
    places = {"test": order[:many], "validation": order[many : 2 * many], "train": order[2 * many :]}
    return {side: [pairs[i] for i in places[side]] for side in SPLITS}


def pictures_task(
    pictures: Float32[Tensor, "n c h w"], classes: Sequence[int] | np.ndarray, data: str, *, seed: int = 0
) -> Task:
    """Class of a picture, from pictures with one class each: 70 % train, 15 % validation, 15 % test, at random.

    Pictures are shifted and scaled by the mean and the standard deviation of all pixels of the training pictures.
    """
    known = torch.as_tensor(np.asarray(classes, dtype=np.int64))
    if len(known) != len(pictures) or len(known) < 20:
        raise refuse(
            "classes", f"be one a picture, of at least 20 ({len(pictures)})", len(known), "Give equal lengths."
        )
    if int(known.min()) < 0:
        raise refuse("classes", "be counted from 0", int(known.min()), "Number them 0, 1, 2, ...")
    order, held = torch.as_tensor(rng(seed, "pictures").permutation(len(known))), round(0.15 * len(known))
    places = {"test": order[:held], "validation": order[held : 2 * held], "train": order[2 * held :]}
    seen = pictures[places["train"]]
    flat = ((pictures - seen.mean()) / seen.std().clamp(min=1e-12)).flatten(1)
    whole = torch.cat([flat, known[:, None].to(flat.dtype)], 1)
    rows = {side: ArrayRows(whole[index]) for side, index in places.items()}
    shape, kinds = tuple(pictures.shape[1:]), int(known.max()) + 1
    return Task("class of a picture", data, "classes", "nats/picture", **rows, shape=shape, outputs=kinds)


def digits_task(seed: int = 0) -> Task:
    """Scikit-learn's 1,797 handwritten digits of 8 × 8 pixels (a stand-in where a paper has SVHN)."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    pictures = torch.from_numpy(found.images.astype(np.float32))[:, None]
    return pictures_task(pictures, found.target, "1,797 digits of 8 × 8, stand-in for SVHN", seed=seed)


def narma_task(*, sequences: int = 3000, steps: int = 80, seed: int = 0) -> Task:
    """NARMA-30: from u, uniform on [0, 1/2), to y, at every step but the first 30, whose past is not shown.

    y(t+1) = 0.2 y(t) + 0.04 y(t) Σ_{i<30} y(t-i) + 1.5 u(t-29) u(t) + 0.001 (the system of Atiya & Parlos 2000 at order
    30, with the constants usual there), run in before a sequence begins. Both are shifted and scaled to mean 0 and
    variance 1 over the training sequences, so the loss is a share of the variance. 80 % of the sequences train, 10 %
    validate, 10 % test.
    """
    if steps <= MEMORY:
        raise refuse("steps", f"be more than {MEMORY}, what the system looks back", steps, "80 is usual.")
    if sequences < 20:
        raise refuse("sequences", "be at least 20", sequences, "Draw more.")
    u, y = _narma(sequences, steps, rng(seed, "narma"))
    held = sequences // 10
    sides = {"test": slice(0, held), "validation": slice(held, 2 * held), "train": slice(2 * held, None)}
    (um, us), (ym, ys) = ((z[sides["train"]].mean(), z[sides["train"]].std()) for z in (u, y))
    whole = torch.from_numpy(np.concatenate([(u - um) / us, (y - ym) / ys], 1).astype(np.float32))
    rows = {side: ArrayRows(whole[part]) for side, part in sides.items()}
    data = f"{sequences} sequences of {steps} steps, seed {seed}"
    return Task("NARMA-30", data, "values", "1", **rows, shape=(steps, 1), outputs=1)


def _narma(sequences: int, steps: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, steps), and the outputs (n, steps - 30) that go with the last of them.

    The system can run away; a sequence that does (y above 1, where it never comes back) is drawn again.
    """
    inputs, outputs = [], []
    while len(inputs) < sequences:
        whole = 2 * MEMORY + steps
        u, y = random.uniform(0, 0.5, (sequences, whole)), np.zeros((sequences, whole + 1))
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(MEMORY - 1, whole):
                past = y[:, t - MEMORY + 1 : t + 1].sum(1)
                y[:, t + 1] = 0.2 * y[:, t] + 0.04 * y[:, t] * past + 1.5 * u[:, t - MEMORY + 1] * u[:, t] + 0.001
        calm = np.isfinite(y).all(1) & (np.abs(y) < 1).all(1)
        inputs += list(u[calm, -steps:])
        outputs += list(y[calm, -(steps - MEMORY) :])
    return np.stack(inputs[:sequences]), np.stack(outputs[:sequences])
