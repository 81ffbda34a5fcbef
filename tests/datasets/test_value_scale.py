"""Values of more than 8 bits: `new-suite` writes a window where a depth loses contrast, and `run` stops without it."""

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from roarbench.common.enums import Split
from roarbench.common.errors import CallerError, DataError
from roarbench.datasets.catalogue import make_user_dataset_record
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.decode_image import FEW_SHADES, decode_image
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.stored_format import find_used_range, reduce_to_eight_bits, sample_without_spikes
from roarbench.plan.suite_template import write_new_suite_file
from roarbench.plan.suites import read_suite
from tests.helpers.image_formats import encode_png, encode_tiff

Y, X = np.mgrid[:64, :64]


def make_anatomy(number):
    """Values from -1000 to 1000, as of computed tomography, int64 (64, 64, 1)."""
    noise = np.random.default_rng(number).normal(0, 20, (64, 64))
    waves = 1000 * np.sin((X + 7 * number) / 9) * np.cos((Y + 3 * number) / 11)
    return np.rint((waves + noise).clip(-1000, 1000)).astype(np.int64)[..., None]


def with_marker(values, marker=65535):
    values = values.copy()
    values[2:8, 2:14] = marker
    return values


def deep(values):
    return encode_png(values, 16, 0)


WAYS = {
    "Hounsfield units + 32,768": (lambda number: deep(make_anatomy(number) + 32768), 31768, 33768),
    "a white marker": (lambda number: deep(with_marker(make_anatomy(number) + 1000)), 0, 2000),
    "padding of 0": (lambda number: deep(with_marker(make_anatomy(number) + 32768, 0)), 31768, 33768),
    "12 bits of 12": (lambda number: deep(with_marker(make_anatomy(number) // 8 + 130, 4095)), 5, 255),
    "signed 16 bits": (lambda number: encode_tiff(make_anatomy(number), 16, kind="i"), -1000, 1000),
    "floats": (lambda number: encode_tiff(make_anatomy(number) / 1000, 32, kind="f"), -1, 1),
    "unsigned 32 bits": (lambda number: encode_tiff(make_anatomy(number) * 10**5 + 2**31, 32), 2.047e9, 2.248e9),
    "RGB": (lambda number: encode_png(np.repeat(make_anatomy(number) + 9000, 3, 2), 16, 2), 8000, 10000),
}


def write_set(folder, make, ending="png", count=4):
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            (folder / name / f"{number}.{ending}").write_bytes(make(number))
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_new_suite_writes_a_window_that_keeps_contrast(working_folder, way):
    """The window is the range from the 1st to the 99th percentile of training images, without marker and padding."""
    make, low, high = WAYS[way]
    said = []
    path = write_new_suite_file(write_set(working_folder / "set", make, "tif"), said.append)
    record = read_suite(path).dataset_record
    width = high - low
    assert record.window == pytest.approx((low, high), abs=0.06 * width) and record.depth == 0
    assert not any("range" in line for line in said)
    pixels = decode_dataset(record, working_folder / "store").train.pixels
    assert all(len(np.unique(image)) > 200 for image in pixels)
    assert (pixels.min(), pixels.max()) == (0, 255)
    text = path.read_text()
    line = next(line for line in text.splitlines() if line.startswith("window = "))
    path.write_text(text.replace(line, ""))
    with pytest.raises(DataError, match="write window = ") as error:
        decode_dataset(read_suite(path).dataset_record, working_folder / "store")
    assert line.split("  #")[0].strip() in str(error.value), "the stop names the line that new-suite writes"
    assert list((working_folder / "store").glob("*/manifest.json")) == [next((working_folder / "store").glob("*/m*"))]


def test_window_is_measured_on_training_images_alone(tmp_path):
    """Test images are brighter, and are scaled by the constants of the training images."""
    write_set(tmp_path / "set" / "train", lambda number: deep(make_anatomy(number) + 9000))
    write_set(tmp_path / "set" / "test", lambda number: deep(make_anatomy(number) + 9500))
    record = infer_dataset(tmp_path / "set", lambda line: None)
    assert record.window == pytest.approx((8000, 10000), abs=60)
    images = decode_dataset(record, tmp_path / "store")
    low, high = record.window
    expected = np.rint((make_anatomy(0)[..., 0] + 9500 - low) / (high - low) * 255).clip(0, 255)
    np.testing.assert_array_equal(images[Split.TEST].pixels[0, 0], expected)


def test_ordinary_deep_images_keep_their_depth(tmp_path):
    """A full range, even with a marker; few values, as of label maps; and a dark image among others."""
    for number, make in enumerate(
        (
            lambda number: deep(make_anatomy(number) * 32 + 32000),
            lambda number: deep(with_marker(make_anatomy(number) * 32 + 32000)),
            lambda number: deep(make_anatomy(number) // 500 + 2),
            lambda number: deep(make_anatomy(number) * (32 if number else 1) + 32000),
        )
    ):
        record = infer_dataset(write_set(tmp_path / str(number), make), lambda line: None)
        assert record.window == () and record.depth in (8, 16)
        decode_dataset(record, tmp_path / "store")


def test_images_of_different_ranges_are_mentioned(tmp_path):
    """The window of all images keeps 26 shades or so of each image, which nobody should overlook."""
    folder, said = (
        write_set(tmp_path / "set", lambda number: deep(make_anatomy(number) + 9000 * number + 1000), count=8),
        [],
    )
    record = infer_dataset(folder, said.append)
    assert record.window == pytest.approx((0, 65000), abs=2000)
    (line,) = [line for line in said if "range" in line]
    assert "images use a small part of the range of all, [" in line and "rescale each image first" in line
    decode_dataset(record, tmp_path / "store")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda n: deep(make_anatomy(n) * 32 + 32000 if n % 2 else make_anatomy(n) + 1000),
            "4 of 8 inspected images use",
        ),
        (
            lambda n: deep(make_anatomy(n) % 65536),
            "are near 0 and near 65,535 alone; if these are negative numbers that",
        ),
        (lambda n: deep(with_marker(make_anatomy(n) * 32 + 32000)), ""),
        (lambda n: deep(make_anatomy(n) * 0 + n), "16 of 16 inspected images have one value in their central squares"),
    ],
)
def test_scales_that_suit_some_images_alone_are_named(tmp_path, make, words):
    """12 bits beside 16; int16 cast to uint16, whose -1 is 65,535; one range; first pages that are blank."""
    write_set(tmp_path / "train", make, count=4)
    write_set(tmp_path / "test", make, count=4)
    said = []
    infer_dataset(tmp_path, said.append)
    found = [line for line in said if "inspected images" in line and "several classes" not in line]
    assert len(found) == bool(words) and words in "".join(found)


def test_blank_images_do_not_widen_the_window(tmp_path):
    """Half of the images are -9999 throughout, as parts of a map without measurements."""
    values = [make_anatomy(n) / 1000 if n % 2 else np.full((64, 64, 1), -9999) for n in range(8)]
    record = infer_dataset(
        write_set(tmp_path, lambda n: encode_tiff(values[n], 32, kind="f"), "tif", 8), lambda line: None
    )
    assert record.window == pytest.approx((-1, 1), abs=0.1)


def test_depth_of_dark_colours_is_no_lack_of_shades(tmp_path):
    """12 bits of 16 fill the lowest 16 of 256 upper bytes."""
    said = []
    folder = write_set(tmp_path, lambda n: encode_png(np.repeat(make_anatomy(n) * 2 + 2047, 3, 2), 16, 2))
    assert infer_dataset(folder, said.append).depth == 12 and not any("of 255" in line for line in said)


def test_a_stop_names_the_depth_where_it_suffices(tmp_path):
    """12-bit values that a suite reads as 16 bits."""
    record = infer_dataset(write_set(tmp_path / "set", lambda number: deep(make_anatomy(number) * 2 + 2047)), print)
    assert (record.depth, record.window) == (12, ())
    with pytest.raises(
        DataError, match=r"keep fewer than 64 shades of their contrast; write depth = 12 under \[data\]"
    ):
        decode_dataset(replace(record, depth=16), tmp_path / "store")
    decode_dataset(replace(record, depth=0, window=(0.0, 65535.0)), tmp_path / "store")  # asked for


def test_8_bit_images_beside_a_window_are_refused(tmp_path):
    folder = write_set(tmp_path / "set", lambda number: deep(make_anatomy(number) + 9000))
    record = infer_dataset(folder, lambda line: None)
    Image.new("L", (64, 64)).save(folder / "a" / "0.png")
    with pytest.raises(DataError, match=r"1 of 8 images of set have 8 bits, and window = \[8\d\d\d, \d+\] is for more"):
        decode_dataset(record, tmp_path / "store")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("window = [5, 5]", r"window is \[5, 5\], expected the values that become black and white"),
        ("window = [1, 2, 3]", r"window is \[1, 2, 3\], expected"),
        ("window = [0, 9]\ndepth = 12", "has depth and window; leave one of them out"),
        ("window = 3", "window"),
    ],
)
def test_wrong_windows_are_refused(working_folder, line, said):
    path = write_new_suite_file(write_set(working_folder / "set", WAYS["RGB"][0]))
    text = path.read_text()
    written = next(line for line in text.splitlines() if line.startswith("window = "))
    path.write_text(text.replace(written, line))
    with pytest.raises(CallerError, match=said):
        read_suite(path)


