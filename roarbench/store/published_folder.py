"""Check and read a folder of published results, which has an index and exported files of each suite version.

    index.json                        every file with its hash, its number of rows, and the owner and machine
    SUITE/VERSION/NAME.parquet        a file of `roarbench export` that has only rows of this suite and version
    SUITE/VERSION/suite.toml          the suite's file, if the package has a newer version (`roarbench.plan.suites`)
    networks/NAME.safetensors         an explained network of rows in these files (`store.published_networks`)

A suite from a user's file has a hash as version, and its exports contain the suite. The whole folder is checked, first
names and sizes, then hashes, then every row, before a caller gets any row.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roarbench.common.errors import CallerError, StoreError
from roarbench.common.files import compute_sha256, write_atomically
from roarbench.common.identity import check_field_values, make_json_record
from roarbench.common.text import FORMULA, fit_on_one_line
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import PlannedRun, build_run, list_clean_runs_of_explained_networks, list_planned_runs
from roarbench.plan.suite import SEEDS_PER_REPLICATION, SuiteSpec
from roarbench.plan.suites import RESULTS, find_builtin_or_own_suite
from roarbench.store.published_networks import FOLDER, NETWORK_PATH, read_network_file
from roarbench.store.run_result import RunResult

if TYPE_CHECKING:
    from roarbench.store.export_and_import import ExportedFile

INDEX = "index.json"
_FORMAT = 1
_PATH = re.compile(r"([a-z0-9-]{1,60})/(\d{1,4}|[0-9a-f]{8})/[a-z0-9-]{1,60}\.parquet")
_OTHER_FILES = re.compile(rf"README\.md|LICENSE|\.gitignore|\.github/.*|[a-z0-9-]+/\d+/suite\.toml|{NETWORK_PATH}")
_MAX_INDEX_BYTES, _MAX_FILE_BYTES = 2**20, 2**26
# relative difference; the largest among published files, imported in either order, is 0.0215 (`kept`)
_MEASURED_APART = 0.022


@dataclass(frozen=True)
class PublishedFile:
    """File in a folder of published results."""

    path: str  # `SUITE/VERSION/NAME.parquet`
    sha256: str  # hash of the file
    rows: int  # number of results
    about: str  # owner and machine of the results, one line
    first_replication: int = 0  # smallest replication of the rows; above 0, the suite's own table uses none of them

    @property
    def versioned_suite(self) -> str:
        """Return the suite and version of the file's rows, `NAME@VERSION`."""
        return "@".join(self.path.split("/")[:2])


ResultsByFile = dict[PublishedFile, list[RunResult]]


def _open_exported_file(path: Path) -> "ExportedFile":
    from roarbench.store.export_and_import import ExportedFile  # imports SQLAlchemy, which takes half a second

    return ExportedFile(path)


def _list_pairs(results_by_file: ResultsByFile) -> Iterator[tuple[PublishedFile, RunResult]]:
    return ((file, result) for file, results in results_by_file.items() for result in results)


def read_checked_folder(folder: Path) -> ResultsByFile:
    """Check a folder with an `index.json`, and return its results; raise StoreError if a check fails.

    No check repeats a run, so a new row with invented bits passes.
    """
    results_by_file = {file: _read_checked_file(folder, file) for file in read_index_and_check_folder(folder)}
    seen: dict[str, tuple[PublishedFile, RunResult]] = {}
    # from suites to fingerprints of their images; a board compares rows image by image, so there is one per suite
    data: dict[str, str] = {}
    for file, result in _list_pairs(results_by_file):
        run = result.run
        other, first = seen.setdefault(run.key, (file, result))
        if other is not file and other.versioned_suite == file.versioned_suite:
            raise StoreError(f"{file.path} and {other.path} both have the run {run.key}; keep it in one of them")
        if first.bits != result.bits:
            raise StoreError(f"{file.path} and {other.path} have different results of the run {run.key}")
        if data.setdefault(file.versioned_suite, run.data) != run.data:
            raise StoreError(f"{file.path} has rows on other images ({run.data[:8]}) than the suite's other rows")
    # rows explain every published network, and no other weights of it
    checksums = {
        (network := read_network_file(path)).reference.key: (path.name, network.checksum)
        for path in sorted((folder / FOLDER).glob("*.safetensors"))
    }
    explained = {(result.run.reference, result.weights): file for file, result in _list_pairs(results_by_file)}
    for (key, weights), file in explained.items():
        name, checksum = checksums.get(key, ("", weights))
        if weights != checksum:
            wrong = f"{file.path} has rows for other weights than those of {FOLDER}/{name}, so they have no rank"
            raise StoreError(f"{wrong}; compute the rows again in a new --store, which takes the published networks")
    if unused := sorted(name for key, (name, _) in checksums.items() if key not in {key for key, _ in explained}):
        raise StoreError(f"{FOLDER}/{unused[0]} is explained by no row; delete the file")
    return results_by_file


