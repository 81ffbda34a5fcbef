"""Compare processor seconds and memory of reading results between this checkout and another one, in turns.

    OMP_NUM_THREADS=1 python benchmarks/bench_reading.py OTHER_CHECKOUT [TURNS]

The tasks are `rb.load_all_results()`, `roarbench table` on the published rows of `quick` 7, and the first page of
`make demo` without its cache; imports are included. The first turn, which fills caches of modules, does not count. The
stores are made in a temporary folder, each by its own checkout.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[1]
_END = """
import json, resource, sys, time
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.process_time(), used.ru_maxrss / 1024]), file=sys.stderr)
"""
_COMMAND = "import sys; sys.argv = ['roarbench', *{}]; from roarbench.cli.main import main\ntry: main()\n"
_COMMAND += "except SystemExit as end: assert not end.code, end.code"
TASKS = {
    "rb.load_all_results()": "import roarbench; roarbench.load_all_results()",
    "roarbench table --suite quick@7": _COMMAND.format("('table', '--suite', 'quick@7', '--store', sys.argv[1])"),
    "first page of make demo without cache": """
import sys
import leaderboard.render as render
from leaderboard.first_page_cache import ShownStore
from roarbench.store.results import make_default_url
from pathlib import Path
render.cache_page = lambda *values: None
render.render_live_page(ShownStore(make_default_url(Path(sys.argv[2])), sys.argv[2]), {})
""",
}


def run_code(checkout: Path, code: str, *arguments: str) -> str:
    start = f"import sys; sys.path.insert(0, {str(checkout)!r})\n"
    ended = subprocess.run(
        [sys.executable, "-c", start + code, *arguments], capture_output=True, text=True, check=True, cwd=checkout
    )
    return ended.stderr.splitlines()[-1] if ended.stderr else ""


def make_stores(checkout: Path, folder: Path) -> tuple[str, str]:
    """Import the published rows of `quick` 7, and of all suites, by a checkout's own code."""
    quick, every = str(folder / "quick"), str(folder / "demo")
    for store, source in ((quick, "results/quick/7/roarbench.parquet"), (every, "results")):
        run_code(checkout, _COMMAND.format(f"('import', {str(checkout / source)!r}, '--store', {store!r})"))
    return quick, every


def main() -> None:
    other, turns = Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        stores = {checkout: make_stores(checkout, Path(folder) / str(n)) for n, checkout in enumerate((other, HERE))}
        for name, code in TASKS.items():
            runs: dict[Path, list[list[float]]] = {checkout: [] for checkout in stores}
            for _ in range(turns + 1):
                for checkout, paths in stores.items():
                    runs[checkout].append(json.loads(run_code(checkout, code + _END, *paths)))
            (before, before_memory), (after, memory) = (
                map(statistics.median, zip(*runs[checkout][1:], strict=True)) for checkout in stores
            )
            figures = (f"{before:.2f} s, {before_memory:.0f} MiB", f"{after:.2f} s, {memory:.0f} MiB")
            print(f"| {name} | {' | '.join(figures)} | {before / after:.2f} |", flush=True)


if __name__ == "__main__":
    main()
