"""`monoseme optimality hypothesis`: what a sparse autoencoder would make of concepts, before one is trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro
from jaxtyping import Float64

import monoseme as ms
from monoseme.api import rows_of
from monoseme.api.certificates_record import (
    OPTIONS,
    certificate_page,
    certificates_record,
    check_out,
    fingerprint,
)
from monoseme.cli.options import Count, Folder, Split
from monoseme.core.errors import refuse
from monoseme.core.rows import Batch
from monoseme.store import ActivationStore

__all__ = ["Hypothesis", "array", "drawn"]

LABELS = "labels"


@dataclass(frozen=True)
class Hypothesis:
    """Say of concepts what a sparse autoencoder would make of them: stay, be absorbed or split, be doubled."""

    concepts: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="CONCEPTS.npy|labels")]
    """(K, d) directions in the width of the rows; or `labels`, the labels of the store's samples, one concept each."""
    store: Annotated[str, tyro.conf.arg(metavar="FOLDER|URL")]
    """Store with the rows."""
    lam: Annotated[float, tyro.conf.arg(metavar="X")]
    """λ of E‖zW + b - x‖² + 2λ‖z‖₁ of the dictionary to come, in units of the rows."""
    names: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="(optional)")] = ()
    """Of the directions, in their order."""
    fixed_bias: bool = False
    """Judge with a bias that must stay as it is."""
    split: Split = "train"
    """Which rows of the store."""
    max_rows: Count = None
    """At most so many rows."""
    out: Folder = None
    """Folder for record and page. One with certificates of other options is refused."""
    title: str = ""
    """Heading of the page."""
    seed: int = 0
    """Of the rows that are drawn."""

    def run(self) -> None:
        """Print the fate of every concept, and write record and page."""
        if self.out is not None:
            check_out(self.out)
        labelled = self.concepts == LABELS
        if labelled and self.names:
            raise refuse("--names", "be left out with labels", " ".join(self.names), "Labels have names already.")
        directions = None if labelled else array(Path(self.concepts), "CONCEPTS.npy")
        store = ms.ActivationStore.open(self.store)
        options = self._options(directions, store)
        if self.out is not None:
            check_out(self.out, options)
        batch = drawn(store, self.split, self.max_rows, self.seed)
        on, names = labels_of(store, batch.sample) if labelled else (None, self.names or None)
        found = ms.optimality.hypothesis(
            batch.x.double().numpy(),
            self.lam,
            concepts=directions,
            labels=on,
            names=names,
            learned_bias=not self.fixed_bias,
        )
        print(found.table())
        if self.out is not None:
            facts = {"Rows of": f"{store.manifest['model']['name']}, {store.manifest['hook']}", OPTIONS: options}
            facts |= {f"Feature {j}": f"{name}: {found.fates[j]}" for j, name in enumerate(found.names)}
            title = self.title or "Concepts as a dictionary"
            table = certificates_record(found.certification, title=title, facts=facts)
            print(f"\npage  {certificate_page(table, self.out)}")

    def _options(self, directions: np.ndarray | None, store: ActivationStore) -> str:
        """What decides the result: options, concepts and store, the last two by their contents."""
        rows = "all" if self.max_rows is None else f"{self.max_rows:,}"
        concepts = LABELS if directions is None else fingerprint(directions, self.names)
        return (
            f"lam {self.lam:.12g}, bias {'fixed' if self.fixed_bias else 'learned'}, split {self.split}, "
            f"max-rows {rows}, seed {self.seed}, concepts {concepts}, store {fingerprint(store.manifest)}"
        )


def drawn(store: ActivationStore, split: str, most: int | None, seed: int) -> Batch:
    """All rows of a split, in order; or at most so many of its shuffled order."""
    rows = rows_of(store, split)
    if most is not None and most < len(rows):
        return rows.batch(0, most, seed)
    return next(iter(rows.in_order(len(rows))))


def labels_of(store: ActivationStore, sample: torch.Tensor) -> tuple[Float64[np.ndarray, "n K"], tuple[str, ...]]:
    """Which label each row's sample has, as a column of 0 and 1 a label, in order of name."""
    targets, ids = store.targets, store.ids
    label = {id_: str(target["label"]) for id_, target in targets.items() if target.get("label") not in (None, "")}
    mine = [label.get(ids[i], "") for i in sample.tolist()]
    names = tuple(sorted({name for name in mine if name}))
    if not names:
        fix = "Give directions: a .npy file of the shape (K, d)."
        raise refuse("CONCEPTS.npy|labels", "be directions for a store without labels", repr(LABELS), fix)
    place = {name: j for j, name in enumerate(names)}
    on = np.zeros((len(mine), len(names)))
    for i, name in enumerate(mine):
        if name:
            on[i, place[name]] = 1.0
    return on, names


def array(path: Path, argument: str) -> np.ndarray:
    """Read an array from a .npy file; nothing in it is executed."""
    try:
        values = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise refuse(argument, "be there", f"{path} (no such file)", "Write it with numpy.save.") from None
    except (ValueError, EOFError):  # numpy's own words would advise to unpickle it
        raise refuse(argument, "be a .npy file of numbers", path, "Write it with numpy.save.") from None
    if not isinstance(values, np.ndarray):
        values.close()
        raise refuse(argument, "hold one array", f"{path} ({type(values).__name__})", "Write it with numpy.save.")
    return values
