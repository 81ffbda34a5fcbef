"""Boards of several sets of images and references, and of networks at chance."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from leaderboard.boards import board_table
from leaderboard.snapshot import LiveSnapshot
from leaderboard.source import Selection, read_suites
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.cli.main import app
from roarbench.datasets.catalogue import PINNED, find_dataset
from roarbench.datasets.origin import describe_source
from roarbench.identity import record
from roarbench.plan.keys import bind
from roarbench.plan.runs import CLEAN
from roarbench.plan.suites import VERSIONS
from roarbench.store.image_notes import LOCAL, ImageNote, source_files
from roarbench.store.result import pack_answers
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.board_store import results

QUICK = VERSIONS["quick", 1]
OTHER, GIVEN = "07e4" * 8, "file@0a1b2c3d4e5f"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "train.parquet").write_bytes(b"somebody's")
    return tmp_path / "photos"


@pytest.fixture
def several(tmp_path: Path, photos: Path) -> Path:
    """`quick` on its own images, on those of a folder, and of given weights."""
    about = find_dataset(QUICK.dataset)
    note = ImageNote(
        OTHER, QUICK.dataset, None, LOCAL, str(photos), source_files(record(about), describe_source(about, photos))
    )
    made = results(QUICK, 40)
    explained = replace(QUICK, given=GIVEN)
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.images.add([note])
        store.add_all(made.values())
        store.add_all(replace(row, run=bind(QUICK, point, OTHER, None)) for point, row in made.items())
        own = PINNED[QUICK.dataset]
        store.add_all(replace(row, run=bind(explained, point, own, None)) for point, row in made.items())
    return tmp_path


SLUGS = ["quick-v1", "quick-v1-data-07e407e4", "quick-v1-reference-file-0a1b2c3d"]


def read(folder: Path, *only: str) -> dict[str, SuiteResults]:
    with ResultsStore.open(default_url(folder), read_only=True) as store:
        return read_suites(store, folder, Selection(*only))


@pytest.mark.slow
def test_each_has_a_board_that_names_its_images_and_its_reference(several: Path) -> None:
    found = read(several)
    assert sorted(found) == SLUGS
    own, trained = f"(the suite's own images, {PINNED[QUICK.dataset][:8]})", "(reference trained by quick-reference@1)"
    given = "(reference file@0a1b2c3d)"
    assert [found[slug].title for slug in SLUGS] == [
        f"quick v1 {own} {trained}",
        f"quick v1 (images of photos, 07e407e4) {trained}",
        f"quick v1 {own} {given}",
    ]
    assert next(iter(found)) == "quick-v1"  # what is shown first
    assert {len(suite_results.results) for suite_results in found.values()} == {len(results(QUICK, 40))}


@pytest.mark.slow
def test_a_running_app_has_them_all(several: Path) -> None:
    assert sorted(LiveSnapshot(default_url(several), several).suites()) == SLUGS


@pytest.mark.slow
def test_boards_can_be_asked_for(several: Path, photos: Path) -> None:
    assert list(read(several, str(photos))) == list(read(several, "07e4")) == SLUGS[1:2]
    assert list(read(several, "", GIVEN[:10])) == SLUGS[2:]
    assert list(read(several, "", "file@ffff")) == []
    assert list(LiveSnapshot(default_url(several), several, Selection("07e4")).suites()) == SLUGS[1:2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("--data", "/nowhere"), ("--reference", "file@ffff"), ("--data", "07e4", "--reference", "file@0a1b")]
)
def test_what_no_board_is_of_is_the_callers_mistake(several: Path, words: tuple[str, ...]) -> None:
    out = several / "out"
    made = CliRunner().invoke(app, ["leaderboard", "--store", str(several), *words, "--export", str(out)])
    assert "this store has no board of " + " and ".join(
        map(" ".join, zip(words[::2], words[1::2], strict=True))
    ) in str(made.exception)
    assert not out.exists()


@pytest.mark.slow
def test_the_static_pages_of_one_alone(several: Path) -> None:
    call = ["leaderboard", "--store", str(several), "--data", "07e4", "--export", str(several / "out")]
    assert CliRunner().invoke(app, call).exit_code == 0
    assert (several / "out" / "board-quick-v1-data-07e407e4.html").is_file()
    assert not (several / "out" / "board-quick-v1.html").exists()
    assert "images of photos, 07e407e4" in (several / "out" / "index.html").read_text()


def test_at_chance_nothing_is_placed_and_the_board_says_why(quick: SuiteResults) -> None:
    """`quick` has ten classes: a tenth of the answers is a guess."""
    guess = np.arange(300) < 30
    rows = {
        point: replace(row, bits=pack_answers(guess), correct=int(guess.sum()))
        if point.cell.estimator == CLEAN
        else row
        for point, row in quick.results.items()
    }
    table = board_table(Evidence.of(replace(quick, results=rows)))
    assert table.title == "quick v1 (tests the installation only)"
    assert "These numbers test the installation only." in table.footnote
    for entry in table.rows:
        assert (entry.place, entry.random, entry.sobel, entry.flag) == (None, "", "", "")
        assert (entry.gain.value is None, entry.gap) == (False, "at chance, tests the installation only")
    assert all(entry.place for entry in board_table(Evidence.of(quick)).rows)
