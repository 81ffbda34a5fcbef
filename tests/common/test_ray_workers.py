"""The Ray engine on real Ray: a cluster of several nodes on this machine, and whole commands on a local one."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from operator import add
from pathlib import Path

import pytest
import torch

from roarbench.common.device_settings import SHARING
from roarbench.common.errors import CallerError, MachineError, RunError
from roarbench.common.job_interface import Job
from tests.helpers import forked
from tests.helpers.command_line import PART, SMALL
from tests.helpers.processes import PATIENCE, ROOT, check_outcomes, collect, do, rows, wait_until

# Ray's own modules warn of what they leave open
pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def ray_folder():
    """Create the folder of Ray's logs and sockets; the path of a socket must be short."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", str(folder))
        patch.setenv("RAY_raylet_start_wait_time_s", f"{PATIENCE:.0f}")
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(ray_folder):
    """Start a cluster of two nodes of one core each, and connect this process to the first."""
    from roarbench.common import ray_workers as module  # before Ray itself: it sets variables that Ray reads at import

    ray = module.ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    before = signal.getsignal(signal.SIGTERM)
    assert module.connect_to_ray(made.address, None) == 2
    assert signal.getsignal(signal.SIGTERM) == before
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def start_engine(cluster, tmp_path):
    """Start an engine, and wait for the given number of idle workers."""
    from roarbench.common.ray_workers import RayEngine

    made = []

    def start(workers, idle):
        made.append(RayEngine(workers, tmp_path, False))
        assert wait_until_idle(made[0], idle) == idle
        return made[0]

    yield start
    made[0].__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []


def wait_until_idle(engine, count):
    """Wait for so many idle workers, or until a job ends; return their number."""
    wait_until(lambda: engine.idle >= count or engine.wait(1.0), PATIENCE)
    return engine.idle


def test_ray_worker_survives_job_errors(start_engine):
    engine = start_engine(1, 1)
    pid = check_outcomes(engine)
    assert do(engine, os.getcwd).value == str(Path.cwd())
    seen = do(engine, threading.Lock).error  # cannot be sent
    assert (type(seen), "pickle" in str(seen)) == (RunError, True)
    assert do(engine, os.getpid).value == pid
    killed = do(engine, os.kill, pid, signal.SIGKILL).error
    assert type(killed) is MachineError
    assert str(killed).startswith("the worker was lost (") and "\n" not in str(killed)
    assert wait_until_idle(engine, 1) == 1
    assert do(engine, os.getpid).value != pid
    assert type(do(engine, torch.empty, 10**15).error) is MachineError
    assert engine.idle == 0  # that process may hold memory or a dead GPU, so the engine replaces it


def test_ray_engine_drops_worker_after_failed_jobs_in_a_row(start_engine, monkeypatch):
    """Failures count across processes of the worker; a repeated or stopped job does not count."""
    monkeypatch.setattr("roarbench.common.ray_workers.IN_A_ROW", 2)
    engine = start_engine(1, 1)
    for call, argument in ((os._exit, 3), (signal.raise_signal, signal.SIGTERM)):  # a machine that ends sends SIGTERM
        engine.start_job(Job("one", call, (argument,)))
        assert type(collect(engine, 1)["one"].error) is MachineError
        assert wait_until_idle(engine, 1) == 1
    engine.start_job(Job("stopped", time.sleep, (PATIENCE,)))
    engine.stop_job("gone")  # no such job runs
    engine.stop_job("stopped")
    assert type(collect(engine, 1)["stopped"].error) is MachineError
    assert wait_until_idle(engine, 1) == 1
    engine.start_job(Job("other", os._exit, (3,)))
    collect(engine, 1)
    with pytest.raises(MachineError, match="every worker failed 3 jobs in a row, the last with: the worker was lost"):
        engine.wait(1.0)


def test_ray_engine_replaces_lost_node(cluster, start_engine):
    engine = start_engine(2, 2)
    for name in ("one", "other"):
        engine.start_job(Job(name, time.sleep, (PATIENCE,)))
    assert engine.idle == 0
    for job, (worker, *rest) in engine._busy.items():
        engine._busy[job] = (worker._replace(failed_jobs=frozenset("ab")), *rest)
    cluster.remove_node(next(iter(cluster.worker_nodes)))
    (outcome,) = collect(engine, 1).values()
    assert type(outcome.error) is MachineError
    assert "node" in str(outcome.error)
    (starting,) = engine._starting.values()
    assert starting.failed_jobs == {outcome.name}, "one failure, of the lost job"
    assert engine.wait(0.1) == []
    assert engine.idle == 0  # the cluster has no core for another worker
    cluster.add_node(num_cpus=1)
    assert wait_until_idle(engine, 1) == 1
    assert do(engine, add, 1, 2).value == 3


