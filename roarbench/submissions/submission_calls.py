"""Load a submission, call its entry point batch by batch, and check each map. This module runs in the sandbox."""

import builtins
import linecache
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from roarbench.submissions.entry_points import EstimateFunction, find_entry_point
from roarbench.submissions.limits_and_faults import Refusal, SubmissionFault
from roarbench.submissions.network_changes import ADVICE, NetworkState

_FILE = "submission.py"  # file name in tracebacks
_MODULE = "roarbench_submission"


class ExplainedPart(NamedTuple):
    """Images, and the model that the submission explains on these images."""

    model: nn.Module  # explained model, in eval mode
    images: Tensor  # float32 (n, c, h, w), normalised
    targets: Tensor  # int64 (n,), the classes to explain
    seeds: Tensor  # int64 (n,), one generator seed per image
    batch: int  # images per call, for estimators that draw no random numbers

    def reverse_images(self, batch: int) -> Self:
        """Return the part with images in reverse order, in batches of another size."""
        images, targets, seeds = (values.flip(0) for values in (self.images, self.targets, self.seeds))
        return self._replace(images=images, targets=targets, seeds=seeds, batch=batch)


def load_entry_point(source: bytes) -> EstimateFunction:
    """Execute a submission's file and return its entry point; Refusal if the file raises, or has no entry point."""
    text = source.decode("utf-8-sig")  # UTF-8, as outside the sandbox, even if the file declares another encoding
    linecache.cache[_FILE] = (len(text), None, text.splitlines(keepends=True), _FILE)
    module = types.ModuleType(_MODULE)
    module.__file__ = _FILE
    sys.modules[_MODULE] = module
    with _refuse_exceptions(SubmissionFault.IMPORT, "its import raised"):
        builtins.exec(builtins.compile(text, _FILE, "exec"), module.__dict__)
    return find_entry_point(module)


def compute_map_batches(
    estimate: EstimateFunction, part: ExplainedPart, device: str = "cpu"
) -> Iterator[tuple[Tensor, bool]]:
    """Yield the checked maps of each call, with True if the submission drew random numbers for them.

    Each image's generator has its own seed. Images are explained in batches until the submission draws random numbers.
    From that batch on, images are explained one at a time, so that no map depends on the other images of a batch.
    Images and targets are copied from the CPU to `device`, which holds the model, for each call.

    Raises:
        Refusal: The submission raised an exception, changed its inputs, or returned something other than maps.
    """
    state, one_by_one = NetworkState.read(part.model), False
    for first in range(0, len(part.seeds), part.batch):
        stop = min(first + part.batch, len(part.seeds))
        if not one_by_one:
            importance, one_by_one = _call_submission(estimate, part, state, slice(first, stop), device)
            if not one_by_one or stop - first == 1:
                yield importance, one_by_one
                continue
        for i in range(first, stop):
            yield _call_submission(estimate, part, state, slice(i, i + 1), device)[0], True


def _call_submission(
    estimate: EstimateFunction, part: ExplainedPart, state: NetworkState, rows: slice, device: str
) -> tuple[Tensor, bool]:
    """Call the submission once; return its checked maps, and True if the submission drew from the generator."""
    images, targets = (tensor[rows].to(device, copy=True) for tensor in (part.images, part.targets))
    generator = torch.Generator().manual_seed(int(part.seeds[rows.start]))
    before = generator.get_state()
    with _refuse_exceptions(SubmissionFault.RAISED, "raised"):
        importance = estimate(part.model, images, targets, generator)
    if not torch.equal(images.cpu(), part.images[rows]) or not torch.equal(targets.cpu(), part.targets[rows]):
        message = "estimate modified its images or targets in place; work on a .clone()"
        raise Refusal(SubmissionFault.CHANGED_INPUTS, message)
    if not state.is_kept_by(part.model):
        raise Refusal(SubmissionFault.CHANGED_MODEL, f"estimate modified the model {ADVICE}")
    part.model.zero_grad(set_to_none=True)
    return _check_importance(importance, images), not torch.equal(before, generator.get_state())


def _check_importance(importance: Any, images: Tensor) -> Tensor:
    if type(importance) is not torch.Tensor:
        seen = f"estimate returned {type(importance).__name__}"
        raise Refusal(SubmissionFault.OUTPUT_TYPE, f"{seen}, expected a torch.Tensor; see torch.from_numpy")
    if importance.dtype != torch.float32:
        seen = f"the map is {importance.dtype}"
        raise Refusal(SubmissionFault.OUTPUT_DTYPE, f"{seen}, expected torch.float32; write .float()")
    n, c, h, w = images.shape
    if importance.shape == (n, 1, h, w) and c > 1:  # captum's form: one number per pixel, with the channel axis
        importance = importance[:, 0]
    if tuple(importance.shape) not in ((n, c, h, w), (n, h, w)):
        wanted = f"{(n, c, h, w)}, {(n, 1, h, w)} or {(n, h, w)}"
        seen = f"the map has shape {tuple(importance.shape)}"
        raise Refusal(SubmissionFault.OUTPUT_SHAPE, f"{seen}, expected {wanted}")
    if importance.layout != torch.strided or importance.device != images.device:
        seen = f"the map is {importance.layout} on {importance.device}"
        raise Refusal(SubmissionFault.OUTPUT_TYPE, f"{seen}, expected a dense tensor")
    plain: Tensor = importance.detach().cpu().contiguous()
    return plain


@contextmanager
def _refuse_exceptions(kind: SubmissionFault, verb: str) -> Iterator[None]:
    """Convert exceptions of the submission to a Refusal, with a traceback of its own frames."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, MemoryError):
            traceback.clear_frames(error.__traceback__)  # frees the submission's memory, which the report needs
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _FILE]
        where = f" (line {frames[-1].lineno})" if frames else ""
        seen = _describe_exception(error)
        memory = isinstance(error, MemoryError | torch.OutOfMemoryError)  # OutOfMemoryError comes from a GPU
        if memory or "not enough memory" in seen or "can't allocate memory" in seen:
            message = f"estimate ran out of memory{where}; process fewer images or copies at once"
            raise Refusal(SubmissionFault.MEMORY, message) from None
        text = "".join(traceback.format_list(frames)) + seen
        raise Refusal(kind, f"{verb} {seen}{where}", text) from None


def _describe_exception(error: BaseException) -> str:
    try:
        message = " ".join(str(error).split())
    except BaseException:  # `__str__` is the submission's code too
        message = "(no message)"
    name = type(error).__name__
    return f"{name}: {message[:90]}" if message else name


def explain_limits_of_sandbox(refusal: Refusal) -> str:
    """Return what a sandbox lacks, if the submission's exception may come from that; else an empty string."""
    outside = isinstance(refusal.__context__, ImportError | PermissionError | FileNotFoundError)
    if outside or "name resolution" in str(refusal):
        return "; the sandbox has installed packages only, and neither your files nor a network"
    return ""
