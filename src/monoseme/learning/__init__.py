"""The only training loop: optimisers, schedules, checkpoints, log.

Reading order: `trainable`, `schedule`, `config`, `loop`, then what it stands on.
"""

from monoseme.learning.config import TrainConfig
from monoseme.learning.history import History, Progress
from monoseme.learning.interrupt import Interrupted
from monoseme.learning.log import read_log, without_clock
from monoseme.learning.loop import train
from monoseme.learning.schedule import Schedule
from monoseme.learning.trainable import Trainable

__all__ = [
    "History",
    "Interrupted",
    "Progress",
    "Schedule",
    "TrainConfig",
    "Trainable",
    "read_log",
    "train",
    "without_clock",
]
