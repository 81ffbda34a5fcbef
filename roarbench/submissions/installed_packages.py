"""Find the installed packages that this process can import. Nothing here imports torch.

Packages lie in the folders of `sys.path`: those of the environment, of an environment below it (`uv run --with`), of a
`.pth` file, of PYTHONPATH (`pip install --target`) or of a notebook's own line. `sysconfig` knows only the first.
"""

import os
import sys
import sysconfig
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

_SITE = ("site-packages", "dist-packages")  # names of folders that hold installed packages and nothing else
_ELSEWHERE = ("", "..", "bin", "share")  # where installers put programs and data


def list_package_folders() -> list[str]:
    """Return the folders of `sys.path` that contain installed packages, in their order, with links resolved."""
    folders = dict.fromkeys(os.path.realpath(path) for path in sys.path)
    return [folder for folder in folders if _is_site(folder) or _list_package_names(folder)]


def list_package_paths() -> list[str]:
    """Return the paths of all installed packages: whole folders where these hold nothing else, or single packages."""
    paths = list[str]()
    for folder in list_package_folders():
        names = [] if _is_site(folder) else sorted(_list_package_names(folder))
        paths += [f"{folder}/{name}" for name in names] or [folder]
    return [path for path in paths if Path(path).exists()]


def is_installed_file(file: str) -> bool:
    """Return whether a module's file belongs to Python or to an installed package."""
    library = [os.path.realpath(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")]
    if any(Path(file).resolve().is_relative_to(folder) for folder in library):
        return True
    # unresolved, too: package managers link files of their cache into an environment, and folders have several names
    packages = {*list_package_folders()}
    folders = [path for path in sys.path if os.path.realpath(path) in packages]
    pairs = [(Path(file).resolve(), os.path.realpath(path)) for path in folders]
    pairs += [(Path(file).absolute(), str(Path(path).absolute())) for path in folders]
    inside = ((folder, path.relative_to(folder).parts[0]) for path, folder in pairs if path.is_relative_to(folder))
    return any(_is_site(folder) or name in _list_package_names(folder) for folder, name in inside)


def _is_site(folder: str) -> bool:
    return Path(folder).name in _SITE and Path(folder).is_dir()


def _list_package_names(folder: str) -> frozenset[str]:
    """Return the names in a folder that belong to its installed packages; others are the user's own files."""
    try:
        return _read_package_names(folder, Path(folder).stat().st_mtime_ns)
    except OSError:  # a missing folder or an archive
        return frozenset()


@cache
def _read_package_names(folder: str, changed: int) -> frozenset[str]:
    """Read the first parts of the files that installers recorded; `changed`, the folder's time, renews the answer."""
    if not any(Path(folder).glob("*.dist-info")):
        return frozenset()
    records = (found.read_text("RECORD") or "" for found in distributions(path=[folder]))
    lines = (line for record in records for line in record.splitlines())
    return frozenset({line.partition(",")[0].strip('"').partition("/")[0] for line in lines} - {*_ELSEWHERE})
