"""Write a caller's network and image arrays into a store as a suite that any process can run."""

import hashlib
import io
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from roarbench.api import inputs
from roarbench.api.network_source import NetworkWithSource, make_network_with_source
from roarbench.api.score_maps import compute_logits
from roarbench.api.sibling_checks import describe_poor_predictions, describe_reversed_channels
from roarbench.api.user_networks import borrow_networks
from roarbench.common.enums import ScoredNetwork, Split
from roarbench.common.errors import CallerError
from roarbench.common.files import convert_write_errors, lock_file, write_atomically
from roarbench.common.text import describe_type, format_percent_number
from roarbench.compute.fills import PLAIN_FILLS
from roarbench.compute.recipe import Augmentation
from roarbench.datasets.repeats import describe_items_in_both_splits, hash_bytes
from roarbench.execution.network_trials import insert_tuned_learning_rate
from roarbench.plan.protocols import find_protocol
from roarbench.plan.suite_template import compose_recipe_lines
from roarbench.plan.suites import parse_suite
from roarbench.plan.toml_table import format_toml
from roarbench.store.workspace import Workspace

_MOST_VALUES_OUTSIDE = 1e-3  # share of test values that may lie outside the range of the training images
_SMALLEST_SPREAD = 0.05  # smallest range of test values, as a share of that of the training images
_FEWEST_IMAGES = 2  # one image gave an interval of width 0
_COMPARED_IMAGES = 512  # test images whose predictions are compared before and after quantisation to 256 steps
_MOST_CHANGED_CLASSES = 0.01  # share of these images whose predicted class may change without a warning
_UNTUNED = "# peak not tried yet\n"  # last line of `suite.toml` until the learning rate is tuned


class ImagesAndLabels(NamedTuple):
    """A caller's images of one split, with their true classes."""

    images: Tensor  # float32 (n, c, h, w)
    labels: NDArray[np.int64]  # (n,)


def write_array_suite(
    model: nn.Module,
    train: tuple[Any, Any] | None,
    test: tuple[Any, Any],
    settings: Mapping[str, Any],
    root: Path,
    builder: str | Callable[..., Any],
    say: Callable[[str], object],
) -> Path:
    """Write a network and images into a store, unless the store has them; return the folder of their `suite.toml`.

    `train` and `test` are pairs of images and labels, as `Suite.from_arrays` takes them; `settings` maps keys of
    `suite.toml` to values. `root` is the store's folder. `builder` is the FILE.py:FUNCTION or function that builds the
    network, or empty. `say` is called with each warning. CallerError if the arguments contradict each other.
    """
    splits = _read_splits(train, test, settings["protocols"])
    retrained = any(find_protocol(name).trains for name in settings["protocols"])
    network = make_network_with_source(model, splits[Split.TEST].images, builder, say, retrained)
    for split, data in splits.items():
        inputs.check_labels(data.labels, network.classes, f"{split} labels")
    value_range = inputs.find_channel_ranges_without_outliers(next(iter(splits.values())).images.numpy())
    pixels = {split: inputs.quantize(data.images.numpy(), value_range) for split, data in splits.items()}
    _check_values_and_predictions(splits, pixels, value_range, network, say)
    text = _write_suite_text(settings, splits, network)
    text = "".join(f"# {line}\n" for line in network.notes) + text
    state = {name: value.detach().cpu() for name, value in network.model.state_dict().items()}
    weights = {name: value.float() if value.is_floating_point() else value for name, value in state.items()}
    digest = hashlib.sha256(text.encode() + network.source.encode())
    labels = [data.labels for data in splits.values()]
    for part in (*pixels.values(), *labels, *value_range, *(value.numpy() for value in weights.values())):
        digest.update(np.ascontiguousarray(part).tobytes())
    folder = Workspace(root).arrays / f"{settings['name']}-{digest.hexdigest()[:12]}"
    if not (folder / "suite.toml").exists():
        with convert_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for split, data in splits.items():
                _write_images(folder / f"{split}-00000-of-00001.parquet", pixels[split], data.labels)
            (folder / "network.py").write_text(network.source, "utf-8")
            scale = 255 / (value_range.high - value_range.low)  # stored pixels have 256 steps
            norm = {"mean": (-value_range.low * scale).tolist(), "std": scale.tolist(), "range": 255}
            torch.save({"state_dict": weights, **norm}, folder / "weights.pt")
            try:
                parse_suite(text, folder / "suite.toml")
            except CallerError as error:  # settings that a suite cannot have; the message is without the folder's path
                shutil.rmtree(folder, ignore_errors=True)
                location = rf"^{re.escape(str(folder))}\S*?[:,] (\[\[block\]\] \d+: )?"
                raise CallerError(re.sub(location, "", str(error)), error.hint) from None
            if retrained:
                text += _UNTUNED
            write_atomically(folder / "suite.toml", lambda path: path.write_text(text, "utf-8"))
    return folder


