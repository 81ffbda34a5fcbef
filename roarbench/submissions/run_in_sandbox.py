"""Compute a submission's maps in a sandbox, and check the maps after the sandbox has ended."""

import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.common.errors import SandboxError
from roarbench.common.identity import hash_value
from roarbench.common.text import fit_on_one_line, list_some
from roarbench.compute.builtin_network_table import NetworkSpec
from roarbench.compute.networks import count_network_cost
from roarbench.estimators.compute_maps import IMAGES_PER_PASS
from roarbench.submissions.limits_and_faults import MAX_FILES, HarnessFault, Limits, Refusal, SubmissionFault
from roarbench.submissions.sandbox_isolation import make_sandbox_command, make_trusted_command, open_filter
from roarbench.submissions.sandbox_process import SandboxExit, run_within_limits
from roarbench.submissions.sealed_memory_messages import create_answer, create_request, read_answer
from roarbench.submissions.submission_calls import ExplainedPart

_VALUES_PER_SANDBOX = 512 * 3 * 64 * 64  # input values, about 512 images of 3 x 64 x 64; rounded to whole batches
_MAX_IMAGES_PER_SANDBOX = 512  # a job ranks no more images
_SCRIPT = "sandbox_program.py"
MAX_IMAGES_PER_CALL, _MAX_ACTIVATION_BYTES = 64, 2**29  # per call of `estimate`
_GIB = 2**30


