"""Submissions in a store, export and import between stores, provenance levels of rows, and archived rows."""

import os
from base64 import b64encode
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from sqlalchemy import select, update

from roarbench.analysis.load_results import find_suite_in_open_store
from roarbench.common.enums import Order, ScoredNetwork
from roarbench.common.errors import CallerError, RemovedName, StoreError
from roarbench.common.identity import encode_canonically, make_json_record
from roarbench.execution import inferred_plan_entry, reproduction
from roarbench.plan.plan_entry import add_rows, make_plan_entry, plan_single_run
from roarbench.plan.planned_runs import build_run, list_planned_runs
from roarbench.plan.protocols import KAR, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_builtin_suite, read_suite
from roarbench.store.annotations_and_scores import (
    AnnotationKind,
    find_plan_entry,
    make_plan_annotations,
    read_annotations,
    replace_validation_findings,
)
from roarbench.store.archived_runs import (
    ArchivedCounts,
    archive_rows,
    list_keys_of_estimator_and_twins,
    read_archived_rows,
)
from roarbench.store.export_and_import import export_results, import_results
from roarbench.store.leases import Owner
from roarbench.store.published_folder import add_file_to_index, refuse_changed_annotations
from roarbench.store.results import (
    Origin,
    ReproductionOutcome,
    ResultsStore,
    explain_unverified_estimators,
    make_default_url,
    read_origins,
    store_reproduction,
)
from roarbench.store.run_result import RunResult, make_result_row, pack_correctness
from roarbench.store.schema import remarks, results, suites
from roarbench.store.user_files import (
    ImageSource,
    find_addable_estimators_with_runs,
    read_image_sources,
    read_submissions_by_id,
    read_submissions_of_estimators,
    read_suites,
    store_image_sources,
    store_or_replace_suite,
    store_submission,
)
from roarbench.submissions.submission_file import parse_submission
from tests.helpers.image_files import TEXT, write_suite
from tests.helpers.store_rows import ORIGIN, lease, list_result_keys, make_result, make_run, moved

ENTRY = parse_submission(b'NAME = "mine"\nDESCRIPTION = "x"\n')
OTHER = parse_submission(b'NAME = "other"\nDESCRIPTION = "x"\n')
TRUSTED = f"{ENTRY.id}~trusted"


def make_rows(*names):
    return [make_result(make_run(estimator=name)) for name in names]


def test_store_submission_keeps_one_file_per_id(store):
    for each in (ENTRY, OTHER, ENTRY):
        store_submission(store.database, each)
    twin = SimpleNamespace(id_without_parameters=ENTRY.id, sha256=ENTRY.sha256[:8] + "0" * 56, source=b"x")
    with pytest.raises(StoreError, match=f"a different file is stored as {ENTRY.id}"):
        store_submission(store.database, twin)
    assert read_submissions_by_id(store.database) == {ENTRY.id: ENTRY, OTHER.id: OTHER}
    assert read_submissions_by_id(store.database, [OTHER.id, "no@0123abcd"]) == {OTHER.id: OTHER}
    names = ("grad", TRUSTED, OTHER.id, "no@0123abcd")
    found = read_submissions_of_estimators(store.database, names)
    assert found == {TRUSTED: ENTRY, OTHER.id: OTHER}


def test_row_origin_is_verified_unless_trusted_or_imported(store, second, tmp_path):
    own, trusted, foreign = make_rows("grad", TRUSTED, "gb")
    second.add_results([own, foreign])
    store.add_results([own, trusted])
    assert moved(second, store, tmp_path).new == {foreign.run.key}
    assert list(explain_unverified_estimators(store.database, [own, trusted, foreign])) == [TRUSTED, "gb"]
    keys = [row.run.key for row in (own, trusted, foreign)]
    found = read_origins(store.database, keys)
    assert [found[key] for key in keys] == [Origin.VERIFIED, Origin.TRUSTED, Origin.SELF_REPORTED]
    store_reproduction(store.database, trusted, ReproductionOutcome.EQUAL, 3)
    for outcome in (ReproductionOutcome.DIFFERENT, ReproductionOutcome.WITHIN, ReproductionOutcome.DIFFERENT):
        store_reproduction(store.database, foreign, outcome, 3)
        vouched = Origin.VERIFIED if outcome is ReproductionOutcome.WITHIN else Origin.SELF_REPORTED
        assert read_origins(store.database, keys) == found | {foreign.run.key: vouched}
    archive_rows(store.database, [foreign.run.key], "not ours")
    (kept,) = read_archived_rows(store.database, [foreign.run.key])
    assert (len(kept.row["imports"]), len(kept.row["reproductions"])) == (1, 3), "archived with the row"
    store.add_results([foreign])
    assert read_origins(store.database, keys)[foreign.run.key] is Origin.VERIFIED, "computed here this time"


