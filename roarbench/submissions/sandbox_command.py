"""Make the command that starts a sandbox, for an ordinary user or for root. Nothing here imports torch.

An ordinary user's sandbox has a new user namespace. Root's sandbox has none, because a container may forbid root to
create a user namespace, and the root user of a namespace would still be root. Instead, bubblewrap mounts the files as
root, so that Python may be in a home folder that only root can read; then `setpriv` switches to a separate user without
capabilities before Python starts.
"""

import os
import secrets
import site
import sys
import sysconfig
from pathlib import Path

from roarbench.submissions.limits_and_faults import MAX_SCRATCH_BYTES

_PACKAGE = Path(__file__).parents[1]
HARNESS = Path("/harness")  # folder of roarbench's files in the sandbox
_NETWORKS = ("__init__", "external_networks", "builtin_network_table", "networks", "torchvision_networks")
_INSIDE = (
    *("__init__", "entry_points", "network_changes", "sealed_memory_messages", "submission_calls"),
    *("isolation_probe", "limits_and_faults", "sandbox_program"),
)
_OWN = (  # files of roarbench for the program in the sandbox
    "__init__.py",
    *(f"common/{name}.py" for name in ("__init__", "errors", "process_settings", "text")),
    *(f"compute/{name}.py" for name in _NETWORKS),
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


def make_sandbox_command(script: str, arguments: list[str], filter_descriptor: int, gpu: bool = False) -> list[str]:
    """Return the command that runs a script of this folder in a sandbox; the descriptor holds the seccomp filter."""
    root = os.geteuid() == 0
    privileges = _make_privilege_arguments() if root else []
    options = [*(_ROOT if root else _USER), "--seccomp", str(filter_descriptor), *_make_mount_arguments(root, gpu)]
    inside = [*privileges, *build_python_command(HARNESS, script), *arguments]
    return ["bwrap", *options, "--chdir", "/tmp", *inside]


_COMMON = ("--die-with-parent", "--new-session", "--hostname", "sandbox")
_USER = ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", *_COMMON)
_ROOT = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try", *_COMMON)


def make_trusted_command(script: str, arguments: list[str]) -> list[str]:
    """Return the command that runs a script of this folder without a sandbox."""
    return [*build_python_command(_PACKAGE.parent, script), *arguments]


def build_python_command(root: Path, script: str) -> list[str]:
    """Return the command that runs `script` without environment and user settings.

    The script can import from `root`, the folders of `list_package_folders` and the standard library.
    """
    paths = os.pathsep.join([str(root), *list_package_folders()])
    return [_find_python_executable(), "-I", "-S", "-B", str(root / "roarbench" / "submissions" / script), paths]


def list_package_folders() -> list[str]:
    """Return the package folders of the virtual environment, of the Python that it is based on, and of the user."""
    own = [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    folders = dict.fromkeys(os.path.realpath(path) for path in (*own, *user, *site.getsitepackages()))
    return [path for path in folders if Path(path).is_dir()]


def _find_python_executable() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _make_privilege_arguments() -> list[str]:
    user = str(_FIRST_UID + secrets.randbelow(2**24))
    identity = ["--reuid", user, "--regid", user, "--clear-groups"]
    return ["/usr/bin/setpriv", *identity, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


def _make_mount_arguments(root: bool, gpu: bool) -> list[str]:
    """Return the arguments that build the file tree of the sandbox: read-only, except for a small private /tmp."""
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    libraries = [sysconfig.get_path(kind, vars=base) for kind in ("stdlib", "platstdlib")]
    same = [_find_python_executable(), *libraries, *_find_libpython(), *list_package_folders()]
    same += ["/usr/bin/setpriv"] if root else []
    binds = {path: path for path in (*_SYSTEM, *same, _PROCESSOR) if Path(path).exists()}
    own = {str(_PACKAGE / name): str(HARNESS / "roarbench" / name) for name in _OWN}
    arguments = ["--size", str(MAX_SCRATCH_BYTES), "--perms", "1777", "--tmpfs", "/tmp", "--proc", "/proc"]
    devices = (*_DEVICES, *(("/dev/zero", *_list_gpu_devices()) if gpu else ()))
    for parent in _list_parent_folders([*binds.values(), *own.values(), *devices]):
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


def _list_parent_folders(paths: list[str]) -> list[str]:
    """Return the parent folders that must be created, outer folders first."""
    parents = {str(parent) for target in paths for parent in Path(target).parents}
    return sorted(parents - {"/", "/tmp", "/proc"})


def _find_libpython() -> list[str]:
    folder, name = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    return [f"{folder}/{name}"] if folder and name and ".so" in name else []