def count_images_per_call(network: NetworkSpec) -> int:
    """Return the number of images per call of `estimate`, limited by the memory of the network's activations."""
    return max(1, min(MAX_IMAGES_PER_CALL, _MAX_ACTIVATION_BYTES // (4 * count_network_cost(*network).activations)))


class SandboxTask(NamedTuple):
    """Task of a sandbox: a submission, and the images and models that it explains."""

    source: bytes
    network: NetworkSpec  # architecture of all models
    parts: tuple[ExplainedPart, ...]  # explained in this order
    device: str = "cpu"  # `cpu` or `cuda`
    image_numbers: Tensor | None = None  # int64 (n,), numbers of the parts' images in messages; None for 0, 1, …


class SandboxAnswer(NamedTuple):
    """Maps or a fault, and measurements."""

    maps: tuple[Tensor, ...]  # float32 (n, c, h, w) or (n, h, w) for each part; empty after a fault
    refusal: Refusal | None  # because of the submission's fault
    drew: bool  # reported by the sandbox: the estimator drew from the generator
    seconds: float | None  # reported by the sandbox: CPU time of its calls; None after a fault
    peaks: tuple[float, ...]  # reported by the sandbox: peak bytes of its process after each part; empty after a fault
    # reported by the sandbox: forward and backward passes of each part, all images together; empty if unknown
    passes: tuple[tuple[float, float], ...]
    ended: SandboxExit


def run_submission(task: SandboxTask, limits: Limits, trust: bool = False) -> SandboxAnswer:
    """Run a submission in a fresh sandbox, or as an ordinary process if `trust` is true.

    Raises:
        SandboxError: The process ended before it executed the submission's code, or this machine ran out of memory.
    """
    batches = [part.batch for part in task.parts]
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES")  # the sandbox's environment is empty
    about: dict[str, Any] = {"network": task.network._asdict(), "batches": batches, "device": task.device, "gpus": gpus}
    about |= {"cpu": limits.cpu, "memory": limits.memory}
    arrays: dict[str, NDArray[Any]] = {"source": np.frombuffer(task.source, np.uint8)}
    for i, part in enumerate(task.parts):
        arrays |= {f"{i}.images": part.images.contiguous().numpy(), f"{i}.targets": part.targets.numpy()}
        arrays[f"{i}.seeds"] = part.seeds.numpy()
        weights = part.model.state_dict().items()
        arrays |= {f"{i}.model.{name}": tensor.detach().cpu().numpy() for name, tensor in weights}
    with ExitStack() as stack:
        request = create_request(about, arrays)
        stack.callback(os.close, request)
        answer = create_answer(sum(part.images.numel() for part in task.parts))
        stack.callback(os.close, answer)
        read, write = os.pipe()
        stack.callback(os.close, read)
        ended = _run_and_close_pipe(task.device, [request, answer, write], read, limits, trust)
        header, numbers = read_answer(answer)
    if not ended.started:
        output = fit_on_one_line(ended.output.decode(errors="replace"))[-100:] or f"exit status {ended.code}"
        raise SandboxError(f"{HarnessFault.NOT_STARTED}: the sandbox ended before the submission began: {output}")
    below_limit = ended.peak < limits.memory / 2
    if ended.stopped is None and ended.code == 128 + signal.SIGKILL and below_limit and ended.machine_lacked_memory:
        seen = f"{HarnessFault.NO_MEMORY}: this machine ran out of memory while the submission ran"
        raise SandboxError(f"{seen}; free memory (`run`: use fewer --workers), or use a machine with more")
    return _make_answer(task, limits, ended, header, numbers)


def _run_and_close_pipe(device: str, descriptors: list[int], read: int, limits: Limits, trust: bool) -> SandboxExit:
    arguments = [str(descriptor) for descriptor in descriptors]
    try:
        if trust:
            return run_within_limits(make_trusted_command(_SCRIPT, arguments), descriptors, read, limits)
        gpu = device == "cuda"
        with open_filter(gpu) as rules:
            command = make_sandbox_command(_SCRIPT, arguments, rules, gpu)
            return run_within_limits(command, [*descriptors, rules], read, limits)
    finally:
        os.close(descriptors[-1])


def derive_image_seeds(ids: Tensor) -> Tensor:
    """Return the seed of each image's generator, int64 (n,), in [0, 2^63); seeds do not reveal `ids`, int64 (n,)."""
    hashes = (hash_value({"submission's generator": number}) for number in ids.tolist())
    return torch.tensor([int(text[:16], 16) >> 1 for text in hashes], dtype=torch.int64)


def _make_answer(
    task: SandboxTask, limits: Limits, ended: SandboxExit, header: dict[str, Any] | None, numbers: NDArray[np.float32]
) -> SandboxAnswer:
    refusal = _find_fault(ended, limits, header)
    reported = header or {}
    maps, first, dims = list[Tensor](), 0, reported.get("dims")
    is_readable = refusal is None and isinstance(dims, int) and dims in (3, 4)
    for part in task.parts if is_readable else ():
        n, c, h, w = part.images.shape
        shape = (n, c, h, w) if dims == 4 else (n, h, w)
        count = prod(shape)
        maps.append(torch.from_numpy(np.array(numbers[first : first + count], np.float32).reshape(shape)))
        first += count
    # the header of an unchanged sandbox program always has these numbers
    measured = _read_numbers([reported.get("seconds")], 1), _read_numbers(reported.get("peaks"), len(task.parts))
    if refusal is None:
        unreadable = None if maps and all(measured) else _UNREADABLE
        refusal = (find_refusal_of_nonfinite_maps(maps, task.image_numbers) if maps else None) or unreadable
    (seconds, peaks) = measured if refusal is None else ((None,), ())
    return SandboxAnswer(
        maps=tuple(maps) if refusal is None else (),
        refusal=refusal,
        drew=bool(reported.get("drew")),
        seconds=seconds[0],
        peaks=peaks,
        passes=_read_passes(reported.get("passes"), len(task.parts)),
        ended=ended,
    )


def _read_numbers(value: object, count: int) -> tuple[float, ...]:
    """Return reported numbers; () if the report lacks one or is malformed."""
    if not isinstance(value, list) or len(value) != count:
        return ()
    valid = all(type(number) in (int, float) and 0 <= number < 1e15 for number in value)
    return tuple(map(float, value)) if valid else ()


def _read_passes(value: object, parts: int) -> tuple[tuple[float, float], ...]:
    """Return the reported passes of each part; () if the report lacks a count or is malformed."""
    if not isinstance(value, list) or len(value) != parts or not all(_read_numbers(part, 2) for part in value):
        return ()
    return tuple((float(forward), float(backward)) for forward, backward in value)


_UNREADABLE = Refusal(SubmissionFault.ANSWER, "wrote something other than a map into its output; only return the map")


def _find_fault(ended: SandboxExit, limits: Limits, header: dict[str, Any] | None) -> Refusal | None:
    """Return the fault of a submission; one that the sandbox program reports can only count against the submission."""
    messages = {
        SubmissionFault.TIME: f"used {ended.cpu:.0f} s of CPU time without finishing; make it faster",
        SubmissionFault.CLOCK: f"did not finish in {ended.wall:.0f} s of wall time ({ended.cpu:.0f} s of CPU time); "
        "do not wait for anything, or try again when this machine is less busy",
        SubmissionFault.MEMORY: f"used {ended.peak / _GIB:.1f} GiB of memory, the limit is {limits.memory / _GIB:g}; "
        "process fewer images or copies at once",
        SubmissionFault.FILES: f"created more than {MAX_FILES:,} files in /tmp; create fewer files",
        SubmissionFault.PRINTED: "printed more than 256 KiB; print nothing",
    }
    stopped = ended.stopped or (SubmissionFault.TIME if ended.code == 128 + signal.SIGXCPU else None)
    if stopped:
        return Refusal(stopped, messages[stopped])
    kind = header.get("fault") if header is not None else ""
    if header is None or kind is not None and kind not in list(SubmissionFault):
        return _UNREADABLE
    if kind is not None:
        return Refusal(SubmissionFault(kind), str(header.get("words")), str(header.get("trace", "")))
    if ended.code == 0 and header:
        return None
    ending = f"by signal {ended.code - 128}" if ended.code > 128 else f"with exit status {ended.code}"
    ending += " (sent by itself, or this machine ran out of memory)" if ended.code == 128 + signal.SIGKILL else ""
    return Refusal(
        SubmissionFault.DIED, f"its process ended {ending} before it returned the map; return the map and do not exit"
    )


def find_refusal_of_nonfinite_maps(maps: Sequence[Tensor], image_numbers: Tensor | None = None) -> Refusal | None:
    """Return a fault that names the images whose maps have values that are NaN or infinite; None if there are none."""
    finite = torch.cat([importance.flatten(1).isfinite().all(1) for importance in maps])
    if finite.all():
        return None
    numbers = torch.arange(len(finite)) if image_numbers is None else image_numbers
    seen = f"{int((~finite).sum())} of {len(finite)} maps have values that are NaN or infinite"
    seen += f" (images {list_some(numbers[~finite].tolist())})"
    return Refusal(SubmissionFault.NOT_FINITE, f"{seen}; every value must be finite")


def count_images_per_sandbox(shape: tuple[int, int, int]) -> int:
    """Return the number of images of this shape (channels, height, width) per sandbox, in whole batches."""
    batches = max(1, _VALUES_PER_SANDBOX // prod(shape) // IMAGES_PER_PASS)
    return min(_MAX_IMAGES_PER_SANDBOX, batches * IMAGES_PER_PASS)


def count_sandboxes(images: int, shape: tuple[int, int, int]) -> int:
    return -(-images // count_images_per_sandbox(shape))
