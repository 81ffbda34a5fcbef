"""Breaks the source on purpose, one fault at a time, and says whether the tests find it.

    python scripts/breaks.py
    python scripts/breaks.py --room compute --room store
    python scripts/breaks.py --only ranking-morf-and-lerf-swapped

The faults are in tests/breaks/*.toml, one file per room: where, which text is replaced by which, and the narrowest
tests that should fail. Each is made in a copy of the working tree, never in the tree itself. A process that has
imported the libraries, and nothing of roarbench, forks for each fault, so most take seconds. Before any fault the
named tests run on the sound copy: one that fails there finds nothing and is left out. A fault that no test finds
before the time is up is not found, unless its entry says `hangs = true`. Exit code 1 where a fault is not found, or a
test is left out.
"""

import argparse
import ast
import importlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from release import list_git_files

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "tests" / "breaks"
_LIBRARIES = (
    "torch", "numpy", "scipy.stats", "scipy.ndimage", "sqlalchemy", "pyarrow.parquet",
    "PIL.Image", "matplotlib.pyplot", "captum.attr", "typer.testing", "rich.table", "pytest", "psycopg",
)  # fmt: skip
_LEFT_OUT = "not (postgres or browser or soak)"  # tests that start a server
_MOST = 120.0  # seconds


class Break(NamedTuple):
    """A fault."""

    room: str  # name of the TOML file
    name: str  # unique name over all files
    file: str  # source file, path from the root
    text: str  # text to replace, which occurs once in the file
    into: str  # replacement
    tests: Sequence[str]  # test files or pytest node ids
    hangs: bool = False  # the fault's only symptom is that a test does not end


def read_breaks() -> list[Break]:
    """Read all faults, in the order of the files; raise ValueError if two have one name."""
    read = {path.stem: tomllib.loads(path.read_text()) for path in sorted(LISTS.glob("*.toml"))}
    found = [Break(room, name, **one) for room, held in read.items() for name, one in held.items()]
    if len({one.name for one in found}) < len(found):
        raise ValueError(f"names in {LISTS} must be unique")
    return found


def explain_unusable_break(one: Break, root: Path = ROOT) -> str:
    """Return why a fault cannot be made or looked for; empty where it can."""
    if not (root / one.file).is_file():
        return f"no file {one.file}"
    source = (root / one.file).read_text()
    if (times := source.count(one.text)) != 1:
        return f"its text is in {one.file} {times} times, expected once"
    try:
        ast.parse(source.replace(one.text, one.into))
    except SyntaxError as error:
        return f"{one.file} would be no Python: {error}"
    missing = [test for test in one.tests if not _does_test_exist(test, root)]
    return f"no test {', '.join(missing)}" if missing or not one.tests else ""


def _does_test_exist(test: str, root: Path) -> bool:
    file, *names = test.partition("[")[0].split("::")
    path = root / file
    return path.exists() and (not names or f"def {names[-1]}(" in path.read_text())


def copy_working_tree(to: Path) -> None:
    """Copy the working tree: what git tracks, and what it does not ignore."""
    for name in list_git_files(ROOT, "--cached", "--others", "--exclude-standard"):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)


def run_pytest(copy: Path, arguments: Sequence[str], max_seconds: float) -> tuple[int | None, str]:
    """Run pytest in a fork of this process; return its exit code, None after `max_seconds`, and what it printed."""
    out = copy / ".breaks-output"
    child = multiprocessing.get_context("fork").Process(target=_run_pytest_and_exit, args=(copy, arguments, out))
    child.start()
    child.join(max_seconds)
    if child.pid and child.is_alive():
        os.killpg(child.pid, signal.SIGKILL)
        child.join()
        return None, f"no end in {max_seconds:g} s"
    return child.exitcode, out.read_text(errors="replace")