def find_new_results(now: ResultsByFile, before: ResultsByFile) -> ResultsByFile:
    """Return, by file, the results that the file's suite lacked before; raise StoreError for lost or changed results.

    Two suites can have results of one run that were computed at different times, so each suite is compared with itself.
    """
    current = {(file.versioned_suite, result.run.key): result for file, result in _list_pairs(now)}
    known = {(file.versioned_suite, result.run.key) for file, result in _list_pairs(before)}
    for file, old in _list_pairs(before):
        seen = f"the run {old.run.key} of {file.path} was published"
        result = current.get((file.versioned_suite, old.run.key))
        if result is None:
            raise StoreError(f"{seen} and is missing now; published rows must not be removed")
        if result != old:
            raise StoreError(f"{seen} with other values; published rows must not change")
    new: ResultsByFile = {}
    for file, result in _list_pairs(now):
        if (file.versioned_suite, result.run.key) not in known:
            new.setdefault(file, []).append(result)
    return new


def read_checked_change(folder: Path, before: Path | None) -> tuple[ResultsByFile, ResultsByFile]:
    """Check a folder; return its results, and those that `before`, the folder without a change, lacks (all if None).

    Raises StoreError if a check fails, or if published rows or notes changed.
    """
    if before:
        read_index_and_check_folder(before)  # a mistyped name is refused before a minute of checks
    now = read_checked_folder(folder)
    if not before:
        return now, now
    new = find_new_results(now, read_checked_folder(before))
    refuse_changed_annotations(folder, before)
    return now, new


def refuse_changed_annotations(folder: Path, before: Path) -> None:
    """Raise StoreError if an import of a folder would give published rows other annotations than `before`.

    Doubts about rows follow from annotations. Files may state an annotation twice, and an import keeps the first value.
    Measured shares and counts may differ by 2.2 %, because files may have measured them on other splits.
    """
    if (files := read_index_and_check_folder(folder)) == (published := read_index_and_check_folder(before)):
        return
    kept = _read_annotations_as_imported(folder, files)
    for key, (path, value) in _read_annotations_as_imported(before, published).items():
        other, found = kept.get(key, ("", None))
        if not _is_same_annotation(value, found):
            seen = f"{path} was published with another value of '{fit_on_one_line(key, 60)}'"
            raise StoreError(f"{seen}, which {f'{other} states' if other else 'is missing'} now; it must not change")


def _read_annotations_as_imported(folder: Path, files: Iterable[PublishedFile]) -> dict[str, tuple[str, Any]]:
    """Return a dict from keys of annotations to the file and value that an import of the folder would store."""
    annotations: dict[str, tuple[str, Any]] = {}
    for file in files:
        for key, value in _open_exported_file(folder / file.path).annotations.items():
            annotations.setdefault(key, (file.path, value))
    return annotations


def _is_same_annotation(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_MEASURED_APART)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return all(map(_is_same_annotation, one, other))
    return bool(one == other)


def read_index_and_check_folder(folder: Path) -> tuple[PublishedFile, ...]:
    """Read the index of a folder; raise StoreError unless the folder contains exactly the listed files."""
    files = _read_index_entries(folder / INDEX)
    names = [file.path for file in files]
    for name in names:
        if not _PATH.fullmatch(name) or names.count(name) > 1:
            seen = f"{INDEX} names '{fit_on_one_line(name, 80)}'"
            raise StoreError(f"{seen}; expected SUITE/VERSION/NAME.parquet, listed once")
    for path in sorted(path for top in folder.iterdir() if top.name != ".git" for path in (top, *top.rglob("*"))):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise StoreError(f"{fit_on_one_line(name, 80)} is a link; a folder of results may have only plain files")
        if path.is_file() and name not in (INDEX, *names) and not _OTHER_FILES.fullmatch(name):
            seen = f"{fit_on_one_line(name, 80)} is not in {INDEX}"
            raise StoreError(f"{seen}; `roarbench submit` adds a file with its entry")
    return files


def list_newest_versions(files: Iterable[PublishedFile]) -> list[str]:
    """Return `NAME@VERSION` of the newest published version of every suite, by name."""
    titles = {file.versioned_suite for file in files}
    # the version of a suite from a user's file is a hash, so no version of it is newest
    by_version = sorted(titles, key=lambda title: int(title.rpartition("@")[2], 16))
    newest = {title.partition("@")[0]: title for title in by_version}
    return [newest[name] for name in sorted(newest)]


def _read_index_entries(path: Path) -> tuple[PublishedFile, ...]:
    if not path.is_symlink() and not path.exists():
        seen = f"{path.parent} is a file" if path.parent.is_file() else f"there is no {path}"
        raise StoreError(f"{seen}; name a folder of published results, such as results")
    try:
        if path.is_symlink() or path.stat().st_size > _MAX_INDEX_BYTES:
            raise ValueError(f"expected a plain file of at most {_MAX_INDEX_BYTES:,} bytes")
        values = json.loads(path.read_text("utf-8"))
        if set(values) != {"format", "files"} or values["format"] != _FORMAT:
            raise ValueError(f"expected only format {_FORMAT} and files")
        files = tuple(PublishedFile(**entry) for entry in values["files"])
        for file in files:
            check_field_values(file)
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise StoreError(f"{path} is not an index of results: {fit_on_one_line(str(error), 200)}") from None
    return files


