"""Claims about reading concepts off blocks: all quantities are measured, from a table made up; the pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.composition.refusals import check_refused

from monoseme.papers import find
from monoseme.papers.bsf.concept_data import CLASSES, class_of, means, pictures, scene_patches
from monoseme.papers.bsf.concept_measures import of_concepts
from monoseme.papers.bsf.concepts import KINDS, RAW, SHARED, SIZES, points
from monoseme.worlds import scenes


def row(point: dict[str, Any]) -> dict[str, Any]:
    """Blocks have 0.1 more than latents, and larger ones a little more; the untrained model has half."""
    kind = point["kind"]
    b = 0 if kind == RAW else KINDS[kind][1]
    good = (0.5 + 0.1 * (b > 1) + 0.01 * b + 0.001 * point["draw"]) * (1.0 if point["weights"] == "pretrained" else 0.5)
    made: dict[str, Any] = {**point, "accuracy": good, "iou": good, **dict.fromkeys(SHARED, good)}
    made |= {f"recall {name}": good + 0.01 * i for i, name in enumerate(CLASSES)}
    if kind == RAW:
        made |= {f"mean recall {name}": 0.9 for name in CLASSES} | {f"{name} of position": 0.2 for name in SHARED}
        return made | {"azimuth cos": 0.9, "azimuth sin": 0.7}
    made |= {"recovery": good, "recovery floor": 0.3, "recovery ceiling": 0.8, "azimuth permuted": 0.0}
    for end in [""] + ([f" of {n}" for n in SIZES] if b == 1 else []):
        made |= {f"f1 {name}{end}": good + 0.01 * i for i, name in enumerate(CLASSES)}
        made |= {f"one {name}{end}": good for name in SHARED} | {f"azimuth{end}": good}
    made |= {f"chance {name}": 0.1 for name in CLASSES} | {"shuffled azimuth": good - 0.05}
    return made | {f"{control} f1 {name}": 0.4 for control in ("shuffled", "permuted") for name in CLASSES}


@pytest.fixture(scope="module")
def table() -> list[dict[str, Any]]:
    return [row(point) for point in points()]


def test_every_quantity_of_a_claim_is_measured(table: list[dict[str, Any]]) -> None:
    outcomes = of_concepts(table)
    for claim in find("bsf-concepts")[0].claims:
        for quantity in claim.quantities:
            assert quantity in outcomes, f"{claim.id}: {quantity}"
        assert claim.stand_in


def test_gaps_are_paired_over_classes_and_seeds(table: list[dict[str, Any]]) -> None:
    found = of_concepts(table)
    gap = found["f1_gap/latents/3"]
    assert gap.value == pytest.approx(0.12)
    assert gap.low == pytest.approx(0.12)  # every class differs by the same, whatever its own F1
    assert gap.n == len(CLASSES)
    assert found["f1_growth"].value == pytest.approx(0.05)
    assert found["f1_gap/untrained/4"].value == pytest.approx(0.641 - 0.32)
    assert found["azimuth_least/shuffled/4"].value == pytest.approx(0.05)
    assert found["depth/random blocks 4"].value == pytest.approx(0.32)
    assert found["depth_share/4"].value == pytest.approx(0.641 / 0.5)


def test_what_was_not_found_counts_as_nothing(table: list[dict[str, Any]]) -> None:
    for number in (f"f1 {CLASSES[0]}", f"f1 {CLASSES[1]}"):
        table = [one | ({number: float("nan")} if one["kind"] == "blocks 3" else {}) for one in table]
    value = of_concepts(table)["f1/blocks 3"].value
    assert value == pytest.approx(np.mean([0, 0] + [0.631 + 0.01 * i for i in range(2, 10)]))


def test_a_class_is_a_folder_or_one_inside_it() -> None:
    assert class_of("animals/mammals/bovines") == "animals/mammals"
    assert class_of("clothes") == "clothes"
    assert class_of("clothes2") == "other"
    assert class_of("animals") == "other"


def test_tokens_are_counted_row_by_row() -> None:
    picture = np.zeros((224, 224))
    picture[14:28, 28:35] = 1
    found = means(picture)
    assert found[16 + 2] == 0.5
    assert found.sum() == 0.5


def test_a_scene_knows_its_tokens() -> None:
    scene = scenes(1, seed=0, size=224)[0]
    patches = scene_patches(scene)
    at = np.flatnonzero(np.isfinite(patches["depth"]))
    assert 0 < len(at) < 256
    i = int(at[-1])
    cell = scene.depth[14 * (i // 16) :, 14 * (i % 16) :][:14, :14]
    assert np.exp(patches["depth"][i]) == pytest.approx(cell.mean(), rel=1e-5)
    assert np.nanmax(patches["luminance"]) <= 1
    assert patches["shadow"].mean() == pytest.approx(scene.shadow.mean())


def test_without_cut_outs_it_is_refused(tmp_path: Path) -> None:
    check_refused(lambda: pictures(tmp_path), "pictures")
