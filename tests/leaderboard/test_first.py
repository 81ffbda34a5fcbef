"""The first page that is kept: it stands at once, and only while it is of what is in the store."""

import json
from pathlib import Path

import pytest

from leaderboard import first
from leaderboard.views import LiveStore
from roarbench.plan.suites import SUITES
from roarbench.store.results import ResultsStore
from tests.helpers.board_store import make_store, results


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> first.Shown:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    url = make_store(tmp_path, SUITES["planted"], lambda point: point.cell.t != 0.9, images=40)
    found = first.Shown(url, str(tmp_path))
    monkeypatch.setenv(first.ASKED, json.dumps(found))
    monkeypatch.setattr(first, "judged", first.Event())
    monkeypatch.setattr(first, "code_version", lambda: "1")
    return found


def view(**query: str) -> str:
    from streamlit.testing.v1 import AppTest  # half a second, which collecting need not take

    app = AppTest.from_file(str(Path(first.__file__).with_name("app.py")), default_timeout=60)
    app.query_params.update(query)
    app.run()
    assert not app.exception
    return next(part.value for part in app.get("html") if 'class="rb"' in part.value)


@pytest.mark.slow
def test_it_is_shown_without_judging_until_a_result_comes(shown: first.Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    assert first.recall(shown) is None
    page = view()
    kept = first.recall(shown)
    assert kept and kept.html == page and kept.files and 'class="board"' in page
    with monkeypatch.context() as closed:
        closed.setattr(LiveStore, "views", None)
        assert view() == page
    assert "Suites" in view(page="trust") != page
    late = [row for point, row in results(SUITES["planted"], 40).items() if point.cell.t == 0.9]
    with ResultsStore.open(shown.url) as store:
        store.add(late[0])
    assert first.recall(shown) is None
    again = view()
    assert again != page and first.recall(shown).html == again


PAGE = first.Page("title", "<p>html</p>", {})


def test_it_is_of_this_code_and_for_a_process_that_has_not_judged(
    shown: first.Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ResultsStore.open(shown.url) as store, monkeypatch.context() as changing:
        changing.setattr(first, "code_version", lambda: "1+dirty")  # one version for many changes
        first.keep(shown, store.state(), PAGE)
        assert first.recall(shown) is None
    with ResultsStore.open(shown.url) as store:
        first.keep(shown, store.state(), PAGE)
    assert first.recall(shown) == PAGE and first.recall(shown._replace(data="07e4")) is None
    with monkeypatch.context() as other:
        other.setattr(first, "code_version", lambda: "0")
        assert first.recall(shown) is None
    first.judged.set()
    assert first.recall(shown) is None
    first.judged.clear()
    first.place(shown).write_text("{")
    assert first.recall(shown) is None
