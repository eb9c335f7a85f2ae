"""Certificates as compact script files: columns of numbers at once, sentences in shards that are read when shown.

Numbers are base64 of little-endian arrays, a third smaller and much faster to read than JSON, and infinity is one of
them. At 16,384 features the columns take 1.1 MB; a shard of 256 sentences about 40 kB.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from monoseme.records.certificates import VERDICTS, CertificateTable

__all__ = ["POINTS", "SHARD", "certificate_index", "named_by", "reason_shard"]

SHARD = 256
FIRST = 3  # partners that a row shows before its shard is read
NAMED = 24  # partners, and features it is a partner of, that a shard lists
POINTS = 2000  # pairs that are drawn
NUMBERS = (
    "removable_loss", "violation_lower", "violation_upper", "strain", "density", "antipode_gain", "split_gain",
)  # fmt: skip


def pack(values: np.ndarray, kind: str) -> str:
    """Base64 of an array as little-endian `kind`.

    Examples
    --------
    >>> pack(np.array([1, 258]), "<i2")
    'AQACAQ=='
    """
    return base64.b64encode(np.ascontiguousarray(values, np.dtype(kind)).tobytes()).decode()


def certificate_index(table: CertificateTable) -> dict[str, Any]:
    """Return what the table and the chart need at once."""
    columns, pairs = table.features, table.pairs
    counts = np.diff(columns.partner_ptr)
    first = np.full((len(columns), FIRST), -1, np.int64)
    for place in range(FIRST):
        there = np.flatnonzero(counts > place)
        first[there, place] = columns.partners[columns.partner_ptr[there] + place]
    # a signed scalar is two features: rows then say which half of which block they are
    halves = bool((columns.side < 0).any())
    strongest = np.argsort(-pairs.strain, kind="stable")[:POINTS]
    return {
        "count": len(columns),
        "shard": SHARD,
        "first": FIRST,
        "verdicts": list(VERDICTS),
        "verdict": pack(columns.verdict, "<i1"),
        "numbers": {name: pack(_single(getattr(columns, name)), "<f4") for name in NUMBERS},
        "strainPartner": pack(columns.strain_partner, "<i4"),
        "partners": pack(first.ravel(), "<i4"),
        "partnerCount": pack(counts, "<i4"),
        "block": pack(columns.block, "<i4") if halves else None,
        "side": pack(columns.side, "<i1") if halves else None,
        "pairs": {
            "first": pack(pairs.first[strongest], "<i4"),
            "second": pack(pairs.second[strongest], "<i4"),
            "strain": pack(_single(pairs.strain[strongest]), "<f4"),
            "cosine": pack(pairs.cosine[strongest], "<f4"),
        },
    }


def _single(values: np.ndarray) -> np.ndarray:
    """As float32: what is positive stays positive, what is finite stays finite."""
    limits = np.finfo(np.float32)
    inside = np.where(np.isinf(values), values, np.clip(values, limits.min, limits.max))
    return np.where(values > 0, np.maximum(inside, float(limits.tiny)), inside).astype(np.float32)


def reason_shard(table: CertificateTable, start: int, named_by: Sequence[Sequence[int]]) -> list[list[Any]]:
    """Sentence, partners, and what it is a partner of, for the features of one shard."""
    end = min(start + SHARD, len(table.features))
    return [
        [table.features.why[j], table.features.partners_of(j)[:NAMED], list(named_by[j][:NAMED]), len(named_by[j])]
        for j in range(start, end)
    ]


def named_by(table: CertificateTable) -> list[list[int]]:
    """Return, for each feature, those that name it as a partner."""
    found: list[list[int]] = [[] for _ in range(len(table.features))]
    owner = np.repeat(np.arange(len(table.features)), np.diff(table.features.partner_ptr))
    for j, partner in zip(owner.tolist(), table.features.partners.tolist(), strict=True):
        found[partner].append(j)
    return found
