"""Verdicts of a judge, each picture judged once: kept line by line, so that a run that is killed goes on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from monoseme.composition.judges.protocol import Judge, Verdict, identity, picture_key
from monoseme.composition.judges.replay import read_verdicts, verdict_line
from monoseme.core.errors import refuse

__all__ = ["Judged"]


class Judged:
    """A judge with a memory.

    Parameters
    ----------
    judge
        Is asked only about pictures that are not known yet.
    folder
        Where verdicts are kept, in a file of this judge's own; None: only in memory.
    """

    def __init__(self, judge: Judge, folder: Path | None = None) -> None:
        self.inner, self.asked = judge, 0
        self.path = None if folder is None else folder / f"verdicts-{identity(judge)[:16]}.jsonl"
        self.known: dict[str, Verdict] = {}
        if self.path is not None and self.path.exists():
            self.known = {key: v for key, v in read_verdicts(self.path).items() if v.answer != "invalid"}
            self._mend(self.path)

    def of(self, pictures: Sequence[UInt8[np.ndarray, "h w 3"]]) -> list[Verdict]:
        """Verdicts of pictures, in order."""
        keys = [picture_key(picture) for picture in pictures]
        new = {key: picture for key, picture in zip(keys, pictures, strict=True) if key not in self.known}
        waiting = list(new)
        for start in range(0, len(waiting), self.inner.batch):
            part = waiting[start : start + self.inner.batch]
            stacked = torch.from_numpy(np.stack([new[key] for key in part])).float() / 255
            verdicts = self.inner.judge(stacked)
            if len(verdicts) != len(part):
                raise refuse("judge", f"give {len(part)} verdicts", len(verdicts), "One a picture, in order.")
            self.asked += len(part)
            self._keep(dict(zip(part, verdicts, strict=True)))
        return [self.known[key] for key in keys]

    def _keep(self, verdicts: dict[str, Verdict]) -> None:
        self.known |= verdicts
        if self.path is None:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(verdict_line(key, verdict) for key, verdict in verdicts.items())
            file.flush()
            os.fsync(file.fileno())

    @staticmethod
    def _mend(path: Path) -> None:
        """Cut off a last line that was not finished: what follows would be glued to it."""
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            with path.open("r+b") as file:
                file.truncate(len(whole))
