"""Certificates on two real models, with controls, and what they foretell. Two hours on 2 cores, kept step by step.

python -m benchmarks.real_certificates FOLDER_OF_PICTURES [WORK]
"""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

from monoseme.cli.pictures import thinned
from monoseme.core.files import write_json
from monoseme.papers.optimality import prediction, real
from monoseme.store import Source, demo_pictures, python_topics

PICTURES = 420
COLUMNS = ("confirmed", "strain", "max_cosine", "density")
NUMBERS = ("l0", "fvu", "unstable", "absorption", "recurring")


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


def share(numbers: dict[str, list[float | None]], name: str) -> str:
    """A share of the live latents in percent, with its interval."""
    value, low, high = (100 * (v or 0.0) for v in numbers[name])
    return f"{value:.0f} [{low:.0f}, {high:.0f}]"


def markdown(found: dict[str, Any]) -> str:
    """The tables of the documentation: shares of unstable latents, areas under the curve, and repairs."""
    lines = ["| codes | model | data | " + " | ".join(map(str, real.WIDTHS)) + " |", "|---" * 6 + "|"]
    for codes, setting, kind in product(("as-is", "resolved"), real.SETTINGS, ("pretrained", "random", "gaussian")):
        made = [found[f"certificate-{setting.name}-{kind}-{w}-{codes}"]["numbers"] for w in real.WIDTHS]
        cells = " | ".join(f"{share(n, 'confirmed')}; {100 * (n['unstable'][0] or 0):.0f}" for n in made)
        lines.append(f"| {codes} | {setting.name} | {kind} | {cells} |")
    lines += ["", "| model, width, codes | " + " | ".join(COLUMNS) + " |", "|---" * (1 + len(COLUMNS)) + "|"]
    for setting, width, codes in product(real.SETTINGS, real.WIDTHS, ("as-is", "resolved")):
        areas = found[f"prediction-{setting.name}-{width}-{codes}"]["auroc"]["atom_not_recurring"]
        cells = " | ".join("{:.2f} [{:.2f}, {:.2f}]".format(*areas[c]["all"]) for c in COLUMNS)
        lines.append(f"| {setting.name}, {width}, {codes} | {cells} |")
    lines += ["", "| | " + " | ".join(NUMBERS) + " |", "|---" * (1 + len(NUMBERS)) + "|"]
    for setting, width in product(real.SETTINGS, prediction.REPAIRED):
        for name in ("given", "refitted", "edited", "edited and refitted"):
            numbers = found[f"repair-{setting.name}-{width}"]["numbers"][name]
            cells = " | ".join(f"{numbers[n]:.3f}" for n in NUMBERS)
            lines.append(f"| {setting.name} {width}, {name} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Fit, certify, predict, and write the table beside the work."""
    pictures, work = Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "runs/real-certificates")
    work.mkdir(parents=True, exist_ok=True)
    sources = {"vision": thinned(demo_pictures(str(pictures), 224, 0), PICTURES), "text": python_topics()}
    for setting in real.SETTINGS:
        fit_all(setting, sources[setting.name], work)
        prediction.run(setting, work)
    found = table(work)
    write_json(work / "table" / "table.json", found)
    print(markdown(found))


if __name__ == "__main__":
    main()
