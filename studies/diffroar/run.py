"""LeRF minus MoRF, retrained, of the squared gradient, beside DiffROAR (Shah, Jain and Netrapalli, NeurIPS 2021).

Explains one ordinary network for Imagenette at 64 pixels and one for CIFAR-10 and retrains a network for each order and
level, two at t = .1 and .9, one on masks alone at .1 and .9, one on Random's images at .9 and one for each order at .9
on masks of other images, by the recipes of `quick` 2 and `study-cifar10` 2. What a store has is not done again.

Run: python -m studies.diffroar.run --store DIR [--data FOLDER] [--only NAME] (FOLDER with CIFAR-10 in the hub's layout)
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from roarbench.analysis.evidence import Evidence
from roarbench.analysis.stored_results import collect_all
from roarbench.analysis.suite_results import SuiteResults
from roarbench.enums import Making
from roarbench.errors import RunError
from roarbench.execution.local_workers import workers_here
from roarbench.execution.run_suite import Request, run_suite
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.plan.suites import find_suite
from roarbench.protocols.exchanged import KAR_EXCHANGED, ROAR_EXCHANGED
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.protocol import Protocol
from roarbench.protocols.roar import KAR, ROAR
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, estimate
from roarbench.stats.curves import POINTS
from roarbench.stats.resampling import Draws
from roarbench.stats.resampling import draw as draw_images
from roarbench.stats.sampled_gains import Drawn
from roarbench.store.layout import Workspace
from roarbench.store.results import ResultsStore, default_url
from roarbench.text import format_signed, interval, markdown_table, percent
from studies.page import program, write

ROW = "grad-sq"
TWICE = (0.1, 0.9)  # levels with two trainings, from which all have the spread over trainings
MASKED = (0.1, 0.9)  # the least important tenth goes at t = .1 of KAR: its mask is that of ROAR at .9, turned round
EXCHANGED = 0.9  # level at which networks are trained on masks of other images, too


class ReportedCurve(NamedTuple):
    """Accuracy with the most important pixels kept minus with the least important kept, at t = .1, .3, .5, .7, .9.

    In points, with deviations over pairs of runs; read off the vector figures of harshays/inputgradients at 3770469.
    """

    name: str
    points: tuple[float, ...]
    deviations: tuple[float, ...]


IMAGENET_10 = ReportedCurve("ImageNet-10, ResNet-18", (3.91, 1.07, 5.05, 0.65, -4.55), (2.92, 3.06, 2.29, 2.63, 2.40))
CIFAR_10 = ReportedCurve("CIFAR-10, ResNet-50", (0.98, 1.15, 1.00, -0.62, -4.75), (0.45, 1.04, 0.55, 0.52, 0.30))


class Trial(NamedTuple):
    """Trial on one data set, and the published curve beside it."""

    title: str
    suite: SuiteSpec
    beside: ReportedCurve


def _suite(base: str, name: str) -> SuiteSpec:
    blocks = (
        *(Block(protocol, (ROW,), (t,), seeds=1) for t in (0.9, 0.5, 0.1, 0.7, 0.3) for protocol in (ROAR, KAR)),
        Block(MASK_ONLY, (ROW,), MASKED, seeds=1),
        Block(ROAR, ("random",), (0.9,), seeds=1),
        *(Block(protocol, (ROW,), TWICE, seeds=2) for protocol in (ROAR, KAR)),
        *(Block(protocol, (ROW,), (EXCHANGED,), seeds=1) for protocol in (ROAR_EXCHANGED, KAR_EXCHANGED)),
    )
    return replace(
        find_suite(base), name=f"diffroar-{name}", version=1, blocks=blocks, references=1, maps=Making.FLOAT32
    )


TRIALS = {
    "imagenette64": Trial("Imagenette at 64 pixels", _suite("quick@2", "imagenette64"), IMAGENET_10),
    "cifar10": Trial("CIFAR-10", _suite("study-cifar10@2", "cifar10"), CIFAR_10),
}


HEADS = ("t removed", "most important removed", "least important removed", "difference [95 %]")


def gap(evidence: Evidence, t: float, orders: tuple[Protocol, Protocol] = (ROAR, KAR)) -> Estimate:
    """Return the accuracy under the second order minus that under the first, in points, from paired draws of images.

    The interval covers trainings, too, where both orders have a cell with two, and test images alone elsewhere.
    """
    both = [evidence.drawn(protocol, evidence.unit) for protocol in orders]
    again = all(drawn.repeated for drawn in both)
    most, least = (drawn.draws if again else images_alone(drawn, evidence) for drawn in both)
    return points_over(least.accuracy((ROW, t)), most.accuracy((ROW, t)))


def points_over(one: Sample | None, other: Sample | None) -> Estimate:
    """Return an accuracy minus another, in points; nothing where one is missing."""
    if one is None or other is None:
        return Estimate()
    found = estimate(one.minus(other), Bootstrap().confidence)
    return Estimate(*(None if end is None else POINTS * end for end in found))


def images_alone(drawn: Drawn, evidence: Evidence) -> Draws:
    """Return draws of the test images, the trainings as they are."""
    return draw_images(drawn.scores, evidence.bootstrap, None)


def table(evidence: Evidence, published: ReportedCurve) -> str:
    """Return accuracies and differences at every level.

    The features that KAR leaves at t are those that ROAR removes at 1 - t, so one mask says as much as the other.
    """
    roar, kar, masks = evidence.roar, evidence.drawn(KAR, evidence.unit), evidence.masks
    lines = []
    for t, points, deviation in zip(roar.levels, published.points, published.deviations, strict=True):
        accuracies = (percent(each.accuracy(ROW, t).value) for each in (roar, kar))
        alone = (percent(masks.accuracy(ROW, at).value) for at in (t, round(1 - t, 6)))
        beside = f"{format_signed(points)} ± {deviation:.1f}"
        lines.append([f"{t:g}", *accuracies, interval(gap(evidence, t)), beside, *alone])
    heads = (*HEADS, f"{published.name} (Shah et al.), ± sd", "masks alone, most", "masks alone, least")
    return markdown_table(heads, lines)


def section(trial: Trial, results: SuiteResults, evidence: Evidence) -> str:
    """Return the section of one data set: what was run, and its table."""
    untouched = evidence.roar.draws.accuracy(("none", 0.0))
    random = evidence.roar.draws.accuracy(("random", 0.9))
    area = evidence.retrained.area(ROW)
    repeated = evidence.roar.repeated and evidence.drawn(KAR, evidence.unit).repeated
    covered = "test images and trainings" if repeated else "test images alone: one training each"
    small = f", a small version of {results.limit:,} training images" if results.limit else ""
    known = [f"on untouched images {percent(untouched.value)} %"] if untouched else []
    known += [f"on Random's at t = .9 {percent(random.value)} %"] if random else []
    return (
        f"**{trial.title}**{small}: `{trial.suite.model}` by `{trial.suite.recipe}`, {results.reference_words}; "
        f"networks {', '.join(known)}.\n\n"
        f"{table(evidence, trial.beside)}\n\n"
        f"Intervals over {covered}, for this network only. Area between both curves: {interval(area)} points."
        f"{exchanged(evidence)}"
    )


def exchanged(evidence: Evidence) -> str:
    """Return in a sentence the difference of networks that were trained on masks of other images; empty without it."""
    orders = (ROAR_EXCHANGED, KAR_EXCHANGED)
    most, least = (evidence.drawn(protocol, evidence.unit).accuracy(ROW, EXCHANGED) for protocol in orders)
    if most.value is None or least.value is None:
        return ""
    return (
        f" With masks of other images in training, their own in the test, at t = {EXCHANGED:g}: {percent(most.value)} "
        f"and {percent(least.value)} %, a difference of {interval(gap(evidence, EXCHANGED, orders))} "
        "(one training each, interval over test images)."
    )


def tables(store: ResultsStore) -> str:
    """Return the sections of all data sets of which a store has a difference, as they stand on the page."""
    sections = {}
    for name, trial in TRIALS.items():
        for results in collect_all(trial.suite, store):
            evidence = Evidence.of(results)
            if any(gap(evidence, t).value is not None for t in evidence.roar.levels):
                sections[name] = section(trial, results, evidence)
    return "\n\n".join(sections.values())


def computed(suite: SuiteSpec, folder: Path, store: ResultsStore, workers: int | None, **local: Any) -> SuiteResults:
    """Compute what a store lacks of a suite, and return its results; RunError where a run failed."""
    request = Request(suite, workers=workers_here(workers), **local)
    done = run_suite(request, Workspace(folder), store, Console(stderr=True, highlight=False, markup=False))
    if done.failed:
        raise RunError(f"{done.failed} runs failed; the reasons are in {folder}")
    return done.suite_results


def main() -> None:
    """Compute what is missing, and write the tables into the page."""
    parser = program(__doc__)
    parser.add_argument("--store", type=Path, required=True, help="a folder for images, rankings and results")
    parser.add_argument("--data", type=Path, help="a folder with CIFAR-10; from the hub if not given")
    parser.add_argument("--limit", type=int, default=10_000, help="images of each split of CIFAR-10")
    parser.add_argument("--workers", type=int, help="processes; one per core by default")
    parser.add_argument("--only", choices=TRIALS, help="one data set")
    options = parser.parse_args()
    with ResultsStore.open(default_url(options.store)) as store:
        for name in [options.only] if options.only else TRIALS:
            local = {"data": options.data, "limit": options.limit} if name == "cifar10" else {}
            computed(TRIALS[name].suite, options.store, store, options.workers, **local)
        write(Path(__file__).with_name("README.md"), {"tables": tables(store)})


if __name__ == "__main__":
    main()
