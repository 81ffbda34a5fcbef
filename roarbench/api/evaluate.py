"""Run a suite from Python on built-in estimators, functions, submission files and precomputed maps."""

import hashlib
import json
import warnings
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from roarbench.api.array_checks import MOST_COMPARED, warn_of_misplaced_maps
from roarbench.api.call_guard import read_functions, restore_functions
from roarbench.api.evaluated_rows import EvaluatedRows
from roarbench.api.inputs import to_array, warn_caller, warn_of_byte_values
from roarbench.api.map_checks import describe_unfit_maps
from roarbench.api.neutral_settings import use_neutral_settings
from roarbench.api.read_explainers import map_estimators_by_name, refuse_file_of_maps
from roarbench.api.removal import check_map_shape, drop_channel_axis, warn_of_constant_maps, warn_of_one_map
from roarbench.api.submission_from_function import adapt_as_in_file, refuse_other_maps
from roarbench.api.submission_source import make_submission, make_submission_name, warn_of_values_outside_file
from roarbench.api.suites import Suite, load_suite, make_console
from roarbench.api.torch_settings import read_settings, restore_settings
from roarbench.common.device_settings import restore_global_generators
from roarbench.common.enums import Split
from roarbench.common.errors import CallerError, RunError
from roarbench.common.text import describe_type
from roarbench.compute.map_ranking import rank_to_bit_planes
from roarbench.compute.networks import DRAWING, build_network, draw_zero_parameters
from roarbench.compute.prediction import normalise
from roarbench.compute.ranking import convert_to_smallest_float
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import make_image_ids
from roarbench.execution.job_context import JobContext
from roarbench.execution.ranking_jobs import join_ranked_ranges
from roarbench.execution.run_suite import run_suite
from roarbench.execution.submission_intake import SubmissionMode, check_and_store_submissions
from roarbench.plan.planned_runs import ranks_only_test_images
from roarbench.plan.settings import Settings
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_changes import apply_selection_options, select_part_of_suite
from roarbench.report.status import list_run_failures
from roarbench.store.ranking_files import MapProvenance
from roarbench.store.results import ResultsStore
from roarbench.store.workspace import Workspace
from roarbench.submissions.limits_and_faults import Refusal
from roarbench.submissions.run_in_sandbox import count_images_per_call, find_refusal_of_nonfinite_maps
from roarbench.submissions.submission_calls import (
    EstimateFunction,
    ExplainedPart,
    compute_maps_of_part,
    load_entry_point,
)
from roarbench.submissions.submission_file import Submission, parse_submission, read_submission
from roarbench.submissions.submission_validation import refuse_unrepeatable_or_batch_dependent_maps

_NOISE_IMAGES = 4  # for a function's trial
_NOISE_TARGETS = (0, 1, 0, 1)  # maps that are grouped or sorted by target come back at other places
MapsBySplit = dict[Split, list[NDArray[Any]]]  # by split, one array per explained network, float32 or float64
_IMAGES_PER_BATCH = 512
_STUB = '''\
"""Checksums of maps that were passed in as arrays, one for each reference."""

NAME = {name}
DESCRIPTION = "maps that were passed in as arrays"
MAPS = {sums}


def estimate(model, images, targets, generator):
    raise RuntimeError("these maps were passed in as arrays; no function can recompute them")
'''


