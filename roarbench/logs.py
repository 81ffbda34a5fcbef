"""JSON logs of a process, one object per line."""

import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

_concerns: dict[str, object] = {}  # fields of every log line of this process: the current job


class JsonLines(logging.Formatter):
    """A formatter of JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a line: time in UTC, level, message, fields, and the traceback if any."""
        about = {**_concerns, **getattr(record, "about", {})}
        if record.exc_info:
            about["traceback"] = self.formatException(record.exc_info)
        return format_json_line(record.levelname.lower(), record.getMessage(), about, record.created)


def format_json_line(level: str, message: str, about: dict[str, object], seconds: float | None = None) -> str:
    """Return a log line without its end; `seconds` since 1970 give the time, now if None."""
    moment = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return json.dumps({"time": moment.isoformat(timespec="milliseconds"), "level": level, "message": message, **about})


def log_json_lines_to(handler: logging.Handler) -> None:
    """Log this process's messages and its libraries' warnings as JSON lines."""
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("roarbench").setLevel(logging.INFO)
    logging.captureWarnings(True)


def write_worker_log(folder: Path) -> None:
    """Log this worker as JSON lines to a file of its own in a folder."""
    log_json_lines_to(logging.FileHandler(folder / f"{socket.gethostname()}-{os.getpid()}.jsonl", encoding="utf-8"))


@contextmanager
def add_log_fields(**about: object) -> Iterator[None]:
    """Add these fields to all lines of the block."""
    _concerns.update(about)
    try:
        yield
    finally:
        _concerns.clear()
