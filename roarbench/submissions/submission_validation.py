"""Validate a submission: compute maps of a few images in fresh sandboxes, compare them, and estimate the cost."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from roarbench.common.text import format_bytes, format_duration
from roarbench.compute.builtin_network_table import NetworkSpec
from roarbench.compute.networks import (
    build_network,
    count_network_cost,
    draw_zero_parameters,
    set_batch_norm_scales_to_one,
)
from roarbench.compute.ranking import have_byte_values
from roarbench.estimators.ids import format_value
from roarbench.plan.planned_runs import list_planned_runs, list_shared_inputs
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_changes import add_estimators_with_twins
from roarbench.plan.suites import SUITES
from roarbench.submissions.limits_and_faults import (
    CHECK_LIMITS,
    MAX_CHECK_WAITING,
    Refusal,
    SubmissionFault,
    ValidationFinding,
    compute_sandbox_limits,
)
from roarbench.submissions.run_in_sandbox import (
    MAX_IMAGES_PER_CALL,
    SandboxAnswer,
    SandboxTask,
    count_images_per_call,
    count_sandboxes,
    derive_image_seeds,
    run_submission,
)
from roarbench.submissions.sandbox_isolation import check_sandbox_isolation
from roarbench.submissions.submission_calls import ExplainedPart
from roarbench.submissions.submission_file import Submission

_NETWORK = NetworkSpec("resnet-quick", classes=10, channels=3, size=64)
_IMAGES = 6  # tested in batches of 4 and 2, then reversed one at a time
_BATCH, _OTHER_BATCH = 4, 1
# images in a batch with targets of all classes, which shows how memory grows: as in a run; fewer if maps take long
_LARGE_BATCHES = (MAX_IMAGES_PER_CALL, 24)
_SECONDS_OF_LARGE_BATCH = 3  # CPU seconds that a batch as in a run may need
# The maps of one image from batches of different sizes differ by rounding, which may turn a ReLU near 0 on or off. Such
# differences are far below this share of the map's spread; if a map depends on its batch, the difference is larger.
_ROUNDING = 0.02
_FAR_MORE = 10  # no correct map of 2,940 had both ratios above it: 11 estimators, 14 networks
_CORNERED = 2  # images
_SAME_DIRECTION = 0.999  # cosine; rounding changes it by less
_LAST_DIGITS = 1e-5  # of numbers in float32, which a large mean leaves to the differences
_TIMED_OPERATIONS = 4e8  # operations of a forward pass over the timed images; with 1e8, the first call counts too much
_MIN_TIMED = 2  # images
STAGES = 4  # number of calls of `report_stage`
DEFAULT_SUITE = "quick"  # suite whose cost `validate` estimates by default


class SubmissionPace(NamedTuple):
    """Time that a submission needs in the sandbox, measured on a network with random weights."""

    seconds_per_map: float  # core-seconds
    start_seconds: float  # core-seconds of a sandbox before its first image


@dataclass(frozen=True)
class AcceptedSubmission:
    """Results of the validation of an accepted submission."""

    submission: Submission
    images: Tensor  # explained images, float32 (n, c, h, w), normalised
    importance: Tensor  # their maps, float64 (n, h, w), summed over channels
    drew: bool  # the estimator draws random numbers, so images are explained one at a time
    pace: SubmissionPace
    suite: SuiteSpec
    limit: int | None  # images per split that the cost assumes; None for all
    memory: float  # estimated peak bytes of a sandbox that explains the suite's network
    warnings: tuple[ValidationFinding, ...]

    def format_report(self) -> str:
        """Return the report for a terminal."""
        submission = self.submission
        batching = "one at a time, because the estimator draws from the generator" if self.drew else "up to 64 at once"
        lines = [f"accepted: {submission.id}: {submission.description}"]
        parameters = submission.parameters | dict(submission.values)
        values = ",".join(f"{name}={format_value(value)}" for name, value in parameters.items())
        others = f"other values make a separate row: --submission 'FILE({values})'"
        lines += [f"parameters: ({values}); {others}"] if values else []
        maps, sandboxes = count_maps_and_sandboxes(self.suite, submission.id, self.limit)
        seconds = maps * self.pace.seconds_per_map + sandboxes * self.pace.start_seconds
        time = f"about {format_duration(seconds)} of one core"
        images = f" --max-images {self.limit}" if self.limit else ""
        lines += [
            f"maps of {self.suite.name_in_commands}{images}: {maps:,}, {time}, {format_bytes(self.memory)} of memory"
        ]
        lines.append(f"images: {batching}")
        return "\n".join([*lines, *(f"warning: {finding.description}" for finding in self.warnings)])


def validate_submission(
    submission: Submission,
    suite: SuiteSpec = SUITES[DEFAULT_SUITE],
    report_stage: Callable[[str], object] = lambda stage: None,
    limit: int | None = None,
) -> AcceptedSubmission:
    """Check a submission in fresh sandboxes; raise Refusal if a check fails.

    The result includes the estimated cost for the suite with at most `limit` images per split. `report_stage` is called
    at the start of each of the `STAGES` stages, with the stage's name.
    """
    remaining: float = MAX_CHECK_WAITING

    def run(*parts: ExplainedPart) -> SandboxAnswer:
        nonlocal remaining
        share = max(1.0, sum(len(part.seeds) for part in parts) / _IMAGES)  # a run allows even more time per image
        cpu, wall = CHECK_LIMITS.cpu * share, CHECK_LIMITS.wall * share
        limits = replace(CHECK_LIMITS, cpu=cpu, wall=wall, waiting=remaining)
        answer = run_submission(SandboxTask(submission.code, _NETWORK, parts), limits)
        if answer.refusal is not None:
            raise answer.refusal
        remaining -= answer.ended.waited
        return answer

    report_stage(f"checking the sandbox (all checks together may wait {MAX_CHECK_WAITING} s)")
    check_sandbox_isolation()
    case = make_test_case()
    report_stage("computing the maps of a few images")
    first = run(case)
    report_stage("computing these maps again in another order, and maps of another model")
    seconds_per_map = (first.seconds or 0) / _IMAGES
    large_batch = _LARGE_BATCHES[seconds_per_map * MAX_IMAGES_PER_CALL > _SECONDS_OF_LARGE_BATCH]
    numbers = torch.arange(large_batch) % _IMAGES
    next_class = case._replace(targets=(case.targets + 1) % _NETWORK.classes)
    # all classes, because maps of a single class may be unusable
    large_part = case.select_images(numbers)._replace(targets=torch.arange(large_batch) % _NETWORK.classes)
    few = case._replace(targets=case.targets[:_CORNERED], seeds=case.seeds[:_CORNERED])
    corners = [few._replace(images=images[:_CORNERED]) for images in change_corners(case.images)]
    of_other_model = case._replace(model=_build_model(_NETWORK, torch.Generator().manual_seed(1)))
    variants = (*corners, next_class, of_other_model, large_part)
    again = run(case.reverse_images(_OTHER_BATCH), case, *variants)
    (maps,), (reordered, repeated, *cornered, other_target, other_model, large) = first.maps, again.maps
    report_stage("comparing the maps")
    # the second sandbox had earlier calls; if its maps differ, a fresh sandbox shows whether these calls are the cause
    same = maps.numpy().tobytes() == repeated.numpy().tobytes()
    fresh = repeated if same else run(case).maps[0]
    refuse_unrepeatable_or_batch_dependent_maps(maps, fresh, repeated, reordered.flip(0))
    explained_again = large_part.targets == case.targets[numbers]
    alone = maps[numbers[explained_again]]
    refuse_unrepeatable_or_batch_dependent_maps(alone, alone, large[explained_again])
    if are_equal_up_to_rounding(maps, other_model):
        # a fresh sandbox cannot return maps that were cached for the first model
        (other_model,) = run(of_other_model).maps
    summed = maps.double().sum(1) if maps.ndim == 4 else maps.double()
    warnings = _find_warnings(maps, other_target, other_model, cornered)
    warnings += [ValidationFinding.OF_LOSS] * are_gradients_of_loss(maps, case.model, case.images, case.targets)
    network = suite.find_network()
    pace = measure_submission_pace(submission.code, network)
    # bytes per additional image are proportional to the number of activations of a network
    activations = count_network_cost(*network).activations / count_network_cost(*_NETWORK).activations
    small_peak, large_peak = again.peaks[-2:]
    bytes_per_image = max(0.0, large_peak - small_peak) / (large_batch - _BATCH) * activations
    memory = small_peak + (1 if first.drew else count_images_per_call(network)) * bytes_per_image
    return AcceptedSubmission(submission, case.images, summed, first.drew, pace, suite, limit, memory, tuple(warnings))


def measure_submission_pace(
    code: bytes, network: NetworkSpec, device: str = "cpu", trust: bool = False
) -> SubmissionPace:
    """Time a submission's maps of a few random images by a network with random weights; raise Refusal if it fails."""
    flops, generator = count_network_cost(*network).flops, torch.Generator().manual_seed(0)
    model = _build_model(network, generator)
    n = max(_MIN_TIMED, min(count_images_per_call(network), int(_TIMED_OPERATIONS / flops)))
    images = torch.randn(n, network.channels, network.size, network.size, generator=generator)
    part = ExplainedPart(model, images, torch.arange(n) % network.classes, derive_image_seeds(torch.arange(n)), n)
    answer = run_submission(SandboxTask(code, network, (part,), device), compute_sandbox_limits(n, flops), trust)
    if answer.refusal is not None:
        raise answer.refusal
    assert answer.seconds is not None, "an answer without a fault has its seconds"
    return SubmissionPace(answer.seconds / n, max(0.0, answer.ended.cpu - answer.seconds))


