"""`monoseme demo`: a real model goes in, its parts come out, on a page. Every step can be stopped and goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import monoseme as ms
from monoseme.cli.pictures import Drawn, draw, thinned
from monoseme.cli.progress import Ticker, of_fit, of_harvest
from monoseme.store import PictureFolder, Source, demo_pictures

__all__ = ["Demo"]

MODEL, HOOK, PIXELS = "dinov2-small-saliency", "blocks.9", 252
# what is harvested, and what it is called in the table; the second is the control
BACKBONES = {"pretrained": "trained", "random": "random weights"}


@dataclass(frozen=True)
class Settings:
    """Sizes of the demonstration."""

    title: str
    limit: int | None
    n_blocks: int
    steps: int
    lr: float
    block_size: int = 3
    k: int = 8
    batch_size: int = 2048


WHOLE = Settings("What a vision transformer is made of", None, n_blocks=1024, steps=1000, lr=3e-3)
QUICK = Settings("Quick run (too short to mean anything)", 48, n_blocks=64, steps=60, lr=3e-3, batch_size=512)


@dataclass(frozen=True)
class Demo:
    """Take a vision transformer apart: pictures, harvest, fit, evaluation and pages, beside a random-weight control."""

    out: Path = Path("runs/demo")
    """Folder for everything that is made. Finished steps found there are not done again."""
    pictures: Path | None = None
    """Folder of pictures, or the one that `make pictures` filled; without it the few inside the installed packages."""
    quick: bool = False
    """A minute's worth of everything: shows that it runs, not what it can find."""

    def run(self) -> None:
        """Do all steps and print what was found."""
        started = time.perf_counter()
        settings = QUICK if self.quick else WHOLE
        out = self.out / "quick" if self.quick else self.out

        def step(number: int, text: str) -> None:
            print(f"[{time.perf_counter() - started:5.0f} s] {number}. {text}", flush=True)

        step(1, f"pictures of {PIXELS} x {PIXELS} pixels")
        pictures = draw(thinned(_pictures(self.pictures), settings.limit))
        step(2, f"harvest {MODEL} at {HOOK}, with its weights and with random ones")
        stores = {weights: _harvest(pictures, weights, out) for weights in BACKBONES}
        step(3, f"fit {settings.n_blocks:,} blocks of size {settings.block_size} on each, with the same settings")
        runs = {weights: _fit(stores[weights], settings, _run(out, weights)) for weights in BACKBONES}
        step(4, "evaluate on the held-out pictures")
        numbers = {weights: ms.evaluate(runs[weights], stores[weights]) for weights in BACKBONES}
        step(5, "pages")
        index = ms.page(
            _run(out, "pretrained"),
            controls={"random-weight backbone": numbers["random"]},
            evaluation=numbers["pretrained"],
            title=settings.title,
        )
        step(6, "done")
        print(_summary(pictures, stores["pretrained"], runs["pretrained"], numbers))
        print(f"{'seconds':<32}{time.perf_counter() - started:.0f}")
        print(f"{'page':<32}{index}")


def _pictures(folder: Path | None) -> Source:
    """The demonstration's own pictures when `folder` is their cache or none, else those in the folder."""
    if folder is None or not folder.is_dir() or _is_cache(folder):
        return demo_pictures(folder, PIXELS)
    return PictureFolder(folder, PIXELS)


def _is_cache(folder: Path) -> bool:
    """Whether `make pictures` made this folder, though it may have found nothing to put there."""
    return (folder / ".fetched").exists() or (folder / "usr/share").is_dir()


def _run(out: Path, weights: str) -> Path:
    return out / f"run-{weights}"


def _harvest(pictures: Drawn, weights: str, out: Path) -> ms.ActivationStore:
    model = ms.open_model(MODEL, weights)
    with Ticker() as ticker:
        tell = of_harvest(ticker, f"  {BACKBONES[weights]}: ")
        return ms.harvest(model, pictures, at=HOOK, out=out / f"store-{weights}", progress=tell)


def _fit(store: ms.ActivationStore, settings: Settings, run: Path) -> ms.featurizers.Featurizer:
    featurizer = ms.featurizers.Grassmannian(store.d_in, settings.n_blocks, settings.block_size, k=settings.k)
    with Ticker() as ticker:
        result = ms.fit(
            featurizer,
            store,
            out=run,
            steps=settings.steps,
            batch_size=settings.batch_size,
            lr=settings.lr,
            aux="dead",
            progress=of_fit(ticker, "  "),
        )
    return result.featurizer


def _summary(
    pictures: Drawn,
    store: ms.ActivationStore,
    featurizer: ms.featurizers.Featurizer,
    numbers: dict[str, ms.Evaluation],
) -> str:
    """What the demonstration is judged by, a line each."""
    samples, rows = store.manifest["samples"], store.manifest["rows"]
    firing = float((numbers["pretrained"].density > 0).mean())
    lines = {
        "distinct pictures": f"{pictures.distinct:,} ({samples['test']:,} of them held out for the test)",
        "rows (patches)": f"{sum(rows.values()):,} ({rows['train']:,} to train on)",
        "blocks": f"{featurizer.n_blocks:,} of size {featurizer.block_size}",
        "firing on held-out pictures": f"{firing:.1%} of the blocks",
        **{f"held-out FVU, {BACKBONES[weights]}": str(e["fvu"]) for weights, e in numbers.items()},
    }
    return "\n".join(f"{name:<32}{value}" for name, value in lines.items())