def test_export_and_import_keep_results_unchanged(store, second, tmp_path):
    """The export names the image folder but not its path."""
    kept = {result.run.key: result for result in make_rows("grad", "none", ENTRY.id, TRUSTED)}
    bare = replace(make_result(make_run(seed=5)), probability=None, smoothness=None, loss=None)
    kept[bare.run.key] = bare
    photos = ImageSource("da7a", "planted", None, "local", "/home/me/photos", "f11e5")
    store_submission(store.database, ENTRY)
    store_image_sources(store.database, [photos, ImageSource("07e4", "planted", None, "generated")])
    store.add_results(kept.values())
    path = tmp_path / "file.parquet"
    assert export_results(store, path) == 5
    assert import_results(second, path) == (set(kept), set(), [], 0)
    assert second.read_results(kept) == kept
    assert read_submissions_by_id(second.database) == {ENTRY.id: ENTRY}
    assert b"/home/me" not in path.read_bytes()
    assert read_image_sources(second.database) == [replace(photos, folder="photos", files="")]
    assert import_results(second, path) == (set(), set(kept), [], 0)
    with pytest.raises(CallerError, match="already exists"):
        export_results(store, path)


def test_export_contains_annotations_of_exported_rows_only(store, second, tmp_path):
    """Mask annotations once made four fifths of a published file, most of them for rows of other files."""
    noted, other = (make_result(run, 45_000) for run in (make_run(estimator=ENTRY.id), make_run(seed=1)))
    noted = replace(noted, rankings="1", probability=None)
    mask, unneeded = (b64encode(os.urandom(90_000)).decode() for _ in range(2))
    store_submission(store.database, ENTRY)
    replace_validation_findings(store.database, ENTRY.id, ["ignores the class"])
    replace_validation_findings(store.database, OTHER.id, ["ignores the class"])
    annotations = {f"{AnnotationKind.MASKS} {noted.run.key}": mask, f"{AnnotationKind.MASKS} {other.run.key}": unneeded}
    annotations |= {f"{AnnotationKind.PASSES} 1": [50.0, 1.5], f"{AnnotationKind.PASSES} 2": [1.0, 1.0]}
    annotations |= {f"{AnnotationKind.STABILITY} 1": 0.25, f"{AnnotationKind.STABILITY} 2": 0.5}
    store.add_results([noted, other], annotations=annotations)
    photos = ImageSource(noted.run.data, "planted", None, "local", "photos")
    store_image_sources(store.database, [photos, replace(photos, data="07e4")])
    store_or_replace_suite(store.database, own := read_suite(write_suite(tmp_path)))
    path = tmp_path / "file.parquet"
    assert export_results(store, path, {"kept 7a4c": 0.75}, keys={noted.run.key}) == 1
    assert len(mask) < path.stat().st_size < 1.5 * len(mask)
    assert import_results(second, path).new == {noted.run.key}
    keys = {noted.run.key, other.run.key}
    assert read_annotations(second.database, AnnotationKind.MASKS, keys) == {noted.run.key: mask}
    assert read_annotations(second.database, AnnotationKind.STABILITY, {"1", "2", "7a4c"}) == {"1": 0.25}
    assert read_annotations(second.database, AnnotationKind.PASSES, {"1", "2"}) == {"1": [50.0, 1.5]}
    findings = read_annotations(second.database, AnnotationKind.VALIDATE, {ENTRY.id, OTHER.id})
    assert findings == {ENTRY.id: ["ignores the class"]}
    assert read_image_sources(second.database) == [photos]
    assert read_suites(second.database) == []
    placed = replace(noted.run, cell=replace(noted.run.cell, dataset=own.dataset, model=own.model))
    store.add_results([replace(noted, run=placed)])
    export_results(store, tmp_path / "more.parquet", keys={placed.key})
    import_results(second, tmp_path / "more.parquet")
    assert [suite.name_in_commands for suite in read_suites(second.database)] == [own.name_in_commands]