def _read_splits(
    train: tuple[Any, Any] | None, test: tuple[Any, Any], protocols: Iterable[str]
) -> dict[Split, ImagesAndLabels]:
    """Read the splits, training images first (the first sets the value range); CallerError if a protocol lacks one."""
    splits: dict[Split, ImagesAndLabels] = {}
    for split, pair in {Split.TRAIN: train, Split.TEST: test}.items():
        if split is Split.TRAIN and pair is None:
            continue
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise CallerError(f"{split} is {describe_type(pair)}, expected a pair (images, labels)")
        shape = tuple(getattr(pair[0], "shape", ()))
        if len(shape) == 2 or shape[2:] == (1, 1):
            remedy = "write it to a file, then a suite of the file: roarbench new-suite FILE.csv"
            raise CallerError(f"{split} images have shape {shape}, as a table has; {remedy}")
        images = inputs.read_images(pair[0], f"{split} images")
        if images.shape[1] not in (1, 3) or images.shape[2] != images.shape[3]:
            seen = f"{split} images have shape {tuple(images.shape)}"
            raise CallerError(f"{seen}; expected (n, c, h, w), square, c 1 or 3")
        if len(images) < _FEWEST_IMAGES:
            seen, needs = ("test image", "an interval") if split is Split.TEST else ("training image", "training")
            raise CallerError(f"there is 1 {seen}; {needs} needs {_FEWEST_IMAGES} or more, better hundreds")
        splits[split] = ImagesAndLabels(images, inputs.read_labels(pair[1], len(images), f"{split} labels"))
    shapes = {tuple(data.images.shape[1:]) for data in splits.values()}
    if len(shapes) > 1:
        raise CallerError(f"images have the shapes {' and '.join(map(str, sorted(shapes)))}; expected a single shape")
    for protocol in map(find_protocol, protocols):
        if protocol.scores_all_network_pairs:
            seen = f"{protocol.name} compares networks with each other, and Suite.from_arrays explains a single one"
            raise CallerError(f"{seen}; roarbench.own_network_gain(networks, images, estimators) takes several")
        if protocol.trains and Split.TRAIN not in splits:
            seen = f"{protocol.name} trains networks, and there are no training images"
            remedy = "choose protocols without training, such as protocols=('morf', 'lerf')"
            raise CallerError(f"{seen}; pass them, or {remedy}")
    return splits


