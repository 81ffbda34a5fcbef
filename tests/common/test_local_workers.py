"""Jobs in local processes: outcomes, failures of workers, logs, and the end of a process."""

import errno
import multiprocessing
import os
import platform
import resource
import signal
import subprocess
import sys
import threading
import time
from operator import add
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from roarbench.common import local_workers, process_settings
from roarbench.common.device_settings import SHARING
from roarbench.common.errors import CallerError, Diverged, MachineError, RunError
from roarbench.common.job_interface import Job, perform_job
from roarbench.common.local_workers import LocalEngine
from roarbench.store.leases import _read_start_time
from tests.helpers.processes import PATIENCE, check_outcomes, collect, do, wait_until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module", autouse=True)
def fork_workers():
    """Fork workers from this process instead of starting a Python for each: all imports are done here."""
    context = multiprocessing.get_context("fork")
    with pytest.MonkeyPatch.context() as patch:
        functions = vars(multiprocessing) | {"get_context": lambda method: context}
        patch.setattr(local_workers, "multiprocessing", SimpleNamespace(**functions))
        yield


@pytest.fixture(scope="module")
def engine(fork_workers):
    """An engine of one worker, which is idle after every test, though its process may have been replaced."""
    with LocalEngine(1) as local_engine:
        yield local_engine


def raise_error(error):
    raise error


def is_alive(pid):
    return bool(_read_start_time(pid))  # a zombie has none


