"""Make the command that starts a sandbox, and check that sandboxes isolate on this machine. Nothing here imports torch.

An ordinary user's sandbox has a new user namespace. Root's sandbox has none, because a container may forbid root to
create a user namespace, and the root user of a namespace would still be root. Instead, bubblewrap mounts the files as
root, so that Python may be in a home folder that only root can read; then `setpriv` switches to a separate user without
capabilities before Python starts.

A seccomp filter blocks system calls that no estimator needs. libseccomp knows the names and numbers of system calls.
Blocked calls return "not permitted"; the filter kills programs that were compiled for another processor type.

The check creates canaries (a file, two sockets, a process and an environment variable), and runs a probe in a sandbox.
Sandboxes isolate if the probe cannot reach any canary.
"""

import errno
import json
import mmap
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from roarbench.common.errors import SandboxError
from roarbench.common.text import fit_on_one_line
from roarbench.submissions.installed_packages import list_package_folders, list_package_paths
from roarbench.submissions.limits_and_faults import MAX_SCRATCH_BYTES, HarnessFault, Limits
from roarbench.submissions.sandbox_process import SandboxExit, run_within_limits

_PACKAGE = Path(__file__).parents[1]
_PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
HARNESS = Path("/harness")  # folder of roarbench's files in the sandbox
_COMPUTE = (
    *("__init__", "builtin_network_table", "external_networks", "networks", "ranking", "saved_networks"),
    *("pass_counter", "torchvision_networks"),
)
_INSIDE = (
    *("__init__", "network_changes", "sealed_memory_messages", "submission_calls"),
    *("isolation_probe", "limits_and_faults", "sandbox_program"),
)
_OWN = (  # files of roarbench for the program in the sandbox
    "__init__.py",
    *(f"common/{name}.py" for name in ("__init__", "device_settings", "enums", "errors", "process_settings", "text")),
    *(f"compute/{name}.py" for name in _COMPUTE),
    *(f"submissions/{name}.py" for name in _INSIDE),
)
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")  # C library and Python's shared libraries
# with the CPU's description, torch chooses the same kernels as outside the sandbox
_PROCESSOR = "/sys/devices/system/cpu"
# /dev/zero is missing, because a shared mapping of it is memory without a limit
_DEVICES = ("/dev/null", "/dev/urandom", "/dev/random")
# folders of packages that the sandbox hides, because they contain labelled images or tables
_LABELLED = ("roarbench", "sklearn/datasets/data", "sklearn/datasets/tests")
_DEBIAN = "/usr/lib/python3/dist-packages"
# sandboxes have user ids far above the machine's own; each has a different id, as the kernel counts processes per user
_FIRST_UID = 0x60000000
_COMMON = ("--die-with-parent", "--new-session", "--hostname", "sandbox")
_USER = ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", *_COMMON)
_ROOT = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try", *_COMMON)
_REFUSED = (
    # network and inter-process communication; the network namespace is empty anyway
    *("socket", "socketpair", "shmget", "msgget", "semget", "mq_open", "add_key", "request_key", "keyctl"),
    # memory outside the limits
    *("memfd_create", "memfd_secret", "userfaultfd"),
    # other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp", "perf_event_open"),
    # new namespaces and mounts, and handles to files outside the tree
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "mount_setattr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "open_by_handle_at", "name_to_handle_at", "fanotify_init", "quotactl"),
    # parts of the kernel with frequent vulnerabilities
    *("bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "personality", "lookup_dcookie", "vmsplice"),
    # settings of the machine
    *("acct", "reboot", "swapon", "swapoff", "init_module", "finit_module", "delete_module", "kexec_load", "syslog"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "iopl", "ioperm"),
)
_NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)  # CLONE_NEW* flags
_SHARED = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS  # such memory stays allocated even if no page table maps its pages
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: input into the terminal of the command
_TRUST = "read the code and run it with --trust-submission"
_INSTALL = f"run `apt-get install bubblewrap libseccomp2`, or {_TRUST}"
_LIMITS = Limits(cpu=10, wall=30)


