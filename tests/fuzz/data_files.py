"""Damaged and hostile data files, by the thousands: each has to load, or to be a DatasetError that names the file.

Valid small files of every kind are altered, with an eye on their structure (headers of .npy files, members of archives,
cells of text, footers and tags), and read by the public loaders in a process of its own, whose memory is limited: a
crash, a hang, an exception of another kind or a gigabyte of memory is a problem, reported with the seed and the number
of its case.

    python -m tests.fuzz.data_files --count 10000 --seed 0
    python -m tests.fuzz.data_files --case 17 --seed 0      one of them again, in this process
"""

from __future__ import annotations

import io
import os
import random
import resource
import struct
import traceback
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from tests.fuzz import runner
from tests.fuzz.runner import Counts

from hashstream.datasets import DatasetError, load_file, open_rows

VARIABLE = "FUZZ_KINDS"
"""In the environment: the kinds to try, all of them by default."""
MOST_RESIDENT = 1 << 30  # bytes in use at any time: files are some kilobytes
WHOLE = 40  # one case of so many is not altered, and has to load

KINDS = {"npy": 36, "npz": 32, "csv": 25, "tsv": 3, "parquet": 2, "mat": 1, "mat73": 1}
"""How often each kind comes. Parquet and MATLAB files take a second: they are parsed in a process that is started."""


def run(
    seconds: float | None = None,
    count: int | None = None,
    seed: int = 0,
    kinds: tuple[str, ...] = tuple(KINDS),
) -> Counts:
    """Load altered files of some kinds; see `runner.run`."""
    return runner.run("tests.fuzz.data_files", seconds, count, seed, {VARIABLE: ",".join(kinds)})


def kind_of(seed: int, case: int) -> str:
    kinds = os.environ.get(VARIABLE, ",".join(KINDS)).split(",")
    return random.Random(f"{seed} {case}").choices(kinds, [KINDS[kind] for kind in kinds])[0]


def try_case(seed: int, case: int, folder: Path) -> str:
    """What became of one case: "worked", "refused", or "problem" and a sentence."""
    rng, kind = random.Random(f"{seed} {case} file"), kind_of(seed, case)
    before = _peak()  # of this process, in which other tests may have run
    path = folder / f"rows.{kind.removesuffix('73')}"
    for other in folder.glob("rows.*"):
        other.unlink()
    whole = rng.randrange(WHOLE) == 0
    write(path, kind, rng, whole)
    outcomes = []
    for reader in READERS[kind]:
        try:
            reader(path)
            outcomes.append("worked")
        except DatasetError as error:
            outcomes.append("refused")
            if str(folder) not in str(error):
                return f"problem {kind}: the error does not name the file: {error}"
            if whole:
                return f"problem {kind}: a valid file was refused: {error}"
        except BaseException as error:
            return (
                f"problem {kind}: {error!r:.200} instead of DatasetError: {traceback.format_exc()[-700:]!r}"
            )
    if _peak() - before > MOST_RESIDENT:
        return f"problem {kind}: more than a gigabyte of memory was used"
    return "worked" if "worked" in outcomes else "refused"


