"""Learning on one BLAS thread, in whichever thread of the process: `on_one_thread`; and on how many anything else is
computed: `n_threads`. And one lock per hasher: `lock_of`.

The number of threads that a matrix product or a factorization is split into changes its rounding. The same batches must
give the same model in every process, so a model is learned on one. Batches are small: more threads would cost more than
they save.

How a limit binds depends on the library:

- OpenBLAS with its own threads, as in the wheels of NumPy and SciPy, has one number for the whole process. It is set to
  1 while any thread learns and put back when the last one is done. Products of other threads are computed on one thread
  meanwhile, which is slower but correct. The library is called directly: threadpoolctl lets only the first thread that
  ever set a limit set another, and silently ignores the rest. BLIS and FlexiBLAS are treated in the same way.
- MKL, OpenMP and OpenBLAS on OpenMP have a number per thread, which is set in the thread that learns.

Another thread may set a limit at the same time, and a library may be loaded in the middle. Both are noticed when the
work is done, and the work is repeated. Not covered: Accelerate, whose threads cannot be controlled from here, and
libraries that threadpoolctl does not know.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable
from itertools import product
from typing import Any, TypeVar

from threadpoolctl import LibController, ThreadpoolController

__all__ = ["lock_of", "n_threads", "on_one_thread"]

T = TypeVar("T")

TRIES = 5
PER_THREAD = ("mkl", "openmp")
FUNCTIONS = {
    "openblas": [
        (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
        for prefix, suffix in product(("", "scipy_"), ("", "64_", "_64"))
    ],
    "openmp": [("omp_get_max_threads", "omp_set_num_threads")],
    "mkl": [("MKL_Get_Max_Threads", "MKL_Set_Num_Threads_Local")],
}
"""Names of the functions that read and set the number of threads; for other libraries, threadpoolctl's are used."""

_logger = logging.getLogger("hashstream")


def on_one_thread(work: Callable[[], T]) -> T:
    """`work()`, computed on one BLAS thread. It is called again where another thread changed the limit meanwhile, so it
    must give the same result each time and change nothing."""
    for _ in range(TRIES):
        section = _Section()
        try:
            section.begin()
            result = work()
            undisturbed = section.undisturbed()
            section.end()
        except BaseException:
            section.end()  # again, where it was interrupted
            raise
        if undisturbed:
            return result
    _logger.warning(
        "another thread changed the number of BLAS threads during each of %d attempts to learn: "
        "learning the same batches again may give a model that differs by rounding",
        TRIES,
    )
    return result


def n_threads() -> int:
    """Threads that a matrix product may use at the moment."""
    return max((one.get() for one in _libraries().values() if one.blas), default=1)


# ---- the libraries


class _Library:
    """One loaded library: reads and sets its number of threads."""

    def __init__(self, controller: LibController) -> None:
        kind = "openmp" if getattr(controller, "threading_layer", "") == "openmp" else controller.internal_api
        self.per_thread, self.blas = kind in PER_THREAD, controller.user_api == "blas"
        self.get: Callable[[], int] = controller.get_num_threads
        self.set: Callable[[int], Any] = controller.set_num_threads
        for getter, setter in FUNCTIONS.get(kind, ()):
            if hasattr(controller.dynlib, getter) and hasattr(controller.dynlib, setter):
                # PYFUNCTYPE keeps the GIL: giving it away can cost far more than these calls take.
                self.get = ctypes.PYFUNCTYPE(ctypes.c_int)((getter, controller.dynlib))
                self.set = ctypes.PYFUNCTYPE(None, ctypes.c_int)((setter, controller.dynlib))
                break


_found: dict[str, _Library] = {}
_modules = 0  # how many there were when libraries were last looked for


def _libraries() -> dict[str, _Library]:
    """All that are loaded. Looking takes milliseconds, so it is done again only after further imports."""
    global _found, _modules
    if len(sys.modules) != _modules:
        modules, controllers = len(sys.modules), ThreadpoolController().lib_controllers
        new = [one for one in controllers if one.filepath not in _found and one.num_threads is not None]
        _found = {**_found, **{one.filepath: _Library(one) for one in new}}
        _modules = modules
    return _found


# ---- the limit

_lock = threading.RLock()  # re-entrant: the handler of a signal may learn, too
_sections: dict[int, weakref.ref[_Section]] = {}
_before: dict[_Library, int] = {}  # process-wide limits to put back


class _Section:
    """One piece of work under the limit.

    It counts for as long as the object lives: should an interrupt prevent even the second `end`, the next section to
    begin or end puts the limits back.
    """

    own: dict[_Library, int] | None = None  # this thread's limits to put back

    def begin(self) -> None:
        self.thread = threading.get_ident()
        for library in _libraries().values():
            if library.per_thread and (n := library.get()) > 1:
                self.own = {**(self.own or {}), library: n}
                library.set(1)
        with _lock:
            _sections[id(self)] = weakref.ref(self)
            _settle()

    def undisturbed(self) -> bool:
        """True where the limits still hold, also for libraries loaded meanwhile."""
        return all(library.get() <= 1 for library in _libraries().values())

    def end(self) -> None:
        with _lock:
            _sections.pop(id(self), None)
            _settle()
        if self.own and self.thread == threading.get_ident():
            for library, n in self.own.items():
                if library.get() == 1:  # otherwise somebody has set a limit since, which stays
                    library.set(n)
        self.own = None


def _settle() -> None:
    """Set the process-wide limits that the sections ask for. Can be interrupted anywhere, and then repeated."""
    for key, section in list(_sections.items()):
        if section() is None:
            _sections.pop(key, None)
    if _sections:
        for library in _libraries().values():
            if not library.per_thread and (n := library.get()) > 1:
                _before[library] = n
                library.set(1)
    elif _before:
        for library, n in list(_before.items()):
            if library.get() == 1:  # otherwise somebody has set a limit since, which stays
                library.set(n)
            _before.pop(library, None)


# ---- a lock per hasher

_locks: dict[int, tuple[Any, weakref.ref[Any]]] = {}


def lock_of(owner: object) -> Any:
    """The re-entrant lock that belongs to an object, kept outside of it: a copied or saved hasher has no lock in it."""
    found = _locks.get(id(owner))
    if found is None:
        key = id(owner)
        found = _locks.setdefault(
            key, (threading.RLock(), weakref.ref(owner, lambda _: _locks.pop(key, None)))
        )
    return found[0]


def _after_fork() -> None:
    """Reset in a forked child, where no other thread is left to learn or to hold a lock."""
    global _lock
    _lock = threading.RLock()
    _locks.clear()
    _sections.clear()
    _settle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
