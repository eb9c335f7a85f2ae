"""The only training loop: optimisers, schedules, checkpoints, log. And the sweep engine: function × grid × executor.

Reading order: `trainable`, `schedule`, `config`, `loop`, then what it stands on; `points`, `trial`, `sweep`, `results`.
"""

from monoseme.learning.config import TrainConfig
from monoseme.learning.driving import Submits, SweepProgress
from monoseme.learning.history import History, Progress
from monoseme.learning.interrupt import Interrupted
from monoseme.learning.log import read_log, without_clock
from monoseme.learning.loop import train
from monoseme.learning.points import Trial, grid
from monoseme.learning.pool import process_pool
from monoseme.learning.results import PointSummary, SweepResult, TrialResult
from monoseme.learning.schedule import Schedule
from monoseme.learning.sweep import SweepInterrupted, sweep
from monoseme.learning.trainable import Trainable

__all__ = [
    "History",
    "Interrupted",
    "PointSummary",
    "Progress",
    "Schedule",
    "Submits",
    "SweepInterrupted",
    "SweepProgress",
    "SweepResult",
    "TrainConfig",
    "Trainable",
    "Trial",
    "TrialResult",
    "grid",
    "process_pool",
    "read_log",
    "sweep",
    "train",
    "without_clock",
]
