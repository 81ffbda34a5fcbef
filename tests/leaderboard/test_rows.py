import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leaderboard.boards import Doubts, board_table, headline, main_board
from leaderboard.downloads import board_records, to_markdown
from leaderboard.filters import RISING, SORTS, Filter, filter_rows
from leaderboard.pages import empty_columns, gain_title
from leaderboard.rows import BEATS, BELOW, NEITHER, BoardTable
from leaderboard.source import main_rows, protocols, read_suites, units
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.marks import Flag, Grade, Mark
from roarbench.estimators import CONTROLS
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import DIFFROAR, KAR, ROAR
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.report.table import SuiteTable
from roarbench.stats.beating import Beating
from roarbench.stats.board import Board, Covers, Row
from roarbench.stats.bootstrap import Bootstrap, Estimate
from roarbench.stats.judging import board
from roarbench.stats.pairs import Pairs
from roarbench.stats.places import significant_pairs
from roarbench.store.results import ResultsStore
from roarbench.terms import Unit
from tests.helpers.board_store import make_store
from tests.helpers.made_up import LEVELS, MAIN, SUITE, held, usual

MARK = Mark("masks", Estimate(0.97, 0.93, 1.02), Grade.STRONG)
DOUBTS = Doubts(
    {"gb": Flag(Grade.STRONG, "Doubt.")},
    {"gb": (MARK,)},
    {"gb": Estimate(0.01, -0.02, 0.04)},
    "At the floor: gb (t = 0.9): its images tell no more than its mask.",
)


@pytest.fixture(scope="module")
def table(quick: SuiteResults) -> BoardTable:
    return board_table(Evidence.of(quick), doubts=DOUBTS, seconds={"grad": 1.5})


def ids(table: BoardTable) -> list[str]:
    return [entry.estimator for entry in table.rows]


def test_only_suites_with_results_are_read(suites: dict[str, SuiteResults]) -> None:
    assert list(suites) == ["quick-v1"]


def test_a_suite_with_nothing_but_runs_of_another_one_was_not_begun(tmp_path: Path) -> None:
    from tests.helpers.board_store import results

    quick, study = results(VERSIONS["quick", 1], 20), results(VERSIONS["study-imagenette64", 1], 20)
    shared = [point for point in study if point in quick]  # they share the recipe
    own = next(point for point in study if point not in quick)
    with ResultsStore.open(f"sqlite:///{tmp_path}/r.sqlite") as store:
        for more, shown in (
            ([study[point] for point in shared], ["quick-v1"]),
            (quick.values(), ["quick-v1"]),
            ([study[own]], ["quick-v1", "study-imagenette64-v1"]),
        ):
            store.add_all(more)
            assert list(read_suites(store, tmp_path)) == shown


def test_small_versions_stand_apart(tmp_path: Path) -> None:
    from tests.helpers.board_store import results

    with ResultsStore.open(f"sqlite:///{tmp_path}/r.sqlite") as store:
        store.add_all(results(SUITES["planted"], 20, limit=40).values())
        store.add_all(results(SUITES["planted"], 20).values())
        found = read_suites(store, tmp_path)
    assert list(found) == ["planted-v1", "planted-v1-small-40"]
    assert "small version: 40" in board_table(Evidence.of(found["planted-v1-small-40"])).title


def test_rows_are_estimators_and_controls_without_twins(table: BoardTable) -> None:
    estimators = {"grad", "grad-sq", "sgsq-grad", "var-grad", "ig", "gb"}
    assert set(ids(table)) == {"random", "sobel", "random-blurred"} | estimators
    assert [entry.estimator for entry in table.rows if entry.control] == ["sobel", "random", "random-blurred"]


def test_numbers_are_those_of_the_statistics(quick: SuiteResults, table: BoardTable) -> None:
    rows = {row.estimator: row for row in quick.board(ROAR, Unit.SCALAR, main_rows(quick)).rows}
    kar = {row.estimator: row.gain for row in quick.board(KAR, Unit.SCALAR, main_rows(quick)).rows}
    morf = {row.estimator: row.gain for row in quick.board(MORF, Unit.SCALAR, main_rows(quick)).rows}
    for entry in table.rows:
        row = rows[entry.estimator]
        blurred = entry.estimator == "random-blurred"  # has one seed, and nothing but ROAR
        assert (entry.gain, entry.place, entry.seeds) == (row.gain, row.place, 1 if blurred else 2)
        assert entry.kar == (Estimate() if blurred else kar[entry.estimator])
        assert entry.unretrained == (Estimate() if blurred else morf[entry.estimator])
        assert entry.random == ("" if entry.estimator == "random" else row.random.verdict)
        assert entry.blurred == ("" if blurred else row.random_blurred.verdict)
        assert entry.date == "2026-11-20"