@cache
def make_test_case() -> ExplainedPart:
    """Make images with a disc on a smooth background, and a network with random weights."""
    generator = torch.Generator().manual_seed(0)
    model = _build_model(_NETWORK, torch.Generator().manual_seed(0))
    coarse = torch.randn(_IMAGES, _NETWORK.channels, 8, 8, generator=generator)
    images = F.interpolate(coarse, size=_NETWORK.size, mode="bilinear", align_corners=False)
    rows = torch.arange(_NETWORK.size, dtype=torch.float32)
    disc = ((rows[:, None] - 24) ** 2 + (rows - 36) ** 2 < 14**2).float()
    images = images * 0.5 + disc * torch.randn(_IMAGES, _NETWORK.channels, 1, 1, generator=generator) * 1.5
    # in no order, so that maps that are grouped or sorted by target come back at other places; twice the same three, so
    # that maps that are kept by the targets of a batch come back for other images; the network's own predictions are
    # one class
    targets = torch.tensor([5, 2, 0, 5, 2, 0])
    return ExplainedPart(model, images, targets, derive_image_seeds(torch.arange(_IMAGES)), _BATCH)


def _build_model(network: NetworkSpec, generator: torch.Generator) -> nn.Module:
    """Build a network with random weights and biases, in eval mode, with batch-norm scales of 1."""
    model = set_batch_norm_scales_to_one(build_network(**network._asdict(), generator=generator))
    return draw_zero_parameters(model, generator).eval()