def test_row_imported_while_its_run_was_in_progress_does_not_get_masks_of_the_run(store, second, tmp_path):
    """The own result, of another explained network, is left out, but its hashes of masks described the imported row."""
    own = make_result(make_run())
    second.add_results([replace(own, weights="5a1e", rankings="0b3c")])
    moved(second, store, tmp_path)
    assert store.add_results([own], annotations={f"{AnnotationKind.MASKS} {own.run.key}": "AAAA"}) == set()
    assert read_annotations(store.database, AnnotationKind.MASKS, {own.run.key}) == {}


def test_values_measured_here_replace_those_that_an_import_claimed(store, second, tmp_path):
    """An imported count of passes, stored before the own maps were made, was shown as measured here."""
    foreign, own = (replace(make_result(make_run(seed=seed)), rankings="1") for seed in range(2))
    kinds = {AnnotationKind.TIES: (0.0, 0.75), AnnotationKind.STABILITY: (1.0, 0.5)}
    kinds |= {AnnotationKind.PASSES: ([1.0, 1.0], [50.0, 1.0])}
    claimed, measured = ({f"{kind} 1": pair[i] for kind, pair in kinds.items()} for i in range(2))
    second.add_results([foreign], annotations=claimed | {f"{AnnotationKind.LARGEST_CLASS} da7a": 0.5})
    moved(second, store, tmp_path)
    store.add_results([own], annotations=measured | {f"{AnnotationKind.LARGEST_CLASS} da7a": 0.9})
    for kind, pair in kinds.items():
        assert read_annotations(store.database, kind, {"1"}) == {"1": pair[1]}
    assert read_annotations(store.database, AnnotationKind.LARGEST_CLASS, {"da7a"}) == {"da7a": 0.9}
    (tmp_path / "file.parquet").unlink()
    moved(second, store, tmp_path)
    assert read_annotations(store.database, AnnotationKind.TIES, {"1"}) == {"1": 0.75}


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        ({"row": 0.75, "z": 0.0}, False),  # an import keeps the first value
        ({"row": 0.75, "a": 0.74}, False),  # measured on other splits
        ({"row": 0.75, "a": 0.73}, True),  # 2.7 %, more than any two published files differ by
        ({"row": 0.0}, True),
        ({"row": None}, True),
        ({"row": 0.75, "a": 0.0}, True),
    ],
)
def test_annotations_of_published_rows_must_not_change(files, refused, tmp_path):
    """A pull request could erase the doubts about a published row, also by a file that is imported before the row's."""
    for folder, shares in (("before", {"row": 0.75}), ("now", files)):
        for seed, (name, share) in enumerate(sorted(shares.items(), key=lambda pair: pair[0] != "row")):
            row = replace(make_result(make_run(seed=seed)), rankings="1")
            with ResultsStore.open(make_default_url(tmp_path / folder / name)) as store:
                notes = {} if share is None else {f"{AnnotationKind.TIES} 1": share}
                store.add_results([row], annotations=notes)
                (path := tmp_path / f"{folder}-results/pics/1/{name}.parquet").parent.mkdir(parents=True, exist_ok=True)
                export_results(store, path)
                add_file_to_index(tmp_path / f"{folder}-results", f"pics/1/{name}.parquet", "me")
    refuse_changed_annotations(tmp_path / "before-results", tmp_path / "before-results")
    said = "pics/1/row.parquet was published with another value of 'ties 1', which "
    with pytest.raises(StoreError, match=said) if refused else nullcontext():
        refuse_changed_annotations(tmp_path / "now-results", tmp_path / "before-results")


