"""Write the log of a process as JSON, one object per line."""

import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

_process_fields: dict[str, object] = {}  # fields of every log line that this process writes now, such as the job's name


class JsonLines(logging.Formatter):
    """A formatter that writes each log record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record with its time in UTC, level, message, fields, and its traceback if there is one."""
        fields = {**_process_fields, **getattr(record, "fields", {})}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return format_json_line(record.levelname.lower(), record.getMessage(), fields, record.created)


def format_json_line(level: str, message: str, fields: dict[str, object], timestamp: float) -> str:
    """Format a log line, without a line break at its end; `timestamp` is in seconds since the start of 1970."""
    time = datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": time, "level": level, "message": message, **fields})


def log_json_lines_to(handler: logging.Handler) -> None:
    """Send this process's log messages and its libraries' warnings to a handler, as JSON lines."""
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("roarbench").setLevel(logging.INFO)
    logging.captureWarnings(True)


def write_worker_log(folder: Path) -> None:
    """Write this worker's log as JSON lines to its own file in a folder."""
    log_json_lines_to(logging.FileHandler(folder / f"{socket.gethostname()}-{os.getpid()}.jsonl", encoding="utf-8"))


@contextmanager
def set_log_fields(**fields: object) -> Iterator[None]:
    """Add these fields to all log lines that this process writes in this block."""
    _process_fields.update(fields)
    try:
        yield
    finally:
        _process_fields.clear()
