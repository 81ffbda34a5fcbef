"""Fixtures: a store with older suites, its views, and the static site made from them."""

import pytest

from roarbench.plan.suites import SUITES
from tests.helpers.board_store import export_pages, make_store, open_views
from tests.helpers.older_suites import OLDER, older_suites


@pytest.fixture(scope="package", autouse=True)
def _older_suites():
    with older_suites():
        yield


@pytest.fixture(scope="package")
def quick_folder(tmp_path_factory):
    """A store with both versions of `quick`, the newer on few images, and an unfinished suite."""
    folder = tmp_path_factory.mktemp("quick")
    make_store(folder, OLDER["quick@1"])
    make_store(folder, OLDER["quick@2"], images=300)
    make_store(folder, SUITES["planted"], lambda point: point.cell.estimator != "truth-inverted", images=100)
    return folder


@pytest.fixture(scope="package")
def views(quick_folder):
    with open_views(quick_folder) as found:
        yield dict(found)


@pytest.fixture(scope="package")
def site(views, tmp_path_factory):
    return export_pages(views, tmp_path_factory.mktemp("site"))