def test_window_and_used_range_by_hand():
    """Of -10 … 30 in [0, 20]: 5 is 63.75, 10 is 127.5, which is rounded to even; values outside are clipped."""
    values = np.array([[-10.0, 0, 5, 10, 20, 30]])
    for kind in (np.float32, np.int32):
        assert (reduce_to_eight_bits(values.astype(kind), 8, (0.0, 20.0))).tolist() == [[0, 0, 64, 128, 255, 255]]
    unsigned = values.clip(0).astype(np.uint16)
    assert (reduce_to_eight_bits(unsigned, 8, (0.0, 20.0))).tolist() == [[0, 0, 64, 128, 255, 255]]
    values = np.concatenate([np.arange(1000), np.full(500, 60_000)]).reshape(50, 30)  # 0 and 60,000 are the ends
    assert find_used_range(sample_without_spikes(values)) == (11, 989, 979)
    assert find_used_range(sample_without_spikes(np.arange(16).reshape(4, 4))) == (0, 15, 16)  # too few to leave out


def test_image_of_few_kept_shades_is_counted():
    """2,000 shades around 32,768 become 8 of 16 bits, and 126 of 12 bits if white is 4,095."""
    record = make_user_dataset_record("", 1, 64)
    content = deep(make_anatomy(0) + 32768)
    decoded = decode_image(content, record)
    assert FEW_SHADES in decoded.repairs and len(np.unique(decoded.pixels)) <= 10
    assert FEW_SHADES not in decode_image(content, replace(record, window=(31000.0, 35000.0))).repairs
    file = BytesIO()
    Image.fromarray((make_anatomy(0)[..., 0] + 1000).astype(np.uint16)).save(file, "PNG")
    assert FEW_SHADES not in decode_image(file.getvalue(), replace(record, depth=12)).repairs
