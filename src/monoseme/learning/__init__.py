"""The only training loop: optimisers, schedules, checkpoints, log."""
