"""End a worker on request: immediately, or after its training run has saved a checkpoint."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDED = 128 + signal.SIGTERM  # exit code that shells report for a process ended by SIGTERM
_stop_requested = threading.Event()
is_stop_requested = _stop_requested.is_set  # a function that returns whether SIGTERM has arrived
_busy = threading.Event()


def exit_at_once_on_sigterm() -> None:
    """End this process on SIGTERM from now on, except inside `defer_sigterm_until_checked`."""
    signal.signal(signal.SIGTERM, _exit_unless_deferred)


def _exit_unless_deferred(number: int, frame: FrameType | None) -> None:
    _stop_requested.set()
    if not _busy.is_set():
        os._exit(ENDED)


@contextmanager
def convert_exit_to_error() -> Iterator[None]:
    """Turn `sys.exit` in a user's code into an ordinary error, except if the exit was requested by SIGTERM."""
    try:
        yield
    except SystemExit as error:
        if error.code == ENDED:
            raise
        raise RuntimeError(f"sys.exit({error.code!r}) was called") from error


@contextmanager
def keep_sigterm_handler() -> Iterator[None]:
    """Restore this process's SIGTERM handler after the block, because a library's handler changes the exit code."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def defer_sigterm_until_checked() -> Iterator[None]:
    """Defer SIGTERM in this block, which must check `is_stop_requested` often and raise SystemExit itself."""
    _busy.set()
    try:
        yield
    finally:
        _busy.clear()
