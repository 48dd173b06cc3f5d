"""Benchmarks that `hashstream perf NAME` runs: ratios measured in one run, never a test."""
