"""Everything that a results store holds of a suite, one version of its data after the other."""

from collections import defaultdict
from collections.abc import Iterable

from roarbench.analysis.boards import Other, SuiteResults
from roarbench.analysis.faithfulness import score_specs
from roarbench.analysis.versions import Version, Versions, versions_of
from roarbench.estimators import CONTROLS
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.keys import bind, explains, reference_points, runs_of
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Suite
from roarbench.plan.suites import with_given
from roarbench.store.entries import submissions_of, unverified
from roarbench.store.image_notes import ImageNote
from roarbench.store.remarks import Kind, findings_of, remarks_on
from roarbench.store.result import Result
from roarbench.store.results import ResultsStore
from roarbench.store.scores import score_values
from roarbench.store.watched import watched_rows


def collect(
    suite: Suite,
    store: ResultsStore,
    limit: int | None = None,
    data: str | None = None,
    notes: Iterable[ImageNote] = (),
) -> SuiteResults:
    """Return what a store has of a suite on images of this fingerprint, or its own; `limit` of each split, or all."""
    versions = versions_of(suite, store, notes)
    images = versions.own_images(limit) if data is None else data
    return _results_of(versions, Version(images, limit, suite.given), store)


def collect_all(suite: Suite, store: ResultsStore, notes: Iterable[ImageNote] = ()) -> list[SuiteResults]:
    """Return all versions of a suite that a store has: on the whole data set, then on small ones, largest first.

    Of one size the suite's own images and reference come first.
    """
    versions = versions_of(suite, store, notes)
    found = [_results_of(versions, version, store) for version in versions.stored]
    return sorted(found, key=lambda suite_results: (-(suite_results.limit or float("inf")), bool(suite_results.asked)))


def _results_of(versions: Versions, version: Version, store: ResultsStore) -> SuiteResults:
    suite = with_given(versions.suite, version.given)
    runs = runs_of(suite, version.data, version.limit)
    by_key = {run.key: run for run in runs.values()}
    found = store.results(by_key, by_key)
    results = {point: found[run.key] for point, run in runs.items() if run.key in found}
    return SuiteResults(
        suite,
        version.data,
        version.limit,
        results,
        doubts=_with_doubtful_company(unverified(store.database, results.values()), suite.estimators),
        submissions=submissions_of(store.database, {point.cell.estimator for point in results}),
        findings=findings_of(store.database, suite.estimators),
        shares=remarks_on(store.database, Kind.KEPT, {row.rankings for row in results.values() if row.rankings}),
        quantus=_quantus(suite, store, version.data),
        named=versions.names(version),
        asked=versions.options(version),
        references=_references(suite, version, store) if explains(suite) else {},
        watched=watched_rows(store.database, suite.title, version.data, version.limit, version.given),
        others=tuple(
            Other(versions.describe(other), other.limit, versions.options(other))
            for other in versions.stored
            if other != version
        ),
    )


def _with_doubtful_company(own: dict[str, str], estimators: Iterable[str]) -> dict[str, str]:
    """Return why rows are doubted: by their own, else by that of the rows that they are held against.

    Those are the controls, what all share on untouched images, and a row's twins.
    """
    common = [name for name in (CLEAN, *CONTROLS) if name in own]
    against = {name: common.copy() for name in estimators if name not in own}
    for name in own.keys() - {CLEAN}:
        against.get(find_estimator(name).parent, []).append(name)
    return own | {
        name: f"held against {', '.join(dict.fromkeys(others))}, {own[others[0]]}"
        for name, others in against.items()
        if others
    }


def _references(suite: Suite, version: Version, store: ResultsStore) -> dict[int, Result]:
    keys = [bind(suite, point, version.data, version.limit).key for point in reference_points(suite)]
    found = store.results(keys)
    return {number: found[key] for number, key in enumerate(keys) if key in found}


def _quantus(suite: Suite, store: ResultsStore, data: str) -> dict[str, dict[str, float | None]]:
    specs = score_specs(suite, data)
    values = score_values(store.database, [spec.key for spec in specs.values()])
    found: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for (estimator, metric), spec in specs.items():
        if spec.key in values:
            found[estimator][metric] = values[spec.key]
    return dict(found)
