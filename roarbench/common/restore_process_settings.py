"""Restore a setting of the whole process after the last of several overlapping threads has used it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from threading import Lock
from typing import ParamSpec

_P = ParamSpec("_P")


def restore_after_last_exit(
    change: Callable[_P, AbstractContextManager[object]],
) -> Callable[_P, AbstractContextManager[None]]:
    """Decorate a context manager that changes a process-wide setting, so that threads may overlap in its blocks.

    The setting that was found first is restored when the last of the overlapping blocks is left.
    """
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
                else:  # the block that was entered next will restore the setting that this block found
                    entered[later][0] = block[0]
                del entered[later - 1]

    return enter
