"""The list of classes and the warnings of `new-suite`: odd class folders, masks, repeated images, small classes."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.datasets import class_report, repeated_images
from roarbench.datasets.catalogue import FOLDERS, make_user_dataset_record
from roarbench.datasets.class_report import find_part_names, has_few_values, list_class_counts
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.undecoded_splits import add_class_and_image_counts, list_user_images, sample_images
from tests.helpers.image_files import png


def write_noise(folder, count, seed=0):
    """Write photographs of noise, all different."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng([seed, *folder.as_posix().encode()]).integers(0, 256, (count, 12, 12, 3), np.uint8)
    for number, image in enumerate(pixels):
        (folder / f"{number:02}.png").write_bytes(png(image))


def write_masks(folder, count, ending="png"):
    """Write masks: a white rectangle on black, all different."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        pixels = np.zeros((12, 12), np.uint8)
        pixels[1 : 3 + number % 9, 2 : 4 + number // 9] = 255
        (folder / f"mask{number:02}.{ending}").write_bytes(png(pixels))


def list_messages(folder):
    said = []
    infer_dataset(folder, said.append)
    return said


def list_warnings(folder):
    return [line for line in list_messages(folder) if line.startswith("warning:") and "to train on" not in line]


def test_classes_are_listed_with_their_counts_per_split(tmp_path):
    for split, counts in (("train", (9, 12)), ("test", (6, 5))):
        for name, count in zip(("蜂 bee", "cat"), counts, strict=True):
            write_noise(tmp_path / "set" / split / name, count)
    expected = "2 classes  training      test\n  cat              12         5\n  蜂 bee            9         6"
    assert expected in list_messages(tmp_path / "set")
    assert list_warnings(tmp_path / "set") == []


def test_first_and_last_of_many_classes_are_listed(tmp_path):
    for number in range(30):
        write_noise(tmp_path / "set" / f"{number:02}{'-long' * 12}", 2 if number == 13 else 3)
    record = infer_dataset(tmp_path / "set", lambda line: None)
    lines = list_class_counts(list_user_images(record)).splitlines()
    assert [line.split("-")[0].strip() for line in lines[1:]] == [
        *(f"{number:02}" for number in range(12)),
        "… 12 more with 1 to 2 training images each",
        *(f"{number:02}" for number in range(24, 30)),
    ]
    assert lines[1].split()[0].endswith("-long-…") and len({len(line) for line in lines[1:13]}) == 1


@pytest.mark.parametrize(("first", "from_folders"), [(20, False), (20, True), (420, False), (420, True)])
def test_ages_as_labels_of_images_are_named(tmp_path, first, from_folders):
    """Names of folders are chosen, so large numbers are classes, such as those of species."""
    if from_folders:
        for age in range(first, first + 12):
            write_noise(tmp_path / "set" / str(age), 4)
    else:
        write_noise(tmp_path / "set" / "faces", 48)
        rows = [f"{number:02}.png,{first + number % 12}" for number in range(48)]
        (tmp_path / "set" / "ages.csv").write_text("\n".join(["file,age", *rows]))
    warned = any("measurements, such as ages" in line for line in list_messages(tmp_path / "set"))
    assert warned == (first == 20 or not from_folders)


def test_class_names_of_parquet_files_are_listed(tmp_path):
    pictures = [png(np.full((8, 8, 3), number, np.uint8)) for number in range(12)]
    pq.write_table(pa.table({"image": pictures, "label": ["ant", "bee"] * 6}), tmp_path / "train-0.parquet")
    assert (
        "2 classes  training      test\n  ant               4         2\n  bee               4         2"
        in list_messages(tmp_path)
    )


@pytest.mark.parametrize(
    ("folders", "words"),
    [
        ("x/abbey x/alley y/bakery y/bank", "the class 'x' holds subfolders: 'abbey', 'alley', whose images count as"),
        ("wet/scab wet/rot dry/scab dry/rot", "'dry', 'wet' hold subfolders of the same names: 'rot', 'scab'"),
        ("wet/scab wet/rot dry/scab dry/rot", '= 2, which joins those of one name, or "last", which keeps them apart'),
        ("web/images/bike web/images/mug slr/images/bike", "'slr', 'web' hold subfolders of the same names: 'bike'"),
        (
            "ill/images ill/masks well/images well/masks",
            "to leave out masks or others of 'images', 'masks', write leave_out = [NAMES]",
        ),
        (
            "images annotations",
            "names of splits, parts or items: 'annotations', 'images'; if other folders or a file name",
        ),
        ("images_001/images images_002/images", "names of splits, parts or items: 'images_001', 'images_002'"),
        (
            "patient_004_node_4 patient_009_node_1",
            "names of splits, parts or items: 'patient_004_node_4', 'patient_009_node",
        ),
    ],
)
def test_folders_that_are_probably_no_classes_are_named(tmp_path, folders, words):
    for number, name in enumerate(folders.split()):
        write_noise(tmp_path / "set" / name, 12, number)
    assert any(words in line and "class_depth = " in line for line in list_warnings(tmp_path / "set"))


@pytest.mark.parametrize(
    ("folders", "words"),
    [
        ("ben/P1 ben/P2 mal/P1 mal/P2", "if each holds one video, patient or the like, name splits, train and test"),
        ("train/ben/P1 train/mal/P2 test/ben/P2 test/mal/P3", "both splits hold 'P2': if it is one video, patient or"),
    ],
)
def test_folders_of_patients_inside_classes_are_named(tmp_path, folders, words):
    for number, name in enumerate(folders.split()):
        write_noise(tmp_path / "set" / name, 12, number)
    assert words in "".join(list_warnings(tmp_path / "set"))


@pytest.mark.parametrize("folders", ["cat dog", "n01/images n02/images", "with_mask without_mask", "c0 c1 c2"])
def test_ordinary_class_folders_cause_no_warning(tmp_path, folders):
    for number, name in enumerate(folders.split()):
        write_noise(tmp_path / "set" / name, 20, number)
    assert list_warnings(tmp_path / "set") == []


@pytest.mark.parametrize(
    ("names", "suspects"),
    [
        ("JPEGImages SegmentationClass", "JPEGImages SegmentationClass"),
        ("fold1 fold2 fold10", "fold1 fold2 fold10"),
        ("HAM10000_images_part_1 HAM10000_images_part_2", "HAM10000_images_part_1 HAM10000_images_part_2"),
        ("color grayscale segmented", "color grayscale segmented"),
        ("ground_truth good broken", "ground_truth"),
        ("original fake", ""),
        ("item_1 item_2 item_10", "item_1 item_2 item_10"),
        ("apple1 apple2 cow1 cow2", "apple1 apple2 cow1 cow2"),  # as in ETH-80
        ("apple1 apple2 cow1", ""),
        ("stage1 stage2 stage3", ""),
        ("2019-01 2019-02", "2019-01 2019-02"),
        ("January Feb march", "January Feb march"),
        ("may mayo", ""),
        ("1990 2001", "1990 2001"),
        ("s1 s2 s40", ""),
        ("dog_images cat_images", ""),
        ("train_station test_tube", ""),
        ("owl owl_test bee bee_test ant", "owl_test bee_test"),
        ("owl owl_aug bee ant copy_machine", "owl_aug"),
        (" ".join(["board", "dev_board", *(f"thing{n}" for n in range(30))]), ""),
        (" ".join(["camera", "mask", *(f"thing{n}" for n in range(30))]), ""),
    ],
)
def test_find_part_names_finds_names_of_parts(names, suspects):
    assert find_part_names(tuple(names.split())) == suspects.split()


def test_masks_beside_photographs_are_reported(tmp_path):
    write_noise(tmp_path / "set" / "healthy", 20)
    write_masks(tmp_path / "set" / "tumor", 20)
    (line,) = (line for line in list_warnings(tmp_path / "set") if "may tell the class by it" not in line)
    assert "most images of the class 'tumor' have at most 3 values, unlike other classes; if they are masks" in line
    for name in ("healthy", "mild", "severe", "tumor"):
        write_noise(tmp_path / "mixed" / name, 12)
        write_masks(tmp_path / "mixed" / name, 12)
    lines = [line for line in list_warnings(tmp_path / "mixed") if "inspected images have at most 3 values" in line]
    assert len(lines) == 1 and "/mask" in lines[0] and "such as '" in lines[0]


def test_thumbnails_are_refused_but_a_class_of_thumbs_is_not(tmp_path):
    for name in ("fist", "thumbs_up", "preview_room", "thumb"):
        write_noise(tmp_path / "set" / name, 12)
    assert infer_dataset(tmp_path / "set", lambda line: None).classes == 4
    (tmp_path / "set" / "thumb").rename(tmp_path / "set" / "fist" / "thumbs")
    with pytest.raises(DataError, match="images of 'thumbs' have the names of other images; if they are thumbnails, m"):
        infer_dataset(tmp_path / "set", lambda line: None)
    for path in (tmp_path / "set" / "fist" / "thumbs").iterdir():
        path.rename(tmp_path / "set" / "fist" / f"{path.stem}_thumb.png")
    with pytest.raises(DataError, match=r"images of '\*_thumb\*' have the names of other images"):
        infer_dataset(tmp_path / "set", lambda line: None)


def test_longer_names_of_folders_are_no_labels_of_one_image(tmp_path):
    for name in ("rice", "rice brown", "rice red", "rice wild"):
        write_noise(tmp_path / "set" / name, 12)
    assert "further word" not in "\n".join(list_messages(tmp_path / "set"))


def test_folders_inside_class_folders_are_named_if_a_file_gives_splits(tmp_path):
    for path in ("p10/s1", "p10/s2", "p11/s3", "p11/s4"):
        write_noise(tmp_path / "set" / path, 10)
    files = [f"{path.parent.name}/{path.name}" for path in sorted((tmp_path / "set").rglob("*.png"))]
    rows = [f"{file},{'test' if '09' in file else 'train'}\n" for file in files]
    (tmp_path / "set" / "split.csv").write_text("".join(["path,split\n", *rows]))
    assert "the class 'p10' holds subfolders: 's1', 's2'" in "\n".join(list_warnings(tmp_path / "set"))


def test_classes_at_the_end_of_a_long_list_are_inspected(tmp_path, monkeypatch):
    monkeypatch.setattr(class_report, "_MAX_SAMPLED", 8)
    for number in range(20):
        write = write_masks if number in (12, 15, 18) else write_noise
        write(tmp_path / "set" / f"{number:02}", 2)
    (line,) = (line for line in list_warnings(tmp_path / "set") if "at most 3 values" in line)
    assert "most images of the class '12', '15', '18' have" in line


def test_masks_beside_the_folder_of_classes_need_no_pattern(tmp_path):
    for name in ("healthy", "ill"):
        write_noise(tmp_path / "set" / "images" / name, 20)
        write_masks(tmp_path / "set" / "masks" / name, 20)
    for path in (tmp_path / "set" / "masks").rglob("mask*"):
        path.rename(path.with_name(path.name.replace("mask", "")))
    lines = list_messages(tmp_path / "set")
    assert any("40 images that are masks by name" in line for line in lines)
    assert infer_record(tmp_path / "set").left_out == () and not any("leave_out" in line for line in lines)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda image, n: (image.convert("L"), "PNG"), "have the kind of colours (Pillow's mode) L;"),
        (lambda image, n: (image.convert("L").convert("RGB"), "PNG"), "(Pillow's mode) RGB without colours;"),
        (lambda image, n: (image.convert("RGB" if n else "L").convert("RGBA"), "PNG"), "(Pillow's mode) RGBA;"),
        (lambda image, n: (image, "BMP"), "have the format BMP;"),
        (lambda image, n: (image.resize((20, 16)), "PNG"), "have the size 20 x 16;"),
        (lambda image, n: (image.resize((13 + n, 12)), "PNG"), "have a wide shape;"),
        (lambda image, n: (image.resize((30 + n, 30 + n)), "PNG"), "have a short side of about 32 pixels;"),
        (lambda image, n: (image, "BMP" if n else "PNG"), "have the format BMP;"),
        (lambda image, n: (image.resize((12 + n % 2, 12)), "PNG"), ""),
        (lambda image, n: (image, "BMP" if n % 2 else "PNG"), ""),
    ],
)
def test_files_by_which_a_class_can_be_told_are_named(tmp_path, change, words):
    for name in ("ant", "bee", "owl"):
        write_noise(tmp_path / "set" / name, 14)
    for number, path in enumerate(sorted((tmp_path / "set" / "owl").iterdir())):
        with Image.open(path) as image:
            changed, kind = change(image.copy(), number)
        changed.save(path, kind)
    lines = [line for line in list_warnings(tmp_path / "set") if "tell the class by it" in line]
    assert len(lines) == bool(words) and words in "".join(lines)
    assert not words or re.search(
        "(100|92)% of the inspected images of the class 'owl', and 0% of the others", lines[0]
    )


@pytest.mark.parametrize(
    ("framed", "said"), [(14, "'bee', and 0%"), (12, "'bee', and 0%"), (7, ""), (-14, "'ant', and 100%")]
)
def test_frames_by_which_a_class_can_be_told_are_named(tmp_path, framed, said):
    """A frame around most images of one class, or of all classes but one."""
    rng = np.random.default_rng(0)
    for number, name in enumerate(("ant", "bee", "owl")):
        (tmp_path / "set" / name).mkdir(parents=True)
        for n in range(14):
            pixels = rng.integers(0, 220, (12, 12), np.uint8)
            pixels[0, -4:] = 255 if number == 1 and n < framed or number and framed < 0 else 16 * n
            (tmp_path / "set" / name / f"{n}.png").write_bytes(png(pixels))
    lines = [line for line in list_warnings(tmp_path / "set") if "in the upper right corner; a network may" in line]
    assert len(lines) == bool(said) and said in "".join(lines)


def test_few_values_are_told_from_many():
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert has_few_values(png(ramp // 128 * 255)) and not has_few_values(png(ramp))
    noisy = np.where(ramp < 99, 3, 252).astype(np.uint8) + ramp % 4  # as JPEG leaves a mask
    assert has_few_values(png(noisy.astype(np.uint8)))
    assert not has_few_values(b"no image")


def test_repeated_images_are_counted_by_bytes(tmp_path):
    write_noise(tmp_path / "set" / "train" / "ant", 20)
    write_noise(tmp_path / "set" / "train" / "bee", 20)
    write_noise(tmp_path / "set" / "test" / "ant", 6)
    write_noise(tmp_path / "set" / "test" / "bee", 6)
    assert list_warnings(tmp_path / "set") == []
    for number in range(3):
        shutil.copy(tmp_path / f"set/train/ant/0{number}.png", tmp_path / f"set/test/ant/copy{number}.png")
    (line,) = [line for line in list_warnings(tmp_path / "set") if "test images" in line]
    seen = "3 of 15 test images have the same bytes as a training image, such as 'test/ant/copy0.png'"
    assert line == f"warning: set: {seen}; delete repeated images"
    shutil.copy(tmp_path / "set/train/ant/07.png", tmp_path / "set/train/bee/wrong.png")
    words = "1 image occurs with the same bytes in several classes, such as 'train/ant/07.png' in class 'ant' and "
    assert any(words + "'train/bee/wrong.png' in class 'bee'" in line for line in list_warnings(tmp_path / "set"))


def test_image_that_occurs_many_times_is_named(tmp_path):
    for name in ("ant", "bee"):
        write_noise(tmp_path / "set" / "train" / name, 20)
        write_noise(tmp_path / "set" / "test" / name, 6)
    for number in range(4):
        shutil.copy(tmp_path / "set/train/ant/00.png", tmp_path / f"set/train/ant/placeholder{number}.png")
    (line,) = list_warnings(tmp_path / "set")
    assert "4 of 56 images have the same bytes as an earlier one; 'train/ant/00.png' occurs 5 times" in line


def test_repeated_parquet_images_are_counted(tmp_path):
    pictures = [png(np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)) for number in range(30)]
    pq.write_table(pa.table({"image": pictures[:20], "label": [0, 1] * 10}), tmp_path / "train-0.parquet")
    pq.write_table(pa.table({"image": pictures[18:], "label": [0, 1] * 6}), tmp_path / "test-0.parquet")
    lines = list_warnings(tmp_path)
    seen = "2 of 12 test images have the same bytes as a training image, such as row 0 of 'test'"
    assert [line.split(": ")[2] for line in lines] == [f"{seen}; delete repeated images"]
    for split in ("train", "test"):
        pq.write_table(
            pa.table({"image": pictures[:8] + pictures[:1], "label": [0] * 8 + [1]}), tmp_path / f"{split}-0.parquet"
        )
    assert "1 image occurs with the same bytes in several classes, such as row 0 of 'train' in class '0'" in str(
        list_warnings(tmp_path)
    )


@pytest.mark.parametrize("tail", [2**16, 8])
def test_digests_agree_with_contents(tmp_path, monkeypatch, tail):
    """Files of equal size and equal last bytes differ, too; of files with other sizes none is read."""
    monkeypatch.setattr(repeated_images, "_TAIL", tail)
    read, hash_file = [], repeated_images._hash_file
    monkeypatch.setattr(repeated_images, "_hash_file", lambda *call: read.append(call) or hash_file(*call))
    for name in ("a", "b"):
        write_noise(tmp_path / "set" / name, 8)
    files = sorted(tmp_path.glob("set/*/*.png"))
    for file, content in zip(files, [b"x" * 30, b"y" + b"x" * 29, b"x" * 30, b"z" * 31], strict=False):
        file.write_bytes(content)
    record = infer_record(tmp_path / "set")
    images = list_user_images(record)
    read.clear()
    digests = repeated_images.compute_digests(images)
    contents = {split: images.read(split, range(len(images.splits[split].rows))) for split in Split}
    both = [
        (content, digest) for split in Split for content, digest in zip(contents[split], digests[split], strict=True)
    ]
    for content, digest in both:
        assert [digest == other for _, other in both] == [content == other for other, _ in both]
    sizes = [file.stat().st_size for file in files]
    assert {path for path, _ in read} == {file for file in files if sizes.count(file.stat().st_size) > 1}


def infer_record(folder):
    """Return the record of images that need no decoding."""
    record = make_user_dataset_record("set", 3, 8)
    record = replace(record, own=FOLDERS, folder=str(folder), train_split=".", test_split=".", share=0.3)
    return add_class_and_image_counts(record)


def test_only_some_sizes_are_compared_in_large_sets(monkeypatch):
    sizes = np.repeat(np.arange(100), 10)
    assert len(repeated_images._choose_compared_files(sizes)) == 990, "empty files are left out"
    monkeypatch.setattr(repeated_images, "MAX_COMPARED", 55)
    chosen = repeated_images._choose_compared_files(sizes)
    assert len(chosen) == 50 and {*np.unique(sizes[chosen], return_counts=True)[1]} == {10}


def test_classes_with_a_handful_of_images_are_named(tmp_path):
    for split, counts in (("train", (1, 12)), ("test", (6, 4))):
        for name, count in zip(("ant", "bee"), counts, strict=True):
            write_noise(tmp_path / "set" / split / name, count)
    assert list_warnings(tmp_path / "set") == [
        "warning: set: classes with fewer than 5 training images: 'ant' 1; add images, or leave these classes out",
        "warning: set: classes with fewer than 5 test images: 'bee' 4; add images, or leave these classes out",
    ]


def test_small_splits_of_every_class_are_described_in_short(tmp_path):
    for name in ("ant", "bee"):
        write_noise(tmp_path / "set" / "train" / name, 20)
        write_noise(tmp_path / "set" / "test" / name, 4)
    assert list_warnings(tmp_path / "set") == ["warning: set: every class has fewer than 5 test images; add images"]


def test_samples_are_balanced_and_reproducible():
    labels = np.array([2, 0, 1, 0, 2, 2, 0, 0])
    assert sample_images(labels, 1, spread=False).tolist() == [0, 1, 2]
    assert sample_images(labels, 2, spread=False).tolist() == [0, 1, 2, 3, 4]
    drawn = sample_images(labels, 2)
    assert np.bincount(labels[drawn]).tolist() == [2, 1, 2] and drawn.tolist() == sorted(drawn)
    assert drawn.tolist() == sample_images(labels, 2).tolist()