def make_sandbox_command(script: str, arguments: list[str], filter_descriptor: int, gpu: bool = False) -> list[str]:
    """Return the command that runs a script of this folder in a sandbox; the descriptor holds the seccomp filter."""
    root, privileges = os.geteuid() == 0, list[str]()
    if root:
        user = str(_FIRST_UID + secrets.randbelow(2**24))
        identity = ["--reuid", user, "--regid", user, "--clear-groups"]
        privileges = ["/usr/bin/setpriv", *identity, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    options = [*(_ROOT if root else _USER), "--seccomp", str(filter_descriptor), *_make_mount_arguments(root, gpu)]
    inside = [*privileges, *build_isolated_python_command(HARNESS, script), *arguments]
    return ["bwrap", *options, "--chdir", "/tmp", *inside]


def make_trusted_command(script: str, arguments: list[str]) -> list[str]:
    """Return the command that runs a script of this folder without a sandbox."""
    return [*build_isolated_python_command(_PACKAGE.parent, script), *arguments]


def build_isolated_python_command(root: Path, script: str) -> list[str]:
    """Return the command that runs `script` without environment and user settings.

    The script can import from `root`, the folders of `list_package_folders` and the standard library.
    """
    paths = os.pathsep.join([str(root), *list_package_folders()])
    return [_PYTHON, "-I", "-S", "-B", str(root / "roarbench" / "submissions" / script), paths]


def _make_mount_arguments(root: bool, gpu: bool) -> list[str]:
    """Return the arguments that build the file tree of the sandbox: read-only, except for a small private /tmp."""
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    libraries = [sysconfig.get_path(kind, vars=base) for kind in ("stdlib", "platstdlib")]
    # of a Python that was moved after it was built, LIBDIR is a folder of the machine that built it
    folders = dict.fromkeys([sysconfig.get_config_var("LIBDIR") or "", f"{sys.base_prefix}/lib"])
    libpython = sysconfig.get_config_var("INSTSONAME") or ""
    shared = [f"{folder}/{libpython}" for folder in folders if folder and ".so" in libpython]
    same = [_PYTHON, *libraries, *shared, *list_package_paths()]
    same += ["/usr/bin/setpriv"] if root else []
    binds = {path: path for path in (*_SYSTEM, *same, _PROCESSOR) if Path(path).exists()}
    own = {str(_PACKAGE / name): str(HARNESS / "roarbench" / name) for name in _OWN}
    arguments = ["--size", str(MAX_SCRATCH_BYTES), "--perms", "1777", "--tmpfs", "/tmp", "--proc", "/proc"]
    devices = (*_DEVICES, *(("/dev/zero", *_list_gpu_devices()) if gpu else ()))
    parents = {str(parent) for target in [*binds.values(), *own.values(), *devices] for parent in Path(target).parents}
    for parent in sorted(parents - {"/", "/tmp", "/proc"}):
        arguments += ["--perms", "0755", "--dir", parent]  # bubblewrap creates parent folders for their owner alone
    for path, target in (binds | own).items():
        link = Path(path).is_symlink() and path in _SYSTEM
        arguments += ["--symlink", str(Path(path).readlink()), target] if link else ["--ro-bind", path, target]
    for device in devices:
        arguments += ["--dev-bind", device, device]
    installed = dict.fromkeys([*list_package_folders(), *(f"{folder}/site-packages" for folder in libraries), _DEBIAN])
    for hidden in (f"{folder}/{name}" for folder in installed for name in _LABELLED):
        arguments += ["--tmpfs", hidden, "--remount-ro", hidden] if Path(hidden).is_dir() else []
    return [*arguments, "--remount-ro", "/"]


def _list_gpu_devices() -> list[str]:
    return sorted(str(path) for path in Path("/dev").glob("nvidia*") if path.is_char_device())


@cache
def build_filter(gpu: bool = False) -> bytes:
    """Return the filter in the kernel's format; `gpu` permits shared anonymous memory, which NVIDIA's driver needs."""
    import pyseccomp  # the import needs libseccomp, which may be missing

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    refused = pyseccomp.ERRNO(errno.EPERM)
    for name in _REFUSED:
        rules.add_rule(refused, name)
    for flag in _NAMESPACES:
        rules.add_rule(refused, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    for request in _TERMINAL:
        rules.add_rule(refused, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    # no process may handle or ignore SIGCHLD: if a parent ignores it, the kernel does not count the children's CPU time
    ends = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 0xFFFFFFFF, signal.SIGCHLD)
    rules.add_rule(refused, "rt_sigaction", ends, pyseccomp.Arg(1, pyseccomp.NE, 0))
    if not gpu:
        rules.add_rule(refused, "mmap", pyseccomp.Arg(3, pyseccomp.MASKED_EQ, _SHARED, _SHARED))
    # clone3 has its flags in memory, where a filter cannot read them; after ENOSYS the C library calls `clone` instead
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        return os.pread(file.fileno(), 2**20, 0)


@contextmanager
def open_filter(gpu: bool = False) -> Iterator[int]:
    """Yield the descriptor of a memory file that contains the filter, positioned at its start."""
    with os.fdopen(os.memfd_create("policy"), "r+b", buffering=0) as file:
        file.write(build_filter(gpu))
        file.seek(0)
        yield file.fileno()


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
        build_filter()
    except (ImportError, RuntimeError, OSError) as error:  # libseccomp is missing or too old for the filter
        seen = fit_on_one_line(str(error), 60)
        raise SandboxError(f"{HarnessFault.NO_SANDBOX}: no seccomp filter ({seen}); {_INSTALL}") from None
    ended = _run_probe()
    text = ended.output.decode(errors="replace")
    try:
        reached = json.loads(text)
    except ValueError:  # the probe did not run
        output = fit_on_one_line(text, 90) or f"exit status {ended.code}"
        raise SandboxError(f"{HarnessFault.NO_SANDBOX}: bubblewrap does not work here ({output}); {_INSTALL}") from None
    if reached:
        seen = f"code in the sandbox can reach {', '.join(reached)}"
        raise SandboxError(f"{HarnessFault.LEAK}: {seen}; use another machine, or {_TRUST}")
    for package in ("torch", "numpy"):
        spec = find_spec(package)
        file = os.path.realpath(spec.origin) if spec and spec.origin else ""
        if file and not any(Path(file).is_relative_to(path) for path in list_package_paths()):
            seen = f"{package} is {file}, and the sandbox has only files of the environment's own folders"
            advice = f"install {package} there, as copies of its files (for uv: --link-mode=copy)"
            raise SandboxError(f"{HarnessFault.NO_SANDBOX}: {seen}; {advice}")


def _run_probe() -> SandboxExit:
    """Create the canaries, and run the probe for them in a sandbox."""
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
        command = make_sandbox_command("isolation_probe.py", arguments, rules)
        return run_within_limits(command, [rules], pipe[0], _LIMITS)
