"""Consoles that print requested output to standard output, and everything else to standard error."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from roarbench.cli.options import ReportFormat, TableFormat
from roarbench.cli.suggested_commands import append_proposed_command, describe_other_results
from roarbench.common.text import blank_control_characters

if TYPE_CHECKING:
    from roarbench.analysis.suite_results import SuiteResults
    from roarbench.report.combined_table import CombinedTable
    from roarbench.report.table import SuiteTable


class PlainConsole(Console):
    """A console that neutralises control sequences in text from stores and files."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._width = self._width or None  # COLUMNS=0 stands for an unknown width, as in `shutil.get_terminal_size`

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the printed segments, with blanks for control and format characters within lines."""
        for piece in super().render(renderable, options):
            plain = piece.control or piece.text.isprintable()
            lines = map(blank_control_characters, piece.text.split("\n"))
            yield piece if plain else piece._replace(text="\n".join(lines))


@contextmanager
def redirect_prints_to_stderr() -> Iterator[None]:
    """Reserve standard output for `out`; other output, such as prints in a network's file, goes to standard error."""
    out.file = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        out.file = None  # type: ignore[assignment]  # follow sys.stdout again


out = PlainConsole(highlight=False, markup=False)
err = PlainConsole(stderr=True, highlight=False, markup=False)


def tolerate_output_errors() -> None:
    """Print `?` for letters that the terminal's encoding lacks, and drop output to closed streams."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed the stream, and another file could get its descriptor
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream := getattr(sys, name), TextIOWrapper):
            stream.reconfigure(errors="replace")


def discard_unwritable_output() -> None:
    """Discard pending output that cannot be written; Python would try again at exit and print an error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_report(format: ReportFormat, record: Any, text: Callable[[Any], RenderableType]) -> None:
    """Print a record as JSON, or as text without line breaks that the text lacks."""
    if format == "json":
        out.print_json(json.dumps(record))
    else:
        rendered = text(record)
        out.print(rendered, soft_wrap=isinstance(rendered, str))


def print_table(table: "SuiteTable | CombinedTable", format: TableFormat, notes: bool = False) -> None:
    """Print a table as wide as the terminal; `notes` adds all notes instead of three lines."""
    from roarbench.report.combined_table import present
    from roarbench.report.table_notes import suggest_diagnose
    from roarbench.report.table_renderers import format_text, render

    if format != "text":
        print(render(present(table), format, notes), file=out.file)
        return
    out.print(format_text(present(table), out.width, notes), crop=False)
    hint = next(filter(None, map(suggest_diagnose, table.tables)), None)
    if hint and (notes or len(table.tables) > 1):
        out.print(append_proposed_command(hint), soft_wrap=True)


def print_other_results(suite_results: "SuiteResults", command: str) -> None:
    """Print the commands that show a suite's other results, if the store has others."""
    if other_results := describe_other_results(suite_results, command):
        err.print(other_results, soft_wrap=True)
