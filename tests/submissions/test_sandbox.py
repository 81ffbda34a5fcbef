"""The sandbox: its maps, resource limits, isolation check and start failures."""

import ast
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from roarbench.common.errors import SandboxError
from roarbench.compute.networks import build_network
from roarbench.submissions import run_in_sandbox as module
from roarbench.submissions import sandbox_isolation, sandbox_process
from roarbench.submissions.limits_and_faults import (
    CHECK_LIMITS,
    MAX_SCRATCH_BYTES,
    HarnessFault,
    Limits,
    SubmissionFault,
)
from roarbench.submissions.run_in_sandbox import SandboxTask, run_submission
from roarbench.submissions.sandbox_isolation import check_sandbox_isolation
from tests.helpers.sandboxed import GRADIENT, NETWORK, make_task

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("bubblewrap")]


def test_sandboxed_maps_equal_maps_of_same_code_outside(one_sandbox):
    (part,) = make_task(GRADIENT).parts
    other = build_network(**NETWORK._asdict(), generator=torch.Generator().manual_seed(1)).eval()
    parts = (part, make_task(GRADIENT, n=3).parts[0]._replace(model=other))
    answer = run_submission(SandboxTask(GRADIENT.encode(), NETWORK, parts), CHECK_LIMITS)
    assert (answer.refusal, answer.drew) == (None, False)
    space: dict = {}
    exec(GRADIENT, space)
    for part, maps in zip(parts, answer.maps, strict=True):
        batches = (slice(i, i + 2) for i in range(0, len(maps), 2))
        found = [space["estimate"](part.model, part.images[at], part.targets[at], None) for at in batches]
        # one thread inside, maybe several here
        torch.testing.assert_close(maps, torch.cat(found), rtol=1e-4, atol=1e-6)


def test_sandbox_builds_network_from_user_file(one_sandbox):
    source = """
from torch import nn
def net(classes, channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size**2, classes))
"""
    network = NETWORK._replace(name="mine.net@1", source=source)
    model = build_network(**network._asdict(), generator=torch.Generator().manual_seed(0)).eval()
    task = make_task(GRADIENT)
    answer = run_submission(SandboxTask(task.source, network, (task.parts[0]._replace(model=model),)), CHECK_LIMITS)
    assert (answer.refusal, answer.maps[0].shape) == (None, task.parts[0].images.shape)


