"""A mistake is one line on stderr that names what was wrong, and exit code 2; a signal leaves a run that goes on."""

import errno
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Call

import monoseme as ms
from monoseme.cli import fit as fit_verb
from monoseme.cli import main as command_line
from monoseme.core.files import only_writer
from monoseme.learning import Progress

FIT = "fit STORE BlockTopK --n-blocks 8 --block-size 2 --k 2 --batch-size 64"
MISTAKES = {
    "unknown verb": ("fti", "fti"),
    "no verb": ("", "demo"),
    "unknown option": ("fit STORE TopK --out RUN --n-blocks 8 --kk 2", "--kk"),
    "not a number": ("fit STORE TopK --out RUN --n-blocks many --k 2", "--n-blocks"),
    "unknown featurizer": ("fit STORE TopKK --out RUN --n-blocks 8 --k 2", "Did you mean TopK"),
    "missing store": ("fit nowhere TopK --out RUN --n-blocks 8 --k 2", "nowhere"),
    "k above blocks": ("fit STORE TopK --out RUN --n-blocks 8 --k 9", "k must be at most n_blocks = 8"),
    "missing k": ("fit STORE TopK --out RUN --n-blocks 8", "--k must be given for TopK"),
    "option of another": ("fit STORE ReLU --out RUN --n-blocks 8 --k 2", "--k must be left out for ReLU"),
    "no equals": ("fit STORE TopK --out RUN --n-blocks 8 --k 2 --set sign", "--set must have the form NAME=VALUE"),
    "unknown argument": ("fit STORE TopK --out RUN --n-blocks 8 --k 2 --set thata=1", "--set thata= must be left out"),
    "bad word": ("fit STORE GroupLasso --out RUN --n-blocks 8 --block-size 2 --target-l0 2 --set gate=hard", "gate"),
    "missing target": ("fit STORE GroupLasso --out RUN --n-blocks 8 --block-size 2", "--target-l0 must be given"),
    "no penalty on jumps": ("fit STORE JumpReLU --out RUN --n-blocks 8", "lam"),
    "bad norm": ("fit STORE TopK --out RUN --n-blocks 8 --k 2 --norm huge", "norm"),
    "no penalty": ("fit STORE ReLU --out RUN --n-blocks 8", "lam"),
    "too few rows": ("fit STORE TopK --out RUN --n-blocks 8 --k 2 --batch-size 9999", "batch_size"),
    "seed by set": ("fit STORE TopK --out RUN --n-blocks 8 --k 2 --set seed=3", "Use --seed."),
    "closest argument": ("fit STORE TopK --out RUN --n-blocks 8 --k 2 --set sgn=free", "Did you mean sign?"),
    "other steps": (f"{FIT} --out FITTED --steps 31", "or pass --restart to start over."),
    "nearly a verb": ("harvst toy", "harvst must be a known verb; got an unknown one. Did you mean harvest?"),
    "nearly an option": (
        f"{FIT} --out RUN --n-block 8",
        "--n-block must be a known option of fit; got an unknown one.",
    ),
    "closest option": (f"{FIT} --out RUN --step=3", "Did you mean --steps"),
    "splice without pictures": ("evaluate FITTED --splice", "--data must be given with --splice"),
    "choose without pictures": ("choose STORE --out RUN --splice", "--data must be given with --splice"),
    "evaluate a store": ("evaluate STORE", "this is a store. Fit a featurizer on it first."),
    "page of a store": ("page STORE", "this is a store. Fit a featurizer on it first."),
    "no such run": ("evaluate nowhere", "nowhere"),
    "page of no run": ("page nowhere", "nowhere"),
    "unknown model": ("harvest toi wheels --at blocks.9 --out RUN", "Did you mean toy"),
    "missing folder": ("harvest toy nowhere --at blocks.9 --out RUN", "nowhere"),
    "no hook": ("harvest toy wheels --out RUN", "blocks.0"),
    "no data": ("harvest toy --at blocks.9 --out RUN", "DATA"),
    "no out": ("harvest toy wheels --at blocks.9", "--out"),
    "hook typo": ("harvest toy PICTURES --at block.9 --out RUN", "Did you mean blocks.9"),
    "limit of none": ("harvest toy PICTURES --at blocks.9 --out RUN --limit 0", "limit"),
    "unknown paper": ("reproduce bfs", "Did you mean bsf"),
    "unknown claim": ("reproduce bsf --only vanila --out RUN", "Did you mean vanilla"),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_one_line_and_exit_code_two(
    line: str, call: Call, store: Path, pictures: Path, fitted: Path, tmp_path: Path
) -> None:
    typed, named = MISTAKES[line]
    places = {"STORE": store, "RUN": tmp_path / "run", "PICTURES": pictures, "FITTED": fitted}
    code, said, error = call(*(places.get(word, word) for word in typed.split()))
    assert (code, said) == (2, "")
    assert error.startswith("monoseme: ")
    assert error.count("\n") == 1
    assert named in error
    assert "Traceback" not in error


def test_another_process_holds_the_run(call: Call, fitted: Path, store: Path) -> None:
    with only_writer(fitted):
        code, _, error = call("fit", store, "TopK", "--out", fitted, "--n-blocks", 8, "--k", 2, "--batch-size", 64)
    assert code == 2
    assert "another process" in error


def test_a_store_in_the_memory_of_another_process(call: Call, fitted: Path, tmp_path: Path) -> None:
    run = shutil.copytree(fitted, tmp_path / "run")
    (run / "origin.json").write_text(json.dumps({"store": "memory://gone/store", "training": ""}))
    for verb in ("page", "evaluate"):
        code, _, error = call(verb, run)
        assert code == 2
        assert error.startswith("monoseme: store must outlive the process that harvested it; got memory://gone/store.")
        assert "memory:// dies with its process" in error
        assert error.count("\n") == 1


def test_the_system_s_errors_name_the_file(call: Call, fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.EACCES, "Permission denied", "some/file")

    monkeypatch.setattr(ms, "page", full)
    assert call("page", fitted) == (2, "", "monoseme: Permission denied: some/file\n")


def test_our_own_faults_keep_their_traceback(call: Call, fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(ms, "page", broken)
    with pytest.raises(KeyError, match="a bug"):
        call("page", fitted)


def test_warnings_are_one_line_each(call: Call, fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    monkeypatch.setattr(ms, "page", lambda *_, **__: warnings.warn("few pictures", stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert call("page", fitted)[2] == "monoseme: warning: few pictures\n"


def test_version(call: Call) -> None:
    code, said, _ = call("--version")
    assert code == 0
    assert said.startswith("monoseme ")


def test_help_is_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command_line.main(["fit", "--help"])
    assert stop.value.code == 0
    assert "--n-blocks" in capsys.readouterr().out


FOREVER = ("TopK", "--n-blocks", "8", "--k", "2", "--steps", "1000000", "--batch-size", "64", "--log-every", "5")


def kept_steps(run: Path) -> int:
    return json.loads((run / "checkpoint/checkpoint.json").read_text(encoding="utf-8"))["step"]


def test_a_stopped_fit_says_so_and_goes_on(
    call: Call, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = tmp_path / "run", []

    def stopping(signum: signal.Signals, after: int) -> Callable[..., Callable[[Progress], None]]:
        def tell(p: Progress) -> None:
            seen.append(p.step)
            if p.step == after:
                signal.raise_signal(signum)

        return lambda *_: tell

    for signum, after in ((signal.SIGINT, 10), (signal.SIGTERM, 25)):
        monkeypatch.setattr(fit_verb, "of_fit", stopping(signum, after))
        code, _, error = call("fit", store, *FOREVER, "--out", run)
        assert code == 128 + signum
        assert f"stopped after step {after}; its checkpoint is {run / 'checkpoint'}; the same command" in error
        assert error.count("\n") == 1
        assert kept_steps(run) == after
    assert seen == [1, 5, 10, 15, 20, 25]


def test_control_c_in_a_real_process(store: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "monoseme.cli.main", "fit", str(store), *FOREVER, "--out", str(run)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("step ")
    process.send_signal(signal.SIGINT)
    said, error = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert f"monoseme: stopped after step {kept_steps(run):,}; its checkpoint is {run / 'checkpoint'};" in error
    assert "Traceback" not in error