def refuse_unrepeatable_or_batch_dependent_maps(first: Tensor, other_sandbox: Tensor, *others: Tensor) -> None:
    """Raise Refusal if maps differ in a fresh sandbox, or depend on other images or on earlier calls.

    Args:
        first: Maps of the images, from the first call in a sandbox.
        other_sandbox: The same maps from another sandbox.
        *others: The same maps from other batches, or from later calls.
    """
    if first.numpy().tobytes() != other_sandbox.numpy().tobytes():
        message = (
            "two fresh runs gave different maps; draw all random numbers from `generator`, and do not use the clock"
        )
        raise Refusal(SubmissionFault.NOT_REPEATABLE, message)
    if not all(are_equal_up_to_rounding(first, maps) for maps in others):
        message = (
            "an image's map depends on its batch or on earlier calls; explain each image on its own, keep no state, "
            "and draw all random numbers from `generator`"
        )
        raise Refusal(SubmissionFault.BATCH_DEPENDENT, message)


def are_equal_up_to_rounding(one: Tensor, other: Tensor) -> bool:
    """Return whether all maps are equal up to rounding; a number that is added to a map changes no order."""
    a, b = one.double().flatten(1), other.double().flatten(1)
    spread = (a - a.mean(1, keepdim=True)).norm(dim=1)  # beside a large mean, all differences would be small
    return bool(((a - b).norm(dim=1) <= _ROUNDING * spread + _LAST_DIGITS * a.norm(dim=1)).all())


def change_corners(images: Tensor) -> list[Tensor]:
    """Return images (n, c, h, w) with the upper right corner of another, and with its lower left one; [] if h != w."""
    changed = []
    for corner in _list_corners(images)[:2]:
        changed.append(images.clone())
        changed[-1][corner] = images.roll(1, 0)[corner]
    return changed


