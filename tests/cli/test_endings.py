"""Messages and exit codes of commands after failures of terminal, disk or port, and after signals."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.table import Table

from roarbench.analysis.load_results import ResultsQuery
from roarbench.cli import stored_runs, terminal
from roarbench.execution import run_suite
from roarbench.store.leases import LeaseRequest, Owner
from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers.command_line import PART, RUNS, SMALL
from tests.helpers.made_up_results import SUITE, make_suite_results
from tests.helpers.processes import PROGRAM, rows
from toy import linear


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
    assert call("toy") == (code, "", "roarbench: interrupted; the unfinished work of toy is lost\n")


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


def test_json_log_format_reports_errors_as_json(call, monkeypatch, tmp_path):
    monkeypatch.setattr(terminal, "log_json_lines_to", lambda handler: None)  # a handler would stay for other tests
    (tmp_path / "logs").touch()
    for words, said in (
        (("run", "--suite", "quikc"), "no suite 'quikc'; did you mean 'quick'? (list: roarbench suites)"),
        (("run", *PART, "--store", tmp_path), f"cannot write {tmp_path / 'logs'}: File exists; "),
    ):
        wrong = call(*words, "--log-format", "json")
        line = json.loads(wrong.err)
        assert (wrong.code, line["level"], line["message"].startswith(said)) == (2, "error", True)
    assert call("run", *SMALL, "--log-format=json", "--seeds", "0").err.startswith('{"time": ')


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


def test_watch_suite_prints_each_change_until_done(tmp_path, monkeypatch, capsys):
    made = list(make_suite_results().results.values())
    added = iter(([], made[:30], made[30:40], made[40:]))
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        monkeypatch.setattr(stored_runs, "time", SimpleNamespace(sleep=lambda seconds: store.add_results(next(added))))
        stored_runs.watch_suite(store, SUITE, ResultsQuery(tmp_path))
    counts = [line.partition(" of ")[0] for line in capsys.readouterr().out.splitlines()]
    assert counts == ["0", "30", "40", str(len(made))]


@pytest.mark.process
def test_status_watch_exits_with_code_0_on_ctrl_c(store):
    """The command runs in a terminal, on a store with an active lease."""
    with ResultsStore.open(make_default_url(store)) as results:
        data = results.read_results(results.list_result_keys("")).popitem()[1].run.data
        results.claim_leases([LeaseRequest(("key",), "rank trained test 0", data)], Owner.of_this_process(), 1)
    terminal, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "LINES": "50", "TERM": "xterm"}
    words = [PROGRAM, "status", *SMALL, "--store", str(store), "--watch"]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said = b""
        while b"rank trained test 0" not in said:
            said += os.read(terminal, 10_000)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # Linux raises it when the other end is closed
            while more := os.read(terminal, 10_000):
                said += more
        assert process.wait(60) == 0
    assert b"1 worker of 1 command" in said
    assert b"interrupted" not in said and b"Traceback" not in said