def test_perform_job_converts_each_error_class():
    for raised, kind, line in (
        (CallerError("the disk is full"), CallerError, "the disk is full"),
        (Diverged("loss nan"), RunError, "loss nan"),
        (SystemExit(0), RunError, "RuntimeError: sys.exit(0) was called"),
        (MachineError("one image"), MachineError, "one image"),
        (torch.OutOfMemoryError("CUDA out of memory."), MachineError, None),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), MachineError, None),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), MachineError, None),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), MachineError, None),
        (OSError(errno.ENOENT, "No such file"), RunError, None),
        (RuntimeError("shapes do not fit"), RunError, None),
        (ValueError("out of memory, says an estimator"), RunError, None),
    ):
        value, error, _ = perform_job(Job("job", raise_error, (raised,)))
        said = f"{type(raised).__name__}: {raised}" if line is None else line
        assert (value, type(error), str(error)) == (None, kind, said)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(RuntimeError("illegal memory access"), MachineError), (torch.OutOfMemoryError(), RunError), (None, RunError)],
)
def test_unexpected_error_ends_worker_only_if_gpu_is_dead(monkeypatch, answer, kind):
    """A dead GPU fails every later job, so the worker must end; the fault of one run must not end a worker."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch, "ones", Mock(side_effect=answer))
    assert type(perform_job(Job("job", raise_error, (RuntimeError("Triton Error [CUDA]"),)))[1]) is kind


def test_engine_retries_failed_job_on_another_gpu():
    """Two of three workers share a dead GPU, so a retry on the second of them would fail, too."""
    unless_poisoned = "__import__('os')._exit(9) if __import__('os').environ['CUDA_VISIBLE_DEVICES'] == '1' else 7"
    with LocalEngine(3, ("1", "0")) as engine:  # the workers see GPUs 1, 0, 1
        outcomes = [do(engine, eval, unless_poisoned) for _ in range(2)]
    assert [type(outcome.error) for outcome in outcomes] == [MachineError, type(None)]
    assert outcomes[1].value == 7


def test_workers_get_gpu_environment_in_turn():
    def shown(engine):
        names = ("CUDA_VISIBLE_DEVICES", SHARING, "TORCHINDUCTOR_COMPILE_THREADS")
        for number in range(3):
            engine.start_job(Job(str(number), eval, (f"[__import__('os').environ[name] for name in {names}]",)))
        return sorted(outcome.value for outcome in collect(engine, 3).values())

    threads = str(max(1, min(32, len(os.sched_getaffinity(0)) // 3)))
    expected = [["4", "2", threads], ["4", "2", threads], ["GPU-7", "1", threads]]
    with LocalEngine(3, ("4", "GPU-7")) as engine:
        assert (shown(engine), engine.gpus) == (expected, 2)
        assert do(engine, os._exit, 3).error
        idle = engine._idle[-1].process
        idle.kill()
        idle.join()
        assert shown(engine) == expected


def test_engine_replaces_worker_after_machine_failure(engine):
    """A process cannot compute after its GPU failed, and it may hold much memory after an allocation failed."""
    killed = do(engine, os.kill, do(engine, os.getpid).value, signal.SIGKILL)
    assert (killed.value, type(killed.error)) == (None, MachineError)
    assert str(killed.error) == "the worker's process died (signal SIGKILL; often caused by too little memory)"
    pid = do(engine, os.getpid).value
    assert type(do(engine, torch.empty, 10**15).error) is MachineError
    assert engine.idle == 1
    engine.start_job(Job("long", time.sleep, (PATIENCE,)))
    engine.stop_job("another")
    engine.stop_job("long")
    assert str(collect(engine, 1)["long"].error) == "the worker's process died (stopped on request)"
    assert do(engine, os.getpid).value != pid
    assert not is_alive(pid)


def test_engine_works_in_worker_of_joblib(monkeypatch):
    """joblib sets a default start method of its own there, which new processes do not know."""
    method = Mock(_name="loky", get_start_method=lambda allow_none=False: "loky")
    monkeypatch.setattr(multiprocessing.context._default_context, "_actual_context", method)
    monkeypatch.setattr(local_workers, "multiprocessing", multiprocessing)  # its processes are spawned
    with LocalEngine(1) as engine:
        assert do(engine, add, 1, 2).value == 3


def test_engine_drops_worker_after_three_failed_jobs():
    """Repeated failures of one job count once."""
    with LocalEngine(1) as engine:
        for name in "aaaabc":
            engine.start_job(Job(name, os._exit, (3,)))
            assert collect(engine, 1)[name].error
            assert engine.idle == (name != "c")
        with pytest.raises(MachineError, match="every worker failed 3 jobs in a row"):
            engine.wait(0.0)


def test_engine_replaces_only_unresponsive_workers(engine, monkeypatch):
    monkeypatch.setattr(local_workers, "STILL", 30.0)
    engine.start_job(Job("long", time.sleep, (1.0,)))
    assert engine.wait(0.1) == []
    engine._looked -= 1000.0  # as if this process and its workers had been suspended
    assert collect(engine, 1)["long"].error is None
    monkeypatch.setattr(local_workers, "STILL", 2.0)
    pid = do(engine, os.getpid).value
    engine.start_job(Job("job", time.sleep, (PATIENCE,)))
    os.kill(pid, signal.SIGSTOP)
    assert str(collect(engine, 1)["job"].error) == "the worker's process died (no response for 2 s)"
    assert do(engine, os.getpid).value != pid


@pytest.mark.parametrize(
    ("signs", "silent", "killed"), [(0, 200.0, False), (0, 1300.0, True), (5, 100.0, False), (5, 200.0, True)]
)
def test_engine_waits_longer_for_starting_worker(signs, silent, killed, monkeypatch):
    """A starting worker imports torch, which can take minutes over a network file system."""
    reasons = []
    with LocalEngine(1) as engine:
        worker = engine._idle[0]._replace(signs_of_life=SimpleNamespace(value=signs))
        monkeypatch.setattr(engine, "_kill_worker", lambda worker, why: reasons.append(why))
        engine._busy = {worker.connection: (worker, Job("job", os.getpid, ()))}
        engine._silence = {worker.number: (signs, silent)}
        engine._kill_silent_workers()
        engine._busy = {}
    assert bool(reasons) is killed


def test_workers_ignore_sigint_until_parent_is_interrupted():
    with pytest.raises(KeyboardInterrupt), LocalEngine(1) as engine:
        pid = check_outcomes(engine)
        os.kill(pid, signal.SIGINT)
        assert do(engine, os.getpid).value == pid
        os.kill(pid, signal.SIGSTOP)  # now the worker cannot read the request to end either
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)  # a request before it stops would end it first
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert not is_alive(pid)


def test_starting_workers_ignore_sigint(monkeypatch, capfd):
    monkeypatch.setattr(local_workers, "multiprocessing", multiprocessing)  # spawned as outside of tests
    with LocalEngine(2) as engine:
        interrupted, killed = (worker.process for worker in engine._idle)
        engine.start_job(Job("job", add, (1, 1)))
        killed.kill()  # it is still importing torch
        for pause in (0.05, 0.0):  # at once, and amid its imports
            os.kill(interrupted.pid, signal.SIGINT)
            time.sleep(pause)
        assert "process died" in str(collect(engine, 1)["job"].error)
        for name in ("one", "other"):
            engine.start_job(Job(name, os.getpid, ()))
        assert interrupted.pid in {outcome.value for outcome in collect(engine, 2).values()}
    assert "Traceback" not in capfd.readouterr().err


def compute_forever(told):
    """Run a parent whose worker computes without end, and send the worker's process number."""
    with LocalEngine(1) as engine:
        pid = do(engine, os.getpid).value
        engine.start_job(Job("spin", eval, ("sum(1 for _ in iter(int, 1))",)))
        told.send(pid)
        time.sleep(PATIENCE)