def test_marks_and_what_is_above_masks_land_on_their_rows(table: BoardTable) -> None:
    rows = {row.estimator: row for row in table.rows}
    assert (rows["gb"].sign, rows["gb"].mark("masks").share, rows["gb"].above_masks.low) == ("(!!)", MARK.share, -0.02)
    assert (rows["grad"].sign, rows["grad"].marks, rows["grad"].above_masks) == ("", (), Estimate())
    assert "At the floor: gb (t = 0.9)" in table.footnote
    kept = {row["estimator"]: row for row in board_records(table)}["gb"]
    assert (kept["masks_share"], kept["above_masks"], kept["blurred_twin_share"]) == (0.97, 0.01, None)


def test_a_matched_control_is_a_column_with_its_verdict() -> None:
    twins = Block(ROAR, ("var-grad~other-image", "grad~other-image"), LEVELS, seeds=3)
    suite = replace(SUITE, blocks=(*SUITE.blocks, twins))
    flat = {"var-grad~other-image": 0.4, "grad~other-image": 0.4}
    held_by = held(suite, lambda cell: 0.9 - cell.t * flat[cell.estimator] if cell.estimator in flat else usual(cell))
    shown = board_table(Evidence.of(held_by, Bootstrap(200)))
    rows = {row.estimator: row for row in shown.rows}
    assert set(rows) == {*MAIN, "random-blurred"}, "the matched controls are no rows of their own"
    assert {name: rows[name].vs_other_image for name in MAIN} == {
        "random": "", "sobel": "", "grad": "worse", "var-grad": "better"
    }  # fmt: skip
    assert rows["var-grad"].other_image.value == pytest.approx(9.0, abs=1.5)
    assert rows["random"].other_image == Estimate()
    assert "other-image" not in empty_columns(shown)
    assert board_records(shown)[0]["vs_other_image"] == "better"


def test_flags_and_seconds_land_on_their_rows(table: BoardTable) -> None:
    assert {entry.estimator: entry.flag for entry in table.rows if entry.flag} == {"gb": "Doubt."}
    assert {entry.estimator: entry.seconds for entry in table.rows if entry.seconds} == {"grad": 1.5}


def test_the_caption_says_of_what_the_numbers_are(table: BoardTable) -> None:
    for word in ("levels 0.5, 0.9", "2 seeds", "300 test images", "unit scalar", "fill mean"):
        assert word in table.caption


def test_one_level_gives_the_gain_of_that_level_alone(quick: SuiteResults) -> None:
    scores = quick.scores(ROAR, Unit.SCALAR)
    assert scores is not None
    only = replace(scores, levels=(0.9,))
    judged = board(only, ROAR, spread=quick.spread(ROAR), shown=main_rows(quick))
    wanted = {row.estimator: row.gain for row in judged.rows}
    table = board_table(Evidence.of(quick), levels=(0.9,))
    assert table.levels == (0.9,)
    assert {entry.estimator: entry.gain for entry in table.rows} == wanted


def test_a_protocol_of_its_own(quick: SuiteResults) -> None:
    lerf = board_table(Evidence.of(quick), LERF)
    assert lerf.protocol == "lerf"
    gains = {row.estimator: row.gain for row in main_board(Evidence.of(quick), LERF, Unit.SCALAR).rows}
    assert {entry.estimator: entry.gain for entry in lerf.rows} == gains


def test_a_missing_run_has_no_place_and_says_why(tmp_path: Path) -> None:
    url = make_store(
        tmp_path,
        VERSIONS["quick", 1],
        lambda p: (p.cell.estimator, p.cell.t, str(p.cell.retrain)) != ("gb", 0.9, "images"),
    )
    with ResultsStore.open(url, read_only=True) as store:
        suite_results = read_suites(store, tmp_path)["quick-v1"]
    table = board_table(Evidence.of(suite_results))
    last = table.rows[-1]
    assert (last.estimator, last.place, last.gain.value, last.seeds) == ("gb", None, None, 0)
    assert last.gap == "no result yet of gb at t = 0.9"
    assert all(entry.place and not entry.gap for entry in table.rows[:-1])


def test_a_row_of_other_weights_has_no_place_and_says_why(quick: SuiteResults) -> None:
    marks = {"grad": "b" * 64}
    rows = {
        point: replace(row, weights=marks.get(point.cell.estimator, "a" * 64) if row.run.reference else "")
        for point, row in quick.results.items()
    }
    table = board_table(Evidence.of(replace(quick, results=rows)))
    assert {entry.estimator: entry.gap for entry in table.rows if not entry.place} == {
        "grad": "made from another reference than the other rows; do it again in a fresh --store"
    }


