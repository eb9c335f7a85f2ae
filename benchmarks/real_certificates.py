"""Certificates on two real models, with controls, and what they foretell. About an hour on 2 cores; kept step by step.

python -m benchmarks.real_certificates FOLDER_OF_PICTURES [WORK]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from monoseme.cli.pictures import thinned
from monoseme.core.files import write_json
from monoseme.papers.optimality import prediction, real
from monoseme.store import Source, demo_pictures, python_topics

PICTURES = 420


def fit_all(setting: real.Setting, source: Source, work: Path) -> None:
    """Harvest the model and its control with random weights, and fit every width and seed."""
    train, test = real.rows(real.store(setting, "pretrained", source, work))
    drawn, _ = real.gaussian(train, len(test))
    control, _ = real.rows(real.store(setting, "random", source, work))
    for width in real.WIDTHS:
        for seed in real.SEEDS:
            real.fitted(train, width, seed, setting.lam, work / f"{setting.name}-pretrained-{width}-{seed}")
        real.fitted(drawn, width, 1, setting.lam, work / f"{setting.name}-gaussian-{width}-1")
        real.fitted(control, width, 1, setting.lam, work / f"{setting.name}-random-{width}-1")


def table(work: Path) -> dict[str, Any]:
    """Everything that was kept, without the columns of single features."""
    found = {}
    for path in sorted(work.glob("*.json")):
        kept = json.loads(path.read_text())
        kept.pop("columns", None)
        found[path.stem] = kept
    return found


def main() -> None:
    """Fit, certify, predict, and write the table beside the work."""
    pictures, work = Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "runs/real-certificates")
    work.mkdir(parents=True, exist_ok=True)
    sources = {"vision": thinned(demo_pictures(str(pictures), 224, 0), PICTURES), "text": python_topics()}
    for setting in real.SETTINGS:
        fit_all(setting, sources[setting.name], work)
        prediction.run(setting, work)
    write_json(work / "table" / "table.json", table(work))


if __name__ == "__main__":
    main()
