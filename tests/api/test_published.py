"""Published rows, without any run."""

import tomllib
from pathlib import Path

import pytest

import roarbench
from roarbench.store.published import read_index

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_the_rows_that_come_with_the_package_are_a_board():
    published = roarbench.results("quick-matched")
    frame = published.to_dataframe().set_index("name")
    assert frame.attrs["suite"] == "quick-matched" and len(frame) == 13
    assert frame.loc["ig(baseline=mean)", "gain"] == pytest.approx(22.9, abs=0.05)  # as README.md has it
    assert frame["beats_controls"].fillna(False).sum() == 2
    difference = published.compare("ig(baseline=mean)", "input-x-grad")
    assert difference.points == pytest.approx(0.5, abs=0.1) and difference.verdict == "not significantly different"


def test_a_suite_that_nobody_published_is_refused_with_those_that_are():
    with pytest.raises(roarbench.CallerError, match="no published suite 'cifar10@.*known: quick-matched@1"):
        roarbench.results("cifar10")


def test_every_shipped_file_is_in_the_package():
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    shipped = {
        path.relative_to(ROOT).as_posix() for globs in setup.values() for glob in globs for path in ROOT.glob(glob)
    }
    assert shipped == {"results/index.json", *(f"results/{file.path}" for file in read_index(ROOT / "results"))}
