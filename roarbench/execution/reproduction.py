"""Repeat a stored run from its record and its `PlanEntry`, and store how both results compare."""

import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from roarbench.analysis.collect_results import collect_results
from roarbench.analysis.correctness_of_suite import estimate_variance
from roarbench.analysis.load_results import find_run_key
from roarbench.common.enums import ScoredNetwork
from roarbench.common.errors import CallerError, DataError, Hint
from roarbench.common.text import format_count
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.estimators.ids import TRUSTED, EstimatorId
from roarbench.execution.inferred_plan_entry import infer_plan_entry, list_network_numbers
from roarbench.execution.job_context import JobContext
from roarbench.execution.progress import DecodingDisplay
from roarbench.execution.run_suite import Request, do_runs
from roarbench.plan.cells_and_runs import PUBLISHED_WEIGHTS, Run, make_weights_title
from roarbench.plan.plan_entry import add_rows, plan_single_run
from roarbench.plan.planned_runs import (
    find_protocol_name,
)
from roarbench.plan.protocols import PROTOCOLS, ROAR
from roarbench.plan.settings import Settings
from roarbench.plan.suite import SuiteSpec
from roarbench.store.annotations_and_scores import AnnotationKind, find_plan_entry, read_measured_annotations
from roarbench.store.published_networks import find_imported_or_packaged_network, read_network_file
from roarbench.store.results import (
    Origin,
    ReproductionOutcome,
    ResultsStore,
    find_imported_keys,
    make_default_url,
    read_origins,
    store_reproduction,
)
from roarbench.store.run_result import RunResult
from roarbench.store.user_files import read_submissions_by_id, read_suites, refuse_untrusted_network
from roarbench.store.workspace import Workspace
from roarbench.submissions.sandbox_isolation import check_sandbox_isolation

# The limits were measured on equal runs from two machines; tests/execution/test_reproduction.py repeats this.
# Disagreement is the number of images with different correctness, divided by the number that two unrelated results with
# the same accuracies would have.
_MAX_DISAGREEMENT_WITHOUT_TRAINING = 0.2  # largest measured: 0.12 in 1,005 runs, the same weights on a CPU and an H100
# largest measured: 0.38 in 213 runs; 0.75 in 887 pairs whose explained networks had been trained on two machines, too
_MAX_DISAGREEMENT_WITH_TRAINING = 0.8
# relative; the passes of a submission may depend on the image, and were perhaps counted on other splits
_MAX_DIFFERENCE_OF_PASSES = 0.05
# standard deviations; 99.9 % of normal values are closer to the mean. Largest measured: 3.15 without and 2.71 with
# training. With 1.96 instead, 50 of these 1,218 runs would be different
_Z = 3.29