def test_busy_workers_exit_after_parent_is_killed():
    here, there = multiprocessing.Pipe()
    parent = multiprocessing.get_context("fork").Process(target=compute_forever, args=(there,))
    parent.start()
    assert here.poll(PATIENCE)
    pid = here.recv()
    assert is_alive(pid)
    parent.kill()
    parent.join()
    if not (ended := wait_until(lambda: not is_alive(pid))):  # workers check their parent twice a second
        os.kill(pid, signal.SIGKILL)
    assert ended


def test_script_without_main_guard_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import threading\nfrom operator import add\n"
        "from roarbench.common.job_interface import Job\nfrom roarbench.common.local_workers import LocalEngine\n"
        "def work():\n    with LocalEngine(1) as engine:\n        engine.start_job(Job('sum', add, (1, 2)))\n"
        "        while not (ended := engine.wait(1.0)):\n            pass\n        print('sum', ended[0].value)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr, done.returncode) == ("sum 3\n", "", 0)


WAITS_FOR_SIGTERM = """
import time
from roarbench.common.process_settings import defer_sigterm_until_checked, exit_at_once_on_sigterm, is_stop_requested
exit_at_once_on_sigterm()
with defer_sigterm_until_checked():
    print("ready", flush=True)
    while not is_stop_requested():
        time.sleep(0.01)
    print("kept", flush=True)
print("ready", flush=True)
time.sleep(600)
"""


def test_defer_stop_until_checked_delays_sigterm():
    with subprocess.Popen([sys.executable, "-c", WAITS_FOR_SIGTERM], stdout=subprocess.PIPE, text=True) as process:
        for word in ("ready", "kept", "ready"):
            assert process.stdout.readline().strip() == word
            if word == "ready":
                process.send_signal(signal.SIGTERM)
        assert process.wait(60) == process_settings.ENDED == 143


def count_faults():
    """Count the pages that the system gives while 30 tensors of 40 MB are made one after the other."""
    for _ in range(20):  # the heap grows until a freed tensor leaves room for the next: up to 11 tensors
        torch.ones(10**7)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(30):
        torch.ones(10**7)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc has this setting")
def test_worker_keeps_freed_memory(engine):
    """Otherwise each new tensor faults 9,766 pages of 4 kB."""
    assert do(engine, count_faults).value < 2 * 9766