def add_file_to_index(folder: Path, path: str, about: str) -> None:
    """Add a file of the folder to its index."""
    results, index = list(_open_exported_file(folder / path).read_results()), folder / INDEX
    first = min(_list_replications(results), default=0)
    added = PublishedFile(path, compute_sha256(folder / path), len(results), about, first)
    files = [*(_read_index_entries(index) if index.exists() else ()), added]
    listed = [make_json_record(file) for file in sorted(files, key=lambda file: file.path)]
    text = json.dumps({"format": _FORMAT, "files": listed}, indent=1)
    write_atomically(index, lambda temporary: temporary.write_text(f"{text}\n", "utf-8"))


def _read_checked_file(folder: Path, file: PublishedFile) -> list[RunResult]:
    path = folder / file.path
    if not path.is_file():
        raise StoreError(f"{file.path} is listed in {INDEX} but missing in the folder")
    if path.stat().st_size > _MAX_FILE_BYTES:
        raise StoreError(f"{file.path} has {path.stat().st_size:,} bytes, expected at most {_MAX_FILE_BYTES:,}")
    if (seen := compute_sha256(path)) != file.sha256:
        raise StoreError(f"{file.path} has the SHA-256 {seen[:12]}…, expected {file.sha256[:12]}… as in {INDEX}")
    results = list(_open_exported_file(path).read_results())
    if len(results) != file.rows:
        raise StoreError(f"{file.path} has {len(results)} rows, expected {file.rows} as in {INDEX}")
    try:
        suite = find_named_or_exported_suite(file.versioned_suite, [path])
    except CallerError as error:
        raise StoreError(f"{file.path}: {error}") from None
    numbers = _list_replications(results)
    if (first := min(numbers, default=0)) != file.first_replication:
        seen = f"{file.path} has rows from replication {first} on, expected {file.first_replication}"
        raise StoreError(f"{seen} as `first_replication` in {INDEX} says (0 if missing)")
    replications = {number: replace(suite, replication=number) for number in numbers}
    for result in results:
        run, origin = result.run, result.provenance
        replication, point = replications[run.seed // SEEDS_PER_REPLICATION], PlannedRun(run.cell, run.seed)
        texts = map(str, (origin.code_version, *origin.versions.values(), *origin.hardware.values()))
        if formula := next((text for text in texts if text.startswith(FORMULA)), ""):
            reason = f"a spreadsheet would take '{fit_on_one_line(formula, 40)}' for a formula"
        elif run.limit:
            reason = f"its data set was reduced (--max-images {run.limit}); publish results on whole data sets"
        elif _make_setting_key(point) not in _list_setting_keys(replication):
            reason = f"no run of {replication.title} has these settings"
        elif build_run(replication, point, run.data, None).key != run.key:
            reason = f"its explained network, recipe or network differs from that of {replication.title}"
        elif result.total != suite.dataset_record.test_images:
            reason = f"it has {result.total:,} test images, but the suite has {suite.dataset_record.test_images:,}"
        else:
            continue
        raise StoreError(f"{file.path}, run {run.key}: {reason}")
    return results


def _list_replications(results: Iterable[RunResult]) -> set[int]:
    return {result.run.seed // SEEDS_PER_REPLICATION for result in results}


def find_named_or_exported_suite(name: str, files: Iterable[Path]) -> SuiteSpec:
    """Return the suite `NAME` or `NAME@VERSION`, from the package or, if it is a user's suite, from exported files."""
    return find_builtin_or_own_suite(name, (suite for file in files for suite in _open_exported_file(file).suites))


@cache
def _list_setting_keys(suite: SuiteSpec) -> frozenset[tuple[object, ...]]:
    """Return the settings of a suite's runs: all fields except the estimator, of which only the twin counts."""
    return frozenset(map(_make_setting_key, (*list_planned_runs(suite), *list_clean_runs_of_explained_networks(suite))))


def _make_setting_key(point: PlannedRun) -> tuple[object, ...]:
    estimator = point.cell.estimator_record
    twin = estimator.twin if estimator else CLEAN
    return twin, replace(point.cell, estimator=CLEAN), point.seed


def list_checked_result_files(source: str) -> list[Path]:
    """Return the exported files of a source, which is one file or a folder of published results; check a folder."""
    path = Path(source)
    if path.is_dir():
        return [path / file.path for file in read_checked_folder(path)]
    if path.exists():
        return [path]
    here = f" such as {RESULTS}" if RESULTS else ""
    raise StoreError(f"there is no {path}; name a file of `roarbench export`, or a folder of published results{here}")
