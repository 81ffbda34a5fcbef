"""The command line: the table of commands, and exit codes.

Commands import what they need themselves: `--help` and typos are answered at once, and only `run`, `plan` and `doctor`
import torch.
"""

import gc
import shlex
import signal
import sys
import time
import unicodedata
from collections.abc import Container
from contextlib import suppress
from itertools import pairwise
from types import FrameType
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from roarbench.cli import (
    commands_without_store,
    published_results_and_rankings,
    run,
    show_results,
    stored_runs,
    submissions_and_transfer,
)
from roarbench.cli.options import app, make_command
from roarbench.cli.suggested_commands import (
    append_proposed_command,
    find_program_name,
    list_carried_options,
    takes_arguments,
)
from roarbench.cli.terminal import check_terminal_width, discard_unwritable_output, make_output_tolerant, reserve_stdout
from roarbench.errors import CallerError, RunError
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.logs import format_json_line
from roarbench.plan.protocols import PROTOCOLS
from roarbench.plan.suites import SUITES
from roarbench.text import fit_on_one_line

__all__ = ["app", "main"]
_TABLE = (  # commands in the order of the help, each with an example
    (
        "run",
        run.run,
        "`roarbench run --suite quick --estimators grad,sgsq-grad`; the paper's figure: "
        "`roarbench run --suite quick-roar`",
    ),
    ("plan", run.plan, "`roarbench plan --suite imagenette64`"),
    ("replicate", run.replicate, "`roarbench replicate --suite quick`"),
    ("status", show_results.status, "`roarbench status --suite quick --format json`"),
    ("retry", stored_runs.retry, "`roarbench retry --suite quick --estimators sgsq-grad`"),
    ("list-runs", stored_runs.list_runs, "`roarbench list-runs --suite quick --estimators sgsq-grad`"),
    ("run-info", stored_runs.run_info, "`roarbench run-info 1a2b3c4d`"),
    ("table", show_results.table, "`roarbench table --suite quick --protocol roar --format markdown`"),
    ("compare", show_results.compare, "`roarbench compare ig grad --suite quick --protocol roar`"),
    ("diagnose", show_results.diagnose, "`roarbench diagnose --suite quick`"),
    ("plot", show_results.plot, "`roarbench plot --suite quick-roar -o roar.png`"),
    ("report", show_results.report, "`roarbench report --suite quick-matched -o report.html`"),
    ("claims", show_results.claims, "`roarbench claims --suite quick`"),
    ("toy", commands_without_store.toy, "`roarbench toy -o toy.png`"),
    ("suites", commands_without_store.suites, "`roarbench suites`"),
    ("new-suite", commands_without_store.new_suite, "`roarbench new-suite photos`"),
    ("estimators", commands_without_store.estimators, "`roarbench estimators`"),
    ("validate", submissions_and_transfer.validate, "`roarbench validate my_estimator.py`"),
    ("new-submission", submissions_and_transfer.new_submission, "`roarbench new-submission my-estimator`"),
    ("reproduce", submissions_and_transfer.reproduce, "`roarbench reproduce 1a2b3c4d`"),
    ("archive", stored_runs.archive, "`roarbench archive my-estimator@1a2b3c4d --why outdated`"),
    ("export", submissions_and_transfer.export_, "`roarbench export results.parquet`"),
    ("import", submissions_and_transfer.import_, "`roarbench import results.parquet`"),
    (
        "submit",
        published_results_and_rankings.submit,
        "`roarbench submit my-estimator@1a2b3c4d --suite quick-matched --results results --about lab`",
    ),
    ("doctor", commands_without_store.doctor, "`roarbench doctor`"),
    (
        "leaderboard",
        show_results.leaderboard,
        "`roarbench leaderboard --store store` or `roarbench leaderboard --export site`",
    ),
)
for _name, _command, _example in _TABLE:
    app.command(_name, epilog=f"Example: {_example}")(reserve_stdout()(make_command(_command)))


app.add_typer(published_results_and_rankings.results, name="results")
app.add_typer(published_results_and_rankings.rankings, name="rankings")


def _tell_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        print(f"roarbench {version('roarbench')}")
        raise typer.Exit


