"""Programs that write the fixtures need environments of their own: they are not collected."""

collect_ignore = ["write_saelens.py", "write_sparsify.py"]
