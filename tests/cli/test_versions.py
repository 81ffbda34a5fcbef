"""The command line in a store that has a suite on several sets of images."""

import json
import shutil
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite
from roarbench.protocols.roar import ROAR
from tests.helpers.command_line import command, publish

pytestmark = pytest.mark.slow

SMALL = ("--suite", "quick", "--limit", "10")
QUICK = replace(find_suite("quick@1"), blocks=(Block(ROAR, ("random", "sobel"), (0.9,), seeds=1),))
RUNS = 3
READING = (("status",), ("table",), ("validity",), ("claims",), ("plot", "-o", "x.svg"))
TITLE = "quick v1 (small version: 10 images a split)"


class VersionedStore(NamedTuple):
    store: Path
    photos: Path
    data: str  # fingerprint of the photographs, as far as it is shown


@pytest.fixture(autouse=True)
def few_runs(monkeypatch):
    """The suite `quick` with three runs."""
    publish(monkeypatch, QUICK)


def write_photos(folder: Path) -> Path:
    """Somebody's images in the hub's layout: noise, ten classes."""
    folder.mkdir()
    for number, split in enumerate(("train", "validation")):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 64, 64, 3), np.uint8)
        files = [BytesIO() for _ in pixels]
        for file, picture in zip(files, pixels, strict=True):
            Image.fromarray(picture).save(file, "PNG")
        rows = {"image": [{"bytes": file.getvalue()} for file in files], "label": [*range(10)] * 2}
        pq.write_table(pa.table(rows), folder / f"{split}-00000-of-00001.parquet")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> VersionedStore:
    """A store with three runs on somebody's images; to be read only."""
    folder = tmp_path_factory.mktemp("versions")
    photos = write_photos(folder / "photos")
    with pytest.MonkeyPatch.context() as patch:
        publish(patch, QUICK)
        assert command("run", *SMALL, "--data", photos, "--store", folder / "store") == 0
    (manifest,) = (folder / "store/data").glob("*/manifest.json")
    return VersionedStore(folder / "store", photos, json.loads(manifest.read_text())["fingerprint"][:8])


@pytest.fixture(scope="module")
def both(made, tmp_path_factory) -> VersionedStore:
    """The same with runs on the suite's own images beside; to be read only."""

    store = Path(shutil.copytree(made.store, tmp_path_factory.mktemp("both") / "store"))
    with pytest.MonkeyPatch.context() as patch:
        publish(patch, QUICK)
        assert command("run", *SMALL, "--store", store) == 0
    return made._replace(store=store)


def rows(call, store, *words):
    return json.loads(call("table", *SMALL, "--store", store, "--format", "json", *words).out)


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_results_on_other_images_are_shown_only_where_these_are_asked_for(call, made, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    other = f"roarbench {words[0]} --suite quick --limit 10 --data {made.data} --store {made.store}"
    answer = call(*words, *SMALL, "--store", made.store)
    said = answer.err.partition(" (small version: 10 images a split; images of")[0].removeprefix("roarbench: ")
    assert said == f"nothing of {TITLE} is in this store, but: {' '.join([other, *words[1:]])}"
    for name in (made.photos, made.data):
        shown = call(*words, *SMALL, "--store", made.store, "--data", name)
        assert (shown.code, "nothing of" in shown.err, "also" in shown.err) == (0, False, False)


def test_a_table_without_data_is_empty_where_only_other_images_were_run(call, made):
    found = rows(call, made.store)
    assert (found["images"], {row["gain"] for row in found["rows"]}) == (0, {None})
    assert rows(call, made.store, "--data", made.photos)["images"] == 10


def test_both_are_shown_by_their_names(call, both):
    own, other = (rows(call, both.store, *words) for words in ((), ("--data", both.photos)))
    assert own["rows"] != other["rows"]
    text = call("table", *SMALL, "--store", both.store)
    assert f"{TITLE} (the suite's own images, " in " ".join(text.out.split())
    assert (
        f"this store also has: roarbench table --suite quick --limit 10 --data {both.data} --store {both.store} ("
        in text.err
    )
    text = call("table", *SMALL, "--store", both.store, "--data", both.data)
    assert f"{TITLE} (images of photos, {both.data})" in " ".join(text.out.split())


def test_a_folder_that_was_moved_is_the_same_images(call, made, tmp_path):

    away = shutil.copytree(made.photos, tmp_path / "away")  # with the times of its files
    assert rows(call, made.store, "--data", away)["images"] == 10


def test_a_folder_that_is_gone_is_still_known_by_its_name(call, made, tmp_path):
    photos, store = shutil.copytree(made.photos, tmp_path / "gone"), tmp_path / "store"
    shutil.copytree(made.store, store)
    assert call("run", *SMALL, "--data", photos, "--store", store).code == 0
    shutil.rmtree(photos)
    assert rows(call, store, "--data", photos)["images"] == 10


def test_images_that_the_store_does_not_know_are_refused(call, made, tmp_path):
    folder = write_photos(tmp_path / "more")
    answer = call("table", *SMALL, "--store", made.store, "--data", folder)
    assert (answer.code, answer.out) == (2, "")
    run = f"roarbench run --suite quick --data {folder} --store {made.store} --limit 10"
    assert f"`{run}` makes it" in answer.err
    answer = call("table", *SMALL, "--store", made.store, "--data", "/nowhere")
    assert (answer.code, answer.out) == (2, "")
    assert "--data /nowhere is missing" in answer.err


def test_a_run_says_how_its_results_are_read(call, made):
    answer = call("run", *SMALL, "--data", made.photos, "--store", made.store)
    asked = f"--suite quick --store {made.store} --data {made.photos} --limit 10"
    assert f"next:\n  roarbench table {asked}\n" in answer.err
    assert rows(call, made.store, "--data", made.photos)["images"] == 10


def test_a_plan_counts_what_is_done_on_the_images_that_it_asks_for(call, both, tmp_path):
    plan = ("plan", *SMALL, "--store", both.store, "--format", "json")
    done = {
        name: json.loads(call(*plan, *words).out)["done"]
        for name, words in (("own", ()), ("photos", ("--data", both.photos)))
    }
    assert done == {"own": RUNS, "photos": RUNS}
    more = write_photos(tmp_path / "more")
    assert json.loads(call(*plan, "--data", more).out)["done"] == 0
