"""The command line: a table of all commands, errors, and exit codes.

Each command imports its own dependencies. So `--help` and typos are answered at once, and only `run`, `plan` and
`doctor` import torch.
"""

import os
import shlex
import signal
import sys
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from itertools import pairwise
from types import FrameType
from typing import NoReturn

import click

from roarbench.cli import commands_without_store, run, show_results, stored_runs
from roarbench.cli.options import PanelGroup, app, make_command
from roarbench.cli.terminal import append_proposed_command, find_program_name, redirect_prints_to_stderr
from roarbench.common.errors import CallerError, RunError
from roarbench.common.process_settings import pause_garbage_collection
from roarbench.common.text import fit_on_one_line

__all__ = ["app", "main"]
_PANELS: dict[str, dict[Callable[..., int | None], str]] = {  # examples of commands in the order of the help
    "Start": {
        commands_without_store.new_submission: "new-submission my-estimator",
        commands_without_store.validate: "validate my_estimator.py",
        run.run: "run --suite quick --estimators grad,sgsq-grad`; "
        "the paper's figure: `roarbench run --suite quick-roar",
        show_results.plot: "plot --suite quick-roar -o roar.png",
        show_results.leaderboard: "leaderboard --store store` or `roarbench leaderboard --export site",
    },
    "Run": {
        run.plan: "plan --suite imagenette64",
        commands_without_store.new_suite: "new-suite photos",
        stored_runs.retry: "retry --suite quick --estimators sgsq-grad",
        run.replicate: "replicate --suite quick",
        commands_without_store.toy: "toy -o toy.png",
    },
    "Look": {
        show_results.table: "table --suite quick --protocol roar --format markdown",
        show_results.compare: "compare grad sgsq-grad --suite quick --protocol roar",
        show_results.diagnose: "diagnose --suite quick",
        show_results.claims: "claims --suite quick",
        show_results.report: "report --suite quick-matched -o report.html",
    },
    "Share": {
        stored_runs.submit: "submit my-estimator@1a2b3c4d --suite quick-matched --results results --about lab",
        stored_runs.reproduce: "reproduce 1a2b3c4d",
        stored_runs.export_: "export results.parquet",
        stored_runs.import_: "import results.parquet",
    },
    "Inspect": {
        stored_runs.status: "status --suite quick --format json",
        stored_runs.runs: "runs --suite quick --estimators sgsq-grad`, `roarbench runs 1a2b3c4d",
        commands_without_store.suites: "suites",
        commands_without_store.estimators: "estimators",
        commands_without_store.doctor: "doctor",
    },
}
for _panel, _examples in _PANELS.items():
    for _function, _example in _examples.items():
        _called = redirect_prints_to_stderr()(_function)
        _called = pause_garbage_collection()(_called) if _panel == "Look" else _called  # without training, brief
        app.add_to_panel(_panel, make_command(_called, _example))
_about = "Check a folder of published results, or describe a change to it."
_results = PanelGroup("results", _about, "Example: `roarbench results check results`")
for _function in (stored_runs.check, stored_runs.comment):
    _example = f"results {_function.__name__} results --before main/results"
    _results.add_to_panel("Commands", make_command(_function, _example))
app.add_to_panel("Share", _results)
click.version_option(package_name="roarbench", message="%(package)s %(version)s")(app)

_LONGEST = 400  # letters of a word in an error message
_INTERRUPTED, _TERMINATED = 130, 128 + signal.SIGTERM


def main() -> NoReturn:
    """Run the command line; exit with 0 if done, 1 if a run failed, 2 for a wrong call, 130 or 143 if interrupted."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    # print `?` for letters that the encoding lacks, and drop output to closed streams
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed the stream, and another file could get its descriptor
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream := getattr(sys, name), TextIOWrapper):
            stream.reconfigure(errors="replace")
    if os.environ.get("_ROARBENCH_COMPLETE"):  # a shell asks for completions
        app.main(prog_name="roarbench")
    code = _run_command_line()
    if code in (_INTERRUPTED, _TERMINATED):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a further Ctrl-C would end Python's clean-up with a traceback
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        stored = "finished runs are stored, and the same command resumes the work"
        _print_error(f"interrupted; {stored if command == 'run' else f'the unfinished work of {command} is lost'}")
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # discard what cannot be written; Python would try again at exit and print an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _run_command_line() -> int:
    code = 2
    try:
        _refuse_unusable_arguments(sys.argv[1:])
        with app.make_context("roarbench", sys.argv[1:]) as context:  # `app.main` prints an empty line after Ctrl-C
            code = app.invoke(context) or 0
        sys.stdout.flush()
    except click.exceptions.Exit as end:  # after --help and --version
        code = end.exit_code
    except click.exceptions.NoArgsIsHelpError as help_text:
        with suppress(OSError):
            print(help_text)
    except (CallerError, RunError) as error:
        _print_error(append_proposed_command(error))
        code = 1 if isinstance(error, RunError) else 2
    except click.UsageError as error:
        words = error.ctx.command_path.split()[1:] if error.ctx else []
        _print_error(f"{error.format_message()} ({shlex.join([find_program_name(), *words, '--help'])})")
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except SystemExit as stop:
        # `_exit_on_signal` was called; Ray replaces a code that is raised while it waits by 1
        code = _TERMINATED if signal.getsignal(signal.SIGTERM) == signal.SIG_IGN else 1
        if code == 1:  # a library has called sys.exit
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
