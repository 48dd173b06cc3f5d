"""The C kernel, called through ctypes, which releases the GIL. The caller has checked the arguments.

Each function has a twin of the same name and signature in `_twin`, which does the same with NumPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_int, c_int64, c_void_p
from typing import Any

import numpy as np

from hashstream import _native
from hashstream.hamming._labels import Labels
from hashstream.hamming._types import Part


class _Problem(ctypes.Structure):
    """`problem` of hamming_work.h, field by field."""

    _fields_ = (
        *((name, c_void_p) for name in ("queries", "codes", "rows", "query_labels", "code_labels")),
        *((name, c_int64) for name in ("n_queries", "n_codes", "width", "label_words", "label_bytes")),
        ("n_threads", c_int64),
        ("portable", c_int64),
        ("kernel", c_void_p * 8),
    )


lib: Any = _native.lib

portable = False
"""Set by tests, to run the portable C code on a machine with vector instructions."""


_MASK, _FOUND = (c_void_p, c_int64), (c_int64, c_void_p, c_void_p)

if lib is not None:
    for name, result, *arguments in (
        ("hamming_distances", c_int, POINTER(_Problem), c_void_p),
        ("hamming_topk", c_int, POINTER(_Problem), c_int64, *[c_void_p] * 2),
        ("hamming_weighted", c_int, POINTER(_Problem), c_int64, c_void_p, c_int64, *[c_void_p] * 2),
        ("hamming_radius", c_void_p, POINTER(_Problem), c_int64, c_void_p),
        ("hamming_histogram", c_int, POINTER(_Problem), *[c_void_p] * 2),
        ("hamming_rank", c_int, POINTER(_Problem), c_void_p),
        ("hamming_read", c_int, POINTER(_Problem), c_void_p),
        ("hamming_ap", c_int, POINTER(_Problem), c_void_p, c_int64, *[c_void_p] * 5),
        ("hamming_radius_take", c_int, *[c_void_p] * 3),
        ("hamming_radius_free", None, c_void_p),
        ("hamming_topk_parts", c_int64, c_void_p, c_int64, c_void_p, *[c_int64] * 4, *_MASK, *_FOUND),
        ("hamming_topk_signs", c_int64, c_void_p, c_int64, c_void_p, *[c_int64] * 6, *_MASK, *_FOUND),
        ("hamming_marked", c_int64, *_MASK, c_int64, c_int64, c_void_p),
        ("signs_pack", c_int, c_void_p, *[c_int64] * 3, c_void_p),
    ):
        function = getattr(lib, f"hs_{name}")
        function.restype, function.argtypes = result, arguments


def available() -> bool:
    """Whether the compiled kernel was built and loaded."""
    return lib is not None


def problem_of(
    queries: np.ndarray,
    codes: np.ndarray,
    n_threads: int,
    rows: np.ndarray | None = None,
    labels: Labels | None = None,
) -> _Problem:
    """Addresses only: the arrays must outlive the call."""
    n, width = codes.shape
    problem = _Problem(
        queries.ctypes.data, codes.ctypes.data, None, None, None,
        len(queries), n if rows is None else len(rows), width, 0, 0, n_threads, portable,
    )  # fmt: skip
    if rows is not None:
        problem.rows = rows.ctypes.data
    if labels is not None:
        problem.query_labels, problem.code_labels = labels.queries.ctypes.data, labels.codes.ctypes.data
        problem.label_words = labels.codes.shape[1] if labels.codes.ndim == 2 else 0
        problem.label_bytes = labels.codes.itemsize
    return problem


def _raise_if(failed: object) -> None:
    if failed:
        raise MemoryError("the Hamming kernel ran out of memory")


def distances(a: np.ndarray, b: np.ndarray, n_threads: int) -> np.ndarray:
    out = np.empty((len(a), len(b)), np.uint16)
    if out.size:
        _raise_if(lib.hs_hamming_distances(byref(problem_of(a, b, n_threads)), out.ctypes.data))
    return out


def topk(
    queries: np.ndarray, codes: np.ndarray, k: int, rows: np.ndarray | None, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    k = min(k, len(codes) if rows is None else len(rows))
    far, where = np.empty((len(queries), k), np.uint16), np.empty((len(queries), k), np.int64)
    if far.size:
        problem = problem_of(queries, codes, n_threads, rows)
        _raise_if(lib.hs_hamming_topk(byref(problem), k, far.ctypes.data, where.ctypes.data))
    return far, where


class _Part(ctypes.Structure):
    """`part` of hamming_parts.c, field by field."""

    _fields_ = (
        ("codes", c_void_p),
        ("slots", c_void_p),
        ("dead", c_void_p),
        ("n_codes", c_int64),
        ("n_dead", c_int64),
        ("which", c_int64),
    )


def parts(held: Sequence[Part]) -> ctypes.Array[_Part]:
    """Addresses only: the arrays must outlive the result."""
    return (_Part * len(held))(
        *(
            _Part(codes.ctypes.data, slots.ctypes.data, dead.ctypes.data, len(codes), len(dead), which)
            for which, codes, slots, dead in held
        )
    )


NO_MASK = None, 0
NOT_FINITE = -2  # known to hamming_parts.c


def topk_parts(
    known: ctypes.Array[_Part], queries: np.ndarray, k: int, n_threads: int, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    _, q, width = queries.shape
    far, where = np.empty((q, k), np.uint16), np.empty((q, k), np.int64)
    if not far.size:
        return far, where
    given = queries.ctypes.data, q, width, n_threads, portable
    marks = NO_MASK if mask is None else (mask.ctypes.data, len(mask))
    m = lib.hs_hamming_topk_parts(known, len(known), *given, *marks, k, far.ctypes.data, where.ctypes.data)
    _raise_if(m < 0)
    return (far, where) if m == k else (far[:, :m].copy(), where[:, :m].copy())


def topk_signs(
    known: ctypes.Array[_Part], values: np.ndarray, k: int, n_threads: int, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray] | None:
    q = values.shape[1]
    far, where = np.empty((q, k), np.uint16), np.empty((q, k), np.int64)
    if not far.size:
        return far, where
    given = values.ctypes.data, *values.shape, values.itemsize, n_threads, portable
    marks = NO_MASK if mask is None else (mask.ctypes.data, len(mask))
    m = lib.hs_hamming_topk_signs(known, len(known), *given, *marks, k, far.ctypes.data, where.ctypes.data)
    if m == NOT_FINITE:
        return None
    _raise_if(m < 0)
    return (far, where) if m == k else (far[:, :m].copy(), where[:, :m].copy())


def marked(mask: np.ndarray, most: int) -> np.ndarray | None:
    n = lib.hs_hamming_marked(mask.ctypes.data, len(mask), most, portable, None)
    if n > most:
        return None
    slots = np.empty(n, np.uint32)
    # Never more than n are written, even if another thread writes to the mask meanwhile.
    found = lib.hs_hamming_marked(mask.ctypes.data, len(mask), n, portable, slots.ctypes.data)
    return slots[:found]


def weighted(
    values: np.ndarray, codes: np.ndarray, k: int, rows: np.ndarray | None, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    k = min(k, len(codes) if rows is None else len(rows))
    far, where = np.empty((len(values), k)), np.empty((len(values), k), np.int64)
    if far.size:
        problem = byref(problem_of(values, codes, n_threads, rows))
        found = far.ctypes.data, where.ctypes.data
        _raise_if(lib.hs_hamming_weighted(problem, values.shape[1], values.ctypes.data, k, *found))
    return far, where


def pack_signs(values: np.ndarray, codes: np.ndarray) -> bool:
    n, r = values.shape
    return not lib.hs_signs_pack(values.ctypes.data, n, r, values.itemsize, codes.ctypes.data)


def radius(
    queries: np.ndarray, codes: np.ndarray, radius: int, rows: np.ndarray | None, n_threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    offsets = np.zeros(len(queries) + 1, np.int64)
    counts = offsets[1:]
    if len(queries) == 0 or len(codes if rows is None else rows) == 0:
        return offsets, np.empty(0, np.uint16), np.empty(0, np.int64)
    problem = problem_of(queries, codes, n_threads, rows)
    found = lib.hs_hamming_radius(byref(problem), radius, counts.ctypes.data)
    _raise_if(found is None)
    try:
        np.cumsum(counts, out=counts)
        far, where = np.empty(offsets[-1], np.uint16), np.empty(offsets[-1], np.int64)
        _raise_if(lib.hs_hamming_radius_take(found, far.ctypes.data, where.ctypes.data))
    finally:
        lib.hs_hamming_radius_free(found)
    return offsets, far, where


def histogram(
    queries: np.ndarray, codes: np.ndarray, labels: Labels | None, n_threads: int
) -> tuple[np.ndarray, np.ndarray | None]:
    total = np.zeros((len(queries), 8 * codes.shape[1] + 1), np.int64)
    relevant = None if labels is None else np.zeros_like(total)
    if len(queries) and len(codes):
        problem = problem_of(queries, codes, n_threads, labels=labels)
        hits = None if relevant is None else relevant.ctypes.data
        _raise_if(lib.hs_hamming_histogram(byref(problem), total.ctypes.data, hits))
    return total, relevant


def rank(queries: np.ndarray, codes: np.ndarray, n_threads: int) -> np.ndarray:
    order = np.empty((len(queries), len(codes)), np.int32)
    if order.size:
        _raise_if(lib.hs_hamming_rank(byref(problem_of(queries, codes, n_threads)), order.ctypes.data))
    return order


def stable_scores(
    queries: np.ndarray, codes: np.ndarray, labels: Labels, cutoffs: np.ndarray, n_threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    n = len(queries)
    total, relevant = np.zeros((2, n, 8 * codes.shape[1] + 1), np.int64)
    precision, cut_precision = np.zeros(n), np.zeros((n, len(cutoffs)))
    cut_hits = np.zeros((n, len(cutoffs)), np.int64)
    if n and len(codes):
        problem = problem_of(queries, codes, n_threads, labels=labels)
        results = (total, relevant, precision, cut_precision, cut_hits)
        addresses = [array.ctypes.data for array in results]
        _raise_if(lib.hs_hamming_ap(byref(problem), cutoffs.ctypes.data, len(cutoffs), *addresses))
    return total, relevant, precision, cut_precision, cut_hits


def read(codes: np.ndarray, n_threads: int) -> int:
    """Read all codes as one query would, and add them up as words: the lower bound of the cost of a search."""
    sums = np.zeros(max(1, n_threads), np.uint64)
    lib.hs_hamming_read(byref(problem_of(codes[:1], codes, n_threads)), sums.ctypes.data)
    return int(sums.sum())
