"""Lets the tests of this folder import `learning_toy`, which is also run as a program."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
