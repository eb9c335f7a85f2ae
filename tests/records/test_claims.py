"""Every rule, every status, and every way to bend a rule after the fact."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from monoseme.core.errors import UserError
from monoseme.core.outcome import Outcome, unknown
from monoseme.records import Claims, Reproduction, reproduce
from monoseme.records.claims import judge
from monoseme.records.plan import changes, freeze
from monoseme.records.rules import Rule

TOML = """
paper = "toy"
title = "A toy"
source = "arXiv:0000.00000"
[[claim]]
id = "high"
where = "Table 1"
says = "recovery is high"
quantity = "recovery"
stated = "0.95"
accept = [{ kind = "at_least", value = 0.9 }, { kind = "greater_than", other = "baseline", margin = 0.1 }]
seeds = [0, 1]
hardware = "2 cores"
cost = "1 minute"
[[claim]]
id = "bits"
where = "Fig. 2"
says = "three is best"
quantity = "best"
stated = "3"
accept = [{ kind = "within", value = 3, tolerance = 1 }]
seeds = [0]
hardware = "2 cores"
cost = "1 minute"
stand_in = true
reason = "another model"
"""


@pytest.fixture
def claims(tmp_path: Path) -> Claims:
    (tmp_path / "claims.toml").write_text(TOML)
    return Claims.load(tmp_path / "claims.toml")


def measured(**values: float) -> dict[str, Outcome]:
    return {name: Outcome(name, value, "1", value - 0.02, value + 0.02) for name, value in values.items()}


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (Rule("at_least", "q", value=0.5), 0.5, 0.499),
        (Rule("at_most", "q", value=0.5), 0.5, 0.501),
        (Rule("within", "q", value=0.5, tolerance=0.125), 0.375, 0.63),
        (Rule("interval_contains", "q", value=0.5), 0.515, 0.53),
        (Rule("greater_than", "q", other="r", margin=0.25), 0.76, 0.75),
    ],
)
def test_rules(rule: Rule, good: float, bad: float):
    assert rule.holds(measured(q=good, r=0.5))[0] is True
    assert rule.holds(measured(q=bad, r=0.5))[0] is False
    assert rule.holds(measured(q=math.nan, r=0.5))[0] is False
    assert rule.holds({})[0] is None
    assert rule.holds({"q": unknown("q", "1", "no data"), "r": Outcome("r", 0.5, "1")})[0] is None


def test_rules_that_lack_a_part():
    assert Rule("interval_contains", "q", value=0.5).holds({"q": Outcome("q", 0.5, "1")})[0] is None
    assert Rule("greater_than", "q", other="r").holds(measured(q=1.0))[0] is None
    assert Rule("greater_than", "q", other="r").holds(measured(q=1.0, r=math.inf))[0] is False


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"recovery": 0.95, "baseline": 0.5}, "reproduced"),
        ({"recovery": 0.95, "baseline": 0.9}, "partly"),
        ({"recovery": 0.7, "baseline": 0.9}, "not"),
        ({"recovery": math.nan, "baseline": 0.5}, "not"),
        ({"recovery": 0.95}, "not run"),
        ({}, "not run"),
    ],
)
def test_statuses(claims: Claims, values: dict[str, float], status: str):
    assert judge(claims.claims[0], measured(**values)).status == status


def test_stand_in_is_never_reproduced(claims: Claims):
    claim = claims.claims[1]
    for best, word in ((3.0, "holds"), (9.0, "does not hold")):
        verdict = judge(claim, measured(best=best))
        assert (verdict.status, verdict.detail) == ("stand-in", word)
    assert judge(claim, {}).status == "not run"


def test_hash_depends_on_every_field_and_on_nothing_else(claims: Claims, tmp_path: Path):
    claim = claims.claims[0]
    changed = [
        dataclasses.replace(claim, says="other"),
        dataclasses.replace(claim, seeds=(0,)),
        dataclasses.replace(claim, stated="0.96"),
        dataclasses.replace(claim, accept=(dataclasses.replace(claim.accept[0], value=0.89), claim.accept[1])),
    ]
    assert len({claim.hash, *(c.hash for c in changed)}) == 5
    (tmp_path / "b.toml").write_text(TOML.replace("value = 0.9 ", "value = 0.90 ").replace("\n[[", "\n# words\n\n[["))
    assert [c.hash for c in Claims.load(tmp_path / "b.toml").claims] == [c.hash for c in claims.claims]


class Recipe:
    """Measures what is asked for, and remembers."""

    def __init__(self, values: Mapping[str, Mapping[str, float]]) -> None:
        self.values = values
        self.calls: list[str] = []

    def __call__(self, wanted: Sequence[str], out: Path) -> Mapping[str, Outcome]:
        self.calls += wanted
        if wanted[0] not in self.values:
            raise RuntimeError("no weights\nhere")
        return measured(**self.values[wanted[0]])


def test_a_run_is_kept_and_gone_on_with(claims: Claims, tmp_path: Path):
    first = Recipe({"high": {"recovery": 0.95, "baseline": 0.5}})
    result = reproduce(claims, first, tmp_path / "out")
    assert [v.status for v in result.verdicts] == ["reproduced", "not run"]
    assert result.failures == {"bits": "RuntimeError: no weights here"}
    second = Recipe({"bits": {"best": 3.0}})
    result = reproduce(claims, second, tmp_path / "out")
    assert second.calls == ["bits"]
    assert [v.status for v in result.verdicts] == ["reproduced", "stand-in"]
    assert result.failures == {}
    kept = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [v["status"] for v in kept["verdicts"]] == ["reproduced", "stand-in"]
    assert set(kept["environment"]) >= {"python", "torch", "numpy", "monoseme", "commit", "when"}
    assert Reproduction.load(tmp_path / "out").table() == result.table()
    assert result.table().splitlines()[1].startswith("reproduced  high")


def test_looking_again_leaves_the_record_as_it_was_measured(claims: Claims, tmp_path: Path):
    out = tmp_path / "out"
    reproduce(claims, Recipe({"high": {"recovery": 0.6, "baseline": 0.5}, "bits": {"best": 3.0}}), out)
    result = out / "result.json"
    plain = json.loads(result.read_text())
    plain["environment"]["commit"] = "of another machine"
    result.write_text(json.dumps(plain))
    before = result.read_bytes()
    again = reproduce(claims, Recipe({}), out)
    assert result.read_bytes() == before
    assert again.environment["commit"] == "of another machine"
    result.unlink()  # a run that was killed before it judged
    assert reproduce(claims, Recipe({}), out).environment["commit"] != "of another machine"
    assert result.exists()


def test_the_table_names_the_rule_that_does_not_hold(claims: Claims, tmp_path: Path):
    values = {"high": {"recovery": 0.6, "baseline": 0.7}, "bits": {"best": 3.0}}
    line = reproduce(claims, Recipe(values), tmp_path / "out").table().splitlines()[1]
    assert line.startswith("not")
    assert "0 of 2 rules hold; needs recovery at least 0.9 (0.6)" in line


def test_plan_is_written_before_the_recipe_runs(claims: Claims, tmp_path: Path):
    def recipe(wanted: Sequence[str], out: Path) -> Mapping[str, Outcome]:
        assert json.loads((tmp_path / "out" / "plan.json").read_text())["claims"][wanted[0]]
        return measured(recovery=0.95, baseline=0.5, best=3.0)

    assert reproduce(claims, recipe, tmp_path / "out").failures == {}


def test_only_some_claims(claims: Claims, tmp_path: Path):
    recipe = Recipe({"bits": {"best": 3.0}})
    result = reproduce(claims, recipe, tmp_path / "out", only=["bits"])
    assert recipe.calls == ["bits"]
    assert [v.status for v in result.verdicts] == ["not run", "stand-in"]
    with pytest.raises(UserError, match="Did you mean bits"):
        reproduce(claims, recipe, tmp_path / "out", only=["bit"])


def test_a_diverged_run_counts_after_a_restart_too(claims: Claims, tmp_path: Path):
    diverged = Recipe({"high": {"recovery": math.nan, "baseline": 0.5}, "bits": {"best": 3.0}})
    assert reproduce(claims, diverged, tmp_path / "out").verdicts[0].status == "not"
    again = Recipe({})
    assert reproduce(claims, again, tmp_path / "out").verdicts[0].status == "not"
    assert again.calls == []


def test_recipe_that_returns_bare_numbers_is_a_failure(claims: Claims, tmp_path: Path):
    result = reproduce(claims, lambda wanted, out: {"recovery": 0.95}, tmp_path / "out")  # pyright: ignore
    assert "recipe must return quantity -> Outcome" in result.failures["high"]


def one_line(error: pytest.ExceptionInfo[UserError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_rules_bent_after_the_freeze_are_refused(claims: Claims, tmp_path: Path):
    out = tmp_path / "out"
    freeze(claims, out)
    (tmp_path / "bent.toml").write_text(TOML.replace("value = 0.9 ", "value = 0.5 "))
    bent = Claims.load(tmp_path / "bent.toml")
    assert changes(bent, out) == ["high was changed"]
    fewer = dataclasses.replace(claims, claims=claims.claims[:1])
    assert changes(fewer, out) == ["bits was removed"]
    with pytest.raises(UserError, match="high was changed") as error:
        reproduce(bent, Recipe({}), out)
    assert "claims must be those frozen" in one_line(error)


def test_the_protocol_is_frozen_with_the_claims(claims: Claims, tmp_path: Path):
    assert "protocol" not in claims.hashes
    (tmp_path / "fixed.toml").write_text(TOML.replace("[[claim]]", "[protocol]\nsteps = 5\n[[claim]]", 1))
    fixed = Claims.load(tmp_path / "fixed.toml")
    assert fixed.protocol == {"steps": 5}
    out = tmp_path / "out"
    kept = reproduce(fixed, Recipe({"high": {"recovery": 0.6, "baseline": 0.5}, "bits": {"best": 3.0}}), out)
    assert Reproduction.load(out).claims == kept.claims == fixed
    assert changes(dataclasses.replace(fixed, protocol={"steps": 6}), out) == ["protocol was changed"]
    assert changes(claims, out) == ["protocol was removed"]


def test_plan_edited_or_replaced_after_the_run_is_refused(claims: Claims, tmp_path: Path):
    out = tmp_path / "out"
    reproduce(claims, Recipe({"high": {"recovery": 0.6, "baseline": 0.5}, "bits": {"best": 3.0}}), out)
    (tmp_path / "bent.toml").write_text(TOML.replace("value = 0.9 ", "value = 0.5 "))
    bent = Claims.load(tmp_path / "bent.toml")
    plan = json.loads((out / "plan.json").read_text())
    (out / "plan.json").write_text(json.dumps(plan | {"claims": {c.id: c.hash for c in bent.claims}}))
    with pytest.raises(UserError, match=r"plan\.json was edited"):
        reproduce(bent, Recipe({}), out)
    (out / "plan.json").unlink()
    with pytest.raises(UserError, match="without it"):
        reproduce(bent, Recipe({}), out)
    # a plan of the bent claims, whole and sound, beside outcomes measured under the old one
    freeze(bent, tmp_path / "new")
    (out / "plan.json").write_bytes((tmp_path / "new" / "plan.json").read_bytes())
    with pytest.raises(UserError, match="outcomes measured under its plan") as error:
        reproduce(bent, Recipe({}), out)
    one_line(error)


def test_status_written_into_the_result_is_not_believed(claims: Claims, tmp_path: Path):
    out = tmp_path / "out"
    reproduce(claims, Recipe({"high": {"recovery": 0.6, "baseline": 0.9}, "bits": {"best": 3.0}}), out)
    text = (out / "result.json").read_text()
    (out / "result.json").write_text(text.replace('"status": "not"', '"status": "reproduced"'))
    assert Reproduction.load(out).verdicts[0].status == "not"
    assert '"margin": 0.1' in text
    (out / "result.json").write_text(text.replace('"margin": 0.1', '"margin": -9.0'))
    with pytest.raises(UserError, match="high was changed"):
        Reproduction.load(out)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('kind = "within"', 'kind = "withn"', "Did you mean within"),
        ("tolerance = 1", "tolerence = 1", "tolerence must be a known field"),
        (", tolerance = 1", "", "tolerance must be there"),
        ("tolerance = 1", 'tolerance = "__import__(1)"', "finite number"),
        ("tolerance = 1", "tolerance = nan", "finite number"),
        ("tolerance = 1", "tolerance = true", "finite number"),
        ('reason = "another model"', "", "stand_in must be true with a reason"),
        ('where = "Fig. 2"', "", "where must be there"),
        ("seeds = [0]", 'seeds = ["a"]', "seeds must be integers"),
        ('id = "bits"', 'id = "high"', "claim id must be given once"),
        ('[{ kind = "within", value = 3, tolerance = 1 }]', "[]", "at least one rule"),
        ('cost = "1 minute"\nstand_in', 'cots = "1 minute"\nstand_in', "Did you mean cost"),
        ("[[claim]]", "[[claim", "valid TOML"),
        ('id = "bits"', 'id = "protocol"', "claim id must not be"),
    ],
)
def test_mistakes_in_a_claims_file_are_one_line(tmp_path: Path, old: str, new: str, word: str):
    assert old in TOML
    (tmp_path / "claims.toml").write_text(TOML.replace(old, new))
    with pytest.raises(UserError, match=word) as error:
        Claims.load(tmp_path / "claims.toml")
    one_line(error)
