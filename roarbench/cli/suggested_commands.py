"""Compose the command lines that messages propose, with the store and images of the current call."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from roarbench.cli.options import app
from roarbench.common.errors import Hint, RoarbenchError
from roarbench.plan.settings import find_default_database, find_default_store
from roarbench.plan.suites import make_suite_option_value

if TYPE_CHECKING:
    from roarbench.analysis.suite_results import SuiteResults

_NAME = "roarbench"
_REMOVAL_OPTIONS = ("--fill", "--unit")
_STORE_OPTIONS = ("--store", "--db")
_SUITE_OPTIONS = ("--suite", *_STORE_OPTIONS, "--data", "--reference", "--max-images", *_REMOVAL_OPTIONS)


@cache
def list_accepted_suite_options(command: str) -> list[str]:
    """Return the options that a proposed command can take over from the current call."""
    parameters = app.commands[command].params if command in app.commands else ()
    return [option for option in (*_SUITE_OPTIONS, "-o") if any(option in one.opts for one in parameters)]


def propose_command(command: str, *arguments: object, reused: Collection[str] = _SUITE_OPTIONS) -> str:
    """Write a command line for a shell, with the program's path if it is not on PATH.

    `arguments` override the options of the current call. The call's other options are added if they are in `reused`.
    """
    words = [str(argument) for argument in arguments]
    if command == "runs" and words and not words[0].startswith("-"):  # a key or row of the whole store
        reused = _STORE_OPTIONS
    options_in_use = _collect_options_in_use()
    for option in list_accepted_suite_options(command):
        if option in (*reused, "-o") and option not in words:
            words += options_in_use.get(option, ())
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
            call = propose_command(command, *arguments, "--suite", suite, *limit, *other.options, reused=reused)
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
