"""Kinds of options that several verbs share. An option that was not given is ``None`` and is left to the library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

__all__ = ["Count", "Folder", "Number", "Place", "Run", "Split", "Store"]

Count = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(optional)")]
Number = Annotated[float | None, tyro.conf.arg(metavar="X", help_behavior_hint="(optional)")]
Place = Annotated[str | None, tyro.conf.arg(metavar="FOLDER|URL", help_behavior_hint="(optional)")]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER", help_behavior_hint="(optional)")]
Run = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
Store = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="STORE")]
Split = Literal["train", "validation", "test"]