@app.callback()
def handle_program_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Handle options before the command."""


_LONG = 400  # maximum characters of a word in an error message
_INTERRUPTED, _ENDED = 130, 128 + signal.SIGTERM  # typer exits with the first code after Ctrl-C


def main() -> NoReturn:
    """Run the command line; exit with 0 if done, 1 if a run failed, 2 for a mistake, 130 or 143 if interrupted."""
    signal.signal(signal.SIGTERM, _terminate)
    make_output_tolerant()
    code = _call()
    if code in (_INTERRUPTED, _ENDED):
        _print_error(_describe_interruption(sys.argv[1:]))
        # skips the final search for reference cycles, which takes most of a second after an import of torch
        gc.freeze()
    discard_unwritable_output()
    sys.exit(code)


def _call() -> int:
    """Run the requested command; return its exit code."""
    code = 2
    try:
        check_terminal_width()
        _check_words(sys.argv[1:])
        code = app(prog_name="roarbench", standalone_mode=False) or 0
        sys.stdout.flush()
    except CallerError as error:
        _print_error(append_proposed_command(error))
    except RunError as error:
        _print_error(append_proposed_command(error))
        code = 1
    except TyperException as error:
        if seen := " ".join(error.format_message().split()):  # empty if typer has printed the help
            # typer's suggestion is a similar command, which may mean something else
            if meant := _find_name(sys.argv[1:]):
                seen = seen.partition(" Did you mean")[0]
            _print_error(f"{seen} ({meant or _guess_meaning(sys.argv[1:]) or _name_help(error)})")
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except SystemExit as stop:
        code = _ENDED if stop.code == _ENDED else 1
        if code == 1 and not isinstance(stop.__context__, BrokenPipeError):  # a library has called sys.exit
            _print_error(f"sys.exit({stop.code!r}) was called before the command was done")
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader has closed the pipe
            return 1
        file = f": {error.filename}" if error.filename else ""
        _print_error(f"stopped: {error.strerror or error}{file}")
        code = 2
    return code


def _name_help(error: TyperException) -> str:
    """Return the command that explains the options of the command that was typed."""
    context = getattr(error, "ctx", None)
    words = context.command_path.split()[1:] if context else []
    return shlex.join([find_program_name(), *words, "--help"])


def _guess_meaning(words: list[str]) -> str:
    """Return a `did you mean` line with `--suite` before a name that lacks the option; empty for other mistakes."""
    command, name, *arguments = [*words, "", ""]
    if "--suite" not in list_carried_options(command) or "--suite" in words or not name or name.startswith("-"):
        return ""
    if name not in SUITES and takes_arguments(command):  # as `compare A B`
        return ""
    return f"did you mean {shlex.join([find_program_name(), command, '--suite', name, *filter(None, arguments)])}?"


def _find_name(words: list[str]) -> str:
    """Return a `did you mean` line if a suite, protocol or estimator was typed as the command; else nothing."""
    name = words[0].lower() if words else ""
    tables: tuple[tuple[str, Container[str]], ...] = (
        ("--suite", SUITES),
        ("--suite quick --protocol", PROTOCOLS),
        ("--suite quick --estimators", ESTIMATORS),
    )
    guesses = [("run", *options.split(), name) for options, table in tables if name in table]
    return f"did you mean {shlex.join([find_program_name(), *guesses[0]])}?" if guesses else ""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """Exit normally on SIGTERM, so that workers end and the store is closed; a second signal is ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def _describe_interruption(words: list[str]) -> str:
    command = next((word for word in words if not word.startswith("-")), "")
    if command == "run":
        return "interrupted; finished runs are stored, and the same command resumes the work"
    return f"interrupted; the unfinished work of {command} is lost"


def _check_words(words: list[str]) -> None:
    """Refuse arguments that no option accepts.

    An empty argument usually comes from an unset shell variable; an undecodable file name cannot go into a database.
    """
    for before, word in pairwise(["roarbench", *words]):
        if not word or (word.startswith("--") and word.endswith("=")):
            raise CallerError(f"the value after {word or before} is empty; write a value, or leave the option out")
        if any(unicodedata.category(letter) == "Cs" for letter in word):
            seen = word.encode(errors="replace").decode()
            raise CallerError(f"'{seen}' is not valid {sys.getfilesystemencoding()}; rename the file")


def _print_error(message: str) -> None:
    """Print an error as one line, without rich's wrapping."""
    words = (word if len(word) < _LONG else f"{word[: _LONG // 2]}…" for word in fit_on_one_line(message).split())
    line = " ".join(words)
    logs_json = "--log-format=json" in sys.argv or ("--log-format", "json") in pairwise(sys.argv)
    output = format_json_line("error", line, {}, time.time()) if logs_json else f"roarbench: {line}"
    with suppress(OSError):  # if standard error is closed, only the exit code reports the error
        print(output, file=sys.stderr)
