"""Requests and answers in sealed memory, and entry points of submissions, both without a sandbox."""

import fcntl
import mmap
import os
import random
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient
from torch import nn

from roarbench.submissions import sealed_memory_messages
from roarbench.submissions.limits_and_faults import MAX_LINE, Refusal, SubmissionFault
from roarbench.submissions.sealed_memory_messages import HEADER, create_answer, read_answer, read_request, write_map
from roarbench.submissions.submission_calls import (
    ExplainedPart,
    _refuse_exceptions,
    compute_map_batches,
    explain_limits_of_sandbox,
    find_entry_point,
)
from tests.helpers.trainings import seeded

ARRAYS = {
    "images": np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 3, 2, 2),
    "count": np.array(7, np.int64),
    "source": np.frombuffer(b"import torch", np.uint8),
    "nothing": np.zeros((0, 3), np.float32),
}


def test_request_is_read_unchanged_and_is_sealed():
    asked = {"batch": 4, "network": {"name": "resnet8"}}
    descriptor = sealed_memory_messages.create_request(asked, ARRAYS)
    about, arrays = read_request(descriptor)
    assert (about, list(arrays)) == (asked, list(ARRAYS))
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)
    arrays["images"][:] = 0  # a copy, which can be written
    np.testing.assert_array_equal(read_request(descriptor)[1]["images"], ARRAYS["images"])
    for change, *more in ((os.pwrite, b"x", 0), (os.ftruncate, 1), (mmap.mmap, 0)):
        with pytest.raises(PermissionError):
            change(descriptor, *more)
    os.close(descriptor)


def test_answer_is_read_unchanged_with_fixed_size_and_valid_header():
    answer = create_answer(6)
    assert read_answer(answer)[0] == {}
    write_map(answer, 0, np.array([1, 2], np.float32))
    write_map(answer, 2, np.array([[3, 4], [5, np.nan]], np.float32))
    sealed_memory_messages.finish_answer(answer, {"fault": None, "dims": 3})
    header, numbers = read_answer(answer)
    for change, *more in (
        (fcntl.fcntl, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE),
        (fcntl.fcntl, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL),
        (os.ftruncate, 2**30),
        (os.ftruncate, 0),
    ):
        with pytest.raises(PermissionError):
            change(answer, *more)
    os.pwrite(answer, b"x" * (HEADER + 4), 0)  # the header and numbers read before do not change
    assert header == {"fault": None, "dims": 3}
    np.testing.assert_array_equal(numbers, np.array([1, 2, 3, 4, 5, np.nan], np.float32))
    # a header must be a JSON object
    for text in (b"", b"[1, 2]", b"{", b"[" * 60000, b"\xff\xfe", b"null", b"1" * 60000):
        os.pwrite(answer, (len(text) or 2**63).to_bytes(8, "little") + text, 0)
        assert read_answer(answer)[0] is None
    write_map(answer, 0, np.frombuffer(b'"x"}' * 6, np.float32))
    os.pwrite(answer, (HEADER + 20).to_bytes(8, "little") + b'{"a": ', 0)
    assert read_answer(answer)[0] is None
    os.close(answer)


def test_request_and_answer_are_unnamed_files_without_memfd(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.delattr(fcntl, "F_ADD_SEALS")
    request, answer = sealed_memory_messages.create_request({"batch": 4}, ARRAYS), create_answer(1)
    write_map(answer, 0, np.ones(1, np.float32))
    sealed_memory_messages.finish_answer(answer, {"fault": None})
    assert read_request(request)[0] == {"batch": 4} and read_answer(answer) == ({"fault": None}, np.ones(1))
    assert [os.fstat(descriptor).st_nlink for descriptor in (request, answer)] == [0, 0]
    for descriptor in (request, answer):
        os.close(descriptor)


IMAGES = torch.arange(1.0, 9.0).reshape(2, 1, 2, 2)
TARGETS = torch.tensor([0, 1])
WEIGHTS = torch.tensor([[1.0, -1.0, 0.5, 2.0], [3.0, 0.0, -2.0, 1.0]])


def make_network():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False))
    model[1].weight.data = WEIGHTS.clone()
    return model


def call_entry_point(generator=None, **names):
    return find_entry_point(SimpleNamespace(**names))(make_network(), IMAGES, TARGETS, generator or seeded(7))


def test_captum_class_explains_target_of_each_image():
    """For a linear network, input times gradient is input times the weights of the target."""
    found = call_entry_point(estimator=InputXGradient)
    torch.testing.assert_close(found.detach(), IMAGES * WEIGHTS.reshape(2, 1, 2, 2), rtol=0, atol=0)
    assert not IMAGES.requires_grad


@pytest.mark.parametrize("read_key", [lambda x, t: id(x), lambda x, t: id(t), lambda x, t: x.data_ptr()])
def test_maps_kept_by_id_or_address_are_never_those_of_earlier_images(read_key):
    kept = {}

    def estimate(model, images, targets, generator):
        return kept.setdefault(read_key(images, targets), 2 * images)

    images = torch.arange(320.0).reshape(40, 2, 2, 2)
    part = ExplainedPart(make_network(), images, torch.arange(40) % 2, torch.arange(40), 1)
    maps = torch.cat([importance for importance, _ in compute_map_batches(estimate, part)])
    assert torch.equal(maps, 2 * images)


