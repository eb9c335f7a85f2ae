"""A record made of nothing but seeds, shaped like a real one: for the tests and for looking at the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from monoseme.core.cards import BlockCard, Shown
from monoseme.core.outcome import Outcome, unknown
from monoseme.core.seeds import rng
from monoseme.core.stats import wilson
from monoseme.records.run import Comparison, Curve, Histogram, OutcomeGroup, RunRecord, SampleView

GRID = 16


def picture(sample: str, side: int = 160) -> np.ndarray:
    """A landscape of two colours with a disc: (side, side, 3) uint8."""
    stream = rng(0, "picture", sample)
    y, x = np.mgrid[0:side, 0:side] / side
    sky, ground = stream.uniform(60, 240, (2, 1, 1, 3))
    hill = 0.55 + 0.12 * np.sin(6.28 * (x * stream.uniform(0.5, 2) + stream.uniform()))
    image = np.where((y < hill)[..., None], sky * (0.7 + 0.3 * y[..., None]), ground * (1.1 - 0.4 * y[..., None]))
    cx, cy, r = stream.uniform([0.2, 0.15, 0.06], [0.8, 0.5, 0.2])
    image[np.hypot(x - cx, y - cy) < r] = stream.uniform(80, 255, 3)
    return np.clip(image + stream.normal(0, 6, image.shape), 0, 255).astype(np.uint8)


def shown(block: int, number: int, size: int, sample: str, grid: tuple[int, int]) -> Shown:
    """A blob of presence whose position inside the block turns around the blob."""
    stream = rng(1, block, number)
    h, w = grid
    y, x = np.mgrid[0:h, 0:w]
    cy, cx, r = stream.uniform(0, h), stream.uniform(0, w), stream.uniform(1.5, 4.5)
    distance = np.hypot((y - cy) if h > 1 else 0 * y, x - cx)
    presence = np.where(distance < r, 3.0 * np.exp(-((distance / r) ** 2)) * (1 - 0.05 * number), 0).astype(np.float32)
    angle = np.arctan2(y - cy, x - cx) + block
    place = np.stack([np.cos(angle), np.sin(angle), 0.5 * np.cos(2 * angle)], -1) * presence[..., None]
    place[..., size:] = 0
    return Shown(sample, grid, presence.ravel(), place.reshape(-1, 3).astype(np.float32))


def card(block: int, size: int = 3, samples: int = 60, grid: tuple[int, int] = (GRID, GRID)) -> BlockCard:
    """A card; every seventeenth block is dead."""
    stream = rng(2, block)
    rows = 20_480
    dead = block % 17 == 16
    count = 0 if dead else int(rows * 10 ** stream.normal(-2.2, 0.6)) + 1
    low, high = wilson(min(count, rows), rows)
    density = min(count, rows) / rows
    outcomes = (
        Outcome(
            "density", density, "share", low, high, n=rows, n_unit="patches", note="held-out patches on which it fires"
        ),
        Outcome(
            "energy_share", density * float(stream.uniform(2, 9)), "1", better=None, note="share of all code energy"
        ),
        unknown("stable rank", "dimensions", "dead")
        if dead
        else Outcome("stable rank", float(stream.uniform(1, min(size, 3))), "dimensions"),
        unknown("certificate", "1", "not computed"),
        unknown("interaction energy", "1", "not computed"),
        unknown("nameability", "bits", "not computed"),
    )
    if dead:
        return BlockCard(block, size, outcomes, (), np.zeros((0, 3), np.float32))
    picked = [f"photo-{i:04d}" for i in stream.choice(samples, min(8, samples), replace=False)]
    theta = stream.uniform(0, 6.28, 240)
    radius = 1 + 0.12 * stream.normal(size=240)
    curve = [np.cos(theta), np.sin(theta), 0.6 * np.cos(2 * theta + block)]
    cloud = np.stack(curve, 1) * radius[:, None] * 2 + 0.08 * stream.normal(size=(240, 3))
    cloud[:, size:] = 0
    items = tuple(shown(block, i, size, name, grid) for i, name in enumerate(picked))
    return BlockCard(block, size, outcomes, items, cloud.astype(np.float32))


def record(blocks: int = 96, size: int = 3, grid: tuple[int, int] = (GRID, GRID)) -> RunRecord:
    """A whole record."""
    cards = tuple(card(g, size, grid=grid) for g in range(blocks))
    density = np.array([c.outcomes[0].value for c in cards])
    alive = np.log10(density[density > 0])
    counts, edges = (
        np.histogram(alive, bins=24, range=(-5, 0)) if blocks else (np.zeros(24, int), np.linspace(-5, 0, 25))
    )
    step = np.arange(0, 4000, 10)
    noise = rng(3).normal(0, 0.01, len(step))
    fvu = 0.18 + 0.8 * np.exp(-step / 500) + noise * np.exp(-step / 2000)
    held = [
        Outcome(
            "fvu",
            0.1873,
            "share",
            0.181,
            0.194,
            better="lower",
            n=84,
            n_unit="pictures",
            note="held-out pictures; bootstrap over pictures",
        ),
        Outcome("l0", 16.0, "blocks/row", n=21504, n_unit="patches"),
        Outcome(
            "dead",
            0.062,
            "share",
            0.048,
            0.079,
            better="lower",
            n=blocks,
            n_unit="blocks",
            note="0 firings on 21,504 held-out patches",
        ),
        Outcome("rows", 214_016.0, "rows", note="training rows"),
    ]
    later = [unknown("description length", "bits/row", "not computed"), unknown("duality gap", "1", "not computed")]
    random = Outcome("fvu", 0.412, "share", 0.398, 0.427, better="lower", n=84, n_unit="pictures")
    words = tuple(f"the cat <b>{i}</b>" for i in range(64))
    views = {
        f"photo-{i:04d}": SampleView(
            picture=f"thumbnails/{i}.jpg",
            label=f"Picture {i}",
            tokens=tuple(w + " " for w in words[: grid[1]]) if grid[0] == 1 else (),
        )
        for i in range(60)
    }
    return RunRecord(
        title="Grassmannian blocks of a vision transformer",
        kind="featurizer",
        facts={
            "model": "dinov2-small-saliency, block 9",
            "data": "420 pictures, split by picture",
            "featurizer": f"Grassmannian, {blocks} blocks of size {size}, k = 16",
            "training": "4,000 steps of 2,048 rows, lr 0.003, seed 0",
            "hook": "blocks.9 (residual stream after the block), patch tokens only",
            "hardware": "2 CPU cores",
        },
        outcomes=(
            OutcomeGroup("Held-out pictures", tuple(held), "Measured on pictures that no step of training saw."),
            OutcomeGroup("Rooms not built yet", tuple(later)),
        ),
        comparisons=(
            Comparison(
                "Trained backbone and random weights",
                ("backbone", "fvu", "dead", "what it shows"),
                (
                    ("trained", held[0], held[2], "the fit on this page"),
                    (
                        "random weights",
                        random,
                        unknown("dead", "share", "not computed"),
                        "the same fit on a network that learned nothing",
                    ),
                ),
                "What also holds for random weights says nothing about what the network learned.",
            ),
        ),
        curves=(
            Curve("fvu", step.tolist(), fvu.tolist(), "share", better="lower"),
            Curve(
                "learning rate",
                step.tolist(),
                (3e-3 * np.minimum(1, (step + 1) / 300) * np.exp(-step / 3000)).tolist(),
                log_y=True,
            ),
        ),
        histograms=(
            Histogram(
                "density",
                edges.tolist(),
                counts.tolist(),
                "share of held-out rows",
                True,
                "blocks",
                {"never active": int((density == 0).sum())},
            ),
        ),
        cards=cards,
        samples=views,
        notes=(
            "The model was fine-tuned for saliency; it is not the paper's.",
            "One seed: differences below the intervals are noise.",
        ),
    )


@pytest.fixture(scope="module")
def make_record() -> Callable[..., RunRecord]:
    return record


@pytest.fixture(scope="module")
def make_picture() -> Callable[..., np.ndarray]:
    return picture


@pytest.fixture(scope="module")
def make_shown() -> Callable[..., Shown]:
    return shown


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 120 blocks with its pages, a secret beside them, and a link to it among them."""
    from monoseme.explorer.static import write_pages

    made = tmp_path_factory.mktemp("run")
    whole = record(120, 3)
    whole.save(made)
    write_pages(whole, made / "pages", picture)
    (made / "secret.txt").write_text("secret")
    (made / "pages" / "link.txt").symlink_to(made / "secret.txt")
    return made


@pytest.fixture(scope="module")
def address(run_folder: Path) -> Iterator[tuple[str, int]]:
    """Host and port of a local server with two runs."""
    from tests.explorer.serving import served, two_runs

    with served(two_runs(run_folder)) as at:
        yield at
