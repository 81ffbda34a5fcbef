"""Run a suite from Python on built-in estimators, functions, submission files and precomputed maps."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn

from roarbench.api.borrowed_networks import refuse_changes_of_network
from roarbench.api.inputs import to_array
from roarbench.api.removal import check_map_shape, drop_channel_axis
from roarbench.api.submission_source import make_submission, make_submission_name
from roarbench.api.suite_result import SuiteResult
from roarbench.api.suites import Suite, load_suite, make_console
from roarbench.compute.device_ranking import rank_to_bit_planes
from roarbench.compute.networks import build_network
from roarbench.enums import Split
from roarbench.errors import CallerError, RunError
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution.importance import make_image_ids, make_tie_order_cache
from roarbench.execution.job_context import JobContext, ReferenceModel
from roarbench.execution.ranking_jobs import join_ranked_ranges
from roarbench.execution.run_suite import run_suite
from roarbench.execution.submission_intake import SubmissionMode, check_and_store_submissions
from roarbench.plan.planned_runs import ranks_only_test_images, select_part_of_suite
from roarbench.plan.suite import SuiteSpec as Plan
from roarbench.plan.suite_options import apply_selection_options
from roarbench.report.status import list_run_failures
from roarbench.store.ranking_files import ExplainedBatches, MapProvenance, RankingSpec
from roarbench.store.results import ResultsStore
from roarbench.store.workspace import Workspace
from roarbench.submissions.adapters import EstimateFunction, NoEntryPoint, find_entry_point
from roarbench.submissions.checks import refuse_unrepeatable_maps
from roarbench.submissions.file import Submission, check_source, read_submission

_TRIED = 4  # noise images for a function's trial
Given = Any  # a function, a class, an estimator id, a file path, or arrays of maps
Maps = dict[Split, list[NDArray[np.float32]]]  # by split, one array per reference
_AT_ONCE = 512  # images per ranking batch
_STUB = '''\
"""Checksums of maps that were passed in as arrays, one for each reference."""

NAME = {name}
DESCRIPTION = "maps that were passed in as arrays"
MAPS = {sums}


def estimate(model, images, targets, generator):
    raise RuntimeError("these maps were passed in as arrays; no function can recompute them")
'''


def evaluate(
    suite: Suite | str,
    estimators: Mapping[str, Given] | Iterable[str] = (),
    store: str | Path | None = None,
    *,
    protocol: str = "",
    seeds: int | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> SuiteResult:
    """Run the missing rows of a suite and return all rows; the same call resumes an interrupted run.

    Args:
        suite: Result of `load_suite`, or a suite's name.
        estimators: Mapping from row names to estimators; or an id, or a list of ids, of built-in estimators. If empty,
            all of the suite's estimators. Controls are always included. An estimator is a function of (model, inputs,
            targets); a captum class, or a function of the model that returns an instance; an explanation function with
            keyword arguments, as for Quantus; the id of a built-in estimator; the path of a submission; or precomputed
            maps. A function gets a network in eval mode, normalised images, float32 (n, c, h, w), and the predicted
            classes, int64 (n,); it returns a tensor or array (n, c, h, w), (n, 1, h, w) or (n, h, w), signed, larger =
            more important. A function runs with your rights, and its row records this; a submission file runs in the
            sandbox. Precomputed maps are a list of arrays of all test images, one array per explained network; or two
            such lists under `test` and `train`, which allow more protocols.
        store: Folder of images, networks, rankings and results, which later calls with this suite also use; the suite's
            current folder if None.
        protocol: Run only this protocol, such as `matched`.
        seeds: Trainings per cell; the suite's number if None.
        workers: Processes; one per core, or per GPU, if None.
        quiet: Print no progress.

    Raises:
        CallerError: The request is invalid, and nothing was run.
        RunError: Some runs failed; the results of all other runs are stored.
    """
    suite = load_suite(suite) if isinstance(suite, str) else suite
    suite.store = suite.store if store is None else Path(store)
    # a bare string would count as a list of letters
    listed = [estimators] if isinstance(estimators, str) else estimators
    given = listed if isinstance(listed, Mapping) else {name: name for name in listed}
    made = {name: _read_estimator(name, one, suite) for name, one in given.items()}
    console = make_console(quiet)
    suite.tune(protocol, console)
    with suite.open_results(console) as results:
        evaluation = _Evaluation(suite, results, workers, console, protocol, seeds)
        return evaluation.evaluate_all(made, {name for name, one in given.items() if callable(one)})


def _read_estimator(name: str, given: Given, suite: Suite) -> str | Submission | Maps:
    """Return the id of a built-in estimator, a submission made from a function or file, or precomputed maps."""
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(".py")):
        return read_submission(Path(given))
    if isinstance(given, str):
        return find_estimator(given).id
    if callable(given):
        made = make_submission(name, given)
        _try_function(made, suite.fitted)
        return made
    return read_maps(name, given)


def _try_function(made: Submission, plan: Plan) -> None:
    """Check a function as `validate` does, without sandbox, on the suite's network and noise images.

    Raises CallerError early if a map has the wrong shape or type, or depends on more than its own image.
    """
    module = ModuleType(made.name)
    exec(compile(made.source, f"<{made.name}>", "exec"), module.__dict__)
    record, generator = plan.dataset_record, torch.Generator().manual_seed(0)
    model = build_network(
        plan.model, record.classes, record.channels, record.size, generator, plan.network_source
    ).eval()
    images, targets = torch.randn(_TRIED, *record.shape, generator=generator), torch.arange(_TRIED) % 2
    try:
        tried = _FunctionTrial(made.name, find_entry_point(module), model, images, targets)
    except NoEntryPoint as error:
        raise CallerError(str(error)) from None
    with refuse_changes_of_network(model, made.name):
        _try_on_noise(tried)


def _try_on_noise(tried: "_FunctionTrial") -> None:
    """Make each map alone, together with others and again; CallerError for maps that are unusable or differ."""
    everything = torch.arange(_TRIED)
    once, drew = tried.compute_maps_and_randomness(everything)
    if drew:  # an estimator that draws numbers gets one image at a time
        alone = [tried.compute_maps_and_randomness(row)[0] for row in 2 * torch.split(everything, 1)]
        once, again = torch.cat(alone[:_TRIED]), torch.cat(alone[_TRIED:])
        refuse_unrepeatable_maps(once, again, again, again.flip(0))
    else:
        again, turned = (
            tried.compute_maps_and_randomness(everything)[0],
            [tried.compute_maps_and_randomness(rows)[0] for rows in torch.split(everything.flip(0), 3)],
        )
        refuse_unrepeatable_maps(once, again, again, torch.cat(turned))


class _FunctionTrial(NamedTuple):
    """A function, and the noise images on which it is tried."""

    name: str
    estimate: EstimateFunction
    model: nn.Module
    images: Tensor
    targets: Tensor

    def compute_maps_and_randomness(self, rows: Tensor) -> tuple[Tensor, bool]:
        """Return maps of some images, and whether random numbers were drawn; CallerError for unusable maps."""
        images, targets = self.images[rows], self.targets[rows]
        generator = torch.Generator().manual_seed(int(rows[0]))
        before = generator.get_state()
        maps = self.estimate(self.model, images, targets, generator)
        if not isinstance(maps, Tensor):
            raise CallerError(f"{self.name} returned {type(maps).__name__}, expected a torch.Tensor or a NumPy array")
        check_map_shape(f"the maps of {self.name}", tuple(maps.shape), tuple(images.shape))
        if not maps.isfinite().all():
            raise CallerError(f"the maps of {self.name} have values that are NaN or infinite; expected finite numbers")
        if not torch.equal(images, self.images[rows]) or not torch.equal(targets, self.targets[rows]):
            raise CallerError(f"{self.name} changed its images or targets in place; use a .clone()")
        return maps.detach(), not torch.equal(before, generator.get_state())


class _Evaluation(NamedTuple):
    """One call of `evaluate`, with its store open."""

    suite: Suite
    results: ResultsStore
    workers: int | None
    console: Console
    protocol: str
    seeds: int | None

    def evaluate_all(self, made: Mapping[str, str | Submission | Maps], trusted: Collection[str]) -> SuiteResult:
        """Run functions and files, then given maps under the protocols for which they suffice; return all rows."""
        names, rows = dict[str, str](), dict[str, None]()
        for name, one in made.items():
            if not isinstance(one, dict):
                names[name] = one if isinstance(one, str) else self._store_submission(one, name in trusted)
        if names or not made:
            rows |= dict.fromkeys(self._run(self._select_part(self.suite.fitted, names.values())))
        for name, one in made.items():
            if isinstance(one, dict):
                names[name] = self._evaluate_maps(name, one, rows)
        result = SuiteResult.read(self.suite.fitted, self.suite.question, names)
        stored_rows = [name for name in self.suite.fitted.ranked_estimators if name in result.stored.by_estimator]
        return replace(result, rows=tuple(dict.fromkeys((*rows, *stored_rows))))

    def _store_submission(self, made: Submission, trusted: bool) -> str:
        """Store a submission (checked first if it runs in the sandbox) and return the id of its row."""
        mode, workspace = SubmissionMode(trusted, False, self.suite.plan), Workspace(self.suite.store)
        return check_and_store_submissions([made], mode, self.results, workspace, self.console).ids[0]

    def _evaluate_maps(self, name: str, maps: Maps, rows: dict[str, None]) -> str:
        """Rank features by given maps and run the protocols for which they suffice; return the row's id."""
        plan = self._select_possible_protocols(name, maps)
        work = self.suite.prepare_explained_networks(plan, self.results, self.console)
        check_maps(name, maps, work)
        row = self._store_submission(make_maps_submission(name, maps), trusted=True)
        part = self._select_part(plan, [row])  # twins need a function, and maps have none
        part = select_part_of_suite(
            part, [one.id for one in part.estimator_records if one.id == row or one.untwinned_id != row]
        )
        rank_given_maps(row, maps, replace(work, suite=part))
        rows |= dict.fromkeys(self._run(part))
        return row

    def _select_possible_protocols(self, name: str, maps: Maps) -> Plan:
        """Return the plan's protocols for which the given maps suffice."""
        plan = apply_selection_options(self.suite.fitted, protocol=self.protocol)
        if Split.TRAIN in maps:
            return plan
        blocks = tuple(block for block in plan.blocks if ranks_only_test_images(plan, block.protocol.retrain))
        if blocks == plan.blocks:
            return plan
        possible, all_of = ({block.protocol.name: None for block in part} for part in (blocks, plan.blocks))
        left = ", ".join(protocol for protocol in all_of if protocol not in possible)
        if not blocks:
            seen = f"{name} has maps of test images only, but {left} of {plan.title} also needs maps of training images"
            raise CallerError(f'{seen}; pass {{"test": maps, "train": maps}}')
        run = ", ".join(possible)
        self.console.print(f"{name} is run under {run}; {left} also needs maps of training images", soft_wrap=True)
        return replace(plan, blocks=blocks)

    def _select_part(self, plan: Plan, ids: Collection[str]) -> Plan:
        """Return the part of a suite with these rows and their controls; the whole suite if no rows are given."""
        entries = [row for row in ids if find_estimator(row).submitted]
        built_in = [row for row in ids if row not in entries] if ids else None
        return apply_selection_options(plan, built_in, entries, self.seeds, self.protocol)

    def _run(self, part: Plan) -> tuple[str, ...]:
        """Run the missing runs of a part; return its rows, or raise RunError with all failures."""
        request, workspace = self.suite.request(part, self.workers), Workspace(self.suite.store)
        finished = run_suite(request, workspace, self.results, self.console)
        if finished.failed:
            failed = list_run_failures(finished.suite_results, self.results)
            reasons = dict.fromkeys(f"{failure['estimator']}: {failure['reason']}" for failure in failed)
            raise RunError("; ".join(reasons) or f"{finished.failed} runs failed")
        return part.estimators


