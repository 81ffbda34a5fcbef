"""Jobs in processes: what comes back, and what a death takes with it."""

import ctypes
import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from operator import add, truediv
from pathlib import Path

import pytest
import torch

from roarbench.devices import SHARING
from roarbench.errors import CallerError, Diverged, MachineError, RoarbenchError, RunError
from roarbench.plan.suites import find_suite
from roarbench.workers import local
from roarbench.workers.job import Job, JobOutcome, perform
from roarbench.workers.local import LocalEngine, _serve
from tests.helpers.commands import eventually
from tests.helpers.poisoned import do_unless_poisoned

pytestmark = pytest.mark.process

PATIENCE = 120.0  # seconds that a slow machine may take before a test gives up; none is spent on a quick one


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    """One worker, idle again after every test, though it may be another one: to start one takes seconds."""
    with LocalEngine(1) as made:
        yield made


def collect(engine: LocalEngine, count: int) -> dict[str, JobOutcome]:
    outcomes: dict[str, JobOutcome] = {}
    deadline = time.monotonic() + PATIENCE
    while len(outcomes) < count and time.monotonic() < deadline:
        outcomes |= {outcome.name: outcome for outcome in engine.wait(1.0)}
    return outcomes


def do(engine: LocalEngine, call: Callable[..., object], *arguments: object, name: str = "job") -> JobOutcome:
    engine.submit(Job(name, call, arguments))
    return collect(engine, 1)[name]


def raising(error: Exception) -> None:
    raise error


def is_alive(pid: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_jobs_bring_values_and_a_worker_outlives_them(engine):
    first = do(engine, os.getpid)
    assert do(engine, add, 2, 3)[:3] == ("job", 5, None)
    assert do(engine, os.getpid).value == first.value
    assert first.value != os.getpid()


def test_errors_come_back_as_one_line_and_the_worker_goes_on(engine):
    seen = do(engine, find_suite, "quikc").error
    assert type(seen) is CallerError
    assert str(seen) == "no suite 'quikc'; did you mean 'quick'?"
    seen = do(engine, truediv, 1, 0).error
    assert type(seen) is RunError
    assert str(seen) == "ZeroDivisionError: division by zero"
    assert do(engine, add, "a", "b").value == "ab"


@pytest.mark.parametrize(
    "raised, kind, line",
    [
        (CallerError("the disk is full"), CallerError, "the disk is full"),
        (RunError("no memory"), RunError, "no memory"),
        (Diverged("loss nan"), RunError, "loss nan"),
        (RoarbenchError("odd"), RunError, "RoarbenchError: odd"),
        (ValueError("level t"), RunError, "ValueError: level t"),
        (MachineError("one image"), MachineError, "one image"),
        (MemoryError(), MachineError, "MemoryError: "),
        (torch.OutOfMemoryError("CUDA out of memory."), MachineError, "OutOfMemoryError: CUDA out of memory."),
        (torch.AcceleratorError("CUDA error: lost"), MachineError, "AcceleratorError: CUDA error: lost"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), MachineError, None),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), MachineError, None),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"), MachineError, None),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), MachineError, None),
        (OSError(errno.ENOENT, "No such file"), RunError, None),
        (RuntimeError("shapes do not fit"), RunError, "RuntimeError: shapes do not fit"),
        (ValueError("out of memory, says an estimator"), RunError, None),
    ],
)
def test_each_class_of_error(raised, kind, line):
    value, error, _ = perform(Job("job", raising, (raised,)))
    assert value is None
    assert type(error) is kind
    assert str(error) == (f"{type(raised).__name__}: {raised}" if line is None else line)


