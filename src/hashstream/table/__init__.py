"""KEEP: items, their codes and the versions of the functions that encoded them, in a folder that survives.

`HashTable.open` is the door. `policies` decide when items are re-encoded; a `TableError` says what is wrong with a
folder. Another engine is another `Storage` or `CodeIndex` (`hashstream.table.storage.base`).
"""

from hashstream.table.answers import Answers
from hashstream.table.background import Refresher
from hashstream.table.calls import Call
from hashstream.table.errors import (
    Closed,
    DiskFull,
    KeyReused,
    OutcomeUnknown,
    Overtaken,
    ReadOnly,
    TableError,
    TableLocked,
    Unavailable,
)
from hashstream.table.export.manifest import Manifest, join_manifests
from hashstream.table.export.reading import Exported
from hashstream.table.export.writing import ExportProgress
from hashstream.table.files import FileIngest, Progress, Tally
from hashstream.table.policies import (
    Eager,
    Every,
    Facts,
    Gated,
    Grown,
    Lazy,
    Never,
    Partial,
    Policy,
    Projected,
    parse,
    register,
)
from hashstream.table.results import Commit, Items, RadiusResult, SearchResult
from hashstream.table.settings import Durability, Settings
from hashstream.table.state.change import Batch, Change, Done
from hashstream.table.state.sample import Sample
from hashstream.table.state.state import State
from hashstream.table.state.view import View
from hashstream.table.stats import Drift, TableStats
from hashstream.table.storage.base import CodeIndex, Storage, StoredBatch
from hashstream.table.table import HashTable
from hashstream.table.writer import Writer

__all__ = [
    "Answers",
    "Batch",
    "Call",
    "Change",
    "Closed",
    "CodeIndex",
    "Commit",
    "DiskFull",
    "Done",
    "Drift",
    "Durability",
    "Eager",
    "Every",
    "ExportProgress",
    "Exported",
    "Facts",
    "FileIngest",
    "Gated",
    "Grown",
    "HashTable",
    "Items",
    "KeyReused",
    "Lazy",
    "Manifest",
    "Never",
    "OutcomeUnknown",
    "Overtaken",
    "Partial",
    "Policy",
    "Progress",
    "Projected",
    "RadiusResult",
    "ReadOnly",
    "Refresher",
    "Sample",
    "SearchResult",
    "Settings",
    "State",
    "Storage",
    "StoredBatch",
    "TableError",
    "TableLocked",
    "TableStats",
    "Tally",
    "Unavailable",
    "View",
    "Writer",
    "join_manifests",
    "parse",
    "register",
]