def read_maps(name: str, given: object) -> Maps:
    """Read maps as arrays, one per explained network: of the test images, or by split.

    Accepted are a list of one array or tensor per network, (n, c, h, w), (n, 1, h, w) or (n, h, w); such lists under
    `test` and `train`; or a single array for a suite with one network.
    """
    by_split = given if isinstance(given, Mapping) else {"test": given}
    if unknown := [str(key) for key in by_split if key not in list(Split)]:
        keys = "the keys are `test` and, for protocols that need it, `train`"
        raise CallerError(f"{name} has maps of '{unknown[0]}'; {keys}")
    listed = {key: arrays if isinstance(arrays, list | tuple) else [arrays] for key, arrays in by_split.items()}
    return {Split(key): [_read_array(name, one) for one in arrays] for key, arrays in listed.items()}


def _read_array(name: str, given: Any) -> NDArray[np.float32]:
    values = to_array(given)
    if values.ndim not in (3, 4) or not np.issubdtype(values.dtype, np.number):
        seen = f"an array of shape {values.shape} and type {values.dtype}"
        raise CallerError(f"{name} has {seen}; expected numbers (n, c, h, w), (n, 1, h, w) or (n, h, w)")
    if not np.isfinite(values).all():  # before any training for these maps
        raise CallerError(f"{name} has values that are NaN or infinite; expected finite numbers")
    return np.ascontiguousarray(drop_channel_axis(values), np.float32)


