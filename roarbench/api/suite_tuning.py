"""Finds a peak learning rate for a suite from arrays, before the first network is trained for it."""

from collections.abc import Callable
from pathlib import Path

from roarbench.execution.learning_rate_search import tune_recipe
from roarbench.files import lock_file, write_whole

UNTRIED = "# peak not tried yet"  # last line of such a suite's file


def tune_once(path: Path, say: Callable[[str], object]) -> bool:
    """Write a peak that trains the network into the file of a suite from arrays; False where there is no need."""
    if not _is_untried(path):
        return False
    with lock_file(path.with_suffix(".lock")):
        if _is_untried(path):  # no other process was faster
            text = tune_recipe(path.read_text("utf-8").replace(f"{UNTRIED}\n", ""), path, say)
            write_whole(path, lambda place: place.write_text(text, "utf-8"), path.with_suffix(".new"))
    return True


def _is_untried(path: Path) -> bool:
    return path.is_file() and path.read_text("utf-8").endswith(f"{UNTRIED}\n")