def test_sandbox_answer_may_exceed_scratch_size(one_sandbox):
    (part,) = make_task(GRADIENT).parts
    images = torch.zeros((MAX_SCRATCH_BYTES // part.images[0].nbytes + 1, *part.images.shape[1:]))
    zeros = torch.zeros(len(images), dtype=torch.int64)
    asked = part._replace(images=images, targets=zeros, seeds=zeros, batch=len(images))
    source = b"def estimate(m, x, t, g):\n    return x + 1"
    answer = run_submission(SandboxTask(source, NETWORK, (asked,)), CHECK_LIMITS)
    assert answer.refusal is None and bool((answer.maps[0] == 1).all())


def test_sandbox_randomness_depends_only_on_image(one_sandbox):
    drawing = "import torch\ndef estimate(m, x, t, generator):\n    return torch.rand(x.shape, generator=generator)"
    for batch in (2, 5):
        task = make_task(drawing, batch=batch)
        answer = run_submission(task, CHECK_LIMITS)
        assert answer.drew
        numbers = task.parts[0].seeds.tolist()
        one = [torch.rand((1, 3, 16, 16), generator=torch.Generator().manual_seed(s)) for s in numbers]
        torch.testing.assert_close(answer.maps[0], torch.cat(one), rtol=0, atol=0)


def test_trusted_submission_runs_without_sandbox_and_tf32():
    outside = f"""
import os, torch
assert os.path.exists({__file__!r})
assert not torch.backends.cudnn.allow_tf32 and torch.backends.cudnn.deterministic
"""
    assert run_submission(make_task(outside + GRADIENT), CHECK_LIMITS, trust=True).refusal is None
    assert run_submission(make_task(outside + GRADIENT), CHECK_LIMITS).refusal.kind is SubmissionFault.IMPORT


def test_control_group_counts_cpu_time_of_children_and_is_removed(monkeypatch):
    """The test runs if control groups can be created, even if they limit nothing."""
    if not (sandbox_process._MOUNT / "cgroup.procs").exists():
        monkeypatch.setattr(sandbox_process, "_MOUNT", sandbox_process._MOUNT / "unified")
    monkeypatch.setattr(sandbox_process, "_NEEDED_CONTROLLERS", set())
    monkeypatch.setattr(
        sandbox_process, "find_parent_control_group", sandbox_process.find_parent_control_group.__wrapped__
    )
    if not (parent := sandbox_process.find_parent_control_group()):
        pytest.skip("no cgroup v2 that this user may write to")
    burn = "import os, time\nif os.fork() == 0:\n    while time.process_time() < 3: pass\n    os._exit(0)\nos.wait()\n"
    answer = run_submission(make_task(burn + GRADIENT), CHECK_LIMITS)
    assert answer.refusal is None
    assert answer.ended.cpu > 2
    assert list(parent.glob(f"roarbench-{os.getpid()}-*")) == []


def test_control_group_limits_memory_between_watchdog_checks(monkeypatch):
    if sandbox_process.find_parent_control_group() is None:
        pytest.skip("no cgroup v2 with memory and pids that this user may write to")
    monkeypatch.setattr(sandbox_process, "_CHECK_INTERVAL", 5.0)
    takes = "import os, time\nfor _ in range(2):\n    os.fork()\nkept = b'x' * 2**28\ntime.sleep(20)\n"
    refusal = run_submission(make_task(takes + GRADIENT), Limits(cpu=20, wall=60, memory=600 * 2**20)).refusal
    assert refusal.kind is SubmissionFault.MEMORY


def test_kill_for_lack_of_memory_is_fault_of_machine(monkeypatch):
    kills = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    counts = iter((3, 3, 3, 4))
    monkeypatch.setattr(sandbox_process, "_count_kills_for_lack_of_memory", lambda: next(counts))
    assert run_submission(make_task(kills), CHECK_LIMITS).refusal.kind is SubmissionFault.DIED
    with pytest.raises(SandboxError, match=f"^{HarnessFault.NO_MEMORY}: this machine ran out of memory"):
        run_submission(make_task(kills), CHECK_LIMITS)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_sandbox_start_failure_raises_harness_error(device, monkeypatch):
    if device == "cpu" or torch.cuda.is_available():
        monkeypatch.setattr(module, "_SCRIPT", "no-such-script.py")
    with pytest.raises(SandboxError, match=f"^{HarnessFault.NOT_STARTED}: the sandbox ended before"):
        run_submission(make_task(GRADIENT)._replace(device=device), CHECK_LIMITS)


def test_sandbox_command_binds_gpu_on_request_and_existing_package_folders(tmp_path, monkeypatch):
    make_command = partial(sandbox_isolation.make_sandbox_command, "sandbox_program.py", [], 3)
    monkeypatch.setattr(sandbox_isolation, "_list_gpu_devices", lambda: ["/dev/nvidia0"])
    assert "/dev/nvidia0" not in make_command()
    assert "--dev-bind /dev/nvidia0 /dev/nvidia0" in " ".join(make_command(gpu=True))
    there, missing = (str(tmp_path / name / "site-packages") for name in ("there", "missing"))
    Path(there).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, there, missing])
    assert there in make_command() and missing not in make_command()


LEAKS = {
    "--unshare-pid": "another process",
    "--unshare-net": "a namespace of this machine",
    "--unshare-ipc": "a namespace of this machine",
    "--seccomp": "every system call",
    "all": "a file, a TCP socket, a Unix socket, another process",
}