def _list_corners(images: Tensor) -> list[Any]:
    """Return the upper right, lower left, upper left and lower right corner."""
    height, width = images.shape[-2:]
    corner = width // 3 if height == width else 0
    if not corner:
        return []
    start, end = slice(corner), slice(-corner, None)
    return [(..., rows, columns) for rows, columns in ((start, end), (end, start), (start, start), (end, end))]


def are_turned(maps: Tensor, maps_of_changed: Iterable[Tensor]) -> bool:
    """Return whether maps seem to be transposed, mirrored or rotated; the others are of `change_corners`.

    If so, another upper right corner of an image changes another corner of its map far more than the upper right one,
    and another lower left corner changes the corner opposite to that. Networks that mix all positions, as vision
    transformers, change all corners alike. The gradient of a product of two corners would be blamed without need; no
    trained network was seen to compute one.
    """
    corners = _list_corners(maps)
    places = [(1, 0), (2, 3), (3, 2)] if corners else []  # of the two corners in a turned map
    for own, made in enumerate(maps_of_changed):
        change = [(made - maps).double().abs()[corner].flatten(1).sum(1) for corner in corners]
        places = [pair for pair in places if bool((change[pair[own]] > _FAR_MORE * change[own]).all())]
        if not places:
            return False
    return bool(places)


def are_gradients_of_loss(maps: Tensor, network: nn.Module, images: Tensor, targets: Tensor) -> bool:
    """Return whether maps are exactly minus the gradient of the logit or its log-probability.

    The gradient's signs (the step of FGSM) and its product with the input count, too; of maps with less than one number
    per feature, the sum over channels.
    """
    gradients = []
    with suppress(Exception), torch.enable_grad():  # the network may have no gradient
        inputs = images.clone().requires_grad_()
        logits = network(inputs)
        # a function may find the predicted class itself; of two classes, the other one's gradient is the negative
        explained = (targets, logits.argmax(1))[: logits.shape[1] - 1]
        forms = product((logits, logits.log_softmax(1)), explained)
        scores = [form.gather(1, classes[:, None]).sum() for form, classes in forms]
        gradients = [torch.autograd.grad(score, inputs, retain_graph=True)[0] for score in scores]
    for expected in (form for gradient in gradients for form in (gradient, gradient.sign(), gradient * images)):
        compared = expected if maps.shape == expected.shape else expected.sum(1)
        similarity = F.cosine_similarity(maps.to(compared).flatten(1), compared.flatten(1))
        if compared[0].numel() > 2 and bool((similarity < -_SAME_DIRECTION).all()):  # of one number, it is 1 or -1
            return True
    return False


def _find_warnings(
    first: Tensor, other_target: Tensor, other_model: Tensor, cornered: Sequence[Tensor]
) -> list[ValidationFinding]:
    """Apply the sanity checks of Adebayo et al. 2018: maps must change with weights and targets; and look for mistakes.

    `cornered` are maps of the first images with other corners.
    """
    found = {
        ValidationFinding.NETWORK: are_equal_up_to_rounding(first, other_model),
        ValidationFinding.CLASS: are_equal_up_to_rounding(first, other_target),
        ValidationFinding.CONSTANT: bool((first.flatten(1).amax(1) == first.flatten(1).amin(1)).any()),
        ValidationFinding.BYTES: have_byte_values(first.numpy()),
        ValidationFinding.TRANSPOSED: are_turned(first[:_CORNERED], cornered),
    }
    return [finding for finding, is_found in found.items() if is_found]


def count_maps_and_sandboxes(suite: SuiteSpec, row: str, limit: int | None = None) -> tuple[int, int]:
    """Count the maps of a submission's row of a suite and of the row's twins, shared maps once, and the sandboxes.

    `limit` is the number of images per split; None for all.
    """
    joined = add_estimators_with_twins(suite, [row])
    ranked = [
        spec for spec in list_shared_inputs(joined, list_planned_runs(joined)).rankings if spec.estimator.submitted
    ]
    made = {(spec.estimator.job_group, spec.reference, spec.split) for spec in ranked}
    record = suite.dataset_record
    images = [min(record.image_counts[split], limit or record.image_counts[split]) for *_, split in made]
    return sum(images), sum(count_sandboxes(n, record.shape) for n in images)
