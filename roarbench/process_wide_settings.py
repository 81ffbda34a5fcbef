"""Settings of the whole process that threads change at the same time."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from threading import Lock
from typing import ParamSpec

_P = ParamSpec("_P")


def restore_after_last_exit(
    change: Callable[_P, AbstractContextManager[object]],
) -> Callable[_P, AbstractContextManager[None]]:
    """Decorate a context manager of a process-wide setting: the last thread to leave restores the first setting."""
    lock, entered = Lock(), list[list[AbstractContextManager[object]]]()

    @wraps(change)
    @contextmanager
    def enter(*args: _P.args, **options: _P.kwargs) -> Iterator[None]:
        with lock:
            block = [change(*args, **options)]
            block[0].__enter__()
            entered.append(block)
        try:
            yield
        finally:
            with lock:
                later = entered.index(block) + 1
                if later == len(entered):
                    block[0].__exit__(None, None, None)
                else:  # the block entered next puts back what this one found
                    entered[later][0] = block[0]
                del entered[later - 1]

    return enter
