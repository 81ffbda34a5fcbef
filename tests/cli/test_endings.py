"""Messages and exit codes of commands after failures of terminal, disk or port, and after signals."""

import os
import signal
import socket
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from rich.table import Table

from roarbench.cli import terminal
from roarbench.execution import run_suite
from roarbench.store.results import ResultsStore
from tests.helpers.command_line import PART, RUNS, SMALL
from tests.helpers.processes import rows
from toy import linear


@pytest.fixture(autouse=True)
def restored_handler():
    """Later tests of this process are interrupted again: an interrupted command ignores Ctrl-C at its end."""
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.process
def test_commands_print_to_ascii_terminal(call, made, monkeypatch):
    for words, seen in ((("table", *SMALL, "--store", made), "truth"), (("--help",), "Usage")):
        monkeypatch.setattr(sys, "stdout", TextIOWrapper(BytesIO(), encoding="ascii"))
        monkeypatch.setattr(sys, "stderr", TextIOWrapper(BytesIO(), encoding="ascii"))
        assert call(*words).code == 0
        assert sys.stderr.buffer.getvalue() == b""
        assert seen in sys.stdout.buffer.getvalue().decode("ascii")


@pytest.mark.process
def test_full_output_device_ends_command_with_exit_code_2(call, made, monkeypatch):
    full = "roarbench: stopped: No space left on device\n"
    for words, stream, said in (
        (("table", *SMALL, "--store", made, "--format", "json"), "stdout", full),
        (("--help",), "stdout", full),
        (("table", "--suite", "quikc"), "stderr", ""),
    ):
        with Path("/dev/full").open("w") as device, monkeypatch.context() as patch:
            patch.setattr(sys, stream, device)
            assert call(*words) == (2, "", said), words


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_command_names_stored_work(call, tmp_path, number, code, monkeypatch):
    for module, name in ((linear, "run_experiment"), (run_suite, "run_suite")):
        monkeypatch.setattr(module, name, lambda *_: os.kill(os.getpid(), number))
    kept = "roarbench: interrupted; finished runs are stored, and the same command resumes the work\n"
    assert call("run", *SMALL, "--store", tmp_path) == (code, "", kept)
    assert signal.signal(signal.SIGINT, signal.default_int_handler) == signal.SIG_IGN  # a second Ctrl-C is harmless
    assert call("toy") == (code, "", "roarbench: interrupted; the unfinished work of toy is lost\n")


def test_terminated_command_names_stored_work_if_a_library_changes_the_code(call, tmp_path, monkeypatch):
    """`ray.wait` raises SystemExit(1) in place of the code that a signal's handler raises."""

    def wait(*_):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except SystemExit:
            sys.exit(1)

    monkeypatch.setattr(run_suite, "run_suite", wait)
    answer = call("run", *SMALL, "--store", tmp_path)
    assert (answer.code, "interrupted; finished runs are stored" in answer.err) == (143, True)


@pytest.mark.process
def test_leaderboard_reports_occupied_port(call, made):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = call("leaderboard", "--store", made, "--port", port)
    line = f"roarbench: cannot serve on 127.0.0.1:{port}: Address already in use; write another --port\n"
    assert answer == (2, "", line)


def test_terminal_strips_control_characters():
    """Text from stores and files may hold control characters."""
    table = Table("a\x1b[2J")
    table.add_row("b\x1b]0;mine\x07\u202ec")
    with terminal.out.capture() as shown:
        terminal.out.print(table)
        terminal.out.print("≈ two\nlines \x1b[31mred", soft_wrap=True)
    assert all(line.isprintable() for line in shown.get().split("\n"))
    assert shown.get().endswith("≈ two\nlines  [31mred\n")


@pytest.mark.process
@pytest.mark.parametrize("last", [5, RUNS])
def test_run_saves_rows_when_results_file_is_removed(call, tmp_path, last, monkeypatch):
    add, file, added = ResultsStore.add_results, tmp_path / "results.sqlite", []

    def remove(store, new, *more):
        rows = list(new)
        stored = add(store, rows, *more)
        added.extend(rows)
        if len(added) == last:
            file.unlink()
        return stored

    monkeypatch.setattr(ResultsStore, "add_results", remove)
    run = ("run", *PART, "--store", tmp_path)
    code, _, said = call(*run)
    (kept,) = tmp_path.glob("results.sqlite.kept-*")
    assert code == 1 and f"its rows were saved in {kept}: move that file back" in said.splitlines()[-1]
    kept.rename(file)
    assert rows(tmp_path) >= last
    assert call(*run).code == 0
    assert rows(tmp_path) == RUNS
