"""`status --watch`: workers, pace and time left of a store that other commands fill."""

import os
import pty
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from roarbench.analysis.collecting import collect
from roarbench.analysis.load import Question
from roarbench.cli.commands import watching
from roarbench.plan.keys import bind
from roarbench.plan.points import describe, expand
from roarbench.report.activity import activity_line, activity_record
from roarbench.report.status import status_record
from roarbench.store.leases import Owner, Wanted
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.command_line import SMALL
from tests.helpers.commands import PROGRAM
from tests.helpers.made_up import DATA, SUITE, held

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_the_pace_is_that_of_the_last_hour_and_shards_are_one_worker_each(tmp_path):
    points = expand(SUITE)
    made = held().results
    ends = [NOW - timedelta(days=3), *(NOW - timedelta(minutes=minutes) for minutes in (30, 20, 10, 0))]
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add_all(replace(made[point], created=end) for point, end in zip(points, ends, strict=False))
        owner, run = Owner.here(), bind(SUITE, points[9], DATA, None)
        store.claim([Wanted(("a", "b", "c"), "rank trained test 0", DATA), Wanted((run.key,), "", DATA)], owner, 2)
        store.claim([Wanted(("d",), "rank of other images", "other")], owner, 1)
        store.failures.add(bind(SUITE, points[8], DATA, None), "loss nan")
        suite_results = collect(SUITE, store, data=DATA)
        found = status_record(suite_results, store)
        found |= activity_record(suite_results, store, found["missing"] + found["running"], NOW)
    here = f"{owner.host.split()[0]}:{owner.pid}"
    doing = [(worker["command"], worker["does"]) for worker in found["workers"]]
    assert sorted(doing) == sorted([(here, "rank trained test 0"), (here, describe(points[9]))])
    left = len(points) - len(ends) - 1
    assert found["per_hour"] == pytest.approx(6)  # three rows after the first, in half an hour
    assert found["seconds_left"] == pytest.approx(600 * left)
    assert activity_line(found) == (
        f"5 of {len(points)} runs done, 1 failed; 2 workers of 1 command; runs an hour: 6; "
        f"time left: about {left / 6:.1f} h"
    )


def test_a_log_has_a_line_for_each_change_and_it_ends_when_nothing_is_left(tmp_path, monkeypatch, capsys):
    made, looks = list(held().results.values()), []
    with ResultsStore.open(default_url(tmp_path)) as store:

        def work(seconds):
            looks.append(seconds)
            if len(looks) > 2:
                store.add_all(made[: 10 * len(looks)] if len(looks) < 6 else made)

        monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=work))
        watching.watch_suite(store, SUITE, Question(tmp_path))
    counts = [line.partition(" of ")[0] for line in capsys.readouterr().out.splitlines()]
    assert counts == ["0", "30", "40", "50", str(len(made))]


@pytest.mark.process
def test_ctrl_c_ends_it_with_exit_code_0(store):
    """On a terminal, on a store where somebody is at work."""
    with ResultsStore.open(default_url(store)) as results:
        data = results.results(results.keys("")).popitem()[1].run.data
        results.claim([Wanted(("key",), "rank trained test 0", data)], Owner.here(), 1)
    terminal, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "LINES": "50", "TERM": "xterm"}
    words = [PROGRAM, "status", *SMALL, "--store", str(store), "--watch"]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said = b""
        while b"rank trained test 0" not in said:
            said += os.read(terminal, 10_000)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # Linux's way to say that the other end is closed
            while more := os.read(terminal, 10_000):
                said += more
        assert process.wait(60) == 0
    assert b"1 worker of 1 command" in said
    assert b"interrupted" not in said and b"Traceback" not in said