def test_ray_workers_share_one_gpu(cluster, start_engine):
    node = cluster.add_node(num_cpus=1, num_gpus=1)
    engine = start_engine(2, 2)
    for name in ("one", "other"):
        engine.start_job(Job(name, eval, ("__import__('os').environ.copy()",)))
    for outcome in collect(engine, 2).values():
        assert (outcome.value["CUDA_VISIBLE_DEVICES"], outcome.value[SHARING]) == ("0", "2")
    cluster.remove_node(node)


def test_ray_engine_excludes_machine_without_store_folder(monkeypatch, caplog, start_engine, tmp_path):
    from roarbench.common import ray_workers as module

    monkeypatch.setattr(module, "IN_A_ROW", 1)
    engine = start_engine(1, 1)
    engine._setup = engine._setup._replace(mark=tmp_path / "elsewhere/mark")
    engine._start_worker()
    while engine._starting:
        assert engine.wait(1.0) == []
    assert "continuing with the other workers" in caplog.text
    assert do(engine, add, 1, 1).value == 2
    engine._start_worker(), engine._idle.clear()
    with pytest.raises(CallerError, match="does not see .*/elsewhere; mount that folder there, under the same path"):
        collect(engine, 1)


def test_ray_run_resumed_after_kill_matches_local_run(cluster, tmp_path):
    """The killed command joins a cluster, and the other one starts Ray."""

    def start(name, *words):
        log = tmp_path / f"{name}.log"
        return forked.start(("run", *PART, "--workers", 2, "--store", tmp_path / name, *words), log)

    killed = start("ray", "--engine", "ray", "--address", cluster.address)
    assert wait_until(lambda: rows(tmp_path / "ray") >= 2 or not killed.is_alive())
    killed.kill()
    killed.join(PATIENCE)
    tables = []
    for name, words in (("ray", ("--engine", "ray")), ("local", ())):
        process = start(name, *words)
        process.join(PATIENCE)
        assert process.exitcode == 0, (tmp_path / f"{name}.log").read_text()
        tables.append(forked.table(tmp_path / f"{name}.json", *SMALL, "--store", tmp_path / name))
    assert tables[0] == tables[1]


def test_run_explains_missing_ray_cluster_or_package(call, monkeypatch, tmp_path):
    asked = ("run", *SMALL, "--engine", "ray", "--address", "localhost:9", "--store", tmp_path / "store")
    answers = [call(*asked)]
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "roarbench.common.ray_workers")
    answers.append(call(*asked))
    assert [(answer.code, answer.out, answer.err.count("\n")) for answer in answers] == [(2, "", 1)] * 2
    assert "cannot join the Ray cluster at 'localhost:9' (" in answers[0].err
    assert "; use HOST:PORT of the cluster's head, " in answers[0].err
    assert "pip install 'roarbench[ray]'" in answers[1].err


def test_silence_of_ray_is_explained_once(monkeypatch, caplog, tmp_path):
    ray_workers = pytest.importorskip("roarbench.common.ray_workers")
    ray = ray_workers.ray
    logs = tmp_path / "ray" / "session_latest" / "logs"
    logs.mkdir(parents=True)
    (logs / "raylet.err").write_text("of Ray\n")
    (logs / "worker-1.err").write_text("Traceback\nModuleNotFoundError: No module named 'mine'\n\n")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 4.0})
    engine = object.__new__(ray_workers.RayEngine)
    engine._idle, engine._busy, engine._setup = [], {}, ray_workers._ActorSetup(logs, logs, 0)
    engine._silent_since = time.monotonic() - 29
    engine._explain_if_no_worker_starts()
    assert not caplog.messages
    engine._silent_since = time.monotonic() - 31
    engine._explain_if_no_worker_starts()
    engine._explain_if_no_worker_starts()
    (message,) = caplog.messages
    assert message.startswith("no worker has registered with Ray after 30 s (2 of 4 CPUs are free); worker-1.err in ")
    assert message.endswith("ends with: ModuleNotFoundError: No module named 'mine'; this command waits")


@pytest.mark.soak
def test_silence_is_explained_if_every_worker_ends_at_once(tmp_path):
    """With Ray's defaults, `ray.init` does not return, and nothing can be said."""
    pytest.importorskip("ray")
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if any(word.endswith('default_worker.py') for word in sys.orig_argv[:4]):\n"
        "    os.write(2, b'ImportError: libcuda.so.9 is missing\\n')\n"
        "    os._exit(1)\n"
    )
    program = (
        "import logging, pathlib, time\n"
        "from roarbench.common import ray_workers\n"
        "logging.basicConfig()\n"
        "ray_workers._SILENCE = 1.0\n"
        "with ray_workers.RayEngine(ray_workers.connect_to_ray('', 1), pathlib.Path('.'), False) as engine:\n"
        "    end = time.monotonic() + 20\n"
        "    while engine._silent_since is not None and time.monotonic() < end:\n"
        "        engine.wait(0.5)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "no worker has registered with Ray after 1 s" in done.stderr
    assert "ImportError: libcuda.so.9 is missing; this command waits" in done.stderr
