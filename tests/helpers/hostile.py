"""Names and descriptions that would do harm if a page took them for anything but text."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from roarbench.datasets.catalogue import DATASETS
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.estimators.estimator import Estimator
from roarbench.plan.protocols import KAR, MORF, ROAR
from roarbench.plan.suite import Block, SuiteSpec
from tests.helpers.command_line import publish
from tests.helpers.older_suites import OLDER

NAMES = (
    "<script>window.hurt=1</script>",
    "![x](http://127.0.0.1:9/pixel.png)",
    "</textarea><img src=x onerror=window.hurt=1>",
    '"><svg onload=window.hurt=1>',
    "right‮tfel",
    "esc\x1b[31mape\x07",
    "y" * 10_000,
    "../../etc/passwd",
    "{{ 7 * 7 }} $x^2$ :smile: `code` [link](javascript:window.hurt=1)",
    "=HYPERLINK(0)",
)
ABOUT = "<img src='http://127.0.0.1:9/a.png'> ![x](http://127.0.0.1:9/b.png) **bold** " + "z" * 10_000
MODEL = "![m](http://127.0.0.1:9/model.png)"
DATASET = replace(DATASETS["imagenette64"], name="![d](http://127.0.0.1:9/data.png)")


def install(patch: pytest.MonkeyPatch) -> SuiteSpec:
    """Make the tables of estimators, data sets and suites hold them."""
    names = ("random", "sobel", *NAMES)
    blocks = tuple(Block(protocol, names, (0.5, 0.9), seeds=2) for protocol in (ROAR, KAR, MORF))
    suite = replace(OLDER["quick@1"], name="hostile", about=ABOUT, model=MODEL, dataset=DATASET.name, blocks=blocks)
    for name in NAMES:
        patch.setitem(ESTIMATORS, name, Estimator(name, "grad", "base", ABOUT))
    patch.setitem(DATASETS, DATASET.name, DATASET)
    publish(patch, suite)
    return suite


if __name__ == "__main__":  # the app on a store of them: python -m tests.helpers.hostile FOLDER --port N
    from leaderboard.serve_and_export import run_streamlit
    from tests.helpers.board_store import make_store

    folder, port = Path(sys.argv[1]), sys.argv[3]
    suite = install(pytest.MonkeyPatch())
    run_streamlit(make_store(folder, suite, images=60), folder, int(port))