def _peak() -> int:
    """The most memory that this process has had at once, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _load_file(path: Path) -> None:
    data = load_file(path)
    assert data.X.shape == (len(data.y), data.X.shape[1])


def _rows(path: Path) -> None:
    rows = 0
    for piece in open_rows(path).pieces(7):
        assert piece.X.dtype == np.float32
        assert piece.y is None or len(piece.y) == len(piece)
        assert piece.ids is None or len(piece.ids) == len(piece)
        rows += len(piece)
        if rows > 100_000:  # a file that was altered into an honest one with many rows
            return


READERS: dict[str, tuple[Callable[[Path], None], ...]] = {
    "npy": (_load_file, _rows),
    "npz": (_load_file, _rows),
    "csv": (_rows,),
    "tsv": (_rows,),
    "parquet": (_rows,),
    "mat": (_load_file,),
    "mat73": (_load_file,),
}

# ---- valid files

N, D = 23, 3


@cache
def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=N)
    return (
        rng.standard_normal((N, D)).astype(np.float32),
        y,
        np.array(["ant", "bee", ""])[y],
        np.where(y, y, np.nan),
    )


@cache
def valid(kind: str) -> tuple[bytes, ...]:
    """The bytes of some files that load."""
    return tuple(FILES[kind]())


def _npy(array: np.ndarray) -> bytes:
    raw = io.BytesIO()
    np.save(raw, array, allow_pickle=False)
    return raw.getvalue()


def _npy_files() -> list[bytes]:
    X = arrays()[0]
    return [_npy(one) for one in (X, np.asfortranarray(X), X.astype(">f8"), (X * 9).astype(np.int16), X > 0)]


def _npz_files() -> list[bytes]:
    X, y, words, gaps = arrays()
    files = []
    for save in (np.savez, np.savez_compressed):
        for labels in (y, words, gaps):
            raw = io.BytesIO()
            save(raw, x=X if save is np.savez else np.asfortranarray(X), y=labels, ids=np.arange(N))
            files.append(raw.getvalue())
    return files


def _text_files(between: str) -> list[bytes]:
    X, y, words, _ = arrays()
    files = []
    for labels in (y.tolist(), words.tolist(), [f'"a{between}\n{one}"' for one in y]):
        lines = [between.join(["id", "a", "b", "c", "label"])]
        lines += [
            between.join(map(str, [i, *x, label]))
            for i, (x, label) in enumerate(zip(X.tolist(), labels, strict=True))
        ]
        files.append("\n".join(lines).encode())
    return files


def _parquet_files() -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y, words, gaps = arrays()
    files = []
    for i, compression in enumerate(("snappy", "none", "zstd", "gzip", "none", "snappy")):
        columns = {"id": [f"i{j}" for j in range(N)], "label": (y, words, gaps)[i % 3]}
        if i % 3 == 0:
            columns |= {f"f{j}": X[:, j] for j in range(D)}
        elif i % 3 == 1:
            columns["x"] = list(X)
        else:
            columns["x"] = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), D)
        raw = io.BytesIO()
        options = {
            "use_dictionary": i < 3,
            "write_page_checksum": i == 0,
            "data_page_version": "2.0" if i > 3 else "1.0",
        }
        pq.write_table(pa.table(columns), raw, row_group_size=9, compression=compression, **options)
        files.append(raw.getvalue())
    return files


def _mat_files() -> list[bytes]:
    import scipy.io

    X, y, _, gaps = arrays()
    files = []
    for labels, packed in ((y, False), (gaps, True), (y, True)):
        raw = io.BytesIO()
        scipy.io.savemat(raw, {"x": X, "y": labels[:, None]}, do_compression=packed)
        files.append(raw.getvalue())
    return files


def _mat73_files() -> list[bytes]:
    import h5py

    X, y, _, _ = arrays()
    files = []
    for how in ({}, {"chunks": (2, 5), "compression": "gzip"}):
        raw = io.BytesIO()
        with h5py.File(raw, "w") as file:
            file.create_dataset("x", data=X.T, **how)
            file.create_dataset("y", data=y[None, :].astype(np.float64))
        files.append(raw.getvalue())
    return files


FILES: dict[str, Callable[[], list[bytes]]] = {
    "npy": _npy_files,
    "npz": _npz_files,
    "csv": lambda: _text_files(","),
    "tsv": lambda: _text_files("\t"),
    "parquet": _parquet_files,
    "mat": _mat_files,
    "mat73": _mat73_files,
}

# ---- altered files


def write(path: Path, kind: str, rng: random.Random, whole: bool) -> None:
    """A file of a kind, altered unless it is to be whole, and the file of labels that belongs to it."""
    raw = rng.choice(valid(kind))
    if kind == "npy":
        labels = _npy(arrays()[rng.choice((1, 2, 3))])
        if not whole and rng.random() < 0.3:  # the features stay as they are
            labels, whole = MUTATORS["npy"](labels, rng), True
        path.with_suffix(".labels.npy").write_bytes(labels)
    path.write_bytes(raw if whole else MUTATORS[kind](raw, rng))


ODD_BYTES = (0, 1, 0x20, 0x7F, 0x80, 0xFF)
ODD_NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFF0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF)


def altered(raw: bytes, rng: random.Random, low: int = 0, high: int | None = None) -> bytes:
    """Some bytes changed, taken out, put in or copied, between `low` and `high`."""
    out = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8, 20))):
        end = len(out) if high is None else min(high, len(out))
        if end <= low:
            break
        at, how = rng.randrange(low, end), rng.randrange(10)
        if how < 4:
            out[at] ^= 1 << rng.randrange(8)
        elif how < 6:
            out[at] = rng.choice((*ODD_BYTES, rng.randrange(256)))
        elif how == 6:
            del out[at : at + rng.randrange(1, 9)]
        elif how == 7:
            out[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif how == 8:
            other = rng.randrange(len(out))
            out[at : at + 8] = out[other : other + 8]
        else:
            out[at : at + 4] = struct.pack("<I", rng.choice(ODD_NUMBERS))
    if rng.random() < 0.1:
        del out[rng.randrange(len(out) + 1) :]
    return bytes(out)


SHAPES = (
    "(True, 3)", "(-23, 3)", "(23, -3)", "(1099511627776, 3)", "(23, 1099511627776)", "(0, 3)", "(23, 0)", "()", "(23)",
    "(23,)", "(69,)", "(3, 23)", "(23, 3, 1)", "(1, 23, 3)", "(23.0, 3)", "[23, 3]", "None", "((23, 3))", "(23L, 3L)",
    "(9223372036854775807, 9223372036854775807)", "(0, 9223372036854775807)", "(2305843009213693952, 8)",
    "(" * 3000, "(" + "9" * 3000 + ", 3)", "(" + "1, " * 100 + ")", "(__import__('os')._exit(1), 3)",
)  # fmt: skip
TYPES = (
    "'<f4'", "'>f4'", "'<f8'", "'<f2'", "'<f16'", "'|O'", "'O'", "'|V4'", "'<U1'", "'<U0'", "'|S4'", "'|S0'",
    "'<U999999999'",
    "'<M8[ns]'", "'<M8[D]'", "'<M8'", "'<m8[7us]'", "'<c8'", "'|b1'", "'<i4'", "'<u8'", "'<f3'", "''",
    "'f4,f4'", "'object'",
    "[('a', '<f4')]", "[" * 500, "{'names': []}", "7", "None", "('<f4', (2,))", "'<i8' ", "'|T16'",
)  # fmt: skip


def _altered_npy(raw: bytes, rng: random.Random) -> bytes:
    end = 10 + int.from_bytes(raw[8:10], "little")
    text, data, how = raw[10:end].decode(), raw[end:], rng.randrange(10)
    if how < 2:
        return altered(raw, rng)
    if how == 2:
        return altered(raw, rng, 0, 12)
    if how == 3:
        return altered(raw, rng, 10, end)
    parts = {
        "descr": text.split("'descr': ")[1].split(", 'f")[0],
        "order": "True" if "True" in text else "False",
        "shape": text.split("'shape': ")[1].split("), ")[0] + ")",
    }
    if how in (4, 5, 9):
        parts["shape"] = rng.choice(SHAPES)
    if how in (6, 7, 9):
        parts["descr"] = rng.choice(TYPES)
    if how == 8:
        parts["order"] = rng.choice(("True", "False", "None", "1", "'no'"))
    text = f"{{'descr': {parts['descr']}, 'fortran_order': {parts['order']}, 'shape': {parts['shape']}, }}"
    text += " " * rng.randrange(100) + "\n"
    text = rng.choice((text, text, text, text, text[1:], text[:-3], text * 2, text.upper()))
    version = rng.choice(
        (b"\1\0", b"\1\0", b"\2\0", b"\3\0", bytes((rng.randrange(256), rng.randrange(256))))
    )
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    data = rng.choice((data, data, data, data[: rng.randrange(len(data) + 1)], data * 2, b""))
    return b"\x93NUMPY" + version + length + text.encode() + data


def _altered_npz(raw: bytes, rng: random.Random) -> bytes:
    how = rng.randrange(10)
    if how < 3:
        return altered(raw, rng)
    if how < 6:  # a field of the archive's own
        out = bytearray(raw)
        marks = {b"PK\x01\x02": 46, b"PK\x03\x04": 30, b"PK\x05\x06": 22}
        places = [
            (i, marks[bytes(out[i : i + 4])]) for i in range(len(out)) if bytes(out[i : i + 4]) in marks
        ]
        for _ in range(rng.choice((1, 1, 2, 4))):
            start, size = rng.choice(places)
            at = start + rng.randrange(4, size)
            if rng.random() < 0.5:
                out[at : at + 4] = struct.pack("<I", rng.choice(ODD_NUMBERS))
            else:
                out[at] = rng.choice((*ODD_BYTES, 8, 9, 12, 14, 93, 99, rng.randrange(256)))
        return bytes(out)
    packed = io.BytesIO()  # altered members in an archive that is whole
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(packed, "w", method) as new:
        for name in old.namelist():
            member = old.read(name)
            if rng.random() < 0.5:
                member = _altered_npy(member, rng)
            elif rng.random() < 0.05:
                member = _npy(np.zeros(rng.choice((0, 1, 100_000))))
            renamed = rng.choice(
                (name, name, name, name, name, "x", "X.npy", "../x.npy", ".npy", "y.npy", "/")
            )
            if renamed not in new.namelist():
                new.writestr(zipfile.ZipInfo(renamed), member, method)  # without the time of day
    return packed.getvalue()


CELLS = (
    b"", b" ", b"nan", b"NaN", b"inf", b"-inf", b"1e999", b"-0", b"007", b"1_0", b"0x10", b"9" * 30,
    b"9" * 5000, b"-", b"--1",
    b'"', b'""', b'"""', b'"a\n', b"\0", b"a\0", b"\xff", b"\xef\xbb\xbf", "é".encode(), "١٢".encode(), b"\r",
    b"\n", b"\r\n",
    b",", b"\t", b";", b"x" * 200_000, b"1.5", b"True", b"None", b"1e-400", b"9223372036854775808",
    b"-9223372036854775809",
)  # fmt: skip


