"""Build the model, run the submission, and write the maps into the answer; this program runs in the sandbox.

The submission runs in the same process and could change this program's report. Therefore, a reported fault counts
against the submission, a report without a fault proves nothing, and the maps are checked outside.
"""

import os
import resource
import sys

sys.path[:0] = sys.argv[1].split(os.pathsep)
os.environ |= {"HOME": "/tmp", "USER": "sandbox", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import time  # noqa: E402 (needs the paths set above)
from contextlib import suppress  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402

from roarbench.compute.networks import build_network  # noqa: E402
from roarbench.compute.pass_counter import PassCounter  # noqa: E402
from roarbench.submissions import limits_and_faults, sealed_memory_messages  # noqa: E402
from roarbench.submissions.limits_and_faults import Refusal, SubmissionFault  # noqa: E402
from roarbench.submissions.submission_calls import (  # noqa: E402
    EstimateFunction,  # noqa: E402
    ExplainedPart,
    compute_map_batches,
    explain_limits_of_sandbox,
    load_entry_point,
)

_ROUNDING = 1e-3  # of the largest logit; a setting of torch may change rounding


def main(request: int, answer: int, started: int) -> None:
    """Read a request and write its answer; write a byte into the pipe `started` before the submission's code runs."""
    about, arrays = sealed_memory_messages.read_request(request)
    os.close(request)
    sys.argv[1:] = []  # a submission whose file parses arguments finds none
    torch.set_num_threads(1)
    # the maps of built-in estimators are computed with the same settings
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = False, True
    torch.seed()  # numbers that a submission draws from torch's global generator shall differ between sandboxes
    source = arrays.pop("source").tobytes()
    if about["gpus"] is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = about["gpus"]
    parts = []
    for number, batch in enumerate(about["batches"]):
        start = f"{number}."  # begins the names of the part's arrays
        tensors = {n.removeprefix(start): torch.from_numpy(a) for n, a in arrays.items() if n.startswith(start)}
        images, targets, seeds = (tensors.pop(name) for name in ("images", "targets", "seeds"))
        model = build_network(**about["network"], generator=torch.Generator().manual_seed(0))
        model.load_state_dict({name.removeprefix("model."): tensor for name, tensor in tensors.items()})
        parts.append(ExplainedPart(model.eval().to(about["device"]), images, targets, seeds, batch))
    _set_kernel_limits(about["cpu"], about["memory"], os.fstat(answer).st_size)
    os.write(started, b".")
    os.close(started)
    header: dict[str, Any] = {"fault": None}
    model, image = parts[0].model, parts[0].images[:1].to(about["device"])
    logits = _compute_logits(model, image)
    try:
        counter = PassCounter(model, image)
        with counter.count():
            header |= _explain_parts(load_entry_point(source), parts, about["device"], answer, counter)
        header["passes"] = header["passes"] if counter.read_passes() else None
        # hooks of all modules, or functions of torch that the submission replaced, may have changed the logits
        after = _compute_logits(model, image)
        if logits is not None and (after is None or (after - logits).abs().max() > _ROUNDING * logits.abs().max()):
            seen = "the file changes what the network returns, by global hooks or replaced functions of torch"
            raise Refusal(SubmissionFault.CHANGED_MODEL, f"{seen}; undo this within each call")
    except Refusal as refusal:
        header = {
            "fault": refusal.kind,
            "words": f"{refusal}{explain_limits_of_sandbox(refusal)}",
            "trace": refusal.trace,
        }
    sealed_memory_messages.finish_answer(answer, header)
    os._exit(0)  # skips the submission's exit handlers


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


def _explain_parts(
    estimate: EstimateFunction, parts: list[ExplainedPart], device: str, answer: int, counter: PassCounter
) -> dict[str, Any]:
    """Explain the images of all parts batch by batch, and write the maps in order; return the answer's header."""
    start, written, dims, any_drew, peaks, passes = time.process_time(), 0, 0, False, [], []
    for part in parts:
        before = counter.read_work()
        for importance, drew in compute_map_batches(estimate, part, device, counter):
            if dims not in (0, importance.ndim):
                seen = f"the map has {importance.ndim} dimensions, but earlier maps have {dims}"
                raise Refusal(SubmissionFault.OUTPUT_SHAPE, seen)
            dims, any_drew = importance.ndim, any_drew or drew
            sealed_memory_messages.write_map(answer, written, importance.numpy())
            written += importance.numel()
        peaks.append(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        passes.append(counter.count_passes_since(before))
    seconds = time.process_time() - start
    return {"dims": dims, "drew": any_drew, "seconds": seconds, "peaks": peaks, "passes": passes}


@torch.no_grad()
def _compute_logits(model: torch.nn.Module, image: torch.Tensor) -> torch.Tensor | None:
    with suppress(Exception), torch.inference_mode(False):  # the submission may have left it on
        logits: torch.Tensor = model(image.clone())
        return logits
    return None


if __name__ == "__main__":
    main(*map(int, sys.argv[2:5]))
