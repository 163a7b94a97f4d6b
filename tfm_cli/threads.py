"""How many threads to use."""

import os


def thread_count(count: int | None, processes: int = 1) -> int:
    """``count``, else OMP_NUM_THREADS, else the cores that this process may use, shared among ``processes``.

    Among several, OMP_NUM_THREADS=1 says nothing: torchrun sets it where the user has not.
    """
    if count is not None:
        return count
    told = os.environ.get("OMP_NUM_THREADS", "")
    if processes > 1 and told == "1":
        told = ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(told) if told.isdigit() and int(told) > 0 else max(1, cores // processes)
