"""The only file that joins rooms."""
