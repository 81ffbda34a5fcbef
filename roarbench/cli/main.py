"""The command line: a table of all commands, errors, and exit codes.

Each command imports its own dependencies. So `--help` and typos are answered at once, and only `run`, `plan` and
`doctor` import torch.
"""

import shlex
import signal
import sys
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from types import FrameType
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from roarbench.cli import commands_without_store, run, shared_results, show_results, stored_runs
from roarbench.cli.options import app, expand_option_records
from roarbench.cli.suggested_commands import append_proposed_command, find_commands, find_program_name
from roarbench.cli.terminal import discard_unwritable_output, redirect_prints_to_stderr, tolerate_output_errors
from roarbench.common.errors import CallerError, RunError
from roarbench.common.process_settings import pause_garbage_collection
from roarbench.common.text import fit_on_one_line

__all__ = ["app", "main"]
_PANELS: dict[str, dict[Callable[..., None], str]] = {  # arguments of an example by command, in the order of the help
    "Start": {
        commands_without_store.new_submission: "my-estimator",
        commands_without_store.validate: "my_estimator.py",
        run.run: "--suite quick --estimators grad,sgsq-grad`; the paper's figure: `roarbench run --suite quick-roar",
        show_results.plot: "--suite quick-roar -o roar.png",
        show_results.leaderboard: "--store store` or `roarbench leaderboard --export site",
    },
    "Run": {
        run.plan: "--suite imagenette64",
        commands_without_store.new_suite: "photos",
        stored_runs.retry: "--suite quick --estimators sgsq-grad",
        run.replicate: "--suite quick",
        commands_without_store.toy: "-o toy.png",
    },
    "Look": {
        show_results.table: "--suite quick --protocol roar --format markdown",
        show_results.compare: "grad sgsq-grad --suite quick --protocol roar",
        show_results.diagnose: "--suite quick",
        show_results.claims: "--suite quick",
        show_results.report: "--suite quick-matched -o report.html",
    },
    "Share": {
        shared_results.submit: "my-estimator@1a2b3c4d --suite quick-matched --results results --about lab",
        stored_runs.reproduce: "1a2b3c4d",
        shared_results.export_: "results.parquet",
        shared_results.import_: "results.parquet",
    },
    "Inspect": {
        stored_runs.status: "--suite quick --format json",
        stored_runs.runs: "--suite quick --estimators sgsq-grad`, `roarbench runs 1a2b3c4d",
        commands_without_store.suites: "",
        commands_without_store.estimators: "",
        commands_without_store.doctor: "",
    },
}
for _panel, _examples in _PANELS.items():
    for _command, _arguments in _examples.items():
        _name = _command.__name__.rstrip("_").replace("_", "-")
        _epilog = f"Example: `{f'roarbench {_name} {_arguments}'.rstrip()}`"
        _add = app.command(_name, epilog=_epilog, rich_help_panel=_panel)
        _called = redirect_prints_to_stderr()(expand_option_records(_command))
        _add(pause_garbage_collection()(_called) if _panel == "Look" else _called)  # without training, a short process


app.add_typer(shared_results.results, name="results", rich_help_panel="Share")


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        print(f"roarbench {version('roarbench')}")
        raise typer.Exit


@app.callback()
def handle_program_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Handle options before the command."""


_LONGEST = 400  # letters of a word in an error message
_INTERRUPTED, _TERMINATED = 130, 128 + signal.SIGTERM  # typer exits with the first code after Ctrl-C


def main() -> NoReturn:
    """Run the command line; exit with 0 if done, 1 if a run failed, 2 for a wrong call, 130 or 143 if interrupted."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    tolerate_output_errors()
    code = _run_command_line()
    if code in (_INTERRUPTED, _TERMINATED):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a further Ctrl-C would end Python's clean-up with a traceback
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        stored = "finished runs are stored, and the same command resumes the work"
        _print_error(f"interrupted; {stored if command == 'run' else f'the unfinished work of {command} is lost'}")
    discard_unwritable_output()
    sys.exit(code)


def _run_command_line() -> int:
    code = 2
    try:
        _refuse_unusable_arguments(sys.argv[1:])
        code = find_commands()(prog_name="roarbench", standalone_mode=False) or 0
        sys.stdout.flush()
    except (CallerError, RunError) as error:
        _print_error(append_proposed_command(error))
        code = 1 if isinstance(error, RunError) else 2
    except TyperException as error:
        if seen := " ".join(error.format_message().split()):  # empty if typer has printed the help
            context = getattr(error, "ctx", None)
            words = context.command_path.split()[1:] if context else []
            _print_error(f"{seen} ({shlex.join([find_program_name(), *words, '--help'])})")
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except SystemExit as stop:
        code = _TERMINATED if stop.code == _TERMINATED else 1
        if code == 1 and not isinstance(stop.__context__, BrokenPipeError):  # a library has called sys.exit
            _print_error(f"sys.exit({stop.code!r}) was called before the command was done")
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader has closed the pipe
            return 1
        file = f": {error.filename}" if error.filename else ""
        _print_error(f"stopped: {error.strerror or error}{file}")
        code = 2
    return code


def _exit_on_signal(number: int, frame: FrameType | None) -> NoReturn:
    """Exit normally on SIGTERM, so that workers end and the store is closed; a second signal is ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def _refuse_unusable_arguments(arguments: list[str]) -> None:
    """Refuse arguments that no option accepts.

    An empty argument usually comes from an unset shell variable; an undecodable file name cannot go into a database.
    """
    for previous, word in pairwise(["roarbench", *arguments]):
        if not word or (word.startswith("--") and word.endswith("=")):
            raise CallerError(f"the value after {word or previous} is empty; write a value, or leave the option out")
        if any(unicodedata.category(letter) == "Cs" for letter in word):
            seen = word.encode(errors="replace").decode()
            raise CallerError(f"'{seen}' is not valid {sys.getfilesystemencoding()}; rename the file")


def _print_error(message: str) -> None:
    words = (word if len(word) < _LONGEST else f"{word[: _LONGEST // 2]}…" for word in fit_on_one_line(message).split())
    line = " ".join(words)
    with suppress(OSError):  # if standard error is closed, only the exit code reports the error
        print(f"roarbench: {line}", file=sys.stderr)