@dataclass(frozen=True)
class Reproduction:
    """Stored result of a run, and the result of its repetition."""

    stored: RunResult
    again: RunResult
    # standard deviation of a run's true accuracy between trainings, in [0, 1]; None if it is unknown
    deviation: float | None = 0.0
    reused: tuple[str, ...] = ()  # checksums of explained networks that were not trained again
    # stored passes per image of a submission, and those that the repetition counted; None if one of them is unknown
    passes: tuple[float, float] | None = None

    @property
    def verdict(self) -> ReproductionOutcome:
        """Return the outcome; `EQUAL` means the same rankings and the same predictions on every image."""
        return self._judgement[0]

    @property
    def reason(self) -> str:
        """Return why the stored result is not confirmed as an honest computation of the run; empty if it is."""
        return self._judgement[1]

    @cached_property
    def _judgement(self) -> tuple[ReproductionOutcome, str]:
        old, new, trains = self.stored, self.again, self.stored.run.cell.retrain.trains
        if old.total != new.total:
            seen = f"the stored run has {format_count(old.total, 'test image')}, and its images are {new.total:,}"
            return ReproductionOutcome.DIFFERENT, seen
        if self.passes and not math.isclose(*self.passes, rel_tol=_MAX_DIFFERENCE_OF_PASSES):
            seen = "the stored maps took {:g} passes per image, and {:g} are counted here".format(*self.passes)
            return ReproductionOutcome.DIFFERENT, seen
        has_same_predictions = (old.bits, old.probability) == (new.bits, new.probability)
        if has_same_predictions and old.rankings == new.rankings:
            return ReproductionOutcome.EQUAL, ""
        # a run without training may score another network than the stored run did
        if not trains and len({old.weights, new.weights} - {""}) > 1:
            seen = "the explained network trained here has other weights"
            remedy = "`roarbench import` of a folder of published results imports the stored run's network"
            return ReproductionOutcome.INCOMPARABLE, f"{seen}; {remedy}"
        if has_same_predictions:
            return ReproductionOutcome.WITHIN, ""
        if self._must_be_equal:
            return ReproductionOutcome.DIFFERENT, "the same versions and processor give the same predictions"
        if self.differing > self._max_differing:
            unrelated = f"unrelated results differ on about {self._expected_count_if_unrelated:.0f}"
            seen = f"too many images differ: correctness may differ on {int(self._max_differing)}, and {unrelated}"
            return ReproductionOutcome.DIFFERENT, seen
        if abs(old.correct - new.correct) > self.margin * old.total:
            if self.deviation is None:
                seen = "how much trainings differ is unknown, because this store has no trusted cell with two trainings"
                return ReproductionOutcome.INCOMPARABLE, seen
            return ReproductionOutcome.DIFFERENT, "the accuracies differ by more than chance"
        if old.probabilities is not None and new.probabilities is not None:
            # the probabilities must agree as closely as the correctness, and their means within chance
            one, other = old.probabilities, new.probabilities
            if_unrelated = np.abs(one - np.roll(other, len(other) // 2)).mean()  # each image paired with another one
            near_images = np.abs(one - other).mean() <= _MAX_DISAGREEMENT_WITHOUT_TRAINING * if_unrelated
            near_means = abs(one.mean() - other.mean()) <= self.margin + 1 / old.total
            if not (near_images and near_means):
                return ReproductionOutcome.DIFFERENT, "the probabilities of the predicted classes differ too much"
        expected = self._expected_count_if_unrelated
        # a limit above the 5 % quantile of a binomial count would also confirm unrelated results
        if self._max_differing > expected - 1.645 * math.sqrt(expected * (1 - expected / old.total)):
            seen = f"too few images to tell: correctness may differ on {int(self._max_differing)} of {old.total:,}"
            return ReproductionOutcome.INCOMPARABLE, f"{seen}, and unrelated results differ on about {expected:.0f}"
        return ReproductionOutcome.WITHIN, ""

    @property
    def differing(self) -> int:
        """Return the number of images with different correctness; an image that one result lacks counts."""
        shared = min(self.stored.total, self.again.total)
        differing = self.stored.correctness[:shared] != self.again.correctness[:shared]
        return int(differing.sum()) + abs(self.stored.total - self.again.total)

    @property
    def margin(self) -> float:
        """Return the largest chance difference in accuracy between two honest computations of a run, in [0, 1].

        The difference of two accuracies has twice the variance of one accuracy. In addition, d images with different
        correctness contribute sqrt(d) images (McNemar 1947). Only as many of them count as may differ. If the variance
        is unknown, the result is a lower bound.
        """
        differing = min(self.differing, self._max_differing)
        return float(_Z * np.sqrt(2 * (self.deviation or 0.0) ** 2 + differing / self.stored.total**2))

    @property
    def _must_be_equal(self) -> bool:
        """Return whether both runs used the same CPU arithmetic, as equal weights of the explained network show.

        Weights that were given or not trained again show nothing. Common networks are trained with other rows'
        rankings, which may differ between suites, so that only runs with other rankings must be equal.
        """
        run, weights = self.stored.run, self.stored.weights
        on_cpu = self.again.provenance.hardware.get("device") == "cpu" and not self.version_and_hardware_differences
        has_own_network = run.cell.retrain is not ScoredNetwork.COMMON or self.stored.rankings != self.again.rankings
        is_trained_again = not run.given and not self.reused
        return on_cpu and has_own_network and is_trained_again and bool(weights) and weights == self.again.weights

    @property
    def _max_differing(self) -> float:
        """Return the largest number of images with different correctness in honest runs; 1 more, for few images."""
        trains = self.stored.run.cell.retrain.trains
        share = _MAX_DISAGREEMENT_WITH_TRAINING if trains else _MAX_DISAGREEMENT_WITHOUT_TRAINING
        return 1 + share * self._expected_count_if_unrelated

    @property
    def _expected_count_if_unrelated(self) -> float:
        """Return the expected number of images with different correctness if both results were unrelated."""
        p, q = self.stored.correct / self.stored.total, self.again.correct / self.again.total
        return self.stored.total * (p * (1 - q) + q * (1 - p))

    @property
    def version_and_hardware_differences(self) -> list[str]:
        """Describe each difference in versions or hardware that both results record."""
        before, now = (
            {"code": one.code_version} | one.known_values for one in (self.stored.provenance, self.again.provenance)
        )
        changed = [name for name in before if name in now and before[name] != now[name]]
        return [f"{name} was {before[name]}, is now {now[name]}" for name in changed]

    def format_report(self) -> str:
        """Return the report for a terminal."""
        old, new = self.stored, self.again
        rankings = "same rankings" if old.rankings == new.rankings else "other rankings"
        margin = f", 99.9 % of chance differences are below {100 * self.margin:.1f} points" if self.margin else ""
        margin = margin if self.deviation is not None else ", how much trainings differ by chance is unknown"
        # a result that was changed within the limit is confirmed; on few images the limit is a large share
        is_within = self.verdict is ReproductionOutcome.WITHIN
        limit = f" (limit: {int(self._max_differing):,} of {old.total:,})" if is_within else ""
        counted, what = "correct", "correctness differs"
        if old.run.cell.retrain is ScoredNetwork.SIBLINGS:
            counted, what = "predictions kept", "kept predictions differ"
        lines = [
            f"{self.verdict}: {new.correct} of {new.total} {counted}, {old.correct} in the stored run",
            f"  {what} on {format_count(self.differing, 'image')}{limit}, {rankings}{margin}",
        ]
        if self.reused:
            networks = " and ".join(checksum[:8] for checksum in self.reused)
            lines.append(f"  explained network: stored weights {networks}, not trained again")
        if self.verdict is not ReproductionOutcome.EQUAL:
            differences = self.version_and_hardware_differences
            lines += [f"  {line}" for line in differences or ["no difference in versions or hardware is known"]]
        return "\n".join([*lines, *([f"  why: {self.reason}"] if self.reason else [])])


def reproduce(
    key: str,
    settings: Settings,
    store: ResultsStore,
    console: Console,
    workers: int = 1,
    trusts_submission: bool = False,
) -> Reproduction:
    """Repeat a stored run, including its explained network, rankings and training, and store the outcome.

    Args:
        key: Key of the run, or its beginning.
        settings: Folder of the store, folder of the images, weights of the run's given networks, unless published, and
            the hash of the network's Python file, if the file came with imported results.
        store: The results.
        console: Receives messages.
        workers: Number of processes.
        trusts_submission: Whether to repeat a run whose submission runs without the sandbox.

    Raises:
        CallerError: The store has no result of such a run, no suite of this version has the run, its weights are not
            given, or its network is not trusted.
        DataError: The images differ from those of the stored run.
        RunError: The repetition fails.
    """
    key, workspace = find_run_key(store, key), Workspace(settings.store)
    if not (results := store.read_results([key])):
        hint = Hint("; `{}` shows its state", "runs", (key,))
        raise CallerError(f"the run {key} has no result in this store", hint)
    stored, run = results[key], results[key].run
    if TRUSTED in EstimatorId.parse(run.cell.estimator).marks and not trusts_submission:
        seen = f"{run.cell.estimator} runs without the sandbox, with your rights"
        raise CallerError(f"{seen}; read its source, then add --trust-submission")
    paths = {make_weights_title(path): path for path in settings.weights}
    entry = find_plan_entry(store.database, key) or infer_plan_entry(store, stored, paths)
    suite = plan_single_run(run, entry, read_suites(store.database))
    weights = _choose_weights_to_reproduce(suite, run, paths, workspace)
    refuse_untrusted_network(suite, settings.trusted_network, workspace.root)
    with DecodingDisplay(console) as display:
        source = settings.image_folder, run.limit, workers, display.show_progress
        images = decode_dataset(suite.dataset_record, workspace.data, *source)
    if images.fingerprint != run.data:
        seen = f"the images have fingerprint {images.fingerprint[:8]}, but the stored run used {run.data[:8]}"
        raise DataError(f"{seen}; give the stored run's images with --data")
    console.print(f"repeating: {run.cell.estimator} t={run.cell.t:g} seed {run.seed}", soft_wrap=True)
    with tempfile.TemporaryDirectory(dir=workspace.root, prefix="reproduce-") as folder:
        fresh = Workspace(Path(folder))
        estimator_id = EstimatorId.parse(run.cell.estimator)
        if estimator_id.submitted:
            if TRUSTED not in estimator_id.marks:
                check_sandbox_isolation()
            submission = read_submissions_by_id(store.database)[estimator_id.id_without_parameters]
            fresh.save_submission(submission.id, submission.source)
        work = JobContext(fresh, images, suite, weights)
        reused = tuple(_reuse_networks(work, stored, workspace, store))
        again, measured = _rerun(Request(suite, settings, workers), work, run, console)
    if spec := work.make_ranking_spec_of_run(run):
        kept = replace(work, workspace=workspace).rankings
        again = replace(again, rankings=kept.find_recorded_checksum(spec, again.rankings))
    with_rows = add_rows(suite, run, store.list_cells_and_seeds(run))
    deviation = _estimate_run_deviation(store, with_rows, stored, again)
    claims = read_measured_annotations(store.database, stored)
    claimed, counted = (values.get(AnnotationKind.PASSES) for values in (claims, measured))
    passes = (sum(claimed), sum(counted)) if claimed and counted else None
    reproduction = Reproduction(stored, again, deviation, reused, passes)
    if reproduction.verdict is not ReproductionOutcome.INCOMPARABLE:
        # maps of another network have other shares of stable copies and ties: better than claims, not than measurements
        is_same_network = stored.rankings == again.rankings or stored.weights == again.weights
        is_better = is_same_network or bool(find_imported_keys(store.database, [key]))
        is_confirmed = reproduction.verdict is not ReproductionOutcome.DIFFERENT
        replaced = measured if is_confirmed and is_better else {}
        store_reproduction(store.database, stored, reproduction.verdict, again.correct, replaced)
    return reproduction


def _choose_weights_to_reproduce(
    suite: SuiteSpec, run: Run, paths: Mapping[str, str], workspace: Workspace
) -> tuple[str, ...]:
    """Return a run's given weights: of `--reference`, the suite, arrays or a publication; empty if the run has none."""
    if not run.given:
        if paths:
            raise CallerError("this run has no given weights; leave --reference out")
        return ()
    needed = [suite.find_given_weights(number) for number in list_network_numbers(suite, run)]
    own = {network.given: network.weights for network in suite.networks}
    published = {title: name for title in needed if (name := title.partition("@")[0]) in PUBLISHED_WEIGHTS}
    known = {given: weights for given, weights in {**own, **published, **paths}.items() if weights}
    if not known.keys() >= {*needed}:
        known |= {make_weights_title(str(path)): str(path) for path in workspace.arrays.glob("*/weights.pt")}
    if lacking := [title for title in needed if title not in known]:
        seen = f"this run needs the weights {' and '.join(lacking)}"
        raise CallerError(f"{seen}; add --reference FILE for each, a file with that checksum")
    return tuple(known[title] if title in needed else "" for title in suite.given.split(","))


def _reuse_networks(work: JobContext, stored: RunResult, workspace: Workspace, store: ResultsStore) -> Iterator[str]:
    """Copy the networks of a run that the store or a publication has; yield the checksums of their weights.

    The explained network must have the weights that the stored run records, and a second network that the run scores
    must have the weights that results of the store record for it. Other networks are trained again.
    """
    run = stored.run
    for number in list_network_numbers(work.suite, run) if run.reference and not run.given else ():
        explained = work.explained[number]
        is_explained = explained.reference.key == run.reference
        recorded = {stored.weights} if is_explained else store.read_explained_weights(explained.reference.key)
        own = replace(explained, work=replace(work, workspace=workspace))
        path = find_imported_or_packaged_network(workspace, explained.reference)
        if own.store.read_checksum() in recorded - {""}:
            explained.store.save_published(own.load_trained())
        elif path and read_network_file(path).checksum in recorded:
            explained.install_published_weights(path)
        else:
            continue
        yield explained.store.read_checksum()


def _rerun(
    request: Request, work: JobContext, run: Run, console: Console
) -> tuple[RunResult, dict[AnnotationKind, Any]]:
    """Do a run in its own store; return the result, and what was measured of its maps and masks."""
    with ResultsStore.open(make_default_url(work.workspace.root)) as store:
        do_runs(request, store, console, work, [run])
        result = store.read_results([run.key])[run.key]
        return result, read_measured_annotations(store.database, result)


def _estimate_run_deviation(store: ResultsStore, suite: SuiteSpec, stored: RunResult, again: RunResult) -> float | None:
    """Return the standard deviation of the accuracy of two honest computations of a run; 0 if the run trains nothing.

    Two training runs that are not equal bit by bit differ as much as training runs with two seeds, or, if the explained
    network has other weights, as much as training runs for two explained networks. The variance is estimated from
    results of the run's protocol, or of ROAR if that protocol has no repetitions; without repetitions the result is
    None. Self-reported results are not used, because their authors could claim any variance.
    """
    cell = stored.run.cell
    if not cell.retrain.trains:
        return 0.0
    protocol = PROTOCOLS[find_protocol_name(cell)]
    suite_results = collect_results(suite, store, stored.run.limit, stored.run.data)
    origins = read_origins(store.database, [result.run.key for result in suite_results.results.values()])
    results = suite_results.results.items()
    trusted = {planned: row for planned, row in results if origins[row.run.key] is not Origin.SELF_REPORTED}
    trusted_results = replace(suite_results, results=trusted)
    variance = estimate_variance(trusted_results, protocol, cell.fill) or estimate_variance(trusted_results, ROAR)
    has_same_network = bool(stored.weights) and stored.weights == again.weights
    has_other_maps = stored.rankings != again.rankings and not has_same_network
    return variance.compute_run_standard_deviation(has_other_maps, cell.t) if variance else None