def test_rows_and_suites_of_removed_protocols_stay_and_are_named(store, second, tmp_path, call):
    exchanged = make_run()
    exchanged = replace(exchanged, cell=replace(exchanged.cell, retrain=ScoredNetwork.EXCHANGED))
    store.add_results([make_result(make_run()), make_result(exchanged)])
    store_or_replace_suite(store.database, own := read_suite(write_suite(tmp_path)))
    with store.database.begin_exclusive_write() as connection:
        record = (
            connection.execute(select(suites.c.record))
            .scalar_one()
            .replace('"protocol":"roar"', '"protocol":"augmented"')
        )
        connection.execute(update(suites).values(record=record))
    assert "augmented" in record and read_suites(store.database) == []
    with pytest.raises(RemovedName, match="protocol 'augmented' was removed; its stored rows are kept"):
        find_suite_in_open_store(own.name_in_commands, store)
    assert export_results(store, tmp_path / "file.parquet") == 2
    outcome = import_results(second, tmp_path / "file.parquet")
    assert (outcome.new, outcome.removed) == ({make_run().key, exchanged.key}, 1)
    told = call("import", tmp_path / "file.parquet", "--store", tmp_path / "third").err
    assert "1 result of the removed protocol roar-exchanged: stored, but in no table" in told
    at = exchanged.key, "--store", tmp_path / "third"
    assert call("runs", *at).out.startswith("roar-exchanged ")
    assert "protocol 'roar-exchanged' was removed; its stored rows are kept" in call("reproduce", *at).err


def test_import_reports_different_results_as_conflicts_without_replacement(store, second, tmp_path):
    same, changed, fresh = (make_result(make_run(seed=seed)) for seed in range(3))
    other = replace(changed, bits=pack_correctness(changed.correctness[::-1]))  # as many correct
    store.add_results([same, other, fresh])
    second.add_results([same, changed])
    new, known, (conflict,), _ = moved(store, second, tmp_path)
    assert (new, known) == ({fresh.run.key}, {same.run.key})
    assert (conflict.stored, conflict.imported) == (changed, other)
    assert conflict.differing_images == (changed.correctness != other.correctness).sum() > 0
    assert second.read_results([changed.run.key]) == {changed.run.key: changed}


def test_import_names_equal_predictions_of_other_weights_and_keeps_own_masks(store, second, tmp_path, call):
    """Such rows were called stored already, and their hashes of masks were added to the stored run."""
    runs = (make_run(seed=seed) for seed in range(2))
    roar = (replace(run, cell=replace(run.cell, order=ROAR.order, retrain=ROAR.retrain)) for run in runs)
    own, unknown = map(make_result, roar)
    hashes = b64encode(os.urandom(2 * 1001)).decode()
    masks = {f"{AnnotationKind.MASKS} {row.run.key}": hashes for row in (own, unknown)}
    store.add_results([replace(own, weights="5a1e", rankings="0b3c"), replace(unknown, weights="")], annotations=masks)
    second.add_results([own, unknown])
    new, known, (conflict,), _ = moved(store, second, tmp_path)
    assert (new, known, conflict.differences) == (set(), {unknown.run.key}, ["weights", "rankings"])
    stored = read_annotations(second.database, AnnotationKind.MASKS, {own.run.key, unknown.run.key})
    assert stored == {unknown.run.key: hashes} and second.read_results([own.run.key]) == {own.run.key: own}
    with ResultsStore.open(make_default_url(tmp_path / "third")) as third:
        third.add_results([own])
    told = call("import", tmp_path / "file.parquet", "--store", tmp_path / "third").err
    assert "results are new, 1 are stored already with other predictions, weights or rankings" in told
    assert "\nother weights and rankings: roar var-grad t=0.9 pixel seed 0: " in told and ", 0 differ (key " in told


def test_imported_suite_does_not_take_the_name_of_an_own_suite(store, tmp_path, call):
    """After an import, `table` showed the imported version, and `run` lacked its data."""
    own = read_suite(write_suite(tmp_path))
    placed = make_run()
    placed = replace(placed, cell=replace(placed.cell, dataset=own.dataset, model=own.model))
    others = [read_suite(write_suite(tmp_path, TEXT.replace("[0.5]", f"[{level}]"))) for level in (0.3, 0.4)]
    with ResultsStore.open(make_default_url(tmp_path / "here")) as here:
        store_or_replace_suite(here.database, own)
    store.add_results([make_result(placed)])
    for other in others:
        store_or_replace_suite(store.database, other)
        export_results(store, path := tmp_path / f"{other.version}.parquet")
        said = f"{other.name_in_commands} is another suite of this name: `--suite {own.name}` means "
        told = call("import", path, "--store", tmp_path / "here").err
        assert told.count("another suite") == 1 and f"{said}{own.name_in_commands}\n" in told
    with ResultsStore.open(make_default_url(tmp_path / "here"), read_only=True) as here:
        assert len({suite.name_in_commands for suite in read_suites(here.database)}) == 3
        assert find_suite_in_open_store(own.name, here).blocks == own.blocks != others[1].blocks
        assert find_suite_in_open_store(others[0].name_in_commands, here).blocks == others[0].blocks


