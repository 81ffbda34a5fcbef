"""Introduce faults into the source, one at a time, and report which faults the tests detect.

    python scripts/breaks.py
    python scripts/breaks.py --room compute --room store
    python scripts/breaks.py --only ranking-morf-and-lerf-swapped

The files tests/breaks/*.toml list the faults: the source file, a text and its replacement, and the tests that should
fail. Each fault is introduced into a copy of the working tree. This process imports the libraries, but not roarbench,
and forks for each fault, so most faults take seconds. First, the tests run on the copy without faults; tests that fail
there are left out. A fault counts as not found if the tests take too long, unless its entry has `hangs = true`. The
exit code is 1 if a fault is not found or a test is left out.
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
    "PIL.Image", "matplotlib.pyplot", "captum.attr", "click.testing", "rich.table", "pytest", "psycopg",
)  # fmt: skip
_TESTS = "not (postgres or browser or soak)"  # pytest's selection, without tests that start a server
_MOST = 120.0  # maximum seconds of the tests of one fault


class Break(NamedTuple):
    """A fault to introduce into the source, with the tests that should detect it."""

    room: str  # name of the TOML file
    name: str  # unique name over all files
    file: str  # source file, path from the root
    text: str  # text to replace, which occurs once in the file
    into: str  # replacement
    tests: Sequence[str]  # test files or pytest node ids
    hangs: bool = False  # whether the fault's only symptom is that a test does not end


def read_breaks() -> list[Break]:
    """Read all faults, in the order of the files; raise ValueError if two faults have the same name."""
    tables = {path.stem: tomllib.loads(path.read_text()) for path in sorted(LISTS.glob("*.toml"))}
    faults = [Break(room, name, **fields) for room, table in tables.items() for name, fields in table.items()]
    if len({fault.name for fault in faults}) < len(faults):
        raise ValueError(f"names in {LISTS} must be unique")
    return faults


def explain_unusable_break(fault: Break, root: Path = ROOT) -> str:
    """Explain why a fault cannot be introduced or tested; empty if it can."""
    if not (root / fault.file).is_file():
        return f"no file {fault.file}"
    source = (root / fault.file).read_text()
    if (times := source.count(fault.text)) != 1:
        return f"its text is in {fault.file} {times} times, expected once"
    try:
        if fault.file.endswith(".py"):  # others are templates
            ast.parse(source.replace(fault.text, fault.into))
    except SyntaxError as error:
        return f"{fault.file} would not be valid Python: {error}"
    missing = [test for test in fault.tests if not _does_test_exist(test, root)]
    return f"no test {', '.join(missing)}" if missing or not fault.tests else ""


def _does_test_exist(test: str, root: Path) -> bool:
    file, *names = test.partition("[")[0].split("::")
    path = root / file
    return path.exists() and (not names or f"def {names[-1]}(" in path.read_text())


def copy_working_tree(to: Path) -> None:
    """Copy the files of the working tree that git does not ignore."""
    for name in list_git_files(ROOT, "--cached", "--others", "--exclude-standard"):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)


def run_pytest(copy: Path, arguments: Sequence[str], max_seconds: float) -> tuple[int | None, str]:
    """Run pytest in a fork of this process; return its exit code (None after `max_seconds`) and its output."""
    output = copy / ".breaks-output"
    child = multiprocessing.get_context("fork").Process(target=_run_pytest_and_exit, args=(copy, arguments, output))
    child.start()
    child.join(max_seconds)
    if child.pid and child.is_alive():
        os.killpg(child.pid, signal.SIGKILL)
        child.join()
        return None, f"no end in {max_seconds:g} s"
    return child.exitcode, output.read_text(errors="replace")


def _run_pytest_and_exit(copy: Path, arguments: Sequence[str], output: Path) -> None:
    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1), os.dup2(file, 2)
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)  # for processes that tests start
    import pytest

    # the thread of a caller's fault handler is not forked, and a fork would wait for it
    without = ["-p", "no:faulthandler", "-W", "ignore::pytest.PytestConfigWarning", "-p", "no:cacheprovider"]
    options = ["-q", "--tb=line", *without, "-m", _TESTS, "--rootdir", str(copy)]
    try:
        code = int(pytest.main([*options, *arguments]))
    except BaseException as error:  # a fault may raise anything
        code = 1
        print(repr(error))
    sys.stdout.flush()
    os._exit(code)  # does not wait for remaining threads


def check_break_is_found(
    fault: Break, copy: Path, left_out: Sequence[str] = (), max_seconds: float = _MOST
) -> tuple[bool, str]:
    """Run a fault's tests on the copy with the fault; return whether a test fails, and the failed test.

    `left_out` has the node ids of tests that fail without the fault.
    """
    path = copy / fault.file
    original, times = path.read_bytes(), path.stat()
    path.write_text(original.decode().replace(fault.text, fault.into))
    # with the same time, Python would use the bytecode of the original file
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 10**10))
    try:
        code, output = run_pytest(copy, ["-x", *(f"--deselect={test}" for test in left_out), *fault.tests], max_seconds)
    finally:
        path.write_bytes(original)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    if code is None:
        return fault.hangs, output
    failed = _list_failed_tests(output)
    return code in (1, 2), failed[0] if failed else output.strip().splitlines()[-3:][0]


def _list_failed_tests(output: str) -> list[str]:
    lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return [line.partition(" ")[2].partition(" - ")[0] for line in lines]


def _list_tests_that_fail_without_breaks(faults: Sequence[Break], copy: Path) -> list[str]:
    """Return and print the tests of these faults that fail on the copy without faults."""
    tests = sorted({test for fault in faults for test in fault.tests})
    distinct = [test for test in tests if not any(test.startswith(f"{other}::") for other in tests)]
    code, output = run_pytest(copy, distinct, 60.0 * len(tests))
    failed = _list_failed_tests(output)
    if code not in (0, 1) or (code and not failed):
        raise SystemExit(output[-2000:])
    for test in failed:
        print(f"left out, because it fails without a fault: {test}", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="names of faults, separated by commas")
    parser.add_argument("--room", action="append", help="name of a file in tests/breaks, without .toml")
    arguments = parser.parse_args()
    names = {name for value in arguments.only or () for name in value.split(",")}
    rooms = arguments.room or {fault.room for fault in read_breaks()}
    faults = [fault for fault in read_breaks() if fault.room in rooms and (not names or fault.name in names)]
    if not faults:
        parser.error("no fault has this name or room")
    os.environ["OMP_NUM_THREADS"] = "1"
    for library in _LIBRARIES:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory(prefix="roarbench-breaks-") as folder:
        copy = Path(folder, "copy")  # the folder itself is private, and a test reads the copy as another user
        copy_working_tree(copy)
        sys.exit(0 if _are_all_breaks_found(faults, copy) else 1)


def _are_all_breaks_found(faults: Sequence[Break], copy: Path) -> bool:
    """Check all faults, and print a line for each; return whether all were found and no test was left out."""
    start, found, usable = time.monotonic(), 0, list[Break]()
    for fault in faults:
        if reason := explain_unusable_break(fault, copy):
            print(f"unusable {fault.room}/{fault.name}: {reason}", flush=True)
        else:
            usable.append(fault)
    left_out = _list_tests_that_fail_without_breaks(usable, copy) if usable else []
    sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = True, "1"  # keeps the original bytecode
    for fault in usable:
        fault_start = time.monotonic()
        is_found, test = check_break_is_found(fault, copy, left_out)
        found += is_found
        outcome = f"{'found    ' if is_found else 'NOT FOUND'} {time.monotonic() - fault_start:5.1f} s"
        print(f"{outcome} {fault.room}/{fault.name}: {test}", flush=True)
    print(f"{found} of {len(faults)} found in {time.monotonic() - start:.0f} s")
    return found == len(faults) and not left_out


if __name__ == "__main__":
    main()
