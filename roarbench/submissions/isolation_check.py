"""Check whether sandboxes isolate on this machine. Nothing here imports torch.

The check creates canaries (a file, two sockets, a process and an environment variable), and runs a probe in a sandbox.
Sandboxes isolate if the probe cannot reach any canary.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from roarbench.common.errors import SandboxError
from roarbench.common.text import fit_on_one_line
from roarbench.submissions.limits_and_faults import HarnessFault, Limits
from roarbench.submissions.sandbox_command import make_sandbox_command
from roarbench.submissions.sandbox_process import SandboxExit, run_and_watch

_TRUST = "read the code and run it with --trust-submission"
_INSTALL = f"run `apt-get install bubblewrap libseccomp2`, or {_TRUST}"
_LIMITS = Limits(cpu=10, wall=30)


@cache
def check_sandbox_isolation() -> None:
    """Run `isolation_probe` in a sandbox.

    Raises:
        SandboxError: The sandbox does not start, or the probe reached a canary or got rights; the message has a remedy.
    """
    if os.name != "posix" or sys.platform != "linux":
        raise SandboxError(f"{HarnessFault.NO_SANDBOX}: the sandbox needs Linux; to run without it, {_TRUST}")
    programs = ("bwrap", "setpriv") if os.geteuid() == 0 else ("bwrap",)
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise SandboxError(f"{HarnessFault.NO_SANDBOX}: {', '.join(missing)} is not installed; {_INSTALL}")
    try:
        from roarbench.submissions.seccomp_filter import build_filter

        build_filter()
    except (ImportError, RuntimeError, OSError) as error:  # libseccomp is missing or too old for the filter
        seen = fit_on_one_line(str(error), 60)
        raise SandboxError(f"{HarnessFault.NO_SANDBOX}: no seccomp filter ({seen}); {_INSTALL}") from None
    reached = _read_reached_things(_run_probe())
    if reached:
        seen = f"code in the sandbox can reach {', '.join(reached)}"
        raise SandboxError(f"{HarnessFault.LEAK}: {seen}; use another machine, or {_TRUST}")


def _run_probe() -> SandboxExit:
    """Create the canaries, and run the probe for them in a sandbox."""
    from roarbench.submissions.seccomp_filter import open_filter  # the import needs libseccomp, which may be missing

    value = secrets.token_hex(16)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "canary").write_text(value)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(folder / "socket"))
        unix.listen()
        process = subprocess.Popen([sys.executable, "-I", "-c", "input()", value], stdin=subprocess.PIPE)
        stack.enter_context(process)
        stack.callback(process.kill)
        os.environ["ROARBENCH_CANARY"] = value
        stack.callback(os.environ.pop, "ROARBENCH_CANARY")
        places = [str(folder / "canary"), str(tcp.getsockname()[1]), str(folder / "socket")]
        namespaces = {name: Path(f"/proc/self/ns/{name}").stat().st_ino for name in ("ipc", "mnt", "net", "pid", "uts")}
        arguments = [*places, str(process.pid), "ROARBENCH_CANARY", value, json.dumps(namespaces)]
        pipe = os.pipe()
        for end in pipe:
            stack.callback(os.close, end)
        rules = stack.enter_context(open_filter())
        return run_and_watch(make_sandbox_command("isolation_probe.py", arguments, rules), [rules], pipe[0], _LIMITS)


def _read_reached_things(ended: SandboxExit) -> list[str]:
    """Return the names of the things that the probe reached; raise SandboxError if the probe did not run."""
    text = ended.output.decode(errors="replace")
    try:
        reached: list[str] = json.loads(text)
    except ValueError:
        output = fit_on_one_line(text, 90) or f"exit status {ended.code}"
        raise SandboxError(f"{HarnessFault.NO_SANDBOX}: bubblewrap does not work here ({output}); {_INSTALL}") from None
    return reached
