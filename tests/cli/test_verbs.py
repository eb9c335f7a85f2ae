"""Every verb, end to end, as it is typed."""

import inspect
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call, open_toy

import monoseme as ms
from monoseme.cli.fit import SHAPE, Fit
from monoseme.cli.harvest import Harvest
from monoseme.featurizers import ZOO
from monoseme.featurizers import fit as fit_rows
from monoseme.models.open import REGISTRY
from monoseme.papers import PAPERS

SIZES = ("--n-blocks", "8", "--block-size", "2", "--k", "2", "--steps", "30", "--batch-size", "64")


def test_harvest_writes_a_store_and_says_how_far_it_is(call: Call, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "store"
    code, said, progress = call("harvest", "toy", pictures, "--at", "blocks.9", "--out", out, "--size", 84)
    assert code == 0, progress
    assert "rows/s" in progress
    assert "24 of 24 samples" in progress
    made = ms.ActivationStore.open(out)
    assert made.manifest["rows"] == {"train": 20 * 36, "validation": 2 * 36, "test": 2 * 36}
    assert said.strip() == repr(made)


def test_harvest_takes_fewer_when_asked(call: Call, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "store"
    assert call("harvest", "toy", pictures, "--at", "blocks.9", "--out", out, "--size", 28, "--limit", 6)[0] == 0
    assert sum(ms.ActivationStore.open(out).manifest["samples"].values()) == 6


def test_harvest_lists_hooks(call: Call) -> None:
    code, said, _ = call("harvest", "toy", "--list-hooks")
    assert code == 0
    assert said.split() == ["blocks", *(f"blocks.{i}" for i in range(10))]


def test_fit_then_evaluate_then_page(call: Call, store: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, said, progress = call("fit", store, "BlockTopK", "--out", run, *SIZES)
    assert code == 0, progress
    assert "step 30 of 30" in progress
    assert "l0" in progress
    assert f"monoseme page {run}" in said

    code, table, _ = call("evaluate", run)
    assert code == 0
    assert {line.split()[0] for line in table.splitlines()} >= {"fvu", "l0", "dead_share"}

    code, said, _ = call("page", run, "--title", "A toy, taken apart")
    assert code == 0
    assert "A toy, taken apart" in Path(said.strip()).read_text(encoding="utf-8")


def test_a_finished_fit_is_loaded_not_repeated(call: Call, store: Path, tmp_path: Path) -> None:
    command = ("fit", store, "BlockTopK", "--out", tmp_path / "run", *SIZES)
    assert call(*command)[0] == 0
    code, said, progress = call(*command)
    assert (code, progress) == (0, "")
    assert "30 steps" in said


def test_fit_gives_what_the_library_gives(call: Call, store: Path, tmp_path: Path, fitted: Path) -> None:
    assert call("fit", store, "BlockTopK", "--out", tmp_path / "run", *SIZES)[0] == 0
    assert ms.load(tmp_path / "run").atoms.equal(ms.load(fitted).atoms)


def test_evaluate_reads_the_store_split_and_refinement_it_is_told(call: Call, fitted: Path, store: Path) -> None:
    command = ("evaluate", fitted, "--store", store, "--split", "validation", "--refine", "ls", "--json")
    code, said, _ = call(*command)
    assert code == 0
    numbers = json.loads(said)
    expected = ms.evaluate(ms.load(fitted), ms.ActivationStore.open(store), "validation", refine="ls")
    assert numbers == expected.to_json()
    assert {o["provenance"]["split"] for o in numbers["outcomes"]} == {"validation"}


def test_defaults_are_the_library_s() -> None:
    for verb, function in ((Fit, fit_rows), (Harvest, ms.harvest)):
        theirs = inspect.signature(function).parameters
        for field in fields(verb):
            if field.name in theirs and field.name not in ("out", "at", "model", "data"):
                assert field.default == theirs[field.name].default, field.name


def test_options_of_fit_are_arguments_of_the_zoo_and_set_takes_every_other(call: Call, store: Path, tmp_path: Path):
    arguments = {name for make in ZOO.values() for name in inspect.signature(make).parameters}
    assert set(SHAPE) <= arguments
    assert set(SHAPE) <= {field.name for field in fields(Fit)}
    line = "GroupLasso --n-blocks 8 --block-size 2 --target-l0 2 --set gate=threshold constraint=sphere --steps 3"
    assert call("fit", store, *line.split(), "--batch-size", "16", "--out", tmp_path / "run")[0] == 0
    given = ms.load(tmp_path / "run").recipe["arguments"]
    assert (given["gate"], given["constraint"], given["target_l0"]) == ("threshold", "sphere", 2.0)


CLAIMS = """
paper = "toy"
title = "A toy paper"
source = "nowhere"
[[claim]]
id = "fits"
where = "p. 1"
says = "Four is at least three."
quantity = "four"
stated = "4"
accept = [{ kind = "at_least", value = 3 }]
seeds = [0]
hardware = "any"
cost = "nothing"
[[claim]]
id = "breaks"
where = "p. 2"
says = "This one cannot be measured."
quantity = "none"
stated = ""
accept = [{ kind = "at_least", value = 3 }]
seeds = [0]
hardware = "any"
cost = "nothing"
"""
RECIPE = """
from monoseme import Outcome

def recipe(wanted, work):
    if "breaks" in wanted:
        raise RuntimeError("no such number")
    return {"four": Outcome("four", 4.0, "1")}
"""


@pytest.fixture
def toy_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "packages" / "toy_paper"
    package.mkdir(parents=True)
    for name, text in {"__init__.py": "", "claims.toml": CLAIMS, "measure.py": RECIPE}.items():
        (package / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setitem(PAPERS, "toy", ("toy_paper", "claims.toml", "measure"))


@pytest.mark.usefixtures("toy_paper")
def test_reproduce_judges_writes_a_page_and_says_what_is_missing(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "record"
    code, said, _ = call("reproduce", "toy", "--out", out, "--only", "fits")
    assert code == 0
    assert "reproduced  fits" in said
    assert "Four is at least three." in (out / "page/index.html").read_text(encoding="utf-8")
    code, said, _ = call("reproduce", "toy", "--out", out)
    assert code == 1
    assert "breaks could not be measured: RuntimeError: no such number" in said


@pytest.mark.usefixtures("toy_paper")
def test_reproduce_lists_without_running(call: Call) -> None:
    code, said, _ = call("reproduce", "toy", "--list")
    assert code == 0
    assert "four at least 3" in said


def test_reproduce_finds_every_paper(call: Call) -> None:
    for paper in PAPERS:
        assert call("reproduce", paper, "--list")[0] == 0


def test_the_demo_goes_through_and_a_second_one_repeats_nothing(
    call: Call, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGISTRY, "dinov2-small-saliency", open_toy)
    command: Any = ("demo", "--quick", "--out", tmp_path, "--pictures", pictures)
    code, said, progress = call(*command)
    assert code == 0, progress
    numbers = dict(line.split("  ", 1) for line in said.splitlines() if "  " in line and not line.startswith("["))
    assert numbers["distinct pictures"].split()[0] == "24"
    assert numbers["blocks"].strip() == "64 of size 3"
    page = Path(numbers["page"].strip()).read_text(encoding="utf-8")
    assert "Quick run" in page
    assert "random-weight backbone" in page
    code, _, progress = call(*command)
    assert (code, progress) == (0, "")
