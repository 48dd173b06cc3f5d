"""KEEP: items, their codes and the versions of the functions that encoded them, in a folder that survives.

`HashTable.open` is the door. `policies` decide when items are re-encoded; a `TableError` says what is wrong with a
folder. Another engine is another `Storage` or `CodeIndex` (`hashstream.table.storage.base`).
"""

from hashstream.table.answers import Answers
from hashstream.table.errors import TableError, TableLocked
from hashstream.table.files import FileIngest, Progress, Tally
from hashstream.table.policies import (
    Eager,
    Every,
    Facts,
    Gated,
    Lazy,
    Never,
    Policy,
    Projected,
    parse,
    register,
)
from hashstream.table.results import Commit, Items, RadiusResult, SearchResult
from hashstream.table.settings import Settings
from hashstream.table.stats import Drift, TableStats
from hashstream.table.storage.base import CodeIndex, Storage
from hashstream.table.table import HashTable

__all__ = [
    "Answers",
    "CodeIndex",
    "Commit",
    "Drift",
    "Eager",
    "Every",
    "Facts",
    "FileIngest",
    "Gated",
    "HashTable",
    "Items",
    "Lazy",
    "Never",
    "Policy",
    "Progress",
    "Projected",
    "RadiusResult",
    "SearchResult",
    "Settings",
    "Storage",
    "TableError",
    "TableLocked",
    "TableStats",
    "Tally",
    "parse",
    "register",
]
