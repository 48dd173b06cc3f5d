"""COMPARE: packed binary codes and the exact ways to compare them."""
