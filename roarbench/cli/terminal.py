"""The consoles of all commands: what was asked for on standard output, all else on standard error."""

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
from roarbench.cli.suggested_commands import add_command
from roarbench.errors import CallerError
from roarbench.logs import write_log
from roarbench.text import make_printable

if TYPE_CHECKING:
    from roarbench.report.combined_table import TwoQuestions
    from roarbench.report.table import SuiteTable


class PlainConsole(Console):
    """Console on which no text from a store or a file can move the cursor, colour what follows or rename the window."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the pieces of what is printed, with blanks for control and format characters within lines."""
        for piece in super().render(renderable, options):
            plain = piece.control or piece.text.isprintable()
            yield piece if plain else piece._replace(text="\n".join(map(make_printable, piece.text.split("\n"))))


@contextmanager
def keep_output() -> Iterator[None]:
    """Keep standard output for `out`: what else is printed, by a network's file say, goes to standard error."""
    out.file = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        out.file = None  # type: ignore[assignment]  # whatever is standard output then


out = PlainConsole(highlight=False, markup=False)
err = PlainConsole(stderr=True, highlight=False, markup=False)
_WIDTHS = range(20, 1001)  # columns: in fewer no column of a table is whole, and help is padded to all of them
_PLAIN = {"≈": "~", "–": "-", "…": "...", "±": "+/-", "→": "->", "†": "+"}  # what tables and reports say beyond ASCII


def prepare_output() -> None:
    """Let letters that the terminal's encoding lacks come out as plain ones or as `?`; drop output that is closed."""
    codecs.register_error("plain", _encode_plainly)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller; another file must not get its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream := getattr(sys, name), TextIOWrapper):
            stream.reconfigure(errors="plain")


def _encode_plainly(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def drop_output() -> None:
    """Forget what waits to be written where nothing can be written: Python would try it again, and tell of it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def check_width() -> None:
    """Refuse a width that no terminal has, which the environment may name; rich and typer would take it."""
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        said = os.environ.get(name, "")
        if said and not (said.isdecimal() and len(said) < 5 and int(said) in _WIDTHS):
            seen = f"the environment's {name} is {said[:20]}"
            raise CallerError(f"{seen}, expected {_WIDTHS.start} to {_WIDTHS.stop - 1}; unset {name}")


def log_as_json_lines() -> Console:
    """Make this process write its log to standard error as JSON lines; return what takes the place of `err`."""
    from roarbench.execution.progress import LogConsole

    write_log(logging.StreamHandler(sys.stderr))
    return LogConsole()


def print_report(format: ReportFormat, record: Any, text: Callable[[Any], RenderableType]) -> None:
    """Print a record as JSON, or what a person reads of it; lines of text are not broken."""
    if format == "json":
        out.print_json(json.dumps(record))
    else:
        shown = text(record)
        out.print(shown, soft_wrap=isinstance(shown, str))


def print_table(shown: "SuiteTable | TwoQuestions", format: TableFormat, notes: bool = False) -> None:
    """Print a table, on a terminal as wide as that is, with all notes or the three lines."""
    from roarbench.report.combined_table import TwoQuestions

    if isinstance(shown, TwoQuestions):
        _print_both(shown, format, notes)
    else:
        _print_one(shown, format, notes)


def _print_both(shown: "TwoQuestions", format: TableFormat, notes: bool) -> None:
    from roarbench.report.combined_table import format_text, render_both
    from roarbench.report.table_notes import suggest_diagnose

    if format != "text":
        print(render_both(shown, format, notes), file=out.file)
        return
    out.print(format_text(shown, notes), crop=False)
    if hint := suggest_diagnose(shown.roar) or suggest_diagnose(shown.own):
        out.print(add_command(hint), soft_wrap=True)


def _print_one(shown: "SuiteTable", format: TableFormat, notes: bool) -> None:
    from roarbench.report import table_formats
    from roarbench.report.table_notes import suggest_diagnose

    hint = suggest_diagnose(shown)
    said = add_command(hint) if hint else ""
    if format != "text":
        print(table_formats.render(shown, format, said, notes), file=out.file)
        return
    out.print(table_formats.format_text(shown, out.width, notes), crop=False)
    if said and notes:
        out.print(said, soft_wrap=True)
