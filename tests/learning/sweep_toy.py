"""What the tests sweep over, importable by worker processes.

Run as a program it sweeps tiny fits, to be interrupted: ``sweep_toy.py OUT WORKERS PAUSE``.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path

from monoseme.core.outcome import Outcome
from monoseme.learning import TrainConfig, grid, process_pool, sweep, train

sys.path.insert(0, str(Path(__file__).parent))
from learning_toy import Toy, toy_rows

POINTS = grid(lr=[0.003, 0.01, 0.03], width=[2, 4])
SEEDS = (0, 1)  # 12 fits
STEPS, EVERY = 8, 3


def mark(folder, word):
    """Leave a line behind for every call, whatever becomes of it."""
    with (folder / "calls").open("a") as file:
        file.write(f"{word}\n")


def marks(folder):
    return (folder / "work" / "calls").read_text().split() if (folder / "work" / "calls").exists() else []


def square(point, folder):
    mark(folder, "begin")
    value = point["x"] ** 2 + 0.1 * point["seed"]
    return {"square": Outcome("square", value, "m2", value - 1, value + 1, better="lower"), "twice": 2 * point["x"]}


def slow_square(point, folder, pause=0.05):
    time.sleep(pause)
    return square(point, folder)


def fussy(point, folder):
    """Fails at x = 2 until its folder holds a file called ``fixed``."""
    mark(folder, "begin")
    if point["x"] == 2 and not (folder / "fixed").exists():
        raise RuntimeError("two\nis odd")
    return {"y": point["x"]}


def die(point, folder):
    os._exit(3)


def fit(point, folder, pause=0.0):
    """A real fit of a toy; how often each step was taken is left in ``calls``."""
    mark(folder, "begin")
    toy = Toy(width=point["width"], seed=point["seed"], pause=pause)
    config = TrainConfig(STEPS, 16, lr=point["lr"], seed=point["seed"], log_every=1, checkpoint_every=EVERY)
    history = train(toy, toy_rows(), config=config, out=folder, progress=lambda p: mark(folder, f"step{p.step}"))
    mark(folder, "end")
    loss = history.series("loss")[1][-1]
    return {"loss": Outcome("loss", loss, "1", better="lower"), "norm": float(toy.weight.detach().norm())}


if __name__ == "__main__":
    out, workers, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    work = partial(fit, pause=pause)
    if workers:
        with process_pool(workers) as pool:
            sweep(work, POINTS, out, executor=pool, seeds=SEEDS)
    else:
        sweep(work, POINTS, out, seeds=SEEDS)
