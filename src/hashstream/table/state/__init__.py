"""Immutable values: what a table holds after one commit. No file, no thread, no SQL."""
