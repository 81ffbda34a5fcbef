"""Compare reading published results with the last commit that drew bootstrap samples; imports are included."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from make_demo import write_demo
from peers.paired_timing import Figure, PairedTimer, measure_core_seconds

HERE, OLD = Path(__file__).parents[2], "c65aca64"
_COMMAND = """
import sys
from roarbench.cli.main import main
sys.argv = ["roarbench", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
_PAGE = """
import sys
import leaderboard.render as render
from pathlib import Path
from roarbench.store.results import ResultsStore, make_default_url
url, folder = make_default_url(Path(sys.argv[1])), Path(sys.argv[1])
if hasattr(render, "cache_page"):  # the old commit
    from leaderboard.first_page_cache import ShownStore
    render.cache_page = lambda *values: None
    render.render_live_page(ShownStore(url, sys.argv[1]), {})
else:
    from leaderboard.stored_suites import collect_views, read_views_of_suite
    store = ResultsStore.open(url, read_only=True)
    found = collect_views(store, lambda suite: read_views_of_suite(store, suite, folder), first_page_only=True)
    render.render_live_page(found[0], {}, found[1])
"""
# the peak of this program, without that of the process that started it; the end of Python is not measured
_END = """
import os, pathlib, re
print(re.search("VmHWM:[^0-9]*([0-9]+)", pathlib.Path("/proc/self/status").read_text())[1], flush=True)
os._exit(0)
"""
# libraries that each task imports in both checkouts, which bound its gain
_TASKS = {
    "rb.load_all_results()": (10, "import roarbench; roarbench.load_all_results()", (), "pandas, pyarrow.parquet"),
    "roarbench table": (
        *(1.5, _COMMAND, ("table", "--suite", "quick@7", "--store", "{folder}/{checkout}")),
        "click, numpy, rich.console, sqlalchemy.dialects.sqlite",
    ),
    "first page": (2, _PAGE, ("{folder}/demo",), "jinja2, numpy, sqlalchemy.dialects.sqlite"),
}


def run_code(checkout: Path, code: str, *arguments: str) -> float:
    """Run code with the modules of a checkout in a new process; return its peak memory in MiB."""
    whole = f"import sys; sys.path.insert(0, {str(checkout)!r})\n{code}\n{_END}"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", whole, *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=kept | {"OMP_NUM_THREADS": "1"})
    return int(ended.stdout.splitlines()[-1]) / 1024


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder with the old commit's checkout, the demo's store, and a store of each checkout."""
    folder = tmp_path_factory.mktemp("reading")
    archive = subprocess.run(["git", "-C", HERE, "archive", OLD], stdout=subprocess.PIPE, check=True).stdout
    (folder / OLD).mkdir()
    subprocess.run(["tar", "x", "-C", folder / OLD], input=archive, check=True)
    write_demo(folder / "demo")
    for checkout, name in ((HERE, "now"), (folder / OLD, "old")):
        rows = HERE / "results/quick/7/roarbench.parquet"
        run_code(checkout, _COMMAND, "import", str(rows), "--store", str(folder / name))
    yield folder


@pytest.mark.parametrize("task", _TASKS)
def test_reading(timer: PairedTimer, folder: Path, task: str) -> None:
    goal, code, arguments, libraries = _TASKS[task]
    memory: dict[str, list[float]] = {"now": [], "old": []}

    def run(name: str) -> None:
        words = [word.format(folder=folder, checkout=name) for word in arguments]
        memory[name].append(run_code(folder / OLD if name == "old" else HERE, code, *words))

    for name in memory:  # the first runs compile modules
        run(name)
    now, before = timer.time_in_turns(lambda: run("now"), lambda: run("old"), rounds=5)
    imports = min(measure_core_seconds(lambda: run_code(HERE, f"import {libraries}")) for _ in range(5))
    detail = f"{now:.2f} s, {max(memory['now']):.0f} MiB against {before:.2f} s, {max(memory['old']):.0f} MiB"
    timer.add_figure(Figure(task, f"commit {OLD}", before / now, goal, f"{detail}; libraries alone {imports:.2f} s"))
