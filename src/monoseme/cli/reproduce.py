"""`monoseme reproduce`: the claims of a paper, run and judged by rules fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from monoseme.cli.options import Folder
from monoseme.explorer.static import write_claims
from monoseme.papers import find
from monoseme.records import Claims, reproduce

__all__ = ["Reproduce"]


@dataclass(frozen=True)
class Reproduce:
    """Measure what a paper claims and judge it. What is measured is kept, so that a stopped run goes on.

    It ends with exit code 1 when a claim could not be measured; a claim that does not hold is a result, not an error.
    """

    paper: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PAPER")]
    """For example bsf."""
    out: Folder = None
    """Folder of the reproduction; records/PAPER by default."""
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="CLAIM ...", help_behavior_hint="(optional)")] = ()
    """Run only these claims now."""
    list: bool = False
    """Only print the claims, what they cost, and how they are judged."""

    def run(self) -> int:
        """Run, print the verdicts, and write the page."""
        claims, recipe = find(self.paper)
        if self.list:
            print(listing(claims))
            return 0
        out = Path("records") / self.paper if self.out is None else self.out
        result = reproduce(claims, recipe, out, self.only or None)
        print(result.table())
        print(write_claims(result, out / "page"))
        for name, reason in result.failures.items():
            print(f"{name} could not be measured: {reason}")
        return 1 if result.failures else 0


def listing(claims: Claims) -> str:
    """Every claim with its cost and its rules."""
    lines = [f"{claims.title} ({claims.source})"]
    for claim in claims.claims:
        rules = "; ".join(f"{rule}" for rule in claim.accept)
        lines += ["", f"{claim.id}  ({claim.cost} on {claim.hardware})", f"  {claim.says}", f"  accepted if {rules}"]
    return "\n".join(lines)
