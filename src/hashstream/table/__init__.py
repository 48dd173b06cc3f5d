"""KEEP: items, their codes and the versions of the functions that made them, in a folder that survives.

`HashTable.open` is the door. `policies` decide when codes are made anew; a `TableError` says what is wrong with a
folder.
"""

from hashstream.table.errors import TableError, TableLocked
from hashstream.table.policies import Eager, Every, Gated, Lazy, Never, Policy, Projected
from hashstream.table.stats import Drift, TableStats
from hashstream.table.table import HashTable, Items

__all__ = [
    "Drift",
    "Eager",
    "Every",
    "Gated",
    "HashTable",
    "Items",
    "Lazy",
    "Never",
    "Policy",
    "Projected",
    "TableError",
    "TableLocked",
    "TableStats",
]
