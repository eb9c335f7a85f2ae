"""A judge that answers from what was kept: another judge's file, or a person's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from jaxtyping import Float
from torch import Tensor

from monoseme.composition.judges.protocol import Answer, Verdict, eight_bit, picture_key
from monoseme.core.errors import refuse
from monoseme.core.files import sha256

__all__ = ["ReplayJudge", "read_verdicts", "verdict_line"]


def verdict_line(key: str, verdict: Verdict) -> str:
    """One line of a file of verdicts."""
    return json.dumps({"picture": key, "answer": verdict.answer, "score": verdict.score, "note": verdict.note}) + "\n"


def read_verdicts(path: Path) -> dict[str, Verdict]:
    """Verdicts by picture. A last line that was cut off is left out; any other damage is refused."""
    found: dict[str, Verdict] = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            kept = json.loads(line)
            answer, score = kept["answer"], kept["score"]
            numeric = score is None or (isinstance(score, (int, float)) and not isinstance(score, bool))
            if answer not in get_args(Answer) or not numeric:
                raise ValueError
            found[str(kept["picture"])] = Verdict(answer, score, str(kept["note"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            got = f"line {number} of {path.name}"
            raise refuse(
                "path", "hold a verdict in each line", got, "Remove the line; its picture is judged anew."
            ) from None
    return found


class ReplayJudge:
    """Answers by picture; ``"invalid"`` where nothing was kept. Score and note are those of the first time.

    Parameters
    ----------
    path
        A file of verdicts, such as ``verdicts-*.jsonl`` of an earlier score.
    """

    batch = 64

    def __init__(self, path: Path | str) -> None:
        path = Path(path)
        if not path.is_file():
            raise refuse("path", "be a file of verdicts", path, "Score once with another judge and out=.")
        self.verdicts = read_verdicts(path)
        self.about: Mapping[str, Any] = {"judge": "replay", "file": sha256(path)}

    def judge(self, pictures: Float[Tensor, "n h w 3"]) -> list[Verdict]:
        """What was said of each."""
        missing = Verdict("invalid", None, "not among the kept verdicts")
        return [self.verdicts.get(picture_key(eight_bit(picture)), missing) for picture in pictures]
