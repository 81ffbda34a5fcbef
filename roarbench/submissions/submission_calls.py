"""Load a submission, call its entry point batch by batch, and check each map. This module runs in the sandbox.

Entry points for captum and Quantus take no generator. They may draw from the global generators of
torch, NumPy and Python; this module seeds these generators from the image's generator before each call.
"""

import builtins
import inspect
import linecache
import random
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from roarbench.common.device_settings import read_global_generator_states
from roarbench.compute.pass_counter import PassCounter
from roarbench.compute.ranking import convert_to_smallest_float
from roarbench.submissions.limits_and_faults import Refusal, SubmissionFault
from roarbench.submissions.network_changes import ADVICE, NetworkState

EstimateFunction = Callable[[nn.Module, Tensor, Tensor, torch.Generator], Any]
CONTRACT = ("model", "images", "targets", "generator")
_EXPECTED = f"def estimate({', '.join(CONTRACT)})"
_FILE = "submission.py"  # file name in tracebacks
_MODULE = "roarbench_submission"
_POOLS = ("/multiprocessing/", "/concurrent/futures/process", "/joblib/", "/loky/")  # in paths of files


def find_entry_point(module: ModuleType) -> EstimateFunction:
    """Return a submission's entry point as a function with the arguments of `CONTRACT`.

    The submission must define exactly one of three entry points. `estimate` takes the arguments of `CONTRACT`.
    `estimator` follows captum's convention: the function takes the model and returns an object with
    `attribute(inputs, target=…)`. `explain_func` follows Quantus' convention: the function takes `model` and the NumPy
    arrays `inputs` and `targets` by name and returns a NumPy array.

    Raises:
        Refusal: The module has no entry point or several, or `estimate` takes other arguments.
    """
    names = [name for name in _CONVENTIONS if callable(getattr(module, name, None))]
    if not names:
        raise Refusal(SubmissionFault.SIGNATURE, f"no function 'estimate'; write {_EXPECTED}")
    if len(names) > 1:
        seen = f"both '{names[0]}' and '{names[1]}' are defined"
        raise Refusal(SubmissionFault.SIGNATURE, f"{seen}, but only one can be run; rename the other")
    return _CONVENTIONS[names[0]](getattr(module, names[0]))


def _check_signature(estimate: EstimateFunction) -> EstimateFunction:
    try:
        signature = inspect.signature(estimate)
        signature.bind(*CONTRACT)
    except (TypeError, ValueError):
        seen = f"estimate{signature}" if "signature" in locals() else "estimate"
        message = f"{seen} does not take four arguments; write {_EXPECTED}"
        raise Refusal(SubmissionFault.SIGNATURE, message) from None
    names = tuple(signature.parameters)[: len(CONTRACT)]
    if names != CONTRACT and set(names) == set(CONTRACT):
        seen = f"estimate{signature} has its arguments in another order"
        raise Refusal(SubmissionFault.SIGNATURE, f"{seen}; write {_EXPECTED}")
    return estimate


def adapt_function(function: Callable[[nn.Module, Tensor, Tensor], Any]) -> EstimateFunction:
    """Adapt a callable that takes a model, images and targets and returns their maps.

    The adapted function seeds the global generators from the image's generator. If the callable uses a global
    generator, the function also draws a number from the image's generator. On seeing the changed state, the caller
    explains images one at a time from then on.
    """

    def estimate(model: nn.Module, images: Tensor, targets: Tensor, generator: torch.Generator) -> Any:
        twin = torch.Generator()
        twin.set_state(generator.get_state())
        seed = int(torch.randint(2**31, (), generator=twin))
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 (submissions may draw from the global generator)
        random.seed(seed)
        before = read_global_generator_states()
        maps = function(model, images, targets)
        if read_global_generator_states() != before:
            torch.rand((), generator=generator)
        return maps

    return estimate


def adapt_captum(make_attribution: Callable[[nn.Module], Any]) -> EstimateFunction:
    """Adapt a callable that takes a model and returns an object with `attribute(inputs, target=…)`."""

    def explain(model: nn.Module, images: Tensor, targets: Tensor) -> Any:
        return make_attribution(model).attribute(images.detach().clone().requires_grad_(), target=targets)

    return adapt_function(explain)


def adapt_quantus(explain_func: Callable[..., Any]) -> EstimateFunction:
    """Adapt a callable that takes `model` and the NumPy arrays `inputs` and `targets` by name and returns an array."""

    def explain(model: nn.Module, images: Tensor, targets: Tensor) -> Any:
        inputs, classes = images.cpu().numpy().copy(), targets.cpu().numpy().copy()
        try:
            maps = explain_func(model=model, inputs=inputs, targets=classes)
        except (AttributeError, TypeError) as error:
            if "numpy.ndarray" not in str(error):
                raise
            raise TypeError(f"in Quantus' form (**kwargs), inputs are NumPy arrays: {error}") from error
        if not isinstance(maps, np.ndarray) or np.ma.is_masked(maps) or maps.dtype.kind not in "biuf":
            return maps
        return torch.as_tensor(convert_to_smallest_float(maps)).to(images.device)

    return adapt_function(explain)


_CONVENTIONS: dict[str, Callable[[Any], EstimateFunction]] = {
    "estimate": _check_signature,
    "estimator": adapt_captum,
    "explain_func": adapt_quantus,
}


