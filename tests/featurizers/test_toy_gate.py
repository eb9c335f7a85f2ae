"""The featurizer that CONTRIBUTING.md adds in three places, pasted in as it stands there, passes every contract."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.featurizers import cases, test_contracts

from monoseme.featurizers import build, gates, zoo

ROOT = Path(__file__).parents[2]
EXCERPT = re.compile(r'^```python title="([^"]+\.py)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PLACES: dict[str, ModuleType] = {
    "src/monoseme/featurizers/gates.py": gates,
    "src/monoseme/featurizers/zoo.py": zoo,
    "tests/featurizers/cases.py": cases,
}


def excerpts() -> list[tuple[str, str]]:
    return EXCERPT.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def contracts() -> list[Any]:
    """Every contract, once for each of its other arguments: refinements, kinds of AuxK."""
    found = []
    for name, test in inspect.getmembers(test_contracts, inspect.isfunction):
        if name.startswith("test_") and "case" in inspect.signature(test).parameters:
            marks = [mark for mark in getattr(test, "pytestmark", []) if mark.args[0] != "case"]
            points = [{mark.args[0]: value} for mark in marks for value in mark.args[1]] or [{}]
            found += [pytest.param(test, point, id="-".join([name, *map(str, point.values())])) for point in points]
    return found


@pytest.fixture(scope="module")
def pasted() -> Iterator[tuple[cases.Case, dict[str, Any]]]:
    """The case, and what the excerpts define; all is as before afterwards.

    Each excerpt runs in a copy of its module's own namespace, so that it can need no import that is not there yet.
    """
    before, known, defined = list(cases.CASES), set(zoo.ZOO), {}
    with pytest.MonkeyPatch.context() as patch:
        for place, code in excerpts():
            module = PLACES[place]
            namespace = dict(vars(module))
            exec(compile(code, place, "exec"), namespace)
            for name in namespace.keys() - vars(module).keys():
                defined[name] = namespace[name]
                patch.setattr(module, name, namespace[name], raising=False)
        (case,) = cases.CASES[len(before) :]
        yield case, defined
    cases.CASES[:] = before
    for name in set(zoo.ZOO) - known:
        del zoo.ZOO[name]


@pytest.fixture(scope="module")
def trained(pasted: tuple[cases.Case, Any]) -> dict[str, Any]:
    return {pasted[0].name: test_contracts.fitted(pasted[0])}


def test_three_places_and_a_line_in_the_last() -> None:
    assert [place for place, _ in excerpts()] == list(PLACES)
    assert all((ROOT / place).is_file() for place in PLACES)
    assert len(excerpts()[-1][1].splitlines()) == 1


def test_it_is_new_and_known_by_name(pasted: tuple[cases.Case, Any]) -> None:
    """Otherwise the contracts would be those of a featurizer that is there anyway."""
    case, defined = pasted
    # nothing new is defined when somebody followed CONTRIBUTING to the letter, and it is there already
    assert set(defined) <= {"NearLargest"}
    f = case.make(seed=1)
    assert type(f.gate).__module__ == gates.__name__
    assert type(f.gate).__name__ == "NearLargest"
    assert type(build("NearLargest", {"d_in": 8, "n_blocks": 4, "block_size": 2}).gate) is type(f.gate)


def test_it_keeps_what_its_sentence_says(pasted: tuple[cases.Case, Any], trained: dict[str, Any]) -> None:
    presence = trained[pasted[0].name].encode(test_contracts.rows(50)).to_dense().norm(dim=2)
    active = presence.masked_fill(presence == 0, float("inf")).amin(1)
    assert bool((active >= 0.5 * presence.amax(1) * (1 - 1e-5)).all())
    assert float((presence > 0).sum(1).float().var()) > 0


@pytest.mark.parametrize(("contract", "point"), contracts())
def test_contract(
    contract: Any,
    point: dict[str, Any],
    pasted: tuple[cases.Case, Any],
    trained: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"case": pasted[0], "trained": trained, "tmp_path": tmp_path, "monkeypatch": monkeypatch, **point}
    contract(**{name: given[name] for name in inspect.signature(contract).parameters})


def test_every_contract_is_among_them() -> None:
    """A contract written in another manner would be left out without a word."""
    written = {name for name, _ in inspect.getmembers(test_contracts, inspect.isfunction) if name.startswith("test_")}
    of_no_case = {"test_auxk_is_exactly_zero_when_nothing_is_dead"}
    assert {param.values[0].__name__ for param in contracts()} == written - of_no_case
