"""Contact sheets of `new-suite`: known pixels of each class, names that fit, and files that stay."""

import numpy as np
import pytest
from PIL import Image

from roarbench.common.errors import CallerError
from roarbench.datasets import contact_sheet
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.undecoded_splits import list_user_images
from roarbench.plan.suite_template import write_new_suite_file
from tests.helpers.image_files import png, write_pictures


def write_colours(folder, names, count=4, shape=(16, 16, 3)):
    """Write images of one colour for each class, the centre of which is cut out; the sides are black."""
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for image in range(count):
            pixels = np.full(shape, 60 + number, np.uint8)
            pixels[0, image] = 0
            wide = np.concatenate([np.zeros_like(pixels), pixels, np.zeros_like(pixels)], 1)
            (folder / name / f"{image}.png").write_bytes(png(wide))
    return folder


def draw(folder):
    return np.asarray(contact_sheet.draw_contact_sheet(list_user_images(infer_dataset(folder, lambda line: None))))


@pytest.mark.parametrize(("classes", "shape"), [(2, (16, 16, 3)), (12, (16, 16)), (13, (16, 16, 3))])
def test_sheet_shows_the_centre_of_images_of_every_class(tmp_path, classes, shape):
    names = [f"{number:02}" for number in range(classes)]
    sheet = draw(write_colours(tmp_path / "set", names, shape=shape))
    heights = [np.median(np.argwhere((sheet == 60 + number).all(-1)), 0)[0] for number in range(classes)]
    assert classes > 12 or heights == sorted(heights), "classes are in order below each other"
    for number in range(classes):
        places = np.argwhere((sheet == 60 + number).all(-1))
        side = contact_sheet.choose_layout(classes).side
        assert len(places) > 3 * 0.9 * side**2 and len(places) < 5 * side**2
    assert sheet.shape[0] < 2000 and sheet.shape[1] < 1100
    assert (sheet[:, -contact_sheet._MARGIN :] == 255).all(), "nothing is cut at the margin"


def test_sheet_of_many_classes_shows_first_last_and_some_between(tmp_path, monkeypatch):
    shown = contact_sheet.choose_shown(200)
    assert (shown[:24], shown[-8:], len({*shown}), sorted(shown)) == ([*range(24)], [*range(192, 200)], 48, shown)
    for name, number in (("_MOST_CLASSES", 6), ("_FIRST", 3), ("_LAST", 1)):
        monkeypatch.setattr(contact_sheet, name, number)
    sheet = draw(write_colours(tmp_path / "set", "abcdefghij", count=2))
    seen = [number for number in range(10) if (sheet == 60 + number).all(-1).sum() > 2000]
    assert seen == [0, 1, 2, 3, 8, 9], "three first, one last, and the ends of the rest"


@pytest.mark.parametrize("name", ["x" * 300, "γάτα κόσμος " * 30, "Wm" * 40])
def test_long_name_ends_in_ellipsis_within_width(name):
    font = contact_sheet._choose_font(name, 14)
    text = contact_sheet._fit_pixels(name, font, 200)
    assert text.endswith("…") and name.startswith(text[:-1]) and font.getlength(text) <= 200
    assert font.getlength(text[:-1] + name[len(text) - 1] + "…") > 200 or text[:-1] != text[:-1].rstrip()
    assert contact_sheet._fit_pixels("short", font, 200) == "short"


def test_name_without_font_is_replaced_by_its_number():
    letters = "\U000f0000"  # private use: no font has it
    assert contact_sheet._write_name(letters, 2) == "class 3 (no font here has the letters of its name)"
    assert contact_sheet._write_name("кошка", 2) == "кошка"


def test_new_suite_writes_sheet_and_keeps_files_of_others(working_folder):
    folder = write_pictures(working_folder / "photos")
    said = []
    path = write_new_suite_file(folder, said.append)
    sheet = working_folder / "photos-classes.png"
    assert sheet.exists() and any(line.startswith("written: photos-classes.png") for line in said)
    path.unlink()
    write_new_suite_file(folder).unlink()  # a sheet of new-suite is replaced
    Image.new("RGB", (5, 5)).save(sheet)
    before = sheet.read_bytes()
    with pytest.raises(CallerError, match="photos-classes.png already exists and is no contact sheet of new-suite"):
        write_new_suite_file(folder)
    assert sheet.read_bytes() == before and not path.exists()


def test_new_suite_changes_no_sheet_if_the_suite_exists(working_folder):
    folder = write_pictures(working_folder / "photos")
    write_new_suite_file(folder)
    (working_folder / "photos-classes.png").unlink()
    with pytest.raises(CallerError, match="photos.toml already exists"):
        write_new_suite_file(folder)
    assert not (working_folder / "photos-classes.png").exists()
