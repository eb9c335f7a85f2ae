"""One grammar for every error a user can cause: the argument, the rule, what came, the next step."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["UserError", "closest", "refuse"]


class UserError(ValueError):
    """Bad input. The message is one line: argument, rule, what came, next step."""


def refuse(argument: str, rule: str, got: object, fix: str) -> UserError:
    """Build the error to raise for a bad argument.

    Parameters
    ----------
    argument
        Name of the argument, as the caller wrote it.
    rule
        What it must be, completing the sentence "`argument` must ...".
    got
        What came; shown with ``str``.
    fix
        The next step, a sentence.

    Returns
    -------
    UserError
        To be raised by the caller, so that the traceback ends where the rule lives.

    Examples
    --------
    >>> raise refuse("k", "be at most n_blocks = 64", 100, "Lower k or raise n_blocks.")
    Traceback (most recent call last):
    monoseme.core.errors.UserError: k must be at most n_blocks = 64; got 100. Lower k or raise n_blocks.
    """
    line = f"{argument} must {rule}; got {got}. {fix}"
    return UserError(" ".join(line.split()))


def closest(name: str, options: Iterable[str], n: int = 3) -> str:
    """Name the options that look most like `name`, for an error's next step.

    Examples
    --------
    >>> closest("block.9", ["blocks.9", "blocks.10", "head"])
    'Did you mean blocks.9, blocks.10?'
    >>> closest("zzz", ["a", "b"])
    'Choose one of: a, b.'
    """
    options = list(options)
    near = difflib.get_close_matches(name, options, n=n, cutoff=0.5)
    if near:
        return f"Did you mean {', '.join(near)}?"
    shown = ", ".join(options[:8]) + (", ..." if len(options) > 8 else "")
    return f"Choose one of: {shown}."
