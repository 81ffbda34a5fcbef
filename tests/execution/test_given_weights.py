"""Given weights: which they are, what they want images to be normalised with, and why they are refused."""

import json
import math
import pickle
import warnings

import pytest
import torch
from safetensors.torch import save_file

from roarbench.errors import CallerError
from roarbench.execution.given_weights import load_given
from roarbench.kernels.inputs import Normalisation
from roarbench.models.build import build
from roarbench.plan.weights import title


def network(seed=0):
    return build("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(seed))


@pytest.fixture
def weights(published):
    return torch.load(published)


def check_loaded(model, weights):
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, weights[name], rtol=0, atol=0)


def test_weights_are_called_by_their_checksum(tmp_path):
    (tmp_path / "w.pt").write_bytes(b"abc")
    assert title(str(tmp_path / "w.pt")) == "file@ba7816bf8f01cfea414140de5dae2223"  # SHA-256 of abc: FIPS 180-2
    assert title("torchvision:resnet50-v1") == "torchvision:resnet50-v1@0676ba61"


def test_published_weights_want_the_normalisation_of_torchvision(published, weights):
    """0.485 … and 0.229 …: torchvision's documentation of IMAGENET1K_V1, for images in [0, 1]."""
    model = network()
    norm = load_given("torchvision:small", model, 3)
    check_loaded(model, weights)
    torch.testing.assert_close(torch.tensor(norm.mean) / 255, torch.tensor([0.485, 0.456, 0.406]))
    torch.testing.assert_close(torch.tensor(norm.std) / 255, torch.tensor([0.229, 0.224, 0.225]))


def program(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), str(path))


class Runs:
    def __reduce__(self):
        return print, ("code of the file was run",)


@pytest.mark.parametrize(
    "write",
    [
        *(lambda path, n=n: path.write_bytes(pickle.dumps({"a": [1]}, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1)),
        *(lambda path, some=some: path.write_bytes(some) for some in (b"", b"text", b"PK\x03\x04", b"\x80\x02no")),
        lambda path: torch.save({"state_dict": {0: torch.zeros(2)}}, path),
        lambda path: torch.save([1, 2], path),
        lambda path: torch.save({"a": Runs()}, path),
        program,
    ],
)
def test_what_is_no_state_dict_is_refused_in_one_line_and_never_run(tmp_path, write, capsys):
    """torch has warnings of its own, for other pickles and for programs, which would stand before that line."""
    write(tmp_path / "w.pt")
    refused = pytest.raises(CallerError, match=r"^[^\n]*; write torch.save\(model[^\n]*$")
    with warnings.catch_warnings(record=True) as said, refused:
        warnings.simplefilter("always")
        load_given(str(tmp_path / "w.pt"), network(), 3)
    assert (said, capsys.readouterr().out) == ([], "")


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
@pytest.mark.parametrize("carried", [None, Normalisation((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))])
def test_a_state_dict_is_loaded_with_the_normalisation_that_it_may_carry(tmp_path, weights, name, carried):
    path, model = tmp_path / name, network()
    values = {part: list(numbers) for part, numbers in carried._asdict().items()} if carried else {}
    if name == "w.safetensors":
        save_file(weights, path, {part: json.dumps(numbers) for part, numbers in values.items()} | {"format": "pt"})
    else:
        torch.save({"state_dict": weights, **values} if carried else weights, path)
    assert load_given(str(path), model, 3) == carried
    check_loaded(model, weights)


def changed(weights, **changes):
    kept = {name: tensor for name, tensor in weights.items() if name not in changes}
    return kept | {name: tensor for name, tensor in changes.items() if tensor is not None}


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (lambda w: changed(w, **{"linear.bias": None}), "it lacks linear.bias; give weights of that network"),
        (lambda w: changed(w, extra=torch.zeros(1)), "extra is too much;"),
        (lambda w: changed(w, **{"linear.bias": torch.zeros(5)}), "linear.bias is (5,), expected (4,);"),
        (lambda w: {"a": torch.zeros(1)}, "and 32 more;"),
        (lambda w: {"state_dict": w, "mean": [1.0], "std": [1.0]}, "expected 3 numbers each"),
        (lambda w: {"state_dict": w, "mean": [1.0] * 3, "std": [0.0] * 3}, "std above 0"),
        (lambda w: changed(w, **{"linear.bias": torch.full((4,), math.nan)}), "linear.bias holds NaN or infinity;"),
    ],
)
def test_other_weights_are_refused_in_one_line(tmp_path, weights, make, seen):
    torch.save(make(weights), tmp_path / "w.pt")
    with pytest.raises(CallerError) as error:
        load_given(str(tmp_path / "w.pt"), network(), 3)
    assert seen in str(error.value)
    assert "\n" not in str(error.value)


def test_a_damaged_safetensors_file_is_refused(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"nothing that anyone saved")
    with pytest.raises(CallerError, match=r"cannot read .* \(\w+\); write torch.save\(model.state_dict\(\), FILE\)"):
        load_given(str(tmp_path / "w.safetensors"), network(), 3)


def test_old_files_count_no_batches(tmp_path, weights):
    old = {name: tensor for name, tensor in weights.items() if not name.endswith("num_batches_tracked")}
    torch.save(old, tmp_path / "w.pt")
    model = network()
    load_given(str(tmp_path / "w.pt"), model, 3)
    assert 0 < len(old) < len(weights)
    check_loaded(model, weights)
