"""`monoseme optimality ...`: which parts of a dictionary are real, and what the best dictionary could be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

import monoseme as ms
from monoseme.api import rows_of, store_of
from monoseme.api.certificates_record import (
    OPTIONS,
    certificate_page,
    certificates_record,
    check_out,
    fingerprint,
)
from monoseme.cli.concepts import Hypothesis, array, drawn
from monoseme.cli.options import Count, Folder, Number, Place, Split
from monoseme.core.errors import UserError, refuse
from monoseme.core.rows import ArrayRows
from monoseme.featurizers import Featurizer
from monoseme.optimality import Certification
from monoseme.store import ActivationStore

__all__ = ["Certify", "Optimality", "RankOne", "Wide"]

SHOWN = 10
Lam = Annotated[float, tyro.conf.arg(metavar="X")]


@dataclass(frozen=True)
class Certify:
    """Say of every feature whether an optimal dictionary would keep it, with a proof: stable, unstable or not known."""

    dictionary: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN|DICTIONARY")]
    """Folder of a fit, or a dictionary of another library such as saelens:FOLDER."""
    store: Place = None
    """Store with the rows; the run's own by default."""
    lam: Number = None
    """λ of E‖zW + b - x‖² + 2λ‖z‖₁ in units of the rows: half of an l1 coefficient. Of an own fit it is the scale of
    its units times its --lam. Read from the codes by default."""
    codes: Literal["as-is", "resolved"] = "as-is"
    """The dictionary's own codes, or the optimal ones on its atoms at --lam."""
    about: Literal["rows", "population"] = "population"
    """Verdicts about exactly these rows, or about all rows like them: a proof must hold on the split "test" too."""
    fixed_bias: bool = False
    """Judge with a bias that must stay as it is."""
    split: Split = "train"
    """Which rows of the store."""
    max_rows: Count = None
    """At most so many rows, and at most so many held-out ones."""
    out: Folder = None
    """Folder for record and page. One with certificates of other options is refused."""
    title: str = ""
    """Heading of the page."""
    seed: int = 0
    """Of the rows that are drawn."""

    def run(self) -> None:
        """Certify, print what is unstable, and write record and page."""
        if self.out is not None:
            check_out(self.out)
        featurizer = ms.load(self.dictionary)
        store = _store(self.dictionary, self.store)
        if self.out is not None:
            check_out(self.out, self._options(featurizer, store))
        found = ms.certify(
            featurizer,
            store,
            self.codes,
            lam=self.lam,
            learned_bias=not self.fixed_bias,
            about=self.about,
            split=self.split,
            max_rows=self.max_rows,
            seed=self.seed,
        )
        print(found.table(SHOWN))
        if self.out is not None:
            print(f"\npage  {self._page(found, featurizer, store)}")

    def _options(self, featurizer: Featurizer, store: ActivationStore) -> str:
        """What decides the result: options, dictionary and store, the last two by their contents."""
        lam = "read from the codes" if self.lam is None else f"{self.lam:.12g}"
        rows = "all" if self.max_rows is None else f"{self.max_rows:,}"
        return (
            f"lam {lam}, codes {self.codes}, about {self.about}, bias {'fixed' if self.fixed_bias else 'learned'}, "
            f"split {self.split}, max-rows {rows}, seed {self.seed}, dictionary {fingerprint(featurizer)}, "
            f"store {fingerprint(store.manifest)}"
        )

    def _page(self, found: Certification, featurizer: Featurizer, store: ActivationStore) -> Path:
        assert self.out is not None
        model, name = store.manifest["model"], str(featurizer.recipe["name"])
        facts = {
            "Dictionary": f"{name}, {featurizer.n_blocks:,} blocks of size {featurizer.block_size}",
            "Rows of": f"{model['name']} ({model['weights']}), {store.manifest['hook']}",
            OPTIONS: self._options(featurizer, store),
        }
        table = certificates_record(
            found,
            title=self.title or f"Certificates of {name} on {model['name']}, {store.manifest['hook']}",
            facts=facts,
        )
        return certificate_page(table, self.out)