def test_without_random_nobody_has_a_place(tmp_path: Path) -> None:
    url = make_store(tmp_path, VERSIONS["quick", 1], lambda p: p.cell.estimator != "random")
    with ResultsStore.open(url, read_only=True) as store:
        table = board_table(Evidence.of(read_suites(store, tmp_path)["quick-v1"]))
    assert all(entry.place is None and entry.gain.value is None for entry in table.rows)
    assert {entry.gap for entry in table.rows} == {"no result yet of random at t = 0.5, 0.9"}


def test_untouched_images_missing(tmp_path: Path) -> None:
    url = make_store(tmp_path, VERSIONS["quick", 1], lambda p: p.cell.estimator != "none")
    with ResultsStore.open(url, read_only=True) as store:
        table = board_table(Evidence.of(read_suites(store, tmp_path)["quick-v1"]))
    assert {entry.gap for entry in table.rows} == {"no result yet of the untouched images at t = 0"}


def test_filters(table: BoardTable) -> None:
    assert set(ids(filter_rows(table, Filter(families=("grad",))))) == {"grad", "grad-sq", "sgsq-grad", "var-grad"}
    assert set(ids(filter_rows(table, Filter(families=("control", "ig"))))) == {*CONTROLS, "ig"}
    assert ids(filter_rows(table, Filter(search="VARGRAD variance"))) == ["var-grad"]
    assert ids(filter_rows(table, Filter(search="nobody"))) == []
    assert len(filter_rows(table, Filter(status="verified")).rows) == 9
    assert not filter_rows(table, Filter(status="self-reported")).rows


def test_a_filter_gives_no_better_place(table: BoardTable) -> None:
    kept = filter_rows(table, Filter(families=("control",))).rows
    assert kept == tuple(row for row in table.rows if row.control) and kept[0].place.place > 1


OVER = {"yes": Estimate(2.0, 1.0, 3.0), "<": Estimate(-2.0, -3.0, -1.0), "≈": Estimate(0.5, -1.0, 2.0)}


def beside(word: str, name: str) -> Row:
    """A row that beats all controls, is below one or level with it; or a control; or without a gain, or a verdict."""
    found = Beating(word == "yes", 0.01, 0.01, "contrast", OVER[word]) if word in OVER else None
    gain = Estimate() if word.endswith("missing") else Estimate(1.0, 0.0, 2.0)
    name = "contrast" if word.startswith("control") else name
    return Row(name, 3, Estimate(), (), (), gain, Estimate(), None, None, None, None, beating=found)


@pytest.mark.parametrize(
    ("words", "strangers", "references", "said"),
    [
        ("control yes yes ≈", "", 3, "2 of 3 estimators beat every control that asks no network."),
        ("control yes <", "", 3, "1 of 2 estimators beats every control that asks no network."),
        ("control ≈ ≈", "", 3, "0 of 2 estimators beat every control that asks no network."),
        ("control < <", "", 3, "0 of 2 estimators beat every control that asks no network."),
        ("control yes", "", 1, "1 of 1 estimator beats every control that asks no network, for this network only."),
        ("control yes yes", "e2", 3, "1 of 1 estimator of the suite beats every control that asks no network."),
        ("control yes", "contrast", 3, ""),  # no verdict is about a control that joined later
        ("control yes missing", "", 3, ""),
        ("control-missing yes", "", 3, ""),
        ("control unjudged unjudged", "", 3, ""),  # at chance, or without intervals
        ("unjudged", "", 3, ""),  # nothing to beat
        ("control", "", 3, ""),
    ],
)
def test_the_headline_says_no_more_than_the_verdicts(words: str, strangers: str, references: int, said: str) -> None:
    rows = tuple(beside(word, f"e{n}") for n, word in enumerate(words.split()))
    made = Board(ROAR, (0.9,), rows, 100, Bootstrap(), Covers.BOTH, None, None, 0, references=references)
    assert headline(made, strangers.split()) == said


def test_success_is_to_beat_every_control(table: BoardTable) -> None:
    """Better than Random is none where another control is level; a control has no success at all."""
    row = replace(table.rows[0], random="better", control=False)
    kinds = {word: replace(row, beating=beside(word, "e").beating).kind for word in (*OVER, "unjudged")}
    assert kinds == {"yes": BEATS, "<": BELOW, "≈": NEITHER, "unjudged": NEITHER}
    assert (replace(row, control=True).kind, replace(row, control=True, beating=None).beats) == ("control", "control")


@pytest.mark.parametrize("sort", SORTS)
def test_every_sort_keeps_all_rows(table: BoardTable, sort: str) -> None:
    assert sorted(ids(filter_rows(table, Filter(sort=sort)))) == sorted(ids(table))


