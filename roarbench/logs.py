"""Logs for programs: one JSON object a line, of this process alone."""

import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

_concerns: dict[str, object] = {}  # what all lines of this process are about at the moment


class JsonLines(logging.Formatter):
    """Format whose lines are JSON objects."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line: time in UTC, level, message, what it is about, and the traceback if there is one."""
        about = {**_concerns, **getattr(record, "about", {})}
        if record.exc_info:
            about["traceback"] = self.formatException(record.exc_info)
        return format_json_line(record.levelname.lower(), record.getMessage(), about, record.created)


def format_json_line(level: str, message: str, about: dict[str, object], seconds: float | None = None) -> str:
    """Return a line of a log, without its end; `seconds` since 1970 say when, now if None."""
    moment = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return json.dumps({"time": moment.isoformat(timespec="milliseconds"), "level": level, "message": message, **about})


def write_log(handler: logging.Handler) -> None:
    """Write what this process says, and what its libraries warn of, as JSON lines, from now on."""
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("roarbench").setLevel(logging.INFO)
    logging.captureWarnings(True)


def write_worker_log(folder: Path) -> None:
    """Write the log of this worker as JSON lines to a file of its own in a folder that is there."""
    write_log(logging.FileHandler(folder / f"{socket.gethostname()}-{os.getpid()}.jsonl", encoding="utf-8"))


@contextmanager
def add_log_fields(**about: object) -> Iterator[None]:
    """Add these fields to all lines of the block."""
    _concerns.update(about)
    try:
        yield
    finally:
        _concerns.clear()
