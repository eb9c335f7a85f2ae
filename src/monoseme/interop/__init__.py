"""Checkpoints of other libraries, read without running any code of theirs."""