@pytest.mark.parametrize("flag", LEAKS)
def test_isolation_check_reports_each_missing_wall(monkeypatch, flag):
    if flag != "all" and os.geteuid() != 0:
        pytest.skip("an ordinary user's namespaces come with one flag")

    make_sandbox_command = sandbox_isolation.make_sandbox_command

    def make_weak_command(script, arguments, filter_descriptor):
        if flag == "all":
            return sandbox_isolation.make_trusted_command(script, arguments)
        command = make_sandbox_command(script, arguments, filter_descriptor)
        at = command.index(flag)
        return [*command[:at], *command[at + (2 if flag == "--seccomp" else 1) :]]

    monkeypatch.setattr(sandbox_isolation, "make_sandbox_command", make_weak_command)
    with pytest.raises(SandboxError, match=f"^{HarnessFault.LEAK}: .* can reach .*{LEAKS[flag]}"):
        check_sandbox_isolation.__wrapped__()


def test_isolation_check_passes_in_sandbox():
    check_sandbox_isolation.__wrapped__()


def test_isolation_check_without_bubblewrap_names_install_command(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SandboxError, match=f"^{HarnessFault.NO_SANDBOX}: bwrap.* not installed; run `apt-get install"):
        check_sandbox_isolation.__wrapped__()


AS_USER = """
set -e
hold={hold}
for path in {paths}; do mkdir -p "$hold$path"; mount --bind "$path" "$hold$path"; done
for home in {homes}; do mount -t tmpfs -o mode=755 tmpfs "$home"; done
for path in {paths}; do mkdir -p "$path"; mount --bind "$hold$path" "$path"; done
exec setpriv --reuid 54321 --regid 54321 --clear-groups --bounding-set=-all --inh-caps=-all {python} -c '
import torch, sys
from tests.helpers.sandboxed import GRADIENT, make_task
from roarbench.submissions.run_in_sandbox import run_submission
from roarbench.submissions.limits_and_faults import CHECK_LIMITS
from roarbench.submissions.sandbox_isolation import check_sandbox_isolation, make_sandbox_command
assert "--disable-userns" in make_sandbox_command("sandbox_program.py", [], 3)
check_sandbox_isolation()
many = "import os, time\\nfor n in range(20_000): os.mknod(str(n))\\ntime.sleep(1)"
sources = (GRADIENT, "import os\\nos.setuid(0)", many)
faults = [run_submission(make_task(source), CHECK_LIMITS).refusal for source in sources]
print(*(fault and fault.kind for fault in faults))
'
"""


def test_sandbox_works_for_ordinary_user(require, tmp_path):
    """Root switches to an ordinary user in a mount namespace where all users can read Python's folders."""
    if os.geteuid() != 0:
        pytest.skip("every other test here runs as an ordinary user")
    unshare = require("unshare", "part of util-linux")
    repository = Path(sandbox_isolation.__file__).parents[2]
    paths = [sys.base_prefix, sys.prefix, str(repository)]
    folders = {folder for path in paths for folder in Path(path).parents if not folder.stat().st_mode & 1}
    private = " ".join(sorted(map(str, folders), reverse=True))  # inner folders first
    python = f"env PYTHONPATH={repository} {sys.executable}"
    script = AS_USER.format(hold=tmp_path, paths=" ".join(paths), homes=private, python=python)
    command = [unshare, "-m", "--propagation", "private", "bash", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.endswith("None import files\n"), done.stderr


def test_sandbox_files_import_only_each_other():
    own = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in sandbox_isolation._OWN}
    for name in sandbox_isolation._OWN:
        tree = ast.parse((sandbox_isolation._PACKAGE / name).read_text())
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
        used = {node.module.removeprefix("roarbench.") for node in imports if node.module.startswith("roarbench.")}
        assert used <= own, name
