"""Run the benchmark in steps, most useful steps first; repeat the command to resume.

    python -m studies.paper.make STORES --cifar10 DIR --imagenet DIR

STORES is a folder for a store per data set and `queue.log`, which lists finished steps with their processor time in
hours. The folder of --cifar10 has the hub's parquet files, and the folder of --imagenet has a copy of imagenet.toml and
the files that it names. Without these options, the steps of these data sets are left out.
"""

import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from roarbench import load_suite
from roarbench.common.errors import RoarbenchError
from roarbench.execution.run_suite import run_suite
from roarbench.execution.submission_intake import SubmissionMode, check_and_store_submissions, read_submissions
from roarbench.plan.change_suite import apply_selection_options
from roarbench.plan.protocols import PROTOCOLS
from roarbench.plan.suite import SuiteSpec
from roarbench.store.workspace import Workspace
from studies.page import make_parser

SUBMISSIONS = Path(__file__).parents[2] / "submissions"
SETS, TABLES = ("imagenette64", "fashion-mnist", "cifar10"), ("breast-cancer", "digits")
UNTRAINED = (("own-network", "own-network-lerf"), ("morf", "lerf"), ("matched",))
FEW_PASSES = (
    *("grad", "input-x-grad", "gb", "ig", "ig(baseline=mean)", "deeplift(baseline=mean)", "lrp", "gradient-shap"),
    *("grad-sq", "gb-sq", "ig-sq", "gradcam", "guided-gradcam", "hires-cam", "layer-cam", "occlusion"),
    *("sg-grad", "sg-grad-sq", "sgsq-grad", "var-grad", "sg-gb", "sg-gb-sq", "sgsq-gb", "var-gb", "feature-ablation"),
)
_IG_ENSEMBLES = ("sg-ig", "sg-ig-sq", "sgsq-ig", "var-ig")


class Step(NamedTuple):
    """A selection from one suite."""

    name: str  # name of the data set and of its store
    protocols: tuple[str, ...] = ()  # all if empty
    estimators: tuple[str, ...] = ()  # estimators in addition to the controls; all if empty
    levels: tuple[float, ...] = ()  # all if empty
    submissions: bool = False  # whether the example submissions are included


def steps() -> Iterator[Step]:
    """Yield all steps in the order of plan.md."""
    yield Step(SETS[0], UNTRAINED[0], FEW_PASSES)
    yield from (Step(name) for name in TABLES)
    yield from (Step(SETS[0], asked, FEW_PASSES) for asked in UNTRAINED[1:])
    yield from (Step(name, UNTRAINED[0], FEW_PASSES) for name in SETS[1:])
    yield from (Step(name, asked, FEW_PASSES) for name in SETS[1:] for asked in UNTRAINED[1:])
    yield from (Step(name, asked, (*FEW_PASSES, *_IG_ENSEMBLES)) for name in SETS for asked in UNTRAINED)
    yield from (Step("imagenette64", asked, FEW_PASSES[:1], submissions=True) for asked in UNTRAINED)
    yield from (Step(name, asked) for name in SETS for asked in UNTRAINED)
    yield Step("imagenet")
    yield Step("imagenette64", ("roar",), levels=(0.9,))
    yield from (Step(name, (asked,)) for name in SETS for asked in ("roar", "kar", "mask-only"))


def part(suite: SuiteSpec, step: Step, entries: Sequence[str] = ()) -> SuiteSpec:
    """Select a step's part of a suite.

    The part always includes own-network gain, so that all steps share rankings: their identity includes its levels.
    """
    chosen = apply_selection_options(suite, list(step.estimators) or None, entries)
    asked = {PROTOCOLS[name] for name in (*step.protocols, "own-network")}
    blocks = [block for block in chosen.blocks if not step.protocols or block.protocol in asked]
    if step.levels:
        blocks = [replace(each, levels=step.levels) if each.protocol.trains else each for each in blocks]
    return replace(chosen, blocks=tuple(blocks))


def run(step: Step, stores: Path, data: Path | None, workers: int, limit: int | None) -> int:
    """Run a step's missing runs; return the number of failed runs."""
    named = str(data / "imagenet.toml") if step.name == "imagenet" and data else f"benchmark-{step.name}"
    store, console = stores / step.name, Console(stderr=True)
    suite = load_suite(named, store, data=data if step.name == "cifar10" else None, limit=limit)
    workspace, entries, pace = Workspace(store), list[str](), None
    with suite.open_writable_results(console) as results:
        if step.submissions:
            files = read_submissions(sorted(SUBMISSIONS.glob("*.py")))
            entries, pace = check_and_store_submissions(
                files, SubmissionMode(False, False, suite.plan), results, workspace, console
            )
        request = replace(suite.make_request(part(suite.runnable_plan, step, entries), workers), pace=pace)
        return run_suite(request, workspace, results, console).failed


def main() -> None:
    """Run all steps whose images are there; log each result, and continue after an error."""
    parser = make_parser(__doc__)
    parser.add_argument("stores", type=Path)
    parser.add_argument("--cifar10", type=Path)
    parser.add_argument("--imagenet", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = {"cifar10": arguments.cifar10, "imagenet": arguments.imagenet}
    for step in steps():
        if step.name in data and data[step.name] is None:
            continue
        before = _processor_hours()
        try:
            outcome = f"{run(step, arguments.stores, data.get(step.name), arguments.workers, arguments.limit)} failed"
        except RoarbenchError as error:
            outcome = str(error)
        hours = _processor_hours() - before
        line = f"{time.strftime('%F %T', time.gmtime())} {hours:.3f} h {tuple(step)}: {outcome}\n"
        with (arguments.stores / "queue.log").open("a") as log:
            log.write(line)


def _processor_hours() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) / 3600


if __name__ == "__main__":
    main()