class DeadGpu:
    """After one fault all that asks CUDA for something is told of it, in the words of whatever asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, told: Exception | None) -> None:
        self.asked, self._told = 0, told
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch, "ones", self._answer)

    def _answer(self, *shape: int, device: str) -> torch.Tensor:
        self.asked += 1
        if self._told:
            raise self._told
        return torch.zeros(shape)


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (RuntimeError("an illegal memory access was encountered"), MachineError),
        (torch.OutOfMemoryError("CUDA out of memory"), RunError),
        (None, RunError),
    ],
    ids=["dead", "full", "alive"],
)
@pytest.mark.parametrize("seen", [RuntimeError("Triton Error [CUDA]: unspecified launch failure"), KeyError("grad")])
def test_after_an_unplanned_error_a_worker_looks_whether_its_gpu_is_dead(seen, told, kind, monkeypatch):
    """Then all its jobs would fail, each with words of its own; a fault of one run must not end a worker."""
    gpu = DeadGpu(monkeypatch, told)
    _, error, _ = perform(Job("job", raising, (seen,)))
    assert (type(error), str(error), gpu.asked) == (kind, f"{type(seen).__name__}: {seen}", 1)
    for planned in (RunError("no map"), CallerError("no suite"), Diverged("loss nan")):
        perform(Job("job", raising, (planned,)))
    assert gpu.asked == 1


def test_a_job_goes_to_another_gpu_than_the_one_that_failed_it():
    """Two workers on a dead GPU and one on another: the second worker on the dead one is no second chance."""
    with LocalEngine(3, ("1", "0")) as engine:  # shown 1, 0, 1
        outcomes = [do(engine, do_unless_poisoned, 7) for _ in range(2)]
        assert [type(outcome.error) for outcome in outcomes] == [MachineError, type(None)]
        assert outcomes[1].value == 7


def test_idle_workers_are_counted_and_work_side_by_side():
    with LocalEngine(2) as engine:
        assert engine.idle == 2
        engine.submit(Job("long", time.sleep, (PATIENCE,)))
        assert engine.idle == 1
        engine.submit(Job("short", add, (1, 1)))
        assert engine.idle == 0
        (ended,) = collect(engine, 1).values()
        assert ended[:3] == ("short", 2, None)
        assert engine.idle == 1


def test_each_worker_sees_one_gpu_in_turn_and_so_does_the_one_that_replaces_it():
    def shown(engine):
        for number in range(2):
            engine.submit(Job(str(number), os.getenv, ("CUDA_VISIBLE_DEVICES",)))
        return sorted(outcome.value for outcome in collect(engine, 2).values())

    with LocalEngine(2, ("4", "GPU-7", "5")) as engine:
        assert shown(engine) == ["4", "GPU-7"]
        assert do(engine, os._exit, 3).error
        assert shown(engine) == ["4", "GPU-7"]
        idle = engine._idle[-1].process
        idle.kill()
        idle.join()
        assert shown(engine) == ["4", "GPU-7"]


def test_a_worker_knows_how_many_share_its_gpu():
    with LocalEngine(3, ("0", "1")) as engine:
        for number in range(3):
            engine.submit(Job(str(number), os.getenv, (SHARING,)))
        assert sorted(outcome.value for outcome in collect(engine, 3).values()) == ["1", "2", "2"]
        assert engine.gpus == 2
        share = str(max(1, min(32, len(os.sched_getaffinity(0)) // 3)))
        assert do(engine, os.getenv, "TORCHINDUCTOR_COMPILE_THREADS").value == share


def test_a_worker_killed_amid_its_job_takes_only_that_with_it(engine):
    outcome = do(engine, os.kill, do(engine, os.getpid).value, signal.SIGKILL)
    assert outcome.value is None
    assert type(outcome.error) is MachineError
    assert str(outcome.error) == "its process died (signal SIGKILL; often too little memory)"
    assert engine.idle == 1
    assert do(engine, add, 1, 2).value == 3


def test_a_worker_whose_machine_failed_is_replaced(engine):
    """A process whose GPU failed once can compute nothing any more, and one that ran out of memory holds much of it."""
    pid = do(engine, os.getpid).value
    assert type(do(engine, torch.empty, 10**15).error) is MachineError
    assert engine.idle == 1
    assert do(engine, os.getpid).value != pid
    assert not is_alive(pid)


def test_a_worker_leaves_after_three_jobs_in_a_row_and_without_any_the_work_ends():
    """One job that fails again and again is no fault of its worker."""
    with LocalEngine(0) as engine:
        assert [engine._leaves(0, name) for name in "aaaabc"] == [False] * 5 + [True]
        assert not engine._leaves(1, "c")
        with pytest.raises(MachineError, match="every worker failed 3 jobs in a row"):
            engine.wait(0.0)


def test_a_worker_that_stands_still_is_replaced(engine, monkeypatch):
    monkeypatch.setattr(local, "STILL", 2.0)
    pid = do(engine, os.getpid).value
    engine.submit(Job("job", time.sleep, (PATIENCE,)))
    os.kill(pid, signal.SIGSTOP)
    assert str(collect(engine, 1)["job"].error) == "its process died (it stood still for 2 s)"
    assert do(engine, os.getpid).value != pid


def test_a_long_job_is_no_stand_still_nor_is_a_sleep_of_the_command(engine, monkeypatch):
    monkeypatch.setattr(local, "STILL", 30.0)
    engine.submit(Job("job", time.sleep, (4.0,)))
    assert engine.wait(0.1) == []
    engine._looked -= 1000.0  # this process was stopped, and its workers with it
    assert collect(engine, 1)["job"].error is None


def test_a_job_can_be_stopped(engine):
    engine.submit(Job("long", time.sleep, (PATIENCE,)))
    engine.stop("another")
    engine.stop("long")
    assert str(collect(engine, 1)["long"].error) == "its process died (it was stopped)"
    assert do(engine, add, 1, 2).value == 3


def test_a_worker_that_dies_before_it_reads_its_job_fails_that_job():
    with LocalEngine(1) as engine:
        engine.submit(Job("job", add, (1, 1)))
        worker, _ = next(iter(engine._busy.values()))
        os.kill(worker.process.pid, signal.SIGKILL)  # it is still importing torch
        assert "its process died" in str(collect(engine, 1)["job"].error)


def test_a_second_interrupt_ends_workers_at_once():
    with pytest.raises(KeyboardInterrupt), LocalEngine(2) as engine:
        pid = do(engine, os.getpid).value
        os.kill(pid, signal.SIGSTOP)  # it does not hear that it is to end
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert not is_alive(pid)


def test_leaving_the_context_ends_workers_whatever_they_do():
    with pytest.raises(KeyError), LocalEngine(2) as engine:
        pid = do(engine, os.getpid).value
        engine.submit(Job("long", time.sleep, (PATIENCE,)))
        engine.submit(Job("long too", time.sleep, (PATIENCE,)))
        raise KeyError
    assert not is_alive(pid)


def test_a_worker_does_not_hear_an_interrupt(engine):
    pid = do(engine, os.getpid).value
    os.kill(pid, signal.SIGINT)
    assert do(engine, os.getpid).value == pid


@pytest.mark.parametrize("moment", ["at once", "soon"])
def test_a_worker_that_starts_does_not_hear_an_interrupt(capfd, moment):
    with LocalEngine(1) as engine:
        os.kill(engine._idle[0].process.pid, signal.SIGINT)
        if moment == "soon":
            time.sleep(0.05)  # amid its imports
            os.kill(engine._idle[0].process.pid, signal.SIGINT)
        assert do(engine, add, 1, 1).value == 2
    assert "Traceback" not in capfd.readouterr().err


def test_the_parent_still_hears_interrupts(engine):
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(PATIENCE)


@pytest.mark.parametrize("unread", [False, True])
def test_a_worker_that_answers_nobody_ends_in_silence(capfd, monkeypatch, unread):
    """A killed parent closes its end; with an answer unread, the system resets the connection instead."""
    monkeypatch.setattr(local, "_live_with", lambda parent, signs: None)
    here, there = multiprocessing.Pipe()
    here.send(Job("job", add, (1, 1)))
    if unread:
        there.send("an answer")
    here.close()
    _serve(there, os.getppid(), None, (1, 1), ctypes.c_long(), None)
    assert capfd.readouterr() == ("", "")


PARENT = """
import time
from roarbench.workers.local import LocalEngine
from roarbench.workers.job import Job
import os
if __name__ == "__main__":
    with LocalEngine(1) as engine:
        engine.submit(Job("pid", os.getpid, ()))
        while not (outcomes := engine.wait(1.0)):
            pass
        engine.submit(Job("spin", eval, ("sum(1 for _ in iter(int, 1))",)))
        print(outcomes[0].value, flush=True)
        time.sleep(600)
"""


def test_workers_that_compute_end_soon_after_a_killed_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    try:
        assert eventually(lambda: not is_alive(pid))  # they look twice a second
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_script_runs_once_though_its_workers_have_no_guard_and_a_thread_starts_them(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import threading\nfrom operator import add\n"
        "from roarbench.workers.job import Job\nfrom roarbench.workers.local import LocalEngine\n"
        "def work():\n    with LocalEngine(1) as engine:\n        engine.submit(Job('sum', add, (1, 2)))\n"
        "        while not (ended := engine.wait(1.0)):\n            pass\n        print('sum', ended[0].value)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr, done.returncode) == ("sum 3\n", "", 0)
