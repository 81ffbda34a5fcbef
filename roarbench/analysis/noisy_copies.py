"""Whether a network still sees in noisy copies what it sees in the image, as far as a store's rankings say it."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from roarbench.analysis.boards import SuiteResults
from roarbench.store.layout import Workspace
from roarbench.store.rankings import RankingsStore

KEPT_ENOUGH = 0.8  # below this share of noisy copies that keep their class a row is marked


def with_kept(suite_results: SuiteResults, folder: Path) -> SuiteResults:
    """Return results with `SuiteResults.kept`, from the store's rankings, or from what an import says of them."""
    shares = suite_results.shares | RankingsStore(Workspace(folder).rankings).kept_shares()
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for point, result in suite_results.results.items():
        if result.rankings in shares:
            found[point.cell.estimator][result.rankings] = shares[result.rankings]
    return replace(suite_results, kept={name: sum(each.values()) / len(each) for name, each in found.items()})


def kept_words(share: float | None) -> str:
    """Return in a sentence on how many noisy copies the prediction is kept; empty where it is not known."""
    if share is None:
        return ""
    few = f", fewer than {KEPT_ENOUGH:.0%}" if share < KEPT_ENOUGH else ""
    return f"The explained network keeps its prediction on {share:.0%} of the noisy copies{few}."
