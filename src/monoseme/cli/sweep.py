"""`monoseme sweep FILE.toml`: many fits on one store, from a file that lists their settings."""

from __future__ import annotations

import contextlib
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

import monoseme as ms
from monoseme.api import points_of
from monoseme.cli.options import Count, Folder
from monoseme.cli.progress import Ticker, seconds
from monoseme.core.errors import closest, refuse
from monoseme.learning import SweepProgress, SweepResult
from monoseme.store.sources import SPLITS

__all__ = ["Plan", "Sweep", "read_plan"]


@dataclass(frozen=True)
class Plan:
    """What the file may say; names as there."""

    store: str
    out: str
    featurizer: list[dict[str, Any]]
    fit: dict[str, Any] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [0])
    split: str = "test"
    workers: int = 1
    title: str = ""


KINDS = {
    "store": str,
    "out": str,
    "featurizer": list,
    "fit": dict,
    "seeds": list,
    "split": str,
    "workers": int,
    "title": str,
}


@dataclass(frozen=True)
class Sweep:
    """Fit every combination of the settings listed in a TOML file, measure each on held-out samples, draw one page.

    A stopped sweep goes on where it was; a second process that runs the same file takes a share of the fits. It ends
    with exit code 1 when a fit failed: the others are there, and the same command tries it again.
    """

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE.toml")]
    """What to sweep; its paths are relative to its own folder."""
    out: Folder = None
    """Folder of the sweep, instead of the file's."""
    workers: Count = None
    """Processes, instead of the file's; the cores are shared out among them."""
    restart: bool = False
    """Start over, and replace what the folder holds."""

    def run(self) -> int:
        """Fit, and print the table of points and where everything is."""
        plan = read_plan(self.file)
        out = _path(self.file, plan.out) if self.out is None else self.out
        store = ms.ActivationStore.open(_path(self.file, plan.store))
        workers = plan.workers if self.workers is None else self.workers
        pool = ms.process_pool(workers) if workers != 1 else contextlib.nullcontext()
        with Ticker() as ticker, pool as executor:
            result = ms.sweep(
                plan.featurizer,
                store,
                out,
                seeds=plan.seeds,
                split=plan.split,
                executor=executor,
                resume=not self.restart,
                progress=_tell(ticker),
                **plan.fit,
            )
        m = store.manifest
        facts = {"Model": m["model"]["name"], "Hook": m["hook"], "Split": plan.split}
        page = ms.sweep_page(
            result, out, title=plan.title or f"A sweep on {m['model']['name']}, {m['hook']}", facts=facts
        )
        print(table(result))
        print(f"sweep  {out} (points.csv, trials.csv, sweep.json, trials/)")
        print(f"page   {page}")
        for row in result.failures:
            print(f"failed {row.trial.name}: {row.error}")
        return 1 if result.failures else 0


def read_plan(file: Path) -> Plan:
    """Read and check a file; every mistake is one line that names the file and the key."""
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise refuse("FILE.toml", "be valid TOML", f"{file} ({error})", "Correct that line.") from None
    for key, value in given.items():
        if key not in KINDS:
            raise refuse(f"{file}: {key}", "be a key of a sweep", "an unknown one", closest(key, KINDS))
        if not isinstance(value, KINDS[key]) or isinstance(value, bool):
            kind = {list: "a list", dict: "a table", int: "a whole number", str: "a text"}[KINDS[key]]
            raise refuse(f"{file}: {key}", f"be {kind}", repr(value), "See docs/sweep.md.")
    for key in ("store", "out", "featurizer"):
        if not given.get(key, ()):  # an empty path would be the folder of the file itself
            raise refuse(f"{file}: {key}", "be given", "nothing", "See docs/sweep.md for an example.")
    if not all(isinstance(entry, dict) for entry in given["featurizer"]):
        raise refuse(f"{file}: featurizer", "be tables", repr(given["featurizer"]), "Write [[featurizer]] above each.")
    if not all(type(seed) is int for seed in given.get("seeds", ())):  # true is an int, too
        raise refuse(f"{file}: seeds", "be whole numbers", repr(given["seeds"]), "For example [0, 1, 2].")
    plan = Plan(**given)
    if plan.split not in SPLITS:
        raise refuse(f"{file}: split", "be a split of the store", repr(plan.split), closest(plan.split, SPLITS))
    try:
        points_of(plan.featurizer, plan.fit)
    except ms.UserError as error:
        raise ms.UserError(f"{file}: {error}") from None
    return plan


def _path(file: Path, name: str) -> Any:
    """A folder relative to the file's, or a URL as it is."""
    return name if "://" in name else file.parent / name


def _tell(ticker: Ticker) -> Callable[[SweepProgress], None]:
    """What the sweep calls as fits end. The time left counts only the fits that ended while it looked on."""
    started, before = time.perf_counter(), []

    def tell(p: SweepProgress) -> None:
        before.append(p.finished)
        here = len(before)
        left = (time.perf_counter() - started) / here * (p.total - p.finished)
        failed = f", {p.failed:,} failed" if p.failed else ""
        line = f"{p.finished:,} of {p.total:,} fits{failed}, {seconds(left)} left: {p.trial.label(p.trial.settings)}"
        ticker.show(line, final=p.finished == p.total)

    return tell


def table(result: SweepResult) -> str:
    """Plain text, one line a point: the settings that differ, then every number with its interval over seeds."""
    lines = [["", *result.numbers]]
    names = [n for n in result.settings if len({str(p.settings.get(n)) for p in result.points}) > 1]
    for point in result.points:
        shown: Mapping[str, Any] = point.settings
        label = ", ".join(str(shown[n]) if n == "featurizer" else f"{n} {shown[n]}" for n in names if n in shown)
        lines.append([label or "the only point", *(str(point.numbers.get(n, "not known")) for n in result.numbers)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)
