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

FORMAT, VERSION = "monoseme-store", 1
TABLES = ("samples.json", "moments.safetensors")
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
        raise refuse("path", f"be a {FORMAT} of version {VERSION}", folder, "Harvest it anew.")
    root = Entry(manifest, str(folder / "manifest.json"))
    for name in ("caveat", "hook", "dtype"):
        root.get(name, str)
    for name in ("name", "weights"):
        Entry(root.get("model", dict), f"{root.path}: model").get(name, str)
    _check_counts(root)
    for name in TABLES:
        if (folder / name).is_file() and sha256(folder / name) != root.get("tables", dict).get(name):
            raise refuse("path", "hold a whole store", f"{folder / name}, which is not the one written", AGAIN)
    return manifest, _samples(root, folder)


def _check_counts(root: Entry) -> None:
    """Counts and shapes, and that they agree."""
    d_in, (height, width) = root.get("d_in", int), Entry(root.get("grid", list), f"{root.path}: grid").pair(int, int)
    per_sample = Entry(root.get("tokens", dict), f"{root.path}: tokens").get("per_sample", int)
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
        if not rows == found[split] == samples * per_sample >= 0:
            got = f"{rows} {split} rows of {samples} samples, {found[split]} in its shards"
            raise refuse("path", "hold a manifest that agrees with itself", f"{root.path} with {got}", AGAIN)
    if min(d_in, per_sample) < 1 or height * width != per_sample:
        got = f"{root.path} with {per_sample} tokens of width {d_in} on a grid of {height} x {width}"
        raise refuse("path", "hold a manifest that agrees with itself", got, AGAIN)


def _samples(root: Entry, folder: Path) -> list[dict[str, Any]]:
    table = Entry(read_json(folder / "samples.json"), str(folder / "samples.json"))
    splits, counts = [], root.get("samples", dict)
    for sample in table.items():
        sample.get("id", str)
        splits.append(sample.get("split", str))
        if sample.mapping().get("target") is not None:
            sample.get("target", dict)
    if splits != [split for split in SPLITS for _ in range(counts[split])]:
        raise refuse("path", "hold the samples its manifest counts", f"{table.path} of {len(splits)} samples", AGAIN)
    return table.value
