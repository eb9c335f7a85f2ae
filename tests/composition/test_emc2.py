"""The score against a loop that moves one weight after another; each picture judged once, also after a kill."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused
from torch import Tensor

from monoseme.composition.emc2 import VISIBLE, emc2
from monoseme.composition.genome import Genome
from monoseme.composition.incremental import Move, Rendering, naive
from monoseme.composition.judges import PixelJudge, ReplayJudge, Verdict
from monoseme.composition.judges.pixels import asymmetry, edges, rms
from monoseme.composition.judges.protocol import eight_bit, picture_key
from monoseme.composition.layerize import COPY, layerize
from monoseme.composition.moves import Delta, change, moves_of
from monoseme.composition.network import ImageNetwork
from monoseme.composition.scenes import SCENES, scene
from monoseme.core.errors import UserError

SIZE = 20


class Counting:
    """Yes for dark pictures; keeps the key of every picture it saw."""

    batch = 4

    def __init__(self, path: Path | None = None, wait: float = 0.0) -> None:
        self.about = {"judge": "counting"}
        self.seen: list[str] = []
        self.path, self.wait = path, wait

    def judge(self, pictures: Tensor) -> list[Verdict]:
        keys = [picture_key(eight_bit(picture)) for picture in pictures]
        self.seen += keys
        if self.path is not None:
            with self.path.open("a") as file:
                file.write("".join(f"{key}\n" for key in keys))
                file.flush()
        time.sleep(self.wait)
        return [Verdict("yes" if float(p.mean()) < 0.45 else "no", float(p.mean())) for p in pictures]


def face() -> Genome:
    return scene("face")


def test_the_score_is_that_of_a_plain_loop() -> None:
    net, judge = layerize(face(), torch.float64), Counting()
    found = emc2(net, judge, 0.8, size=SIZE, seed=3)
    before = net.render(SIZE)
    answers, visible, same = [], [], 0
    for one in found.per_weight:
        picture = naive(net, one.move, SIZE)
        moved = float((picture - before).square().mean().sqrt())
        assert one.change == pytest.approx(moved, abs=1e-9)
        yes = float(torch.from_numpy(eight_bit(picture)).float().mean() / 255) < 0.45
        assert (one.answer == "yes") == yes
        answers.append(yes)
        visible += [yes] if moved > VISIBLE else []
        same += bool((eight_bit(picture) == eight_bit(before)).all())
    assert len(answers) == len(net.entries())
    assert found.score.value == pytest.approx(sum(answers) / len(answers))
    assert found.score_visible.value == pytest.approx(sum(visible) / len(visible))
    assert found.unchanged_share.value == pytest.approx(same / len(answers))
    assert found.baseline_passes
    assert len(judge.seen) == len(set(judge.seen)) == found.cost["judged"] == found.cost["different"]
    assert found.cost["judged"] < len(answers)
    assert sum(one.n or 0 for _, one in found.layers()) == len(answers)
    assert "passes as it is: yes" in found.table()


def test_links_are_those_of_the_genome_and_labels_are_kept() -> None:
    genome, net = face(), layerize(face())
    links = emc2(genome, Counting(), size=SIZE)
    matrix = emc2(net, Counting(), size=SIZE)
    assert len(links.per_weight) == len(genome.links)
    assert len(matrix.per_weight) == len(net.entries())
    assert all(one.label != COPY for one in links.per_weight)
    assert {one.label for one in matrix.per_weight} >= {COPY, "smile", "mouth opening"}
    entries = [(w.move.layer, w.move.to, w.move.from_) for w in links.per_weight]
    assert all(net.origin[entry] != COPY for entry in entries)


def test_a_sample_is_part_of_all_and_its_interval_is_wider() -> None:
    net = ImageNetwork.dense(6, 3)
    whole, part = emc2(net, Counting(), size=SIZE), emc2(net, Counting(), sample=20, size=SIZE)
    assert len(part.per_weight) == 20
    assert {w.move for w in part.per_weight} < {w.move for w in whole.per_weight}
    widths = [(one.score.high or 0) - (one.score.low or 0) for one in (whole, part)]
    assert widths[0] < widths[1]
    again = emc2(net, Counting(), sample=20, size=SIZE)
    assert [w.move for w in again.per_weight] == [w.move for w in part.per_weight]


def test_steps_are_absolute_relative_or_as_far_as_it_takes() -> None:
    net = ImageNetwork.dense(6, 3)
    rendering, entries = Rendering(net, SIZE), net.entries()
    absolute = moves_of(rendering, entries, Delta("absolute", 0.3), None, 0)
    assert {abs(move.delta) for move in absolute} == {0.3}
    assert {move.delta > 0 for move in absolute} == {True, False}
    for move in moves_of(rendering, entries, Delta("relative", 0.5), None, 0):
        assert abs(move.delta) == pytest.approx(0.5 * abs(float(rendering.weights[move.layer][move.to, move.from_])))
    visible = moves_of(rendering, entries, Delta("visible", 0.05), None, 0)
    found = change(rendering, visible)
    far = [move for move in visible if abs(found[move] - 0.05) > 0.005]
    assert len(far) < len(visible) / 3
    for move in far:  # a fine grid finds no step of that sign that comes as near as a tenth
        sizes = torch.logspace(-3, 1.2, 100).tolist()
        tried = [Move(move.layer, move.to, move.from_, math.copysign(size, move.delta)) for size in sizes]
        assert min(abs(value - 0.05) for value in change(rendering, tried).values()) > 0.005


def test_up_and_down_then_sizes_that_are_drawn() -> None:
    net = ImageNetwork.dense(6, 3)
    rendering, entries = Rendering(net, SIZE), net.entries()
    once = moves_of(rendering, entries, Delta("absolute", 0.3), None, 0)
    twice = moves_of(rendering, entries, Delta("absolute", 0.3), None, 0, 2)
    assert twice[::2] == once
    assert [move.delta for move in twice[1::2]] == [-move.delta for move in once]
    often = moves_of(rendering, entries, Delta("relative", 0.5), 10, 0, 5)
    assert len(often) == 50
    assert all(
        abs(move.delta) <= 0.5 * abs(float(rendering.weights[move.layer][move.to, move.from_])) for move in often
    )
    check_refused(lambda: moves_of(rendering, entries, Delta("visible", 0.1), None, 0, 3), "draws")
    found = emc2(net, Counting(), 0.3, size=SIZE, draws=2)
    assert found.score.n == len(entries)
    assert len(found.per_weight) == 2 * len(entries)
    share = np.mean([one.answer == "yes" for one in found.per_weight])
    assert found.score.value == pytest.approx(share)
    assert found.score.low is not None
    assert found.score.high is not None
    assert found.score.low <= share <= found.score.high


@pytest.mark.parametrize("name", [name for name in SCENES if name != "house"])  # whose copies are of the bias alone
def test_copies_are_judged_once(name: str) -> None:
    """A link and the copies that carry its value on make the same picture, moved alike: the judge sees it once."""
    net, whole, each = layerize(scene(name), torch.float64), Counting(), Counting()
    found = emc2(net, whole, Delta("relative", 0.5), size=SIZE, draws=2)
    assert found.cost["judged"] < found.cost["rendered"]
    plain = [each.judge(naive(net, one.move, SIZE)[None].float())[0].answer for one in found.per_weight]
    assert [one.answer for one in found.per_weight] == plain


def test_a_picture_that_fails_before_anything_is_moved_is_said_to() -> None:
    bright = ImageNetwork([torch.tensor([[0.0, 0, 0, 1]]), torch.tensor([[2.0]])], [["identity"]])
    found = emc2(bright, Counting(), 0.01, size=SIZE)
    assert not found.baseline_passes
    assert "means nothing" in found.table()


def test_verdicts_are_kept_and_read_and_replayed(tmp_path: Path) -> None:
    net, first, second = layerize(face()), Counting(), Counting()
    one = emc2(net, first, size=SIZE, out=tmp_path)
    two = emc2(net, second, size=SIZE, out=tmp_path)
    assert second.seen == []
    assert [w.answer for w in one.per_weight] == [w.answer for w in two.per_weight]
    assert two.cost["judged"] == 0
    (kept,) = tmp_path.glob("verdicts-*.jsonl")
    replayed = emc2(net, ReplayJudge(kept), size=SIZE)
    assert replayed.score == one.score
    partial = kept.read_bytes()[:-7]
    kept.write_bytes(partial)  # the last line was being written
    third = Counting()
    emc2(net, third, size=SIZE, out=tmp_path)
    assert len(third.seen) == 1
    kept.write_bytes(b"nonsense\n" + kept.read_bytes())
    with pytest.raises(UserError, match="line 1"):
        emc2(net, Counting(), size=SIZE, out=tmp_path)


PROGRAM = """
import sys
from pathlib import Path
from tests.composition.test_emc2 import Counting, SIZE, face
from monoseme.composition.emc2 import emc2
emc2(face(), Counting(Path(sys.argv[1]), 0.15), size=SIZE, out=sys.argv[2])
"""


def test_a_run_that_is_killed_judges_no_picture_twice(tmp_path: Path) -> None:
    seen, out = tmp_path / "seen", tmp_path / "out"
    root = Path(__file__).parents[2]
    run = [sys.executable, "-c", PROGRAM, str(seen), str(out)]
    child = subprocess.Popen(run, cwd=root, env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"})
    kept: list[Path] = []
    for _ in range(600):
        time.sleep(0.05)
        kept = list(out.glob("verdicts-*.jsonl"))
        if kept and kept[0].read_bytes().count(b"\n") >= 8:
            break
    child.send_signal(signal.SIGKILL)
    child.wait()
    known = {line.split('"')[3] for line in kept[0].read_text().splitlines()}
    assert len(known) >= 8
    after = Counting()
    found = emc2(face(), after, size=SIZE, out=out)
    assert not known & set(after.seen)
    assert len(found.per_weight) == len(face().links)


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    from monoseme.core.files import only_writer

    with only_writer(tmp_path), pytest.raises(UserError):
        emc2(face(), Counting(), size=SIZE, out=tmp_path)


def test_pixel_measures() -> None:
    reference = torch.zeros(6, 6, 3)
    brighter, half = torch.full((6, 6, 3), 0.5), torch.zeros(6, 6, 3)
    half[:, :3] = 1
    both = torch.stack([brighter, half])
    assert rms(both, reference).tolist() == pytest.approx([0.5, 0.5**0.5])
    assert edges(both, reference)[0] == 0
    assert edges(both, reference)[1] > 0
    assert asymmetry(both, reference).tolist() == pytest.approx([0, 1])
    judge = PixelJudge(reference, 0.6)
    assert [v.answer for v in judge.judge(both)] == ["yes", "no"]
    assert judge.about != PixelJudge(reference, 0.5).about


class Short(Counting):
    def judge(self, pictures: Tensor) -> list[Verdict]:
        return super().judge(pictures)[1:]


EMPTY = ImageNetwork([torch.zeros(2, 4), torch.zeros(1, 2)], [["sin"] * 2])
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "no weights": (lambda: emc2(EMPTY, Counting(), size=SIZE), "network"),
    "no links": (lambda: emc2(ImageNetwork.dense(3, 1), Counting(), over="links", size=SIZE), "network"),
    "over": (lambda: emc2(face(), Counting(), over="nodes", size=SIZE), "over"),
    "delta": (lambda: emc2(face(), Counting(), 0.0, size=SIZE), "delta"),
    "kind": (lambda: Delta("visibly", 0.1), "kind"),
    "too visible": (lambda: Delta("visible", 2.0), "delta"),
    "sample": (lambda: emc2(face(), Counting(), sample=0, size=SIZE), "sample"),
    "short": (lambda: emc2(face(), Short(), size=SIZE), "judge"),
    "measure": (lambda: PixelJudge(torch.zeros(4, 4, 3), 0.1, "ssim"), "measure"),
    "threshold": (lambda: PixelJudge(torch.zeros(4, 4, 3), -0.1), "threshold"),
    "reference": (lambda: emc2(face(), PixelJudge(torch.zeros(4, 4, 3), 0.1), size=SIZE), "pictures"),
    "replay": (lambda: ReplayJudge("nowhere.jsonl"), "path"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_the_argument(name: str) -> None:
    check_refused(*BAD[name])
