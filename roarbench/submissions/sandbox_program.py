"""Build the model, run the submission, and write the maps into the answer; this program runs in the sandbox.

The submission runs in the same process and could change this program's report. Therefore, a reported fault counts
against the submission, a report without a fault proves nothing, and the maps are checked outside.
"""

import os
import resource
import sys

sys.path[:0] = sys.argv[1].split(os.pathsep)
os.environ |= {"HOME": "/tmp", "USER": "sandbox", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import builtins  # noqa: E402 (needs the paths set above)
import linecache  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
import types  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from roarbench.compute.networks import build_network  # noqa: E402
from roarbench.submissions import limits_and_faults, sealed_memory_messages  # noqa: E402
from roarbench.submissions.entry_points import EstimateFunction, NoEntryPoint, find_entry_point  # noqa: E402
from roarbench.submissions.network_changes import ADVICE, NetworkState  # noqa: E402

_FILE = "submission.py"  # file name in tracebacks


class _SubmissionFailed(Exception):
    """Raised for a fault of the submission, with the fault's kind, a message and a traceback."""

    def __init__(self, kind: str, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.kind, self.message, self.trace = kind, message, trace


class _ReceivedPart(NamedTuple):
    """Images, and the model to explain on these images."""

    model: nn.Module  # explained network, eval mode
    images: Tensor  # float32 (n, c, h, w), normalised
    targets: Tensor  # int64 (n,)
    seeds: list[int]  # n seeds, one generator seed per image
    batch: int  # images per call
    device: str  # `cpu` or `cuda`: holds the model; images and targets are copied from the CPU for each call


def main(request: int, answer: int, started: int) -> None:
    """Read a request and write its answer; write a byte into the pipe `started` before the submission's code runs."""
    about, arrays = sealed_memory_messages.read_request(request)
    os.close(request)
    torch.set_num_threads(1)
    # the maps of built-in estimators are computed with the same settings
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = False, True
    torch.seed()  # numbers that a submission draws from torch's global generator shall differ between sandboxes
    source = arrays.pop("source").tobytes()
    if about["gpus"] is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = about["gpus"]
    parts = [_read_part(i, about, arrays) for i in range(len(about["batches"]))]
    _set_kernel_limits(about["cpu"], about["memory"], os.fstat(answer).st_size)
    os.write(started, b".")
    os.close(started)
    header: dict[str, Any] = {"fault": None}
    try:
        estimate = _load_entry_point(source)
        header |= _explain_parts(estimate, parts, answer)
    except _SubmissionFailed as failure:
        header = {"fault": failure.kind, "words": failure.message[:8000], "trace": failure.trace[:8000]}
    sealed_memory_messages.finish_answer(answer, header)
    os._exit(0)  # skips the submission's exit handlers


def _read_part(number: int, about: dict[str, Any], arrays: sealed_memory_messages.Arrays) -> _ReceivedPart:
    """Read one part of a request; the names of the part's arrays begin with the part's number."""
    start = f"{number}."
    tensors = {n.removeprefix(start): torch.from_numpy(a) for n, a in arrays.items() if n.startswith(start)}
    images, targets, seeds = (tensors.pop(name) for name in ("images", "targets", "seeds"))
    model = build_network(**about["network"], generator=torch.Generator().manual_seed(0))
    model.load_state_dict({name.removeprefix("model."): tensor for name, tensor in tensors.items()})
    device = about["device"]
    return _ReceivedPart(model.eval().to(device), images, targets, seeds.tolist(), about["batches"][number], device)


def _set_kernel_limits(cpu: float, memory: int, answer: int) -> None:
    """Set the kernel's limits for each process; the watchdog outside limits the sum over all processes."""
    if (score := Path("/proc/self/oom_score_adj")).exists():  # Linux only
        score.write_text("1000")  # if this machine runs out of memory, the kernel kills this process first
    for kind, value in (
        (resource.RLIMIT_CPU, int(time.process_time() + cpu) + 2),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, max(limits_and_faults.MAX_SCRATCH_BYTES, answer)),
        (resource.RLIMIT_NPROC, limits_and_faults.MAX_PROCESSES),
        (resource.RLIMIT_NOFILE, limits_and_faults.MAX_OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        most = resource.getrlimit(kind)[1]
        soft = value if most == resource.RLIM_INFINITY else min(value, most)
        # the kernel sends SIGXCPU, which can only mean CPU time, a second before SIGKILL, which has other causes, too
        hard = soft + 1 if kind == resource.RLIMIT_CPU and soft != most else soft
        resource.setrlimit(kind, (soft, hard))


def _load_entry_point(source: bytes) -> EstimateFunction:
    text = source.decode("utf-8-sig")  # UTF-8, as outside the sandbox, even if the file declares another encoding
    linecache.cache[_FILE] = (len(text), None, text.splitlines(keepends=True), _FILE)
    module = types.ModuleType("submission")
    module.__file__ = _FILE
    sys.modules["submission"] = module
    with _convert_exceptions("import", "its import raised"):
        builtins.exec(builtins.compile(text, _FILE, "exec"), module.__dict__)
    try:
        return find_entry_point(module)
    except NoEntryPoint as error:
        raise _SubmissionFailed("signature", str(error)) from None


def _explain_parts(estimate: EstimateFunction, parts: list[_ReceivedPart], answer: int) -> dict[str, Any]:
    """Explain the images of all parts batch by batch, and write the maps in order; return the answer's header."""
    start, memory = time.process_time(), []
    written, dims, any_drew = 0, 0, False
    for part in parts:
        for importance, drew in _compute_maps_and_randomness(estimate, part):
            if dims not in (0, importance.ndim):
                raise _SubmissionFailed(
                    "output-shape", f"the map has {importance.ndim} dimensions, but earlier maps have {dims}"
                )
            dims, any_drew = importance.ndim, any_drew or drew
            sealed_memory_messages.write_map(answer, written, importance.numpy())
            written += importance.numel()
        memory.append(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # peak bytes of this process
    seconds = time.process_time() - start
    return {"dims": dims, "drew": any_drew, "seconds": seconds, "memory": memory}


def _compute_maps_and_randomness(estimate: EstimateFunction, part: _ReceivedPart) -> Iterator[tuple[Tensor, bool]]:
    """Yield the checked maps of each call, with True if the submission drew random numbers for them.

    Each image's generator has its own seed. Images are explained in batches until the submission draws random numbers.
    From that batch on, images are explained one at a time, so that no map depends on the other images of a batch.
    """
    state, one_by_one = NetworkState.read(part.model), False
    for first in range(0, len(part.seeds), part.batch):
        stop = min(first + part.batch, len(part.seeds))
        if not one_by_one:
            importance, one_by_one = _call_submission(estimate, part, state, slice(first, stop))
            if not one_by_one or stop - first == 1:
                yield importance, one_by_one
                continue
        for i in range(first, stop):
            yield _call_submission(estimate, part, state, slice(i, i + 1))[0], True


def _call_submission(
    estimate: EstimateFunction, part: _ReceivedPart, state: NetworkState, rows: slice
) -> tuple[Tensor, bool]:
    """Call the submission once; return its checked maps, and True if the submission drew from the generator."""
    images, targets = (tensor[rows].to(part.device, copy=True) for tensor in (part.images, part.targets))
    generator = torch.Generator().manual_seed(part.seeds[rows.start])
    before = generator.get_state()
    with _convert_exceptions("raised", "raised"):
        importance = estimate(part.model, images, targets, generator)
    if not torch.equal(images.cpu(), part.images[rows]) or not torch.equal(targets.cpu(), part.targets[rows]):
        raise _SubmissionFailed(
            "changed-inputs", "estimate modified its images or targets in place; work on a .clone()"
        )
    if not state.is_kept_by(part.model):
        raise _SubmissionFailed("changed-model", f"estimate modified the model {ADVICE}")
    part.model.zero_grad(set_to_none=True)
    return _check_importance(importance, images), not torch.equal(before, generator.get_state())


def _check_importance(importance: Any, images: Tensor) -> Tensor:
    if type(importance) is not torch.Tensor:
        seen = type(importance).__name__
        raise _SubmissionFailed(
            "output-type", f"estimate returned {seen}, expected a torch.Tensor; see torch.from_numpy"
        )
    if importance.dtype != torch.float32:
        raise _SubmissionFailed(
            "output-dtype", f"the map is {importance.dtype}, expected torch.float32; write .float()"
        )
    n, c, h, w = images.shape
    if importance.shape == (n, 1, h, w) and c > 1:  # captum's form: one number per pixel, with the channel axis
        importance = importance[:, 0]
    if tuple(importance.shape) not in ((n, c, h, w), (n, h, w)):
        wanted = f"{(n, c, h, w)}, {(n, 1, h, w)} or {(n, h, w)}"
        raise _SubmissionFailed("output-shape", f"the map has shape {tuple(importance.shape)}, expected {wanted}")
    if importance.layout != torch.strided or importance.device != images.device:
        raise _SubmissionFailed(
            "output-type", f"the map is {importance.layout} on {importance.device}, expected a dense tensor"
        )
    plain: Tensor = importance.detach().cpu().contiguous()
    return plain


@contextmanager
def _convert_exceptions(kind: str, verb: str) -> Iterator[None]:
    """Convert exceptions of the submission to faults."""
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
            raise _SubmissionFailed(
                "memory", f"estimate ran out of memory{where}; process fewer images or copies at once"
            ) from None
        text = "".join(traceback.format_list(frames)) + seen
        outside = isinstance(error, PermissionError | FileNotFoundError) or "name resolution" in seen
        hint = "; the sandbox has no network and none of your files" if outside else ""
        if isinstance(error, ImportError):
            hint = "; a submission is one file and can only import installed packages"
        raise _SubmissionFailed(kind, f"{verb} {seen}{where}{hint}", text) from None


def _describe_exception(error: BaseException) -> str:
    try:
        message = " ".join(str(error).split())
    except BaseException:  # `__str__` is the submission's code too
        message = "(no message)"
    name = type(error).__name__
    return f"{name}: {message[:90]}" if message else name


if __name__ == "__main__":
    main(*map(int, sys.argv[2:5]))
