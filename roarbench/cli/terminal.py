"""The consoles of all commands: requested output on standard output, everything else on standard error."""

import codecs
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from roarbench.cli.options import ReportFormat, TableFormat
from roarbench.cli.suggested_commands import append_proposed_command
from roarbench.errors import CallerError
from roarbench.logs import log_json_lines_to
from roarbench.text import make_printable

if TYPE_CHECKING:
    from roarbench.report.combined_table import TwoQuestions
    from roarbench.report.table import SuiteTable


class PlainConsole(Console):
    """A console that neutralises control sequences in text from stores and files."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the printed segments, with blanks for control and format characters within lines."""
        for piece in super().render(renderable, options):
            plain = piece.control or piece.text.isprintable()
            yield piece if plain else piece._replace(text="\n".join(map(make_printable, piece.text.split("\n"))))


@contextmanager
def reserve_stdout() -> Iterator[None]:
    """Reserve standard output for `out`; other output, such as that of a network's file, goes to standard error."""
    out.file = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        out.file = None  # type: ignore[assignment]  # follow sys.stdout again


out = PlainConsole(highlight=False, markup=False)
err = PlainConsole(stderr=True, highlight=False, markup=False)
_WIDTHS = range(20, 1001)  # columns: narrower terminals cut every column, and help pads lines to the full width
# ASCII replacements for all other characters in tables and reports
_PLAIN = {"≈": "~", "–": "-", "…": "...", "±": "+/-", "→": "->", "†": "+"}


def make_output_tolerant() -> None:
    """Replace letters that the terminal's encoding lacks, and drop output to closed streams."""
    codecs.register_error("plain", _encode_plainly)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed the stream, whose descriptor another file could get
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream := getattr(sys, name), TextIOWrapper):
            stream.reconfigure(errors="plain")


def _encode_plainly(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def discard_unwritable_output() -> None:
    """Discard pending output that cannot be written, which Python would retry with an error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def check_terminal_width() -> None:
    """Raise CallerError for an impossible terminal width in the environment, which rich and typer would accept."""
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        value = os.environ.get(name, "")
        if value and not (value.isdecimal() and len(value) < 5 and int(value) in _WIDTHS):
            seen = f"the environment's {name} is {value[:20]}"
            raise CallerError(f"{seen}, expected {_WIDTHS.start} to {_WIDTHS.stop - 1}; unset {name}")


def log_as_json_lines() -> Console:
    """Log this process to standard error as JSON lines; return the console that replaces `err`."""
    from roarbench.execution.progress import LogConsole

    log_json_lines_to(logging.StreamHandler(sys.stderr))
    return LogConsole()


def print_report(format: ReportFormat, record: Any, text: Callable[[Any], RenderableType]) -> None:
    """Print a record as JSON or as text; lines of text are not broken."""
    if format == "json":
        out.print_json(json.dumps(record))
    else:
        shown = text(record)
        out.print(shown, soft_wrap=isinstance(shown, str))


def print_table(shown: "SuiteTable | TwoQuestions", format: TableFormat, notes: bool = False) -> None:
    """Print a table, as wide as the terminal, with all notes or three lines."""
    from roarbench.report.combined_table import TwoQuestions, format_text, render
    from roarbench.report.table_notes import suggest_diagnose

    tables = (shown.roar, shown.own) if isinstance(shown, TwoQuestions) else (shown,)
    hint = next(filter(None, map(suggest_diagnose, tables)), None)
    advice = append_proposed_command(hint) if hint else ""
    if format != "text":
        print(render(shown, format, advice, notes), file=out.file)
        return
    out.print(format_text(shown, out.width, notes), crop=False)
    if advice and (notes or len(tables) > 1):
        out.print(advice, soft_wrap=True)
