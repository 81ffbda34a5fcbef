"""Commands with a user's own images, for built-in suites and for suite files."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from roarbench.plan.protocols import ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import read_suite
from roarbench.store import user_files
from tests.helpers.command_line import command, read_refusal, record
from tests.helpers.image_files import CLASSES, TEXT, png, write_pictures, write_split, write_suite
from tests.helpers.older_suites import OLDER

pytestmark = pytest.mark.slow

QUICK = ("--suite", "quick", "--max-images", "10")
PUBLISHED = replace(OLDER["quick@1"], blocks=(Block(ROAR, ("random", "sobel"), (0.9,), seeds=1),))


def write_photos(folder):
    """Write noise images of ten classes in the layout of the hub."""
    for number, split in enumerate(("train", "validation")):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 64, 64, 3), np.uint8)
        write_split(folder, split, [png(picture) for picture in pixels], [*range(10)] * 2, ("image", "label"))
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Write a user's images and a store with three runs on them, which tests must not change."""
    folder = tmp_path_factory.mktemp("photos")
    assert command("run", *QUICK, "--data", write_photos(folder / "images"), "--store", folder / "store") == 0
    return folder


def test_table_shows_results_on_other_images_only_with_data_option(call, photos, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    at = ("--store", photos / "store")
    (manifest,) = photos.glob("store/data/*/manifest.json")
    shown = json.loads(manifest.read_text())["fingerprint"][:8]
    small = "(small version: 10 images per split"
    for words in (("table",), ("plot", "-o", "x.svg")):
        other = " ".join(
            (f"roarbench {words[0]} --suite quick --max-images 10 --data {shown} --store {at[1]}", *words[1:])
        )
        told = f"this store has no results of quick v1 {small}), but others: {other} {small}; images of "
        assert call(*words, *QUICK, *at).err.removeprefix("roarbench: ").startswith(told)
    moved = shutil.copytree(photos / "images", tmp_path / "moved")  # with the modification times
    for name in (photos / "images", shown, moved):
        assert record(call, "table", *QUICK, *at, "--data", name)["images"] == 10
    folder = write_photos(tmp_path / "more")
    run = f"roarbench run --suite quick --data {folder} --store {at[1]} --max-images 10"
    for name, said in ((folder, f"`{run}` computes them"), ("/nowhere", "--data /nowhere is missing")):
        assert said in read_refusal(call, "table", *QUICK, *at, "--data", name)


def test_data_option_recognizes_removed_folder_by_name(call, photos, tmp_path):
    at = ("--store", shutil.copytree(photos / "store", tmp_path / "store"))
    gone = shutil.copytree(photos / "images", tmp_path / "gone")
    assert call("run", *QUICK, *at).code == 0
    own, other = (record(call, "table", *QUICK, *at, *more)["rows"] for more in ((), ("--data", photos / "images")))
    assert own != other
    assert record(call, "plan", *QUICK, *at, "--data", gone)["done"] == 3
    answer = call("run", *QUICK, "--data", gone, *at)
    asked = f"--suite quick --store {at[1]} --data {gone} --max-images 10"
    assert (answer.code, f"next:\n  roarbench table {asked}\n" in answer.err) == (0, True)
    shutil.rmtree(gone)
    assert record(call, "table", *QUICK, *at, "--data", gone)["images"] == 10


LONGER = TEXT.replace("epochs = 1", "epochs = 30")  # all six test images are classified correctly


@pytest.fixture(scope="module")
def finished_suite_folder(tmp_path_factory):
    """A folder with pictures, the file of a suite, and the finished store."""
    folder = tmp_path_factory.mktemp("own")
    path = write_suite(folder, LONGER)
    assert command("run", "--suite", path, "--store", folder / "store") == 0
    return folder


def test_commands_accept_suite_file(call, finished_suite_folder, tmp_path):
    path = finished_suite_folder / "pictures.toml"
    title, suite = read_suite(path).name_in_commands, ("--suite", path)
    file = (*suite, "--store", finished_suite_folder / "store")
    found = record(call, "table", *file)
    assert (found["suite"], found["version"]) == tuple(title.split("@"))
    assert {row["estimator"] for row in found["rows"]} == {"random", "sobel", "random-blurred", "grad"}
    again = call("run", *file)
    assert (again.code, f"{title}: all 5 runs are done" in again.err) == (0, True)
    assert "5 runs, 0 done, 5 to do" in call("plan", *suite, "--store", tmp_path).out
    shown = " ".join(call("suites", path).out.split())
    assert shown.startswith(title) and "18 training and 6 test images (drawn by seed 0) of 3 classes, 8 x 8" in shown
    assert str(finished_suite_folder) not in shown


def test_table_reads_manifest_of_decoded_images_once(call, finished_suite_folder):
    user_files._read_manifest.cache_clear()
    file = ("--suite", finished_suite_folder / "pictures.toml", "--store", finished_suite_folder / "store")
    assert call("table", *file).code == 0
    assert user_files._read_manifest.cache_info().misses == 1


def test_table_names_earlier_version_if_number_of_images_has_changed(call, finished_suite_folder, tmp_path):
    folder = shutil.copytree(finished_suite_folder, tmp_path / "own")
    path, store = folder / "pictures.toml", folder / "store"
    earlier = f"table --suite {read_suite(path).name_in_commands} --store {store}"
    (folder / "pictures" / "red" / "00.png").unlink()
    refusal = read_refusal(call, "table", "--suite", path, "--store", store)
    assert f"but others: roarbench {earlier} (another version of the file or of its images)\n" in refusal
    assert call(*earlier.split()).code == 0


def test_titles_say_that_images_changed_after_they_were_read(call, finished_suite_folder, tmp_path, monkeypatch):
    """`table`, `status` and the board showed results of the earlier images without a word until the next `run`."""
    folder = shutil.copytree(finished_suite_folder, tmp_path / "own")  # with the modification times
    file, store = ("--suite", folder / "pictures.toml"), ("--store", folder / "store")
    assert call("run", *file, *store).code == 0  # the store now knows this folder
    (manifest,) = folder.glob("store/data/*/manifest.json")
    os.utime(manifest, (1e9, 1e9))  # 9 September 2001
    said = "(images read on 2001-09-09, before their files changed)"
    picture = folder / "pictures" / "red" / "00.png"
    times, content = picture.stat(), picture.read_bytes()
    for change, changed in (
        (lambda: None, False),
        (lambda: os.utime(picture, (1, 1)), True),
        (lambda: os.utime(picture, ns=(times.st_atime_ns, times.st_mtime_ns)), False),
        (lambda: picture.write_bytes((folder / "pictures" / "blue" / "00.png").read_bytes()), True),
        (lambda: shutil.move(folder / "pictures", folder / "gone"), False),  # as on another machine
    ):
        change()
        suite = file if picture.exists() else ("--suite", read_suite(finished_suite_folder / "pictures.toml").name)
        for command_name in ("table", "status"):
            shown = " ".join(call(command_name, *suite, *store).out.split())
            assert ((said in shown), "pictures@" in shown) == (changed, True)
        assert (said in call("runs", *suite, *store).err) is changed
        if changed:
            with monkeypatch.context() as patch:
                patch.setattr(user_files, "_MOST_COMPARED", 5)
                assert said not in " ".join(call("table", *file, *store).out.split())
        assert call("leaderboard", *store, "--export", folder / "out").code == 0
        assert (said in (folder / "out" / "index.html").read_text()) is changed
    shutil.move(folder / "gone", folder / "pictures")
    picture.write_bytes(content)
    assert call("run", *file, *store).code == 0  # the same images with another time
    assert said not in " ".join(call("status", *file, *store).out.split())


def test_checked_and_decoded_images_of_a_suite_file_are_described(call, tmp_path):
    path = write_suite(tmp_path, TEXT.replace("[data]", '[data]\nleave_out = ["Masks", "x*"]'))
    (tmp_path / "pictures" / "red" / "x.png").write_bytes((tmp_path / "pictures" / "blue" / "00.png").read_bytes())
    files = [file.relative_to(tmp_path / "pictures") for file in sorted((tmp_path / "pictures").rglob("*.png"))]
    rows = [f"{file.as_posix()},{number // 5}\n" for number, file in enumerate(files)]
    (tmp_path / "pictures" / "eyes.csv").write_text("".join(["file,patient\n", *rows]))
    listed, decoded = call("suites", path).err, call("run", "--suite", path, "--store", tmp_path / "store").err
    for said in (listed, decoded):
        assert "warning: leave_out: no image or folder of images is named 'Masks' (case counts)" in said
    assert "3 classes  training      test" in listed
    assert "warning: label files: column 'patient' has 5 values in 24 images, which are drawn for testing" in listed


def test_suites_show_prints_suite_file(call, tmp_path):
    (tmp_path / "mine.toml").write_text(call("suites", "show", "planted").out)
    assert call("suites", tmp_path / "mine.toml").out.startswith("my-planted")
    assert "write suites NAME, or suites show NAME" in read_refusal(call, "suites", "quick", "planted")


def test_stored_results_of_suite_file_are_readable_without_file(call, finished_suite_folder, tmp_path):
    title, other = read_suite(finished_suite_folder / "pictures.toml").name_in_commands, ("--store", tmp_path / "other")
    store = finished_suite_folder / "store"
    for name in (title, "pictures"):
        assert "grad" in call("table", "--suite", name, "--store", store).out
    key = next(row["key"] for row in record(call, "runs", "--suite", title, "--store", store) if row["t"])
    suite_file = (finished_suite_folder / "pictures.toml").rename(tmp_path / "moved.toml")
    assert call("reproduce", key, "--store", store).out.startswith("equal:")
    suite_file.rename(finished_suite_folder / "pictures.toml")
    assert "did you mean 'pictures" in read_refusal(call, "table", "--suite", "pictuers", "--store", store)
    assert call("export", tmp_path / "x.parquet", "--store", store).code == 0
    assert str(finished_suite_folder).encode() not in (tmp_path / "x.parquet").read_bytes()
    assert call("import", tmp_path / "x.parquet", *other).code == 0
    rows = record(call, "table", "--suite", title, *other)["rows"]
    assert all(row["curve"]["0.5"] is not None for row in rows)
    assert call("leaderboard", *other, "--export", tmp_path / "site").code == 0
    assert title in (tmp_path / "site" / "index.html").read_text()


PRINTS = """
from torch import nn
print("imported")

class Loud(nn.Sequential):
    def forward(self, images):
        print("called")
        return super().forward(images)

def build(classes, channels, size):
    print("built")
    return Loud(nn.Flatten(), nn.Linear(channels * size**2, classes))
"""


def test_network_file_output_stays_out_of_json(call, tmp_path):
    (tmp_path / "net.py").write_text(PRINTS)
    asked = ("--suite", write_suite(tmp_path, TEXT.replace('"resnet-planted"', '"net.py:build"')))
    answer = call("plan", *asked, "--format", "json", "--store", tmp_path / "store")
    assert answer.code == 0 and json.loads(answer.out)
    assert {"imported", "built", "called"} <= set(answer.err.split())
    (tmp_path / "net.py").write_text("import sys\nsys.exit()\n")
    answer = call("run", *asked, "--store", tmp_path / "store")
    said = "roarbench: net.py raised RuntimeError: sys.exit(None) was called; the file must be self-contained"
    assert (answer.code, answer.out, answer.err.startswith(said)) == (2, "", True)


def test_imported_network_runs_only_with_trusted_hash(call, tmp_path, monkeypatch):
    network = "from torch import nn\n\n\ndef build(classes, channels, size):\n"
    network += f"    open({str(tmp_path / 'was-run')!r}, 'w').close()\n"
    network += "    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size**2, classes))\n"
    (tmp_path / "net.py").write_text(network)
    path = write_suite(tmp_path, LONGER.replace('"resnet-planted"', '"net.py:build"'))
    first, other = ("--store", tmp_path / "first"), ("--store", tmp_path / "other")
    assert call("run", "--suite", path, *first).code == 0
    title = read_suite(path).name_in_commands
    assert call("plan", "--suite", title, *first).code == 0  # the user's own file names the network
    call("export", tmp_path / "x.parquet", *first)
    (tmp_path / "was-run").unlink()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "somebody-else"))
    assert call("import", tmp_path / "x.parquet", *other).code == 0
    key = record(call, "runs", "--suite", title, *other)[0]["key"]
    data = ("--data", tmp_path / "pictures")
    asked = [(command, "--suite", title) for command in ("plan", "run", "replicate")] + [("reproduce", key)]
    for words in asked:
        said = read_refusal(call, *words, *other, *data)
        assert not (tmp_path / "was-run").exists()
    digest = said.rpartition(" ")[2].strip()
    assert " ¶ " in said  # the file's beginning is shown
    assert (tmp_path / "other" / "imported-networks" / f"{digest}.py").read_text() == network
    assert call(*words, *other, *data, "--trust-network", "0" * 64).code == 2
    assert not (tmp_path / "was-run").exists()
    assert call(*words, *other, *data, "--trust-network", digest).out.startswith("equal:")
    (tmp_path / "was-run").unlink()
    assert call("plan", "--suite", title, *other).code == 2  # trust lasts for one command


