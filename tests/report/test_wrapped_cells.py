"""Cells that continue on the next line, in small examples and in all published tables on 80 columns."""

import re
import shutil

import pytest

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.api.published_results import load_published_results
from roarbench.common.text import SAME
from roarbench.plan.suites import RESULTS
from roarbench.report.roar_and_own_network_table import (
    CombinedTable,
    format_text,
    has_combined_table,
    make_combined_table,
)
from roarbench.report.table import find_default_unit, make_table
from roarbench.report.table_formats import list_columns, measure_table_width, wrap_columns
from roarbench.stats.bootstrap_intervals import Bootstrap
from roarbench.stats.verdicts import Verdict
from roarbench.store.published_folder import add_file_to_index, read_index_and_check_folder
from tests.helpers.tables import render_text

NAMES = ("name", "grad(steps=5,noise=0.1)~blurred (!)", "random")
NUMBERS = ("gain [95%]", "+1.0 [+0.5, +1.5]", "0.0")
WORDS = ("beats", "yes", "≈ a control")
DRAWS = Bootstrap(resamples=50)  # more resamples do not change the number of digits
PUBLISHED = sorted({file.versioned_suite for file in read_index_and_check_folder(RESULTS)})


@pytest.mark.parametrize(
    ("width", "names", "words"),
    [  # the second cells of names, and the last of the words; numbers take 17 columns, margins 4
        (67, "grad(steps=5,noise=0.1)~blurred (!)", "≈ a control"),
        (66, "grad(steps=5,noise=0.1)~blurred\n(!)", "≈ a control"),
        (62, "grad(steps=5,noise=0.1)\n~blurred (!)", "≈ a control"),
        (54, "grad(steps=5,noise=0.1)\n~blurred (!)", "≈ a\ncontrol"),
        (50, "grad(steps=5,\nnoise=0.1)~blurred (!)", "≈ a\ncontrol"),
        (46, "grad(steps=5,\nnoise=0.1)~blurred\n(!)", "≈ a\ncontrol"),
        (1, "grad(steps=5,n\noise=0.1)~blur\nred (!)", "≈ a\ncontrol"),
    ],
)
def test_wrap_columns_breaks_names_before_words(width, names, words):
    found = wrap_columns([NAMES, NUMBERS, WORDS], 0, [2], width)
    assert (found[0][1], found[1], found[2][2]) == (names, NUMBERS, words)
    assert measure_table_width(found) <= max(width, 14 + 17 + 7 + 4)


def test_wrap_columns_breaks_long_names_at_hyphens():
    (names,) = wrap_columns([("name", "a-submission-of-mine")], 0, [], 15)
    assert names[1] == "a-submission-\nof-mine"


def list_shown_cells(table):
    """Return the cells that every terminal shows, in one line each."""
    if isinstance(table, CombinedTable):
        return [cell for row in table.rows for cell in row]
    cells = (cell for column in list_columns(table) if not column.worth for cell in column.cells)
    return [cell.replace(Verdict.SAME, SAME) for cell in cells]


def list_published_tables(suite, source):
    """Yield the table of each protocol, and the combined table if the suite has one."""
    results = load_published_results(suite, source).stored
    for protocol in dict.fromkeys(block.protocol for block in results.suite.blocks):
        unit = find_default_unit(results.suite, protocol)
        if table := make_table(SuiteDraws(results, unit, DRAWS), protocol, results.suite.estimators):
            yield table
    if has_combined_table(results.suite):
        yield make_combined_table(results)


@pytest.fixture
def folder(tmp_path):
    """Create a folder with the files of `quick` 7 and of another suite that shares rows with `quick`."""
    for file in read_index_and_check_folder(RESULTS):
        if file.versioned_suite in ("quick@7", "benchmark-imagenette64@1"):
            (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(RESULTS / file.path, tmp_path / file.path)
            add_file_to_index(tmp_path, file.path, file.rows, file.about)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("suite", [*PUBLISHED, "of a folder"])
def test_published_tables_have_whole_words_on_80_columns(suite, request):
    published = (suite, None) if suite in PUBLISHED else ("quick@7", request.getfixturevalue("folder"))
    tables = list(list_published_tables(*published))
    assert tables
    for table in tables:
        shown = render_text(format_text(table, 80), 80)
        assert max(map(len, shown.splitlines())) <= 80
        words = set(re.split(r"\s+|(?=~)", shown))
        for word in (word for cell in list_shown_cells(table) for word in re.split(r"\s+|(?=~)", cell)):
            name, *parameters = re.split(r"(?<=\w)(?=\()", word)
            assert word in words or {name, *parameters} <= words, word