@pytest.mark.parametrize("stored", [True, False])
def test_import_rejects_rows_with_other_image_count_on_same_data(stored, store, second, tmp_path):
    """Boards stack the rows, so a short row would stop every command that shows the suite."""
    short, own = make_result(make_run(seed=1), total=1000), make_result(make_run(seed=2))
    second.add_results([short] if stored else [short, own])
    store.add_results([own] if stored else [])
    with pytest.raises(StoreError, match="nothing was added"):
        moved(second, store, tmp_path)
    assert len(list_result_keys(store)) == stored


def test_reproduction_deviation_ignores_imported_rows(store, second, tmp_path):
    """Imported seeds with extreme results would put any result inside the margin."""
    suite = find_builtin_suite("planted")
    runs = [build_run(suite, point, "da7a", None) for point in list_planned_runs(suite)]
    cell = ("random", Order.MORF, 0.5)
    runs = [run for run in runs if (run.cell.estimator, run.cell.order, run.cell.t) == cell and run.cell.retrain.trains]
    extremes = [RunResult(run, 8, 8, b"\xff", 1.0, ORIGIN) for run in runs if run.seed == 1]
    extremes += [RunResult(run, 0, 8, b"\0", 1.0, ORIGIN) for run in runs if run.seed != 1]
    second.add_results(extremes)
    moved(second, store, tmp_path)
    assert reproduction._estimate_run_deviation(second, suite, extremes[0], extremes[0]) > 0.7
    assert reproduction._estimate_run_deviation(store, suite, extremes[0], extremes[0]) is None


def test_export_has_plan_entries_of_its_rows_and_import_checks_them(store, second, tmp_path):
    """Files and stores from before have none, so their runs have none either."""
    suite = find_builtin_suite("planted")
    planned, unplanned, other = (build_run(suite, point, "da7a", None) for point in list_planned_runs(suite)[-3:])
    annotations = make_plan_annotations(suite, [planned, other])
    store.add_results([make_result(planned), make_result(unplanned)], annotations=annotations)
    assert find_plan_entry(store.database, planned.key) == make_plan_entry(suite, planned)
    assert find_plan_entry(store.database, unplanned.key) is None
    export_results(store, path := tmp_path / "file.parquet")
    assert import_results(second, path).new == {planned.key, unplanned.key}
    entries = [find_plan_entry(second.database, run.key) for run in (planned, unplanned, other)]
    assert entries == [make_plan_entry(suite, planned), None, None]
    with store.database.begin_exclusive_write() as connection:
        key = f"{AnnotationKind.ENTRY} {make_plan_entry(suite, planned).key}"
        forged = {**make_json_record(make_plan_entry(suite, planned)), "references": 9}
        connection.execute(update(remarks).where(remarks.c.key == key), {"value": forged})
    export_results(store, path := tmp_path / "forged.parquet")
    with pytest.raises(StoreError, match="is not a valid annotation"):
        import_results(second, path)


def test_plan_entry_belongs_to_the_stored_result(store, second, tmp_path):
    """Another suite has the same run with rankings at other levels, so its entry would not repeat the stored result."""
    suite = find_builtin_suite("planted")
    (run,) = [build_run(suite, point, "da7a", None) for point in list_planned_runs(suite)[-1:]]
    wider = replace(suite, blocks=(*suite.blocks, Block(ROAR, ("random",), (0.25,), 1)))
    assert make_plan_entry(wider, run) != make_plan_entry(suite, run)
    store.add_results([make_result(run)], annotations=make_plan_annotations(suite, [run]))
    store.add_results([make_result(run)], annotations=make_plan_annotations(wider, [run]))
    assert find_plan_entry(store.database, run.key) == make_plan_entry(suite, run)
    export_results(store, path := tmp_path / "file.parquet")
    second.add_results([make_result(run)])  # by an earlier version, which stored no entry
    assert import_results(second, path).known == {run.key}
    assert find_plan_entry(second.database, run.key) is None
    archive_rows(store.database, [run.key], "computed again")
    store.add_results([make_result(run)], annotations=make_plan_annotations(wider, [run]))
    assert find_plan_entry(store.database, run.key) == make_plan_entry(wider, run)