NET = """
from types import SimpleNamespace
from torch import nn

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 12))

    def forward(self, images):
        return SimpleNamespace(logits=self.net(images))

def build(classes, channels, size):
    return Classifier()
"""


def test_test_only_suite_explains_network_with_unused_classes(call, tmp_path):
    """Three of twelve outputs have photographs; the weights are in a training checkpoint."""
    (tmp_path / "net.py").write_text(NET)
    exec(NET, held := {})
    weights = {f"model.{name}": value for name, value in held["Classifier"]().state_dict().items()}
    torch.save({"epoch": 3, "state_dict": weights}, tmp_path / "w.pt")
    write_pictures(tmp_path / "pictures", 4)
    for name, number in zip(CLASSES, ("2", "10", "7"), strict=True):
        (tmp_path / "pictures" / name).rename(tmp_path / "pictures" / number)
    text = TEXT.replace('["roar"]', '["morf"]').replace('"resnet-planted"', '"net.py:build"')
    text = text.replace('"grad"', '"grad", "linear-classifier"', 1)
    test_only = 'test = "."\nclasses = 12\nresize = 9\nmean = [0.5, 0.5, 0.5]\nstd = [0.5, 0.5, 0.5]'
    suite = write_suite(tmp_path, text.replace("test_share = 0.25", test_only))
    asked = ("--suite", suite, "--store", tmp_path / "store")
    answer = call("run", "--suite", suite, "--store", tmp_path / "other-store")
    assert (answer.code, "has only test images, so the network to explain cannot be trained" in answer.err) == (2, True)
    first = record(call, "run", *asked, "--reference", tmp_path / "w.pt")
    found = record(call, "table", *asked, "--reference", tmp_path / "w.pt")
    assert first == found and found["complete"], "the first run leaves the classifier out, too"
    assert {row["estimator"] for row in found["rows"]} == {"random", "sobel", "random-blurred", "grad"}
    assert found["images"] == 12
    answer = call("suites", suite)
    assert answer.err.splitlines()[:4] == [
        "12 classes      test",
        "  0                  0",
        "  1                  0",
        "  2                  4",
    ]
    for said in ("12 test images, no training images, of 12 classes", ", from --reference FILE ", "no trainings, "):
        assert said in " ".join(answer.out.split())
