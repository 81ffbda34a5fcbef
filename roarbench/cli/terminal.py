"""Print output and errors, and propose commands with the store and images of the current call."""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from roarbench.cli.options import ReportFormat, TableFormat, app
from roarbench.common.errors import Hint, RoarbenchError
from roarbench.common.text import blank_control_characters, wrap_lines
from roarbench.plan.settings import find_default_database, find_default_store
from roarbench.plan.suites import make_suite_option_value

if TYPE_CHECKING:
    from roarbench.analysis.suite_results import SuiteResults
    from roarbench.report.combined_table import CombinedTable
    from roarbench.report.table import SuiteTable

_NAME = "roarbench"
_REMOVAL_OPTIONS = ("--fill", "--unit")
_STORE_OPTIONS = ("--store", "--db")
_SUITE_OPTIONS = ("--suite", *_STORE_OPTIONS, "--data", "--reference", "--max-images", *_REMOVAL_OPTIONS)


def propose_command(command: str, *arguments: object, reused: Collection[str] = _SUITE_OPTIONS) -> str:
    """Write a command line for a shell, with the program's path if it is not on PATH.

    `arguments` override the options of the current call. The call's other options are added if they are in `reused`.
    """
    words = [str(argument) for argument in arguments]
    if command == "runs" and words and not words[0].startswith("-"):  # a key or row of the whole store
        reused = _STORE_OPTIONS
    parameters = app.commands[command].params if command in app.commands else ()
    accepted, in_use = {flag for one in parameters for flag in one.opts}, _collect_options_in_use()
    for option in (*_SUITE_OPTIONS, "-o"):
        if option in accepted and option in (*reused, "-o") and option not in words:
            words += in_use.get(option, ())
    return shlex.join([find_program_name(), command, *words])


def append_proposed_command(message: "str | Hint | RoarbenchError") -> str:
    """Return the printed line of a hint or an error, with the command that it proposes."""
    if isinstance(message, Hint):
        return message.text.format(propose_command(message.command, *message.words))
    if isinstance(message, RoarbenchError) and message.hint:
        return f"{message}{append_proposed_command(message.hint)}"
    return str(message)


def describe_other_results(suite_results: "SuiteResults", command: str, *arguments: str) -> str:
    """Return one line with commands that show other results of the suite, or an empty string without other results."""
    has_rows, calls, reused = suite_results.has_rows, [], (*_STORE_OPTIONS, *_REMOVAL_OPTIONS)
    suite = make_suite_option_value(suite_results.suite)
    for other in suite_results.others:
        if not has_rows or other.limit == suite_results.limit:
            limit = ("--max-images", other.limit) if other.limit else ()
            call = propose_command(
                command, *arguments, "--suite", other.suite or suite, *limit, *other.options, reused=reused
            )
            calls.append(f"{call} ({other.title})")
    first = "this store also has" if has_rows else f"this store has no results of {suite_results.title}, but others"
    return f"{first}: {'; '.join(calls)}" if calls else ""


def find_program_name() -> str:
    """Return the name of this program if the shell finds it by name, else the path by which it was called."""
    program = sys.argv[0]
    if not _is_run_as_program() or os.sep not in program:
        return _NAME
    on_path = shutil.which(_NAME)
    return _NAME if on_path and Path(on_path).samefile(program) else program


def hide_password(url: str) -> str:
    """Return a database's URL with stars instead of its password; a path or name is unchanged."""
    return re.sub(r"(password=)[^&]*", r"\1***", re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url))


def _is_run_as_program() -> bool:
    """Return whether this process is the program rather than a script or notebook that imports it."""
    return Path(sys.argv[0]).name == _NAME


def _collect_options_in_use() -> dict[str, tuple[str, ...]]:
    """Return the call's options that proposals may reuse: all values of `--reference`, the last value of others."""
    words = sys.argv[1:] if _is_run_as_program() else []
    options = {"--store": [os.environ.get("ROARBENCH_STORE", "")], "--suite": ["quick"]}
    for word, following in zip(words, [*words[1:], ""], strict=False):
        option, equals, value = word.partition("=")
        option = "-o" if option == "--output" else option
        if option in (*_SUITE_OPTIONS, "-o"):
            before = options.get(option, []) if option == "--reference" else []
            options[option] = [*before, hide_password(value if equals else following)]
    store = Path(options["--store"][0] or find_default_store())
    options.setdefault("--db", [hide_password(find_default_database(store))])
    return {
        option: tuple(word for value in values for word in (option, value))
        for option, values in options.items()
        if all(values)
    }


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


def print_report(format: ReportFormat, record: Any, text: Callable[[Any], RenderableType]) -> None:
    """Print a record as JSON, or as text; lines of text are wrapped on a terminal, and not for pipes."""
    if format == "json":
        out.print_json(json.dumps(record))
    else:
        rendered = text(record)
        if isinstance(rendered, str) and out.is_terminal:
            rendered = wrap_lines(rendered, out.width)
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
