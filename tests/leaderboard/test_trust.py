"""The page on trust has the studies' own numbers, and names what was not run."""

import json
from pathlib import Path

from leaderboard.links import Site, address
from leaderboard.page.trust import TRUST, context
from leaderboard.views import SuiteView
from roarbench.plan.suites import SUITES
from studies import trust

ROOT = Path(__file__).parents[2]


def test_its_numbers_are_those_of_the_studies() -> None:
    """After a study's page changed: python -m studies.trust."""
    assert json.loads(TRUST.read_text("utf-8")) == trust.trust()


def test_each_number_stands_in_its_study_and_has_a_command() -> None:
    for finding in trust.trust()["findings"]:
        page = (ROOT / finding["page"]).read_text("utf-8") + (
            ROOT / Path(finding["page"]).parent / "README.md"
        ).read_text("utf-8")
        assert finding["command"] in page and finding["number"][0].isdigit()


def test_sums_are_of_the_rows_that_are_named() -> None:
    """By hand, from a page of two rows and a null."""
    page = "| matched | ig | image | +1 | 15 | 0 | 0 |\n| matched | ig | chance | +1 | 10 | 2 | 3 |\n"
    page += "| matched | random-blurred | image | 0 | 1 | 2 | 12 |\n| specific | ig | image | 0 | 9 | 9 | 9 |\n"
    number, words = trust.photographs(trust.cells_of(page))
    assert number == "25 of 30" and "2 the wrong way" in words and "Of 15 pairs that know nothing it orders 3" in words


def test_what_was_not_run_is_what_the_store_lacks(views: dict[str, SuiteView]) -> None:
    fields = context(Site(views), address("trust"))
    absent = {suite["name"]: suite["runs"] for suite in fields["absent"]}
    assert set(absent) == set(SUITES) - {"quick", "planted"} and absent["imagenet"] > 1000
    assert fields["corrections"][0] == trust.trust()["corrections"][-1]  # the newest first