@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("sort", SORTS)
def test_what_is_missing_is_last_either_way(table: BoardTable, sort: str, down: bool) -> None:
    values = [SORTS[sort](entry) for entry in filter_rows(table, Filter(sort=sort, down=down)).rows]
    there = [value for value in values if value is not None]
    assert values == [*sorted(there, reverse=down), *[None] * (len(values) - len(there))]
    if down == (sort not in RISING):
        assert filter_rows(table, Filter(sort=sort)) == filter_rows(table, Filter(sort=sort, down=down))


def test_the_order_is_that_of_the_terminal(quick: SuiteResults, table: BoardTable) -> None:
    judged = quick.board(ROAR, Unit.SCALAR)
    rows = [row for row in SuiteTable(quick, judged, Unit.SCALAR, {}).rows if not row.check]
    assert ids(table) == [row.estimator for row in rows]
    assert [entry.place for entry in table.rows] == [row.place for row in rows]


def test_rows_without_any_run_have_no_status(tmp_path: Path) -> None:
    url = make_store(tmp_path, VERSIONS["quick", 1], lambda point: point.cell.estimator != "gb")
    with ResultsStore.open(url, read_only=True) as store:
        entries = board_table(Evidence.of(read_suites(store, tmp_path)["quick-v1"])).rows
    assert {entry.estimator: entry.status for entry in entries if entry.status != "verified"} == {"gb": ""}


def test_mask_only_has_accuracies_and_neither_gains_nor_places(quick: SuiteResults) -> None:
    judged = {row.estimator: row for row in quick.board(MASK_ONLY, Unit.SCALAR, main_rows(quick)).rows}
    found = board_table(Evidence.of(quick), MASK_ONLY)
    assert not found.gained and len(found.rows) == 8
    for entry in found.rows:
        assert (entry.place, entry.gain.value, entry.gap) == (None, None, "")
        assert entry.accuracies == judged[entry.estimator].accuracies and entry.accuracies[0].value > 0
    record = board_records(found)[0]
    assert record["accuracy_0.9"] == found.rows[0].accuracies[0].value
    assert "accuracy at t = 0.9" in to_markdown(found) and "KAR gain" not in to_markdown(found)


def test_sorts(table: BoardTable) -> None:
    gains = [entry.gain.value for entry in table.rows]
    assert gains == sorted(gains, reverse=True)
    assert ids(filter_rows(table, Filter(sort="estimator"))) == sorted(ids(table))
    assert ids(filter_rows(table, Filter(sort="seconds")))[0] == "grad"


def test_tie_groups_say_exactly_which_pairs_are_told_apart() -> None:
    """Two rows share a group if and only if no test tells them apart."""
    from roarbench.stats.places import place_intervals

    generator = np.random.default_rng(3)
    gains = generator.normal(0, 2, 12)
    draws = gains[:, None] + generator.normal(size=(12, 500))
    apart = significant_pairs(Pairs(gains, draws, 0.95))
    places = place_intervals(Pairs(gains, draws, 0.95))
    assert apart.any() and not apart.all()
    for one in range(12):
        for other in range(12):
            shared = bool(set(places[one].groups) & set(places[other].groups))
            assert shared == (not apart[one, other])


def test_without_intervals_places_are_numbers(tmp_path: Path) -> None:
    url = make_store(tmp_path, VERSIONS["quick", 1], lambda p: p.seed == 0)
    with ResultsStore.open(url, read_only=True) as store:
        table = board_table(Evidence.of(read_suites(store, tmp_path)["quick-v1"]))
    assert [entry.place.place for entry in table.rows] == list(range(1, 10))
    assert all(entry.place.low is None and entry.gain.low is None for entry in table.rows)
    assert all(math.isfinite(gain) for gain in table.lines.values()) and len(table.lines) == 2


def test_diffroar_is_a_board_where_both_orders_share_a_level() -> None:
    """KAR minus ROAR of the made-up truth at t = .9, their only common level: grad loses, var-grad gains."""
    results = held()
    assert protocols(results)[-1] == DIFFROAR
    assert units(results, DIFFROAR) == (Unit.SCALAR,)
    shown = board_table(Evidence.of(results, Bootstrap(400)), DIFFROAR)
    gains = {entry.estimator: entry.gain.value for entry in shown.rows}
    assert (shown.levels, set(gains)) == ((0.9,), set(MAIN))
    assert gains["grad"] < -7 < 0 < 14 < gains["var-grad"]  # half of 18 and of 36 points, up to the trainings' luck
    assert gain_title(shown) == "DiffROAR"
    apart = replace(SUITE, blocks=(Block(ROAR, MAIN, (0.3,), seeds=1), Block(KAR, MAIN, (0.9,), seeds=1)))
    assert DIFFROAR not in protocols(held(apart))