def test_attributes_of_layers_that_change_logits_are_refused_and_undone():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.LeakyReLU(0.1), nn.Linear(4, 2)).eval()
    part = ExplainedPart(model, torch.randn(3, 1, 2, 2), torch.zeros(3, dtype=torch.int64), torch.arange(3), 3)

    def estimate(model, images, targets, generator):
        model[2].negative_slope, model[2].note = 5.0, "harmless"
        return images.clone()

    with pytest.raises(Refusal, match="estimate modified the model") as refused:
        list(compute_map_batches(estimate, part))
    assert refused.value.kind is SubmissionFault.CHANGED_MODEL
    assert model[2].negative_slope == 0.1 and not hasattr(model[2], "note")


def test_quantus_function_gets_array_copies_by_keyword():
    def explain_func(model, inputs, targets, **kwargs):
        assert isinstance(model, nn.Sequential) and kwargs == {}
        np.testing.assert_array_equal(inputs, before.numpy())
        np.testing.assert_array_equal(targets, np.array([0, 1], np.int64), strict=True)
        inputs[:] = 0
        return (np.arange(8.0) / 3).reshape(2, 1, 2, 2)

    before = IMAGES.clone()
    found = call_entry_point(explain_func=explain_func)
    torch.testing.assert_close(found, (torch.arange(8, dtype=torch.float64) / 3).float().reshape(2, 1, 2, 2))
    assert torch.equal(IMAGES, before)


@pytest.mark.parametrize("read", [lambda inputs: inputs.detach(), torch.relu])
def test_quantus_function_for_tensors_learns_that_it_gets_arrays(read):
    with pytest.raises(TypeError, match=r"in Quantus' form \(\*\*kwargs\), inputs are NumPy arrays: .*numpy.ndarray"):
        call_entry_point(explain_func=lambda model, inputs, targets, **kwargs: read(inputs))


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(4).numpy(),
        lambda: np.random.rand(4),  # noqa: NPY002
        lambda: [random.random() for _ in range(4)],
    ],
)
def test_global_random_functions_use_generator_of_image(draw):
    def explain_func(model, inputs, targets):
        return np.asarray(draw(), np.float32)

    one, again, other = (call_entry_point(seeded(seed), explain_func=explain_func) for seed in (1, 1, 2))
    assert torch.equal(one, again) and not torch.equal(one, other)
    generator, before = seeded(7), seeded(7).get_state()
    call_entry_point(generator, explain_func=explain_func)
    assert not torch.equal(generator.get_state(), before)  # so that images are explained one at a time


def test_find_entry_point_calls_estimate_directly_and_rejects_invalid_files():
    generator = seeded(7)
    images, given = call_entry_point(generator, estimate=lambda model, images, targets, generator: (images, generator))
    assert images is IMAGES and given is generator
    for names, words in (
        ({"estimator": 3}, "no function 'estimate'"),
        ({"estimator": InputXGradient, "explain_func": print}, "both 'estimator' and 'explain_func' are defined"),
        ({"estimate": lambda model, images: images}, "does not take four arguments"),
        (
            {"estimate": lambda images, targets, model, generator: images},
            "has its arguments in another order; write def",
        ),
    ):
        with pytest.raises(Refusal, match=words):
            find_entry_point(SimpleNamespace(**names))


def test_refusal_is_printable_line():
    found = Refusal(SubmissionFault.RAISED, "\x1b[2J a \u202e\n" + "b" * 500, "x\x1b]0;\x07\n  y\u200b")
    assert str(found).isprintable() and str(found).startswith("[2J a b") and len(str(found)) == MAX_LINE
    assert found.trace == "x ]0; \n  y "


@pytest.mark.process
def test_kernel_limit_sends_sigxcpu_at_cpu_limit():
    start = "import sys; sys.argv[1:] = sys.path[:1]; from roarbench.submissions import sandbox_program as program\n"
    endless = "program._set_kernel_limits(cpu=-1, memory=2**40, answer=0)\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", start + endless], check=False).returncode == -signal.SIGXCPU


@pytest.mark.parametrize(
    ("error", "outside"),
    [
        (PermissionError(1, "Operation not permitted"), True),
        (ModuleNotFoundError("No module named 'beside_the_submission'"), False),
        (OSError("Temporary failure in name resolution"), True),
        (FileNotFoundError(2, "No such file or directory", "weights.json"), True),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_fault_mentions_sandbox_for_missing_file_module_or_network(error, outside):
    with pytest.raises(Refusal) as caught, _refuse_exceptions(SubmissionFault.IMPORT, "its import raised"):
        raise error
    said = explain_limits_of_sandbox(caught.value)
    assert ("neither your files nor a network" in said) is outside
    assert ("installed packages, but none of your files" in said) is isinstance(error, ImportError)
    line = Refusal(SubmissionFault.IMPORT, f"{caught.value}{said}").add_subject("n" * 40)
    assert str(line).endswith(said)  # the sentence is not cut off


@pytest.mark.parametrize("file", ["multiprocessing/synchronize.py", "concurrent/futures/process.py", "joblib/pool.py"])
def test_fault_of_process_pool_is_explained_by_shared_memory(file):
    """A pool fails with FileNotFoundError (no /dev/shm), which once read as a missing file of the user's."""
    code = compile("raise FileNotFoundError(2, 'No such file or directory')", f"/usr/lib/python3/{file}", "exec")
    with pytest.raises(Refusal) as caught, _refuse_exceptions(SubmissionFault.RAISED, "raised"):
        exec(code)
    said = explain_limits_of_sandbox(caught.value)
    assert "no shared memory" in said and "your files" not in said