def test_reproduction_deviation_uses_roar_of_other_rows(second, monkeypatch):
    """KAR of one estimator was run once; training runs of Random under ROAR say how much training runs differ."""
    blocks = (Block(ROAR, ("random", "truth"), (0.5,), seeds=2), Block(KAR, ("random", "truth"), (0.5,), seeds=1))
    suite = replace(find_builtin_suite("planted"), blocks=blocks)
    runs = [build_run(suite, planned, "da7a", None) for planned in list_planned_runs(suite)]
    roar = [run for run in runs if run.cell.order is ROAR.order and run.cell.estimator == "random"]
    rows = [RunResult(run, 8 * run.seed, 8, b"\xff" if run.seed else b"\0", 1.0, ORIGIN) for run in roar]
    (kar,) = [run for run in runs if run.cell.order is KAR.order and run.cell.estimator == "truth"]
    stored = replace(RunResult(kar, 8, 8, b"\xff", 1.0, ORIGIN), rankings="ab" * 32)
    monkeypatch.setattr(inferred_plan_entry, "list_all_suites", lambda _: [suite])
    second.add_results([*rows, stored])
    entry = inferred_plan_entry.infer_plan_entry(second, stored, ())
    assert entry == make_plan_entry(replace(suite, blocks=suite.blocks[1:]), kar)
    single = plan_single_run(kar, entry, [])
    assert reproduction._estimate_run_deviation(second, single, stored, stored) is None
    widened = add_rows(single, kar, second.list_cells_and_seeds(kar))
    found = [reproduction._estimate_run_deviation(second, each, stored, stored) for each in (suite, widened)]
    assert found[0] == found[1] > 0.7


def test_archive_rows_removes_estimator_and_keeps_whole_rows(store):
    variant = f"{ENTRY.id}~untrained~matched"
    mine, other, grad, nested = make_rows(ENTRY.id, TRUSTED, "grad", variant)
    failed, owner = make_run(seed=1, estimator=f"{ENTRY.id}~blurred"), Owner.of_this_process()  # a sanity-check variant
    store.add_results([mine, other, grad, nested])
    lease(store, [failed.key], owner)
    store.failures.record_runs_failed_until_retry([failed], "died")
    store.failures.record_runs_failed_until_retry([make_run(seed=1, estimator=TRUSTED)], "died, too")
    keys = list_keys_of_estimator_and_twins(store.database, ENTRY.id)
    assert set(keys) == {mine.run.key, nested.run.key, failed.key}
    with pytest.raises(CallerError, match="1 of these runs are in progress"):
        archive_rows(store.database, keys, "in haste")
    assert store.failures.read_history(keys) and store.find_done_keys(keys)
    assert not read_archived_rows(store.database, keys)
    store.release_leases([failed.key], owner)
    assert archive_rows(store.database, keys, "wrong\nlayer") == ArchivedCounts(2, 1)
    assert store.find_done_keys([mine.run.key, other.run.key, grad.run.key]) == {other.run.key, grad.run.key}
    assert store.failures.read_history(keys) == {}
    added = find_addable_estimators_with_runs(store.database, "planted", "resnet8")
    assert added == ["grad", TRUSTED]  # both run in any suite
    assert not find_addable_estimators_with_runs(store.database, "planted", "mlp"), "no runs, not even failed ones"
    kept = {(row.run.key, row.kind): row for row in read_archived_rows(store.database, keys)}
    result, failure = kept[mine.run.key, "result"], kept[failed.key, "failure"]
    assert (nested.run.key, "result") in kept
    whole = {name: value.hex() if isinstance(value, bytes) else value for name, value in make_result_row(mine).items()}
    whole |= {"created": mine.created.isoformat(), "imports": [], "reproductions": []}
    assert {"record": encode_canonically(make_json_record(result.run)), **result.row} == whole
    assert (failure.run, failure.row["reason"]) == (failed, "died")
    for row in (result, failure):
        assert row.reason == "wrong layer" and " on " in row.who and row.created.tzinfo is not None


def test_export_of_damaged_row_is_refused(store, tmp_path):
    store.add_results([make_result(make_run())])
    with store.database.begin_exclusive_write() as connection:
        connection.execute(update(results).values(correct=1))
    with pytest.raises(StoreError, match="correct is 1 of 1001 images, which contradicts the bits"):
        export_results(store, tmp_path / "all")
    assert list(tmp_path.glob("all*")) == []
