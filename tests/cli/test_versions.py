"""The command line in a store that has a suite on several sets of images."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite
from roarbench.protocols.roar import ROAR
from tests.helpers.command_line import command
from tests.helpers.tiny_set import png, write_split

pytestmark = pytest.mark.slow

SMALL = ("--suite", "quick", "--limit", "10")
PUBLISHED = replace(find_suite("quick@1"), blocks=(Block(ROAR, ("random", "sobel"), (0.9,), seeds=1),))
RUNS = 3
TITLE = "quick v1 (small version: 10 images a split)"


class VersionedStore(NamedTuple):
    store: Path
    photos: Path
    data: str  # fingerprint of the photographs, as far as it is shown


def write_photos(folder: Path) -> Path:
    """Somebody's images in the hub's layout: noise, ten classes."""
    for number, split in enumerate(("train", "validation")):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 64, 64, 3), np.uint8)
        write_split(folder, split, [png(picture) for picture in pixels], [*range(10)] * 2, ("image", "label"))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> VersionedStore:
    """A store with three runs on somebody's images; to be read only."""
    folder = tmp_path_factory.mktemp("versions")
    photos = write_photos(folder / "photos")
    assert command("run", *SMALL, "--data", photos, "--store", folder / "store") == 0
    (manifest,) = (folder / "store/data").glob("*/manifest.json")
    return VersionedStore(folder / "store", photos, json.loads(manifest.read_text())["fingerprint"][:8])


def table(call, store, *words):
    return json.loads(call("table", *SMALL, "--store", store, "--format", "json", *words).out)


def test_results_on_other_images_are_shown_only_where_these_are_asked_for(call, made, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for words in (("table",), ("claims",), ("plot", "-o", "x.svg")):
        other = f"roarbench {words[0]} --suite quick --limit 10 --data {made.data} --store {made.store}"
        answer = call(*words, *SMALL, "--store", made.store)
        said = answer.err.partition(" (small version: 10 images a split; images of")[0].removeprefix("roarbench: ")
        assert said == f"nothing of {TITLE} is in this store, but: {' '.join([other, *words[1:]])}"
    for name in (made.photos, made.data, shutil.copytree(made.photos, tmp_path / "moved")):  # with its files' times
        assert table(call, made.store, "--data", name)["images"] == 10
    assert {row["gain"] for row in table(call, made.store)["rows"]} == {None}
    folder = write_photos(tmp_path / "more")
    run = f"roarbench run --suite quick --data {folder} --store {made.store} --limit 10"
    for name, said in ((folder, f"`{run}` makes it"), ("/nowhere", "--data /nowhere is missing")):
        answer = call("table", *SMALL, "--store", made.store, "--data", name)
        assert (answer.code, answer.out, said in answer.err) == (2, "", True)


def test_both_are_planned_apart_and_a_folder_that_is_gone_is_known_by_its_name(call, made, tmp_path):
    store = Path(shutil.copytree(made.store, tmp_path / "store"))
    assert call("run", *SMALL, "--store", store).code == 0
    own, other = (table(call, store, *words) for words in ((), ("--data", made.photos)))
    assert own["rows"] != other["rows"]
    photos = shutil.copytree(made.photos, tmp_path / "gone")
    for words in ((), ("--data", made.photos), ("--data", photos)):
        assert json.loads(call("plan", *SMALL, "--store", store, "--format", "json", *words).out)["done"] == RUNS
    answer = call("run", *SMALL, "--data", photos, "--store", store)
    asked = f"--suite quick --store {store} --data {photos} --limit 10"
    assert (answer.code, f"next:\n  roarbench table {asked}\n" in answer.err) == (0, True)
    shutil.rmtree(photos)
    assert table(call, store, "--data", photos)["images"] == 10
