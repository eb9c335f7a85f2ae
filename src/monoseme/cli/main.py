"""`monoseme VERB ...`: one line for every mistake a user can make, and exit codes that a script can rely on."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import get_args, get_type_hints

import tyro

from monoseme.cli.audit import Audit
from monoseme.cli.choose import Choose
from monoseme.cli.composition import Composition
from monoseme.cli.demo import Demo
from monoseme.cli.evaluate import Evaluate
from monoseme.cli.fit import Fit
from monoseme.cli.harvest import Harvest
from monoseme.cli.interaction import Interaction
from monoseme.cli.optimality import Optimality
from monoseme.cli.page import Page
from monoseme.cli.reproduce import Reproduce
from monoseme.cli.sweep import Sweep
from monoseme.cli.view import View
from monoseme.core.errors import UserError, closest, refuse
from monoseme.learning import Interrupted, SweepInterrupted

__all__ = ["main"]

ABOUT = "Take neural networks apart, and know whether to believe what you see."
SIGINT = 2


Verb = (
    Audit
    | Harvest
    | Fit
    | Choose
    | Sweep
    | Evaluate
    | Page
    | View
    | Optimality
    | Interaction
    | Composition
    | Demo
    | Reproduce
)  # tyro calls each by its class


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        0 when it was done, 1 when a reproduction lacks a number or a fit of a sweep failed, 2 for bad input, 128 + n
        when signal n stopped it.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        print(f"monoseme {version('monoseme')}")
        return 0
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: _say(f"warning: {message}")
        return _guarded(lambda: _parsed(arguments).run(), arguments[:1])


def _guarded(act: Callable[[], int | None], verb: Sequence[str] = ()) -> int:
    """Run, with a line on stderr instead of a traceback for all that is not our own fault."""
    try:
        return act() or 0
    except UserError as error:
        _say(_typed(str(error), verb))
        return 2
    except OSError as error:
        _say(_reason(error))
        return 2
    except SweepInterrupted as stop:
        _say(f"stopped after {stop.step:,} of {stop.total:,} trials; the same command goes on with the rest")
        return int(stop.code or 1)
    except Interrupted as stop:
        kept = f"its checkpoint is {stop.checkpoint}" if stop.checkpoint else "nothing was kept"
        _say(f"stopped after step {stop.step:,}; {kept}; the same command goes on from there")
        return int(stop.code or 1)
    except KeyboardInterrupt:
        _say("stopped; the same command goes on with what was finished")
        return 128 + SIGINT


def _typed(line: str, verb: Sequence[str]) -> str:
    """The library's next step as it is typed here.

    Examples
    --------
    >>> _typed("Or pass resume=False to start over.", ["fit"]), _typed("Pass resume=False.", ["audit"])
    ('Or pass --restart to start over.', 'Pass another --out.')
    """
    return line.replace("resume=False", "--restart" if {*verb} & {"fit", "sweep"} else "another --out")


def _parsed(arguments: Sequence[str]) -> Verb:
    """Options by tyro; its box of several lines becomes one of ours."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                Verb,
                prog="monoseme",
                description=f"{ABOUT} `monoseme VERB --help` tells more.",
                args=arguments,
                config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as stop:
        if stop.code != 2:
            raise
        raise UserError(_near(arguments) or _one_line(said.getvalue())) from None


def _near(arguments: Sequence[str]) -> str:
    """Name the verb or the option that a word nearly is; empty when there is none, and tyro's own words must do."""
    words, verbs, group = list(arguments), get_args(Verb), ""
    while True:
        named = {_command(verb): verb for verb in verbs}
        first = words[0] if words else "--"
        if first not in named:
            known, unknown, what = [*named], [] if first.startswith("-") else [first], f"verb{group}"
            break
        kinds, words = get_type_hints(named[first], include_extras=True), words[1:]
        verbs, group = get_args(kinds.get("verb")), f" of {first}"  # a group's verbs are the types of its one field
        if not verbs:
            flags = (name.replace("_", "-") for name, kind in kinds.items() if "Positional" not in str(kind))
            known, what = ["--help", *(f"--{name}" for name in flags)], f"option{group}"
            typed = (word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--"))
            unknown = [word for word in typed if word not in known]
            break
    for word in unknown:
        if (advice := closest(word, known)).startswith("Did you mean"):
            return str(refuse(word, f"be a known {what}", "an unknown one", advice))
    return ""


def _command(verb: type) -> str:
    """How a class is typed: RankOne is rank-one."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", verb.__name__).lower()


def _one_line(box: str) -> str:
    """What a box of tyro says, without its frame.

    Examples
    --------
    >>> box = ["╭─ Unrecognized options ─╮", "│ Unrecognized options: --kk │", "│ ── │", "│ For help: │", "╰──╯"]
    >>> _one_line(chr(10).join(box))
    'Unrecognized options: --kk. For help:.'
    """
    lines = [line.strip("│ ") for line in box.splitlines() if line.startswith("│")] or box.split("\n")
    parts: list[str] = [""]
    for line in lines:
        if line and set(line) <= {"─"}:
            parts.append("")
        else:
            parts[-1] += f" {line}"
    return " ".join(" ".join(part.split()).removesuffix(".") + "." for part in parts if part.strip())


def _reason(error: OSError) -> str:
    """Our own messages as they are; the system's with the file they are about."""
    text = error.strerror or str(error) or type(error).__name__
    where = f": {error.filename}" if error.filename else ""
    return " ".join(f"{text}{where}".split())


def _say(line: str) -> None:
    print(f"monoseme: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
