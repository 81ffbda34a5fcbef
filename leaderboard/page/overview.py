"""The overview page, a table of verdicts with a row per estimator and columns per suite, without averages of gains."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from leaderboard.board_contents import BEATS, CONTROL, OPEN, BoardContents, BoardRow, find_kinds
from leaderboard.links import Address, Site
from leaderboard.page.board import find_board_address
from leaderboard.suite_view import SuiteView, sort_for_display
from leaderboard.text_helpers import shorten_line
from roarbench.estimators.catalogue import find_display_name, find_estimator_or_placeholder

_SHOWN = 9  # visible columns per kind of data: three questions of three suites; further columns are under "more"


class QuestionColumn(NamedTuple):
    """A column of the table: a board of a suite, with its address."""

    href: str
    suite: str
    board: BoardContents
    later: bool  # whether the column comes after the columns of ROAR and own-network gain of all suites


def build_overview_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of the page: advice on choosing an estimator, and verdicts by kind of data."""
    columns_by_data, counts = defaultdict[str, list[QuestionColumn]](list), defaultdict[str, int](int)
    shown = sort_for_display(_drop_repeated_suites(site.views.values()))
    for view in shown:
        for column in _make_question_columns(site, view):
            if any(row.value.value is not None for row in column.board.rows):
                columns_by_data[_find_kind_of_data(view)].append(column)
        counts[_find_kind_of_data(view)] += 1
    tables = []
    advices = [advice for view in shown if (advice := view.advice)]
    for data, unsorted in columns_by_data.items():
        columns = sorted(unsorted, key=lambda column: column.later)
        tables.append((data, False, columns[:_SHOWN], _list_estimators_with_verdicts(columns[:_SHOWN])))
        if more := columns[_SHOWN:]:
            tables.append((f"{data}: {len(more)} more", True, more, _list_estimators_with_verdicts(more)))
    return {
        "tables": tables,
        "counts": counts,
        "legend": _make_legend(column.board for columns in columns_by_data.values() for column in columns),
        "advice": [advice for advice in advices if advice.front],
        "unadvised": [advice for advice in advices if not advice.front],
    }


def _drop_repeated_suites(views: Iterable[SuiteView]) -> Iterator[SuiteView]:
    """Yield the suites except those that another suite on the same images and network repeats."""
    for view in views:
        if not any(_is_repeated_by(view, other) for other in view.suites_on_same_images_and_network):
            yield view


def _is_repeated_by(view: SuiteView, other: SuiteView) -> bool:
    """Return whether `other` repeats a suite.

    A suite that leads with ROAR and own-network gain is repeated by such a suite with more rows; any other suite is
    repeated by such a suite that contains all its runs.
    """
    if not other.combined_board:
        return False
    if view.combined_board:
        return _count_original_combined_rows(other) > _count_original_combined_rows(view)
    own, others = ({result.run for result in each.results.results.values()} for each in (view, other))
    return own <= others


def _count_original_combined_rows(view: SuiteView) -> int:
    return sum(row.id not in view.results.suite.added for row in view.combined_board.rows) if view.combined_board else 0


def _make_question_columns(site: Site, view: SuiteView) -> Iterator[QuestionColumn]:
    """Yield a column for each question of the suite's paired board; if it has none, a column for its first board."""
    title = shorten_line(view.title, 44)
    if view.combined_board:
        link = site.get_page_link("board", view.slug)
        for number, board in enumerate(view.combined_board.boards):
            yield QuestionColumn(link, title, board, later=number > 1)
        return
    link = site.get_link(find_board_address(view, view.board.protocol))
    yield QuestionColumn(link, title, view.board, later=True)


def _find_kind_of_data(view: SuiteView) -> str:
    record = view.results.suite.dataset_record
    if record.tabular:
        return "Tables"
    return "Known truth" if record.generated else "Images"


def _make_legend(boards: Iterable[BoardContents]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the colour legend; boards whose colours have the same meanings share an entry."""
    kinds, present = dict[str, Mapping[str, str]](), defaultdict[str, set[str]](set)
    for board in boards:
        kinds[board.legend_title] = find_kinds(board.protocol)
        present[board.legend_title] |= {row.colour_class for row in board.rows if row.started}
    titles_by_items = defaultdict[tuple[tuple[str, str], ...], list[str]](list)
    for title, meanings in kinds.items():
        titles_by_items[tuple(item for item in meanings.items() if item[0] in present[title])].append(title)
    return [(", ".join(titles), list(items)) for items, titles in titles_by_items.items()]


def _list_estimators_with_verdicts(
    columns: list[QuestionColumn],
) -> list[tuple[str, str, str, bool, list[BoardRow | None]]]:
    """Return the rows with a value, the most successful first: id, name, detail, whether a control, and answers."""
    complete = [{row.id: row for row in column.board.rows if row.value.value is not None} for column in columns]
    names = dict.fromkeys(name for answers in complete for name in answers)
    rows = {name: [answers.get(name) for answers in complete] for name in names}
    control = {name: find_estimator_or_placeholder(name).has_control_verdict for name in names}

    def make_sort_key(name: str) -> list[int]:
        kinds = [answer.colour_class for answer in rows[name] if answer]
        return [control[name], *(-kinds.count(kind) for kind in (BEATS, OPEN, CONTROL))]

    return [(name, *find_display_name(name), control[name], rows[name]) for name in sorted(names, key=make_sort_key)]