def _run_pytest_and_exit(copy: Path, tests: Sequence[str], out: Path) -> None:
    """Run tests as the child of a fork, which ends with pytest's exit code; never returns."""
    os.setsid()
    file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1), os.dup2(file, 2)
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)  # for processes that tests start
    import pytest

    words = ["-q", "--tb=line", "-p", "no:cacheprovider", "-m", _LEFT_OUT, "--rootdir", str(copy), *tests]
    try:
        code = int(pytest.main(words))
    except BaseException as error:  # a fault may raise anything
        code = 1
        print(repr(error))
    sys.stdout.flush()
    os._exit(code)  # does not wait for remaining threads


def check_break_is_found(
    one: Break, copy: Path, left_out: Sequence[str] = (), max_seconds: float = _MOST
) -> tuple[bool, str]:
    """Introduce a break in the copy, run its tests, undo it; return whether they find it, and the failing test."""
    path = copy / one.file  # `left_out`: node ids of tests that fail without the break
    sound, times = path.read_bytes(), path.stat()
    path.write_text(sound.decode().replace(one.text, one.into))
    # otherwise Python would use the bytecode of the sound file
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 10**10))
    try:
        code, said = run_pytest(copy, ["-x", *(f"--deselect={test}" for test in left_out), *one.tests], max_seconds)
    finally:
        path.write_bytes(sound)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    if code is None:
        return one.hangs, said
    by = _list_failed_tests(said)
    return code in (1, 2), by[0] if by else said.strip().splitlines()[-3:][0]


def _list_failed_tests(said: str) -> list[str]:
    lines = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return [line.partition(" ")[2].partition(" - ")[0] for line in lines]


def _list_tests_that_fail_without_breaks(chosen: Sequence[Break], copy: Path) -> list[str]:
    """Return the tests of these faults that fail without any, and say so."""
    tests = sorted({test for one in chosen for test in one.tests})
    whole = [test for test in tests if not any(test.startswith(f"{other}::") for other in tests)]
    code, said = run_pytest(copy, whole, 60.0 * len(tests))
    found = _list_failed_tests(said)
    if code not in (0, 1) or (code and not found):
        raise SystemExit(said[-2000:])
    for test in found:
        print(f"fails without a fault, so it is left out: {test}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="names of faults, with commas between them")
    parser.add_argument("--room", action="append", help="a file of tests/breaks, without .toml")
    arguments = parser.parse_args()
    names = {name for each in arguments.only or () for name in each.split(",")}
    rooms = arguments.room or {one.room for one in read_breaks()}
    chosen = [one for one in read_breaks() if one.room in rooms and (not names or one.name in names)]
    if not chosen:
        parser.error("no fault has this name or room")
    os.environ["OMP_NUM_THREADS"] = "1"
    for library in _LIBRARIES:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory(prefix="roarbench-breaks-") as folder:
        copy = Path(folder)
        copy_working_tree(copy)
        sys.exit(0 if _try_all(chosen, copy) else 1)


def _try_all(chosen: Sequence[Break], copy: Path) -> bool:
    begin, found = time.monotonic(), 0
    applying = [one for one in chosen if not explain_unusable_break(one, copy)]
    for one in (one for one in chosen if one not in applying):
        print(f"does not apply {one.room}/{one.name}: {explain_unusable_break(one, copy)}", flush=True)
    failing = _list_tests_that_fail_without_breaks(applying, copy) if applying else []
    sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = True, "1"  # keeps the bytecode of the sound copy
    for one in applying:
        now = time.monotonic()
        there, by = check_break_is_found(one, copy, failing)
        found += there
        said = f"{'found    ' if there else 'NOT FOUND'} {time.monotonic() - now:5.1f} s"
        print(f"{said} {one.room}/{one.name}: {by}", flush=True)
    print(f"{found} of {len(chosen)} found in {time.monotonic() - begin:.0f} s")
    return found == len(chosen) and not failing


if __name__ == "__main__":
    main()