def _altered_text(raw: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return altered(raw, rng)
    between = b"\t" if b"\t" in raw.partition(b"\n")[0] else b","
    lines = [line.split(between) for line in raw.split(b"\n")]
    for _ in range(rng.choice((1, 1, 2, 5))):
        cells, how = rng.choice(lines), rng.randrange(10)
        at = rng.randrange(len(cells) + 1)
        if how < 7:
            cells[at : at + 1] = [rng.choice(CELLS)]
        elif how == 7:
            del cells[at : at + 1]
        elif how == 8:
            cells[at:at] = [rng.choice(CELLS)]
        else:
            cell = rng.choice(CELLS)
            lines.insert(
                rng.randrange(len(lines)), [cell] * rng.choice((0, 1, 5, 5000 if len(cell) < 50 else 9))
            )
    return b"\n".join(between.join(cells) for cells in lines)


def _altered_parquet(raw: bytes, rng: random.Random) -> bytes:
    footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    if rng.random() < 0.5:
        out = altered(raw[:-8], rng, footer)
        return out + struct.pack("<I", max(0, len(out) - footer)) + b"PAR1"
    return altered(raw, rng, 4, rng.choice((None, footer)))


def _altered_mat(raw: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return altered(raw, rng, 128)
    out = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 4))):  # tags and sizes are of 4 bytes
        at = rng.randrange(128, len(out) - 3) & ~3
        out[at : at + 4] = struct.pack("<I", rng.choice((*ODD_NUMBERS, *range(20))))
    return bytes(out)


MUTATORS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "npy": _altered_npy,
    "npz": _altered_npz,
    "csv": _altered_text,
    "tsv": _altered_text,
    "parquet": _altered_parquet,
    "mat": _altered_mat,
    "mat73": altered,
}


def prepare() -> None:
    """Libraries reserve more memory than they use."""
    import pyarrow.parquet  # noqa: F401


if __name__ == "__main__":
    runner.main("tests.fuzz.data_files", __doc__, try_case, prepare)