@use_neutral_settings
def evaluate(
    suite: Suite | str,
    estimators: Mapping[str, Any] | Iterable[str] = (),
    store: str | Path | None = None,
    *,
    protocol: str = "",
    seeds: int | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> EvaluatedRows:
    """Run the missing rows of a suite and return all rows; the same call resumes an interrupted run.

    Args:
        suite: Result of `load_suite`, or a suite's name.
        estimators: Mapping from row names to estimators; or an id, or a list of ids, of built-in estimators. If empty,
            all of the suite's estimators. Controls are always included. An estimator is a function of (model, inputs,
            targets); a captum class, or a function of the model that returns an instance; an explanation function with
            keyword arguments, as for Quantus; the id of a built-in estimator; the path of a submission; or precomputed
            maps. A function gets a network in eval mode, normalised images, float32 (n, c, h, w), and the predicted
            classes, int64 (n,); it returns a tensor or array (n, c, h, w), (n, 1, h, w) or (n, h, w), signed, larger =
            more important. A function's source, with the values that it uses, identifies its row; files that it
            reads do not, so rename the row if these change. A function runs with your rights, without your environment
            variables, and its row records this; a submission file runs in the sandbox. Precomputed maps are a list of
            arrays of all test images, one array per explained network; or two such lists under `test` and `train`,
            which allow more protocols.
        store: Folder of images, networks, rankings and results; later calls with this suite also use this folder. The
            suite's current folder if None.
        protocol: Run only this protocol, such as `matched`.
        seeds: Training runs per cell; the suite's number if None.
        workers: Number of processes; one per core, or per GPU, if None.
        quiet: Print no progress.

    Raises:
        CallerError: The request is invalid, and nothing was run.
        RunError: Some runs failed; the results of all other runs are stored.

    Examples:
        >>> images, labels = torch.rand(24, 1, 8, 8), torch.arange(24) % 2
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
        >>> suite = Suite.from_arrays(
        ...     model, None, (images, labels), protocols=["morf"], estimators=["grad"], store="store"
        ... )
        >>> result = evaluate(suite, ["grad"], quiet=True)
        >>> {"grad", "random"} <= set(result.to_dataframe()["name"])
        True
    """
    suite = load_suite(suite) if isinstance(suite, str) else suite
    if not isinstance(suite, Suite):
        raise CallerError(f"suite is {describe_type(suite)}; expected a suite's name or the result of load_suite")
    suite.settings = suite.settings if store is None else replace(suite.settings, store=Path(store))
    by_name = map_estimators_by_name(estimators)
    read_estimators = dict[str, str | Submission | MapsBySplit]()
    for name, estimator in by_name.items():
        refuse_file_of_maps(name, estimator)
        if isinstance(estimator, Path) or (isinstance(estimator, str) and estimator.endswith(".py")):
            read_estimators[name] = read_submission(Path(estimator))
        elif isinstance(estimator, str):
            read_estimators[name] = find_estimator(estimator).id
        elif callable(estimator):
            read_estimators[name] = submission = make_submission(name, estimator)
            warn_of_values_outside_file(submission)
            _try_function_on_noise(submission, adapt_as_in_file(name, estimator), suite.runnable_plan)
        else:
            read_estimators[name] = _read_maps(name, estimator)
    console = make_console(quiet)
    suite.find_learning_rate_if_missing(protocol, console)
    with suite.open_store_for_writing(console) as results:
        settings = replace(suite.settings, protocol=protocol, seeds=seeds)
        evaluation = _Evaluation(suite, results, workers, console, settings)
        return evaluation.evaluate_all(
            read_estimators, {name for name, estimator in by_name.items() if callable(estimator)}
        )


def _try_function_on_noise(submission: Submission, function: EstimateFunction, plan: SuiteSpec) -> None:
    """Check a function on the suite's network and noise images, as `roarbench validate` does, but without a sandbox.

    The file of the function has to compute the maps of the function itself.

    Meanwhile no other thread tries a function, builds a network or trains: each of these seeds torch's global
    generator, and a change of its state during a call means that the function draws random numbers. Whatever a function
    changes in torch is undone; a run calls it in a process of its own.
    """
    generator = torch.Generator().manual_seed(0)
    network = plan.find_network()
    model = draw_zero_parameters(build_network(**network._asdict(), generator=generator), generator).eval()
    images = torch.randn(_NOISE_IMAGES, *plan.dataset_record.shape, generator=generator)
    part = ExplainedPart(model, images, torch.tensor(_NOISE_TARGETS), torch.arange(_NOISE_IMAGES), _NOISE_IMAGES)
    try:
        with DRAWING, restore_global_generators():
            functions, settings = read_functions([model]), read_settings()
            try:
                _refuse_unrepeatable_maps(submission, function, part, count_images_per_call(network))
            finally:
                restore_settings(settings)
                restore_functions(functions)
    except Refusal as refusal:
        error = refusal.__context__  # raised by the function
        if isinstance(error, KeyboardInterrupt):
            raise error from None
        raise refusal.add_subject(submission.name) from error


def _refuse_unrepeatable_maps(
    submission: Submission, function: EstimateFunction, part: ExplainedPart, batch_of_run: int
) -> None:
    estimate = load_entry_point(submission.source)
    maps, repeated = (_compute_finite_maps(estimate, part) for _ in range(2))
    reordered = _compute_finite_maps(estimate, part.reverse_images(1))
    refuse_unrepeatable_or_batch_dependent_maps(maps, repeated, reordered.flip(0))
    if batch_of_run > _NOISE_IMAGES:
        numbers = torch.arange(batch_of_run) % _NOISE_IMAGES
        in_large_batch = _compute_finite_maps(estimate, part.select_images(numbers))
        refuse_unrepeatable_or_batch_dependent_maps(maps[numbers], maps[numbers], in_large_batch)
    refuse_other_maps(submission.name, maps, _compute_finite_maps(function, part))

    def make_maps(images: Tensor, targets: Tensor, watch: AbstractContextManager[None] | None = None) -> Tensor:
        with watch or nullcontext():
            return _compute_finite_maps(estimate, part._replace(images=images, targets=targets))

    for fault in describe_unfit_maps(make_maps, maps, part.model, part.images, part.targets):
        warn_caller(f"an image's map by {submission.name} {fault}")
    if bool((maps.flatten(1) == maps.flatten(1)[:, :1]).all()):
        seen = f"every feature has the same importance in the maps of {_NOISE_IMAGES} noise images by {submission.name}"
        warn_caller(f"{seen}; functions that draw random numbers, such as FeaturePermutation, get one image at a time")
    else:
        warn_of_byte_values(f"maps of {submission.name}", maps.numpy())


def _compute_finite_maps(estimate: EstimateFunction, part: ExplainedPart) -> Tensor:
    with warnings.catch_warnings():  # a function that ignores all warnings would lose those about itself
        maps = compute_maps_of_part(estimate, part)
    if refusal := find_refusal_of_nonfinite_maps([maps]):
        raise refusal
    return maps


class _Evaluation(NamedTuple):
    """One call of `evaluate`, with its store open."""

    suite: Suite
    results: ResultsStore
    workers: int | None
    console: Console
    settings: Settings  # of the suite, with the protocol and seeds of this call

    def evaluate_all(
        self, estimators: Mapping[str, str | Submission | MapsBySplit], unsandboxed: Collection[str]
    ) -> EvaluatedRows:
        """Run functions and files, then precomputed maps under the protocols that these allow; return all rows."""
        ids, rows = dict[str, str](), list[str]()
        for name, estimator in estimators.items():
            if isinstance(estimator, str):
                ids[name] = estimator
            elif isinstance(estimator, Submission):
                ids[name] = self._store_submission(estimator, name in unsandboxed)
        if ids or not estimators:
            part = self._select_rows_of_suite(self.suite.runnable_plan, ids.values())
            self._run_plan(part)
            rows += part.estimators
        for name, maps in estimators.items():
            if isinstance(maps, dict):
                ids[name], part = self._evaluate_precomputed_maps(name, maps)
                rows += part.estimators
        result = EvaluatedRows.read(self.suite.runnable_plan, self.suite.settings, ids)
        own = self.suite.runnable_plan.estimators_with_own_row
        rows += [name for name in own if name in result.stored.by_estimator]
        return replace(result, rows=tuple(dict.fromkeys(rows)))

    def _store_submission(self, submission: Submission, trusted: bool) -> str:
        """Store a submission (checked first if it runs in the sandbox) and return the id of its row."""
        mode = SubmissionMode(trusted, False, self.suite.plan, self.settings.limit)
        workspace = Workspace(self.settings.store)
        return check_and_store_submissions([submission], mode, self.results, workspace, self.console)[0]

    def _evaluate_precomputed_maps(self, name: str, maps: MapsBySplit) -> tuple[str, SuiteSpec]:
        """Run the protocols for which precomputed maps suffice; return the row's id and the plan that was run."""
        plan = apply_selection_options(self.suite.runnable_plan, replace(self.settings, seeds=None))
        possible = [block for block in plan.blocks if ranks_only_test_images(plan, block.protocol.retrain)]
        if Split.TRAIN not in maps and len(possible) < len(plan.blocks):
            run, everything = ({block.protocol.name: None for block in part} for part in (possible, plan.blocks))
            left_out = ", ".join(protocol for protocol in everything if protocol not in run)
            if not possible:
                seen = f"{name} has maps of test images only, but {left_out} of {plan.title}"
                raise CallerError(f'{seen} also needs maps of training images; pass {{"test": maps, "train": maps}}')
            words = f"{name} is run under {', '.join(run)}; {left_out} also needs maps of training images"
            self.console.print(words, soft_wrap=True)
            plan = replace(plan, blocks=tuple(possible))
        work = self.suite.make_context_with_networks(plan, self.results, self.console)
        networks = work.suite.references
        for split, arrays in maps.items():
            if len(arrays) != networks:
                seen = f"{name} has {len(arrays)} sets of maps of {split} images"
                raise CallerError(f"{seen}, expected {networks}: one for each explained network")
            for number, array in enumerate(arrays):
                shape = (len(work.images[split].labels), *work.images.record.shape)
                check_map_shape(f"maps {number} of {name}", array.shape, shape)
            pixels = torch.from_numpy(work.images[split].pixels[:MOST_COMPARED])
            explained = [(model.load_trained(), normalise(pixels, model.norm)) for model in work.explained]
            warn_of_misplaced_maps({f"{split} maps of {name}": map(torch.from_numpy, arrays)}, explained)
        checksums = {
            split.value: [hashlib.sha256(f"{array.shape}".encode() + array.tobytes()).hexdigest() for array in arrays]
            for split, arrays in maps.items()
        }
        stub = _STUB.format(name=json.dumps(make_submission_name(name)), sums=json.dumps(checksums))
        row = self._store_submission(parse_submission(stub.encode()), trusted=True)
        part = self._select_rows_of_suite(plan, [row])
        # the row's sanity-check variants need maps of other networks or classes, which only a function can compute
        ids = [record.id for record in part.estimator_records if record.id == row or record.untwinned_id != row]
        part = select_part_of_suite(part, ids)
        _rank_precomputed_maps(row, maps, replace(work, suite=part))
        self._run_plan(part)
        return row, part

    def _select_rows_of_suite(self, plan: SuiteSpec, ids: Collection[str]) -> SuiteSpec:
        """Return the part of a suite with these rows and their controls; the whole suite if no rows are given."""
        submitted = [row for row in ids if find_estimator(row).submitted]
        built_in = tuple(row for row in ids if row not in submitted) if ids else None
        return apply_selection_options(plan, replace(self.settings, estimators=built_in), submitted)

    def _run_plan(self, part: SuiteSpec) -> None:
        finished = run_suite(self.suite.make_request(part, self.workers), self.results, self.console)
        if finished.failed:
            failed = list_run_failures(finished.suite_results, self.results)
            reasons = dict.fromkeys(f"{failure['estimator']}: {failure['reason']}" for failure in failed)
            raise RunError("; ".join(reasons) or f"{finished.failed} runs failed")


def _read_maps(name: str, maps: object) -> MapsBySplit:
    """Convert precomputed maps, or a single array for a suite with one network, to one array per network by split."""
    by_split = maps if isinstance(maps, Mapping) else {"test": maps}
    if unknown := [str(key) for key in by_split if key not in list(Split)]:
        keys = "the keys are `test` and, for protocols that need it, `train`"
        raise CallerError(f"{name} has maps of '{unknown[0]}'; {keys}")
    if Split.TEST not in by_split:
        raise CallerError(f'{name} has no maps of test images; pass {{"test": maps, "train": more}}')
    read: MapsBySplit = {Split(key): [] for key in by_split}
    for key, arrays in by_split.items():
        for given in arrays if isinstance(arrays, list | tuple) else [arrays]:
            values = to_array(given)
            if values.ndim not in (3, 4) or not values.size or not np.issubdtype(values.dtype, np.number):
                seen = f"an array of shape {values.shape} and type {values.dtype}"
                raise CallerError(f"{name} has {seen}; expected numbers (n, c, h, w), (n, 1, h, w) or (n, h, w)")
            if not np.isfinite(values).all():  # report this before any network is trained
                raise CallerError(f"{name} has values that are NaN or infinite; expected finite numbers")
            warn_of_byte_values(f"maps of {name}", values)
            flat = values.reshape(len(values), -1)
            warn_of_constant_maps(f"maps of {name}", (flat == flat[:, :1]).all(1).astype(float).tolist())
            warn_of_one_map(f"maps of {name}", given)
            floats = convert_to_smallest_float(drop_channel_axis(values))
            read[Split(key)].append(np.require(floats, requirements="W"))  # torch warns of read-only memory
    return read


def _rank_precomputed_maps(row: str, maps: MapsBySplit, work: JobContext) -> None:
    """Rank the features of all images by maps, per network and unit, unless the rankings are already stored."""
    units = dict.fromkeys(block.unit for block in work.suite.blocks)
    for (number, explained), unit in product(enumerate(work.explained), units):
        spec = work.make_ranking_spec(find_estimator(row), unit, number)
        if work.rankings.has_finished(spec):
            continue
        weights = explained.store.read_checksum()
        for split in spec.splits:
            own = maps[split][number]
            for start in range(0, len(own), _IMAGES_PER_BATCH):
                stop = min(start + _IMAGES_PER_BATCH, len(own))
                ids = make_image_ids(split, start, stop).numpy()
                planes, tied = rank_to_bit_planes(torch.from_numpy(own[start:stop]), ids, spec.layout)
                provenance = MapProvenance(None, weights, ties=tied)
                work.rankings.write_part(spec, split, start, stop, planes, provenance)
        join_ranked_ranges(work, spec)
