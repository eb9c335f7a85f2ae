"""Claims: what a paper says, and the rule by which we shall accept it, fixed and hashed before anything is run.

All rules of a claim hold: reproduced. Some: partly. None: not. A number that was never measured: not run. A claim
about another model or other data than the paper's is a stand-in and is never called reproduced, whatever it measures.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from monoseme.core.errors import closest, refuse
from monoseme.core.outcome import Outcome
from monoseme.core.parse import Entry
from monoseme.records.rules import FIELDS, Rule, RuleResult, only_fields, parse_rule

__all__ = ["Claim", "Claims", "Status", "Verdict", "judge", "parse_claims"]

PROTOCOL = "protocol"
Status = Literal["reproduced", "partly", "not", "not run", "stand-in"]


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, and how we shall judge it.

    Attributes
    ----------
    id, where, says
        Our name for it, where in the paper it stands, and what it says.
    quantity
        The outcome it is about.
    stated
        The value the paper gives, as text ("0.93–0.97"); empty when it gives none.
    accept
        The rules.
    seeds, hardware, cost
        With what it is to be run, fixed beforehand too.
    stand_in, reason
        Whether model or data are not the paper's, and why.
    """

    id: str
    where: str
    says: str
    quantity: str
    stated: str
    accept: tuple[Rule, ...]
    seeds: tuple[int, ...]
    hardware: str
    cost: str
    stand_in: bool = False
    reason: str = ""

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of all outcomes its rules look at."""
        return tuple(dict.fromkeys([self.quantity, *(name for rule in self.accept for name in rule.quantities)]))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `parse_claims` reads them back."""
        return asdict(self) | {"accept": [rule.to_json() for rule in self.accept], "seeds": list(self.seeds)}

    @property
    def hash(self) -> str:
        """SHA-256 of the claim as canonical JSON (sorted keys, no spaces)."""
        return _hash(self.to_json())


@dataclass(frozen=True)
class Claims:
    """The claims of one paper; `protocol` holds choices of the runs that are fixed with them: plain JSON values."""

    paper: str
    title: str
    source: str
    claims: tuple[Claim, ...]
    protocol: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `parse_claims` reads them back."""
        head = {"paper": self.paper, "title": self.title, "source": self.source}
        fixed = {"protocol": dict(self.protocol)} if self.protocol else {}
        return {**head, **fixed, "claim": [claim.to_json() for claim in self.claims]}

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of every claim by its id, and that of the protocol."""
        fixed = {PROTOCOL: _hash(dict(self.protocol))} if self.protocol else {}
        return {**fixed, **{claim.id: claim.hash for claim in self.claims}}

    @classmethod
    def load(cls, path: Path | str) -> Claims:
        """Read a claims.toml; a mistake is one line that names the file, the claim and the field."""
        path = Path(path)
        try:
            root = Entry(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
        except FileNotFoundError:
            raise refuse("claims", "be a file", f"{path} (no such file)", "Check the path.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise refuse("claims", "be valid TOML", f"{path} ({error})", "Correct that line.") from None
        return parse_claims(root)

    def pick(self, ids: tuple[str, ...] | None) -> tuple[Claim, ...]:
        """Return the claims with these ids, or all of them."""
        known = {claim.id: claim for claim in self.claims}
        for name in ids or ():
            if name not in known:
                raise refuse("claim", f"be one of {self.paper}'s", repr(name), closest(name, known))
        return self.claims if ids is None else tuple(known[name] for name in ids)


def parse_claims(root: Entry) -> Claims:
    """Read claims from plain values."""
    only_fields(root, {"paper", "title", "source", "claim", PROTOCOL})
    claims = tuple(_claim(entry) for entry in root.items("claim"))
    ids = [claim.id for claim in claims]
    for name in ids:
        if name == PROTOCOL:
            raise refuse("claim id", f"not be {PROTOCOL!r}", f"{name!r} in {root.path}", "That names the choices.")
        if ids.count(name) > 1:
            raise refuse("claim id", "be given once", f"{name!r} twice in {root.path}", "Rename one of them.")
    protocol = root.get(PROTOCOL, dict) if PROTOCOL in root.mapping() else {}
    return Claims(root.get("paper", str), root.get("title", str), root.get("source", str), claims, protocol)


def _claim(entry: Entry) -> Claim:
    only_fields(entry, set(Claim.__dataclass_fields__))
    quantity, stand_in = entry.get("quantity", str), entry.mapping().get("stand_in", False)
    reason = entry.mapping().get("reason", "")
    if not isinstance(stand_in, bool) or not isinstance(reason, str) or stand_in != bool(reason):
        raise refuse(
            f"{entry.path}: stand_in",
            "be true with a reason, or false without",
            (stand_in, reason),
            "Say what differs.",
        )
    accept = tuple(parse_rule(rule, quantity) for rule in entry.items("accept"))
    if not accept:
        raise refuse(f"{entry.path}: accept", "hold at least one rule", "none", f"Kinds are {', '.join(FIELDS)}.")
    seeds = tuple(entry.get("seeds", list))
    if not all(type(seed) is int for seed in seeds):
        raise refuse(f"{entry.path}: seeds", "be integers", list(seeds), "Write seeds = [0, 1, 2].")
    texts = {key: entry.get(key, str) for key in ("id", "where", "says", "stated", "hardware", "cost")}
    return Claim(**texts, quantity=quantity, accept=accept, seeds=seeds, stand_in=stand_in, reason=reason)


def _hash(value: object) -> str:
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()


@dataclass(frozen=True)
class Verdict:
    """A claim after the run: the status, what it rests on, and for a stand-in what it shows."""

    claim: Claim
    status: Status
    detail: str
    rules: tuple[RuleResult, ...]
    measured: Outcome | None = None


def judge(claim: Claim, outcomes: Mapping[str, Outcome], failure: str = "") -> Verdict:
    """Compute the status of a claim. `failure` is what stopped its run, if something did."""
    results = tuple(RuleResult(str(rule), *rule.holds(outcomes)) for rule in claim.accept)
    held, open_ = sum(r.holds is True for r in results), [r for r in results if r.holds is None]
    measured = outcomes.get(claim.quantity)
    if open_:
        # a rule that cannot be decided leaves the claim undecided: half a check is no reproduction, nor a refutation
        status, detail = "not run", failure or open_[0].seen
    else:
        status = "reproduced" if held == len(results) else "partly" if held else "not"
        detail = f"{held} of {len(results)} rules hold" if len(results) > 1 else ""
    if claim.stand_in and status != "not run":
        word = {"reproduced": "holds", "partly": "holds in part", "not": "does not hold"}[status]
        status, detail = "stand-in", "; ".join(part for part in (word, detail) if part)
    return Verdict(claim, status, detail, results, measured)  # pyright: ignore[reportArgumentType]
