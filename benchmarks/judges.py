"""How far the offline judges agree on the same moved pictures: dense networks of the four scenes, 75 weights each.

    python -m benchmarks.judges

Weights are moved until a tenth of the range of the pixels has changed. No judge here knows what a face is.
"""

from __future__ import annotations

import torch

from monoseme.composition import SCENES, Delta, ImageNetwork, agreement, fit_image
from monoseme.composition.incremental import Rendering
from monoseme.composition.judges import FeatureJudge, Judge, PixelJudge, Verdict
from monoseme.composition.judges.protocol import eight_bit
from monoseme.composition.moves import moves_of
from monoseme.papers.composition.protocol import bank, protocol
from monoseme.papers.composition.targets import target

MOVES = 75


def main() -> None:
    """Print every pair's kappa, and how often each judge says yes."""
    fixed, verdicts = protocol(), dict[str, list[Verdict]]()
    size, width = int(fixed["size"]), int(fixed["width"])
    for name in SCENES:
        net = ImageNetwork.dense(width, int(fixed["depth"]), bank(width), seed=0)
        small = target(name, int(fixed["train_size"]))
        fit_image(net, small, steps=int(fixed["steps"]), lr=float(fixed["lr"]), optimiser=str(fixed["optimiser"]))
        rendering = Rendering(net, size)
        moves = moves_of(rendering, net.entries(), Delta("visible", 0.1), MOVES, 0)
        pictures = torch.stack([torch.from_numpy(eight_bit(p)).float() / 255 for _, p in rendering.moved(moves)])
        own, others = target(name, size), [target(other, size) for other in SCENES if other != name]
        judges: dict[str, Judge] = {
            "features at 128": FeatureJudge(own, others),
            "features at 224": FeatureJudge(own, others, side=224),
            "features at 128, other variants": FeatureJudge(own, others, seed=1),
            "pixels, rms 0.1": PixelJudge(own, 0.1),
            "edges, 0.03": PixelJudge(own, 0.03, "edges"),
        }
        for key, judge in judges.items():
            verdicts.setdefault(key, []).extend(judge.judge(pictures))
    print(agreement(verdicts).text())
    for key, found in verdicts.items():
        print(f"{key} says yes to {sum(v.answer == 'yes' for v in found) / len(found):.0%}")


if __name__ == "__main__":
    main()