@dataclass(frozen=True)
class Wide:
    """The least loss that any dictionary of any width can have on the rows of a store, and what reaches it."""

    store: Annotated[str, tyro.conf.arg(metavar="FOLDER|URL")]
    """Store with the rows."""
    lam: Lam
    """λ of E‖zW + b - x‖² + 2λ‖z‖₁, in units of the rows."""
    split: Split = "train"
    """Which rows."""
    max_rows: Count = None
    """At most so many rows."""
    seed: int = 0
    """Of the rows that are drawn."""

    def run(self) -> None:
        """Print the limit."""
        store = ms.ActivationStore.open(self.store)
        rows = rows_of(store, self.split)
        if self.max_rows is not None and self.max_rows < len(rows):
            rows = ArrayRows(drawn(store, self.split, self.max_rows, self.seed).x)
        limit = ms.optimality.wide_limit(rows, self.lam)
        rays = "not known (too many rows to hold in memory)" if limit.rays is None else f"{limit.rays:,}{limit.reading}"
        kind = "the mean" if limit.is_mean else "the geometric median" if limit.is_median else "between mean and median"
        lines = [
            ("rows", f"{len(rows):,}"),
            ("least loss", f"{limit.loss:.6g} ‖x‖² (within {max(limit.gap, 0.0):.2g})"),
            ("narrowest width", rays),
            ("farther than λ", f"{limit.far:.1%} of the rows; the others need no atom"),
            ("bias", f"{kind}, norm {float(np.linalg.norm(limit.bias)):.4g}"),
        ]
        print(_table(lines))


@dataclass(frozen=True)
class RankOne:
    """Say of one variable whether one nonnegative atom is optimal, or an antipodal pair."""

    values: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE.npy")]
    """A column of floating-point values."""
    lam: Lam
    """λ of E(wz + b - x)² + 2λ|z|, in units of the values."""

    def run(self) -> None:
        """Print the verdict and what decides it."""
        found = ms.optimality.rank_one(column(self.values), self.lam)
        lines = [
            ("optimal", {"pair": "an antipodal pair"}.get(found.verdict, f"a single atom, {found.verdict[-1]}1")),
            ("soft active share", f"{found.soft_active:.4g} above the lowest value"),
            ("", f"{found.soft_active_down:.4g} below the highest; a pair is needed when both exceed 0.5"),
            ("loss", f"{found.loss:.6g} x²"),
            ("of the candidates", f"+1 {found.loss_up:.6g}, -1 {found.loss_down:.6g}, pair {found.loss_pair:.6g}"),
            ("bias", f"{found.bias:.6g}"),
            ("active", f"{found.active:.1%} of the rows"),
        ]
        print(_table(lines))


@dataclass(frozen=True)
class Optimality:
    """Which parts of a dictionary are real: certificates, the wide limit, one variable, concepts before training."""

    verb: Certify | Wide | RankOne | Hypothesis
    """What to do."""

    def run(self) -> None:
        """Do it."""
        self.verb.run()


def column(path: Path) -> np.ndarray:
    """Read one column of numbers."""
    values = array(path, "FILE.npy")
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _store(dictionary: str, store: str | None) -> ActivationStore:
    if store is not None:
        return ms.ActivationStore.open(store)
    try:
        return store_of(dictionary)
    except UserError:
        if Path(dictionary).exists():
            raise
        fix = "Name the store with the rows: --store FOLDER."
        raise refuse("--store", "be given for a dictionary of another library", "nothing", fix) from None


def _table(lines: list[tuple[str, str]]) -> str:
    wide = max(len(name) for name, _ in lines)
    return "\n".join(f"{name.replace('_', ' '):<{wide}}  {text}" for name, text in lines)