class ExplainedPart(NamedTuple):
    """Images, and the model that the submission explains on these images."""

    model: nn.Module  # explained model, in eval mode
    images: Tensor  # float32 (n, c, h, w), normalised
    targets: Tensor  # int64 (n,), the classes to explain
    seeds: Tensor  # int64 (n,), one generator seed per image
    batch: int  # images per call, for estimators that draw no random numbers

    def reverse_images(self, batch: int) -> Self:
        """Return the part with images in reverse order, in batches of another size."""
        return self.select_images(torch.arange(len(self.seeds)).flip(0))._replace(batch=batch)

    def select_images(self, numbers: Tensor) -> Self:
        """Return the part with the images of these numbers, int64 (n,), some maybe several times, in one batch."""
        images, targets, seeds = (values[numbers] for values in (self.images, self.targets, self.seeds))
        return self._replace(images=images, targets=targets, seeds=seeds, batch=len(numbers))


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


def compute_maps_of_part(estimate: EstimateFunction, part: ExplainedPart) -> Tensor:
    """Return the maps of `compute_map_batches` of all images."""
    return torch.cat([maps for maps, _ in compute_map_batches(estimate, part)])


def compute_map_batches(
    estimate: EstimateFunction, part: ExplainedPart, device: str = "cpu", counter: PassCounter | None = None
) -> Iterator[tuple[Tensor, bool]]:
    """Yield the checked maps of each call, with True if the submission drew random numbers for them.

    Each image's generator has its own seed. Images are explained in batches until the submission draws random numbers.
    From that batch on, images are explained one at a time, so that no map depends on the other images of a batch.
    Images and targets are copied from the CPU to `device`, which holds the model, for each call. `counter` forgets the
    passes of the batch whose maps are computed again one at a time. Changes of the model are undone, also those that
    change no logit or gradient.

    Raises:
        Refusal: The submission raised an exception, changed its inputs, or returned something other than maps.
    """
    state, one_by_one = NetworkState.read(part.model), False
    # the inputs of earlier calls stay alive, so that maps that are kept by an object's id or address are its maps
    held: list[tuple[Tensor, Tensor]] = []

    def call(rows: slice) -> tuple[Tensor, bool]:
        images, targets = (tensor[rows].to(device, copy=True) for tensor in (part.images, part.targets))
        held.append((images, targets))
        generator = torch.Generator().manual_seed(int(part.seeds[rows.start]))
        before = generator.get_state()
        with _refuse_exceptions(SubmissionFault.RAISED, "raised"):
            importance = estimate(part.model, images, targets, generator)
        if not torch.equal(images.cpu(), part.images[rows]) or not torch.equal(targets.cpu(), part.targets[rows]):
            message = "estimate modified its images or targets in place; work on a .clone()"
            raise Refusal(SubmissionFault.CHANGED_INPUTS, message)
        if not state.has_same_outputs():
            work = counter.read_work() if counter else None
            if state.undo_changes(part.model, images):
                raise Refusal(SubmissionFault.CHANGED_MODEL, f"estimate modified the model {ADVICE}")
            if counter and work:
                counter.restore_work(work)
        part.model.zero_grad(set_to_none=True)
        return _check_type_and_shape_of_maps(importance, images), not torch.equal(before, generator.get_state())

    for first in range(0, len(part.seeds), part.batch):
        stop = min(first + part.batch, len(part.seeds))
        if not one_by_one:
            work = counter.read_work() if counter else None
            importance, one_by_one = call(slice(first, stop))
            if not one_by_one or stop - first == 1:
                yield importance, one_by_one
                continue
            if counter and work:
                counter.restore_work(work)
        for i in range(first, stop):
            yield call(slice(i, i + 1))[0], True


def _check_type_and_shape_of_maps(importance: Any, images: Tensor) -> Tensor:
    if type(importance) is not torch.Tensor:
        seen = f"estimate returned {type(importance).__name__}"
        raise Refusal(SubmissionFault.OUTPUT_TYPE, f"{seen}, expected a torch.Tensor; see torch.from_numpy")
    if importance.dtype != torch.float32:
        seen = f"the map is {importance.dtype}"
        remedy = "write .float(), or return ranks if values of an image differ by less than float32 can tell"
        raise Refusal(SubmissionFault.OUTPUT_DTYPE, f"{seen}, expected torch.float32; {remedy}")
    n, c, h, w = images.shape
    if importance.shape == (n, 1, h, w) and c > 1:  # captum's form: one number per pixel, with the channel axis
        importance = importance[:, 0]
    if tuple(importance.shape) not in ((n, c, h, w), (n, h, w)):
        *others, last = map(str, dict.fromkeys([(n, c, h, w), (n, 1, h, w), (n, h, w)]))
        wanted = f"{', '.join(others)} or {last}"
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
        try:
            text = " ".join(str(error).split())[:90]
        except BaseException:  # `__str__` is the submission's code too
            text = "(no message)"
        seen = f"{type(error).__name__}: {text}" if text else type(error).__name__
        memory = isinstance(error, MemoryError | torch.OutOfMemoryError)  # OutOfMemoryError comes from a GPU
        if memory or "not enough memory" in seen or "can't allocate memory" in seen:
            message = f"estimate ran out of memory{where}; process fewer images or copies at once"
            raise Refusal(SubmissionFault.MEMORY, message) from None
        raise Refusal(kind, f"{verb} {seen}{where}", "".join(traceback.format_list(frames)) + seen) from None


def explain_limits_of_sandbox(refusal: Refusal) -> str:
    """Return what a sandbox lacks, if the submission's exception may come from that; else an empty string."""
    error = refusal.__context__
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)] if error else []
    from_pool = any(part in file for file in files for part in _POOLS)
    if isinstance(error, OSError | NotImplementedError) and from_pool:
        return "; the sandbox has no shared memory, which process pools need: use one process"
    if isinstance(error, ImportError):
        return "; it may import installed packages, but none of your files"
    outside = isinstance(error, PermissionError | FileNotFoundError)
    if outside or "name resolution" in str(refusal):
        return "; the sandbox has neither your files nor a network"
    return ""