def make_maps_submission(name: str, maps: Maps) -> Submission:
    """Return a submission that stores the checksums of these maps; it cannot compute maps itself."""
    sums = {
        split.value: [hashlib.sha256(f"{one.shape}".encode() + one.tobytes()).hexdigest() for one in arrays]
        for split, arrays in maps.items()
    }
    return check_source(_STUB.format(name=json.dumps(make_submission_name(name)), sums=json.dumps(sums)).encode())


def check_maps(name: str, maps: Maps, work: JobContext) -> None:
    """Raise CallerError unless each explained network has maps in the shape of the suite's images."""
    shape = work.images.record.shape
    for split, arrays in maps.items():
        n, references = len(work.images[split].labels), work.suite.references
        if len(arrays) != references:
            seen = f"{name} has {len(arrays)} sets of maps of {split} images"
            raise CallerError(f"{seen}, expected {references}: one for each reference")
        for number, one in enumerate(arrays):
            check_map_shape(f"maps {number} of {name}", one.shape, (n, *shape))


def rank_given_maps(row: str, maps: Maps, work: JobContext) -> None:
    """Rank the features of all images by given maps, per network and unit, unless the rankings are already stored."""
    units = dict.fromkeys(block.unit for block in work.suite.blocks)
    for number, own in enumerate(work.explained):
        for spec in (work.make_ranking_spec(find_estimator(row), unit, number) for unit in units):
            if not work.rankings.has(spec):
                for split in spec.splits:
                    _rank_maps(own, spec, split, maps[split][number])
                join_ranked_ranges(work, spec)


def _rank_maps(explained: ReferenceModel, spec: RankingSpec, split: Split, maps: NDArray[np.float32]) -> None:
    weights = explained.store.read_checksum()
    for start in range(0, len(maps), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(maps))
        part = torch.from_numpy(maps[start:stop])
        batches = [ExplainedBatches(stop - start, 0, "")]
        ties = partial(make_tie_order_cache(make_image_ids(split, start, stop).numpy()), spec.layout.features)
        planes, tied = rank_to_bit_planes(part, ties, spec.layout)
        made = MapProvenance(0.0, weights, batches, ties=tied)
        explained.work.rankings.write_part(spec, split, start, stop, planes, made)
