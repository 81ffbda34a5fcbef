"""Compare processor seconds and memory of reading results between this checkout and another one, in turns.

    OMP_NUM_THREADS=1 python benchmarks/bench_reading.py OTHER_CHECKOUT DEMO_STORE [--turns 5]

The tasks are `rb.load_all_results()`, `roarbench table` on the published rows of `quick` 7, and the first page of the
store of `make demo` (`build/demo`) without its cache; imports are included. One more turn, which fills caches of
modules, comes first and does not count.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[1]
ROWS = HERE / "results/quick/7/roarbench.parquet"
_COMMAND = """
import sys
from roarbench.cli.main import main
sys.argv = ["roarbench", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
_LOAD = "import roarbench; roarbench.load_all_results()"
_PAGE = """
import sys
import leaderboard.render as render
from leaderboard.first_page_cache import ShownStore
from pathlib import Path
from roarbench.store.results import make_default_url
render.cache_page = lambda *values: None
render.render_live_page(ShownStore(make_default_url(Path(sys.argv[1])), sys.argv[1]), {})
"""
_END = """
import json, resource, time
print(json.dumps([time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def run_code(checkout: Path, code: str, *arguments: str) -> list[float]:
    """Run code with the modules of a checkout in a new process; return its processor seconds and its memory in MiB."""
    whole = f"import sys; sys.path.insert(0, {str(checkout)!r})\n{code}\n{_END}"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", whole, *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=kept)
    seconds, memory = json.loads(ended.stdout.splitlines()[-1])
    return [seconds, memory]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other_checkout", type=Path)
    parser.add_argument("demo_store", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    other, demo, turns = given.other_checkout.resolve(), str(given.demo_store.resolve()), given.turns
    with tempfile.TemporaryDirectory() as folder:
        stores = {checkout: f"{folder}/{number}" for number, checkout in enumerate((other, HERE))}
        for checkout, store in stores.items():
            run_code(checkout, _COMMAND, "import", str(ROWS), "--store", store)
        for name, code, arguments in (
            ("rb.load_all_results()", _LOAD, lambda store: ()),
            ("roarbench table", _COMMAND, lambda store: ("table", "--suite", "quick@7", "--store", store)),
            ("first page", _PAGE, lambda store: (demo,)),
        ):
            runs: dict[Path, list[list[float]]] = {checkout: [] for checkout in stores}
            for _ in range(turns + 1):
                for checkout, store in stores.items():
                    runs[checkout].append(run_code(checkout, code, *arguments(store)))
            before, after = ([*map(statistics.median, zip(*each[1:], strict=True))] for each in runs.values())
            figures = " | ".join(f"{seconds:.2f} s, {memory:.0f} MiB" for seconds, memory in (before, after))
            print(f"| {name} | {figures} | {before[0] / after[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
