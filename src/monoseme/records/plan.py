"""The plan: hashes of the claims, written before anything is run, so that no rule is bent to what came out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from monoseme.core.errors import refuse
from monoseme.core.files import read_json, write_json
from monoseme.core.parse import Entry
from monoseme.records.claims import Claims

__all__ = ["OUTCOMES", "PLAN", "changes", "digest", "freeze", "now", "verify"]

PLAN, OUTCOMES = "plan.json", "outcomes.json"


def now() -> str:
    """Return the time, in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def digest(hashes: Mapping[str, str]) -> str:
    """Return one hash for the hashes of all claims."""
    return hashlib.sha256(json.dumps(dict(hashes), sort_keys=True).encode()).hexdigest()


def changes(claims: Claims, out: Path | str) -> list[str]:
    """Say how `claims` differ from the plan frozen in `out`: one line a claim; empty when they agree."""
    plan = Entry(read_json(Path(out) / PLAN), str(Path(out) / PLAN))
    frozen, now = plan.get("claims", dict), claims.hashes
    lines = [f"{name} was removed" for name in frozen if name not in now]
    lines += [f"{name} was added" for name in now if name not in frozen]
    lines += [f"{name} was changed" for name in now if name in frozen and frozen[name] != now[name]]
    if digest(frozen) != plan.get("sha256", str):
        lines.append("plan.json was edited")
    return lines


def verify(claims: Claims, out: Path | str) -> str:
    """Return the hash of the plan frozen in `out`, having checked that it is a plan for these `claims`.

    Raises
    ------
    UserError
        When the claims are not those that were frozen.
    """
    out = Path(out)
    different = changes(claims, out)
    if different:
        raise refuse(
            "claims",
            f"be those frozen in {out / PLAN}",
            "; ".join(different),
            "Restore them, or start in a new folder.",
        )
    return digest(claims.hashes)


def freeze(claims: Claims, out: Path | str) -> str:
    """Write plan.json before anything is run, or verify the one that is there; return its hash."""
    out = Path(out)
    if not (out / PLAN).exists():
        if (out / OUTCOMES).exists():
            raise refuse("out", f"hold {PLAN} beside {OUTCOMES}", f"{out} without it", "Start in a new folder.")
        hashes = claims.hashes
        write_json(out / PLAN, {"paper": claims.paper, "claims": hashes, "sha256": digest(hashes), "frozen": now()})
    return verify(claims, out)
