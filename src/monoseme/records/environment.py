"""What a number was measured with: versions, machine, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from monoseme.records.plan import now

__all__ = ["environment"]


def environment() -> dict[str, str]:
    """Versions, machine and commit, so far as they are known."""
    known = {"when": now(), "python": platform.python_version(), "system": platform.platform()}
    known |= {"cpus": str(os.cpu_count()), "processor": platform.machine(), "commit": _commit()}
    for package in ("monoseme", "torch", "numpy"):
        try:
            known[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            known[package] = "not installed as a package"
    return known


def _commit() -> str:
    """Commit of the source this package was imported from, or "not known"; says when files differ from it."""
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("rev-parse", "HEAD") + (", with changes" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return "not known"
