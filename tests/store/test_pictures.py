"""Pictures: broken files are named, and nothing leaks from training to test."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from monoseme.core.errors import UserError
from monoseme.store import PictureFolder, assign_splits, composites, demo_pictures, harvest, wheel_pictures
from monoseme.store.pasting import STAMPS
from monoseme.store.pictures import open_picture, wheel_files

needs_wheels = pytest.mark.skipif(len(wheel_files()) < 3, reason="scikit-image and scikit-learn are not installed")


def save(path: Path, seed: int, mode: str = "RGB", size=(40, 30), **options) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = np.random.default_rng(seed)
    pixels = stream.integers(0, 256, (size[1], size[0], 4), dtype=np.uint8)
    pixels[..., 3] = 0
    pixels[5 : size[1] - 5, 10 : size[0] - 10, 3] = 255
    Image.fromarray(pixels, "RGBA").convert(mode).save(path, **options)


def test_folder(tmp_path: Path) -> None:
    save(tmp_path / "cats" / "a.png", 0)
    save(tmp_path / "cats" / "b.JPG", 1, quality=95)
    save(tmp_path / "dogs" / "big" / "c.webp", 2)
    save(tmp_path / "d.png", 3, "RGBA")
    save(tmp_path / "e.png", 4, "L")
    (tmp_path / "broken.png").write_bytes((tmp_path / "d.png").read_bytes()[:200])
    (tmp_path / "text.jpg").write_text("no picture")
    (tmp_path / "notes.txt").write_text("left alone")
    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(tmp_path / "deep.png")
    (tmp_path / "copy.png").write_bytes((tmp_path / "cats" / "a.png").read_bytes())
    pictures = PictureFolder(tmp_path, size=28)
    assert [e.id for e in pictures.entries] == [
        "cats/a.png",
        "cats/b.JPG",
        "copy.png",
        "d.png",
        "dogs/big/c.webp",
        "e.png",
    ]
    assert [name for name, _ in pictures.skipped] == ["broken.png", "deep.png", "text.jpg"]
    assert all(reason and "\n" not in reason for _, reason in pictures.skipped)
    assert [e.target for e in pictures.entries][:3] == [{"label": "cats"}, {"label": "cats"}, None]
    assert pictures.entries[0].group == pictures.entries[2].group != pictures.entries[1].group
    for i in range(len(pictures)):
        assert pictures[i].image.shape == (28, 28, 3)
    assert (pictures[3].image[0] == 128).all()  # transparent parts are grey, not whatever lies below
    assert "3 skipped" in repr(pictures)


def test_broken_files_are_counted_in_the_store(tmp_path: Path, model) -> None:
    for i in range(4):
        save(tmp_path / "in" / f"{i}.png", i)
    for i in range(12):
        (tmp_path / "in" / f"broken{i:02d}.jpg").write_bytes(b"no picture")
    store = harvest(model, PictureFolder(tmp_path / "in", size=8), "block", tmp_path / "s")
    assert sum(store.manifest["samples"].values()) == 4
    assert store.manifest["skipped"]["count"] == 12
    assert [name for name, _ in store.manifest["skipped"]["first"]] == [f"broken{i:02d}.jpg" for i in range(10)]
    assert harvest(model, PictureFolder(tmp_path / "in", size=8), "block", tmp_path / "s").ids == store.ids


def test_a_folder_outlives_a_change_of_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "pictures" / "a.png", 0)
    monkeypatch.chdir(tmp_path)
    pictures = PictureFolder("pictures", size=28)
    monkeypatch.chdir("/")
    assert pictures[0].image.shape == (28, 28, 3)


def test_orientation_tags_are_obeyed(tmp_path: Path) -> None:
    pixels = np.zeros((10, 20, 3), np.uint8)
    pixels[:, :10] = 255
    picture = Image.fromarray(pixels)
    exif = picture.getexif()
    exif[0x0112] = 6  # turned by a quarter
    picture.save(tmp_path / "a.png", exif=exif)
    assert open_picture(tmp_path / "a.png").size == (10, 20)


@pytest.mark.parametrize("broken", [True, False])
def test_empty_folders_are_refused(tmp_path: Path, broken: bool) -> None:
    if broken:
        (tmp_path / "x.png").write_bytes(b"")
    for path, says in [
        (tmp_path, "none that can be read of 1" if broken else "with none. Choose"),
        (tmp_path / "no", "no such folder"),
    ]:
        with pytest.raises(UserError, match=says) as error:
            PictureFolder(path)
        assert str(error.value).startswith("path must")
        assert "\n" not in str(error.value)


def test_splits() -> None:
    groups = [f"g{i}" for i in range(200)]
    split = assign_splits(groups, (0.7, 0.1, 0.2), seed=3)
    assert [list(split.values()).count(name) for name in ("train", "validation", "test")] == [140, 20, 40]
    assert split == assign_splits(groups[::-1] * 2, (0.7, 0.1, 0.2), seed=3)
    assert split != assign_splits(groups, (0.7, 0.1, 0.2), seed=4)
    assert set(assign_splits(groups, (1, 0, 0)).values()) == {"train"}
    assert sorted(assign_splits(["a", "b"]).values()) == ["test", "train"]


def make_cutouts(folder: Path, n: int = 20) -> None:
    for i in range(n):
        save(folder / f"kind{i % 3}" / f"{i}.png", i, "RGBA", size=(60, 40))
    save(folder / "cartoon" / "drawn.png", 99, "RGBA", size=(60, 40))
    save(folder / "opaque.png", 98)
    (folder / "twin.png").write_bytes((folder / "kind0" / "0.png").read_bytes())


def make_photographs(folder: Path, n: int = 8) -> list[Path]:
    for i in range(n):
        save(folder / f"{i}.jpg", 100 + i, size=(90, 70), quality=95)
    return sorted(folder.iterdir())


def test_composites_share_nothing_between_splits(tmp_path: Path) -> None:
    make_cutouts(tmp_path / "cut")
    photographs = make_photographs(tmp_path / "photo")
    copy = tmp_path / "photo" / "copy.jpg"
    copy.write_bytes(photographs[0].read_bytes())
    pictures = composites(tmp_path / "cut", [*photographs, copy], size=28, per_cutout=3)
    assert len(pictures) == 3 * 21  # twenty and a twin; the drawing is left out, the opaque one named
    assert pictures.skipped == [("opaque.png", "no transparency")]
    used: dict[str, dict[str, set]] = {"photograph": {}, "cutout": {}, "group": {}}
    for entry in pictures.entries:
        assert entry.target is not None
        assert entry.split is not None
        for what, name in [*entry.target.items(), ("group", entry.group)]:
            used.setdefault(what, {}).setdefault(name, set()).add(entry.split)
    for what in ("photograph", "cutout", "group"):
        assert all(len(splits) == 1 for splits in used[what].values()), what
    assert used["cutout"]["kind0/0.png"] == used["cutout"]["twin.png"]
    twins = [used["photograph"].get(name) for name in ("0.jpg", "copy.jpg")]
    assert None in twins or twins[0] == twins[1]
    assert {entry.split for entry in pictures.entries} == {"train", "validation", "test"}


def test_every_label_can_be_on_all_sides(tmp_path: Path) -> None:
    make_cutouts(tmp_path / "cut", 30)
    photographs = make_photographs(tmp_path / "photo")
    pictures = composites(tmp_path / "cut", photographs, size=28, split=(0.5, 0.2, 0.3), strata=1)
    sides: dict[str, list[str]] = {}
    for entry in pictures.entries[::2]:
        sides.setdefault((entry.target or {})["label"], []).append(entry.split or "")
    for kind in ("kind0", "kind1", "kind2"):
        assert sorted(sides[kind]) == ["test"] * 3 + ["train"] * 5 + ["validation"] * 2


def test_composites_keep_their_splits_in_a_store(tmp_path: Path, model) -> None:
    make_cutouts(tmp_path / "cut")
    pictures = composites(tmp_path / "cut", make_photographs(tmp_path / "photo"), size=8)
    store = harvest(model, pictures, "block", tmp_path / "s")
    for split in ("train", "validation", "test"):
        assert store.samples(split) == [entry.id for entry in pictures.entries if entry.split == split]
    assert store.sample(store.samples("test")[0]).mask is not None
    assert store.targets == {entry.id: entry.target for entry in pictures.entries}
    with pytest.raises(UserError, match="split must be left out for data that splits itself"):
        harvest(model, pictures, "block", tmp_path / "t", split=(0.8, 0.1, 0.1))


def test_composites_are_functions_of_their_seed(tmp_path: Path) -> None:
    make_cutouts(tmp_path / "cut", 6)
    photographs = make_photographs(tmp_path / "photo")
    first, same, other = (composites(tmp_path / "cut", photographs, size=28, seed=seed) for seed in (0, 0, 1))
    for i in (3, 0, 3):
        np.testing.assert_array_equal(first[i].image, same[i].image)
    assert (first[0].image != other[0].image).any()
    assert (first[0].image != first[1].image).any()
    mask = first[0].mask
    assert mask is not None
    # the cut-out is an opaque rectangle: the mask is the rectangle of its pixels, 45 to 90 % of the side long
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    assert mask.sum() == len(rows) * len(columns)
    assert 0.4 * 28 <= max(len(rows), len(columns)) <= 0.95 * 28


def test_too_few_photographs(tmp_path: Path) -> None:
    make_cutouts(tmp_path / "cut")
    with pytest.raises(UserError, match="photographs must be enough for one a split") as error:
        composites(tmp_path / "cut", make_photographs(tmp_path / "photo", 2), size=28)
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="cutouts must"):
        composites(tmp_path / "photo", make_photographs(tmp_path / "photo", 4), size=28)


@needs_wheels
def test_wheel_pictures() -> None:
    pictures = wheel_pictures(126)
    photographs = {entry.group for entry in pictures.entries}
    assert {path.name for path in wheel_files()} < photographs
    assert len(photographs) <= 10
    assert pictures[0].image.shape == (126, 126, 3)
    for group in photographs:  # no two crops of one photograph are alike
        crops = [pictures[i].image for i, entry in enumerate(pictures.entries) if entry.group == group]
        assert len({crop.tobytes() for crop in crops}) == len(crops)
    with pytest.raises(UserError, match="size must fit"):
        wheel_pictures(5000)


@needs_wheels
def test_demo_pictures(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"distinct patches of 14 pixels.*\."):
        few = demo_pictures(tmp_path)
    assert repr(few).startswith("WheelPictures")
    make_cutouts(tmp_path / STAMPS, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        many = demo_pictures(tmp_path, size=28)
    assert len(many) == 26
    assert many[0].mask is not None
