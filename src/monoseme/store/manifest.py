"""A store's manifest and its table of samples, checked field by field before anything relies on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from monoseme.core.errors import refuse
from monoseme.core.files import read_json, sha256
from monoseme.core.parse import Entry
from monoseme.store.sources import SPLITS

__all__ = ["FORMAT", "TABLES", "VERSION", "read_manifest"]

FORMAT, VERSION = "monoseme-store", 2
TABLES = ("samples.json", "moments.safetensors", "text.safetensors")
AGAIN = "Copy it again, or delete the folder and harvest anew."
SHARD_NAME = re.compile(r"(train|validation|test)-\d{5}\.safetensors")


def read_manifest(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return manifest and samples of a finished store.

    Raises
    ------
    UserError
        When a field is missing, of another type, or contradicts the others, or a table is not the one written.
    """
    manifest = read_json(folder / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        # version 1 had one number of tokens for all samples: no reader of it is kept, a harvest makes it anew
        version = manifest.get("version", "none") if isinstance(manifest, dict) else "none"
        got = f"{folder} of version {version}"
        raise refuse("path", f"be a {FORMAT} of version {VERSION}", got, "Harvest it anew.")
    root = Entry(manifest, str(folder / "manifest.json"))
    for name in ("caveat", "hook", "dtype"):
        root.get(name, str)
    for name in ("name", "weights", "revision"):
        Entry(root.get("model", dict), f"{root.path}: model").get(name, str)
    _check_counts(root)
    check_tables(root, folder)
    return manifest, _samples(root, folder)


def check_tables(root: Entry, folder: Path) -> None:
    """Raise unless the tables are the ones the manifest was written with; a missing one is told when it is read."""
    tables = root.get("tables", dict)
    for name in TABLES:
        if (folder / name).is_file() and sha256(folder / name) != tables.get(name):
            raise refuse("path", "hold a whole store", f"{folder / name}, which is not the one written", AGAIN)


def _check_counts(root: Entry) -> None:
    """Counts and shapes, and that shards agree with them."""
    if root.get("d_in", int) < 1:
        raise refuse("path", "hold a manifest that agrees with itself", f"{root.path} with rows of width 0", AGAIN)
    _check_tokens(Entry(root.get("tokens", dict), f"{root.path}: tokens"))
    if root.mapping().get("text") is not None:
        root.get("text", dict)
    found: dict[str, int] = dict.fromkeys(SPLITS, 0)
    for shard in root.items("shards"):
        name, rows = str(shard.mapping().get("file")), shard.get("rows", int)
        _ = shard.get("bytes", int), shard.get("sha256", str)
        if not SHARD_NAME.fullmatch(name) or name.partition("-")[0] != shard.get("split", str):
            raise refuse("path", "name shards like test-00000.safetensors", repr(name), "Harvest it anew.")
        found[shard.get("split", str)] += max(rows, 0)
    for split in SPLITS:
        samples, rows = (
            Entry(root.get(name, dict), f"{root.path}: {name}").get(split, int) for name in ("samples", "rows")
        )
        if rows != found[split] or samples < 0:
            got = f"{rows} {split} rows of {samples} samples, {found[split]} in its shards"
            raise refuse("path", "hold a manifest that agrees with itself", f"{root.path} with {got}", AGAIN)


def _check_tokens(tokens: Entry) -> None:
    """What is said of dropped rows, when there is a limit to their norm."""
    policy = Entry(tokens.get("policy", dict), f"{tokens.path}: policy")
    if tokens.mapping().get("norm") is not None:
        tokens.get("norm", dict)
        if not isinstance(limit := policy.mapping().get("max_norm"), (int, float)) or isinstance(limit, bool):
            raise refuse(f"{policy.path}: max_norm", "be a number", repr(limit), AGAIN)
        dropped = Entry(tokens.get("high_norm", dict), f"{tokens.path}: high_norm")
        for split in SPLITS:
            dropped.get(split, int)


def _samples(root: Entry, folder: Path) -> list[dict[str, Any]]:
    """Table of samples, which must add up to what the manifest counts."""
    table = Entry(read_json(folder / "samples.json"), str(folder / "samples.json"))
    splits, grids, counts = [], set(), root.get("samples", dict)
    found: dict[str, int] = dict.fromkeys(SPLITS, 0)
    for sample in table.items():
        _ = sample.get("id", str), sample.get("group", str)
        splits.append(sample.get("split", str))
        if sample.mapping().get("target") is not None:
            sample.get("target", dict)
        rows, (height, width) = sample.get("rows", int), Entry(sample.get("grid", list), sample.path).pair(int, int)
        if not (min(height, width) >= 1 and 0 <= rows <= height * width):
            raise refuse(
                "path", "keep every row on its grid", f"{sample.path} with {rows} on {height} x {width}", AGAIN
            )
        found[splits[-1]] = found.get(splits[-1], 0) + rows
        grids.add((height, width))
    # compared without laying out what is counted: a wrong count must not take all memory
    if splits != sorted(splits, key=_place) or {split: splits.count(split) for split in SPLITS} != counts:
        raise refuse("path", "hold the samples its manifest counts", f"{table.path} of {len(splits)} samples", AGAIN)
    if len({sample["id"] for sample in table.value}) < len(splits):
        raise refuse("path", "give every sample its own id", table.path, AGAIN)
    if found != {split: root.get("rows", dict)[split] for split in SPLITS}:
        got = f"{root.path} with other rows than {table.path}"
        raise refuse("path", "hold a manifest that agrees with itself", got, AGAIN)
    _check_grid(root, grids)
    return table.value


def _place(split: str) -> int:
    """Where a split stands among the samples; behind all others, if it is none."""
    return SPLITS.index(split) if split in SPLITS else len(SPLITS)


def _check_grid(root: Entry, grids: set[tuple[int, int]]) -> None:
    """The manifest's grid is that of all samples, or null when they differ."""
    given = None
    if root.mapping().get("grid", ()) is not None:
        given = Entry(root.get("grid", list), f"{root.path}: grid").pair(int, int)
    if given != (next(iter(grids)) if len(grids) == 1 else None):
        got = f"{root.path} with a grid of {given}, which is not that of its samples"
        raise refuse("path", "hold a manifest that agrees with itself", got, AGAIN)