def _check_values_and_predictions(
    splits: Mapping[Split, ImagesAndLabels],
    pixels: Mapping[Split, NDArray[np.uint8]],
    value_range: inputs.ValueRange,
    network: NetworkWithSource,
    say: Callable[[str], object],
) -> None:
    """Report what 256 steps change, and doubtful labels and images; CallerError for test images in another range."""
    low, high = (torch.from_numpy(end)[:, None, None] for end in value_range)
    step = (high - low) / 255
    for split, data in splits.items():
        outside = (data.images < low - step / 2) | (data.images > high + step / 2)
        share = float(outside.double().mean())
        if split is Split.TEST and share > _MOST_VALUES_OUTSIDE:
            percent = format_percent_number(share)
            seen = f"{percent} % of the values of test images lie outside the range of training images"
            raise CallerError(f"{seen}; normalise both alike, or write x_test.clip(LOW, HIGH)")
        spread = (data.images.amax((0, 2, 3)) - data.images.amin((0, 2, 3))) / (high - low).flatten()
        if split is Split.TEST and float(spread.max()) < _SMALLEST_SPREAD:
            percent = format_percent_number(float(spread.max()))
            raise CallerError(f"test images span {percent} % of the range of training images; normalise both alike")
        if outside.any():
            seen = f"{int(outside.sum())} values of {split} images are far from all others"
            lowest, highest = (end.round(2).tolist() for end in value_range)
            say(f"{seen}; they are clipped to {lowest} to {highest}")
    tested = splits[Split.TEST].images[:_COMPARED_IMAGES]
    restored = (torch.from_numpy(pixels[Split.TEST][:_COMPARED_IMAGES]) * step + low).float()
    labels = splits[Split.TEST].labels[:_COMPARED_IMAGES]
    with borrow_networks([network.model]):
        predicted, after = (
            compute_logits(network.model, images.clone()).argmax(1).numpy() for images in (tested, restored)
        )
        changed = int((predicted != after).sum())
        lines = [
            *describe_poor_predictions([predicted], network.classes, labels),
            *describe_reversed_channels(network.model, tested, labels, predicted == labels),
        ]
    for line in lines:
        say(f"warning: {line}")
    if changed > _MOST_CHANGED_CLASSES * len(tested):
        seen = "storing images in 256 steps between their smallest and largest value changes the predicted class"
        say(f"warning: {seen} of {changed} of {len(tested)} test images; remove extreme values, e.g. with images.clip")
    if len(pixels) == len(Split):
        train, test = (np.array([hash_bytes(image.tobytes()) for image in pixels[split]], np.uint64) for split in Split)
        repeated = describe_items_in_both_splits(train, test, "image", "pixels", lambda place: f"test image {place}")
        if repeated:
            say(f"warning: {repeated}")


def _write_suite_text(
    settings: Mapping[str, Any], splits: Mapping[Split, ImagesAndLabels], network: NetworkWithSource
) -> str:
    """Return the text of `suite.toml`; the listed estimators include the controls."""
    first = next(iter(splits.values()))
    images, channels, size, _ = first.images.shape
    lines = {**settings, "estimators": ["controls", *settings["estimators"]], "references": 1, "tuned_on": "test"}
    protocols, fills = lines.pop("protocols"), lines.pop("fills")
    has_all_classes = Split.TRAIN in splits and len(np.unique(first.labels)) == network.classes
    needs_full_size = not network.accepts_smaller_images(first.images[:1])
    blocks = []
    for protocol in protocols:
        swaps_masks = find_protocol(protocol).retrain is ScoredNetwork.COMMON
        fast_fills = [fill for fill in fills if fill in PLAIN_FILLS] if swaps_masks else []
        shown = format_toml(fast_fills or fills)
        blocks.append(f"[[block]]\nprotocols = {format_toml([protocol])}\nfills = {shown}")
    return "\n".join(
        [
            *(f"{key} = {format_toml(value)}" for key, value in lines.items()),
            "[data]\nparquet = '.'",
            *(f"{split} = '{split}'" for split in splits),
            f"size = {size}\nchannels = {channels}",
            *([] if has_all_classes else [f"classes = {network.classes}"]),
            f"[network]\nname = 'network.py:{network.function}'",
            *compose_recipe_lines(images, Augmentation.SHIFT),  # mirrored arrays may belong to another class
            *(["sides = [1.0]"] if needs_full_size else []),
            *blocks,
            "",
        ]
    )


def _write_images(path: Path, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> None:
    contents = []
    for image in images:
        encoded = io.BytesIO()
        Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(encoded, "PNG")
        contents.append(encoded.getvalue())
    table = pa.table({"image": contents, "label": labels})
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def write_peak_learning_rate_if_missing(path: Path, say: Callable[[str], object]) -> bool:
    """Tune the peak learning rate and write it to the suite's file; return False if the file needs no tuning."""
    if not path.is_file() or not path.read_text("utf-8").endswith(_UNTUNED):
        return False
    with lock_file(path.with_suffix(".lock")):
        text = path.read_text("utf-8")
        if text.endswith(_UNTUNED):  # another process may have tuned the suite before the lock was free
            tuned = insert_tuned_learning_rate(text.removesuffix(_UNTUNED), path, say)
            write_atomically(path, lambda temporary: temporary.write_text(tuned, "utf-8"))
    return True
