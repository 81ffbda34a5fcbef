"""Store what comes from users' files: suites, submissions, sources of images, and trust in network files.

Results identify their images by a fingerprint. The record of a suite contains the source of its network, and imported
results bring this record. Nothing here imports torch.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_data_path
from sqlalchemy import Connection, delete, func, insert, select

from roarbench.common.errors import CallerError, DataError, RemovedName, StoreError
from roarbench.common.files import convert_write_errors, write_atomically
from roarbench.common.identity import Keyed, check_field_values, encode_canonically, hash_value
from roarbench.common.text import fit_on_one_line
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.estimators.catalogue import is_addable_to_suites
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.cells_and_runs import CLEAN, read_run_record
from roarbench.plan.protocols import REMOVED_PROTOCOLS
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import SUITE_VERSIONS, convert_user_suite_to_record, read_user_suite_record
from roarbench.store.database import Database
from roarbench.store.schema import delete_rows, entries, failures, images, insert_new, results, suites
from roarbench.submissions.submission_file import Submission, parse_submission

# by which suites of imports count as older than suites that were run here, whose names keep their meaning
OLDER = timedelta(days=36_500)
_SHOWN_CHARACTERS = 160  # of the beginning of a network file
_MOST_COMPARED = 20_000  # files of a folder whose changes tables tell of, in 0.4 processor seconds


def store_or_replace_suite(database: Database, suite: SuiteSpec) -> None:
    """Store a suite from a user's file, with the folder of its data; replace an earlier copy."""
    with database.begin_exclusive_write() as connection:
        connection.execute(delete(suites).where(suites.c.id == suite.name_in_commands))
        insert_suites(connection, [suite])


def insert_suites(connection: Connection, new: Iterable[SuiteSpec], older: timedelta = timedelta(0)) -> None:
    """Store suites within a transaction, as `older` than they are; existing suites stay unchanged."""
    created = datetime.now(UTC) - older
    rows = [
        {
            "id": suite.name_in_commands,
            "record": encode_canonically(convert_user_suite_to_record(suite)),
            "folder": suite.dataset_record.folder,
            "created": created,
        }
        for suite in new
    ]
    insert_new(connection, suites, rows)


def read_suites(database: Database, needed: str = "") -> list[SuiteSpec]:
    """Return the stored suites from users' files, oldest first; skip suites that this version cannot read.

    Raises:
        RemovedName: The suite `needed`, a name or an id, has a protocol that was removed.
    """
    stored_suites, removed = [], list[str]()
    for row in database.read(select(suites).order_by(suites.c.created, suites.c.id)):
        with suppress(CallerError, KeyError, TypeError, ValueError):
            record = json.loads(row.record)
            if needed in (row.id, row.id.partition("@")[0]):
                removed += [block["protocol"] for block in record["blocks"] if block["protocol"] in REMOVED_PROTOCOLS]
            suite = read_user_suite_record(record)
            if suite.name_in_commands == row.id:
                if suite.own and suite.own.dataset:
                    dataset = replace(suite.own.dataset, folder=row.folder)
                    suite = replace(suite, own=replace(suite.own, dataset=dataset))
                stored_suites.append(suite)
    if removed and needed not in {name for suite in stored_suites for name in (suite.name, suite.name_in_commands)}:
        raise RemovedName("protocol", removed[0])
    return stored_suites


def list_all_suites(database: Database) -> list[SuiteSpec]:
    """Return all versions of the named suites, then the stored suites from users' files."""
    return [*SUITE_VERSIONS.values(), *read_suites(database)]


def record_trusted_network(suite: SuiteSpec) -> None:
    """Record that this user trusts a suite's network files; if the record cannot be written, do nothing."""
    for source in _list_network_source_texts(suite):
        with suppress(StoreError):
            _save_source(_find_trusted_networks_folder(), source)


def refuse_untrusted_network(suite: SuiteSpec, trusted_digest: str, store: Path) -> None:
    """Raise CallerError if this user does not trust a suite's network file; save a copy to read in the store's folder.

    `trusted_digest` is the SHA-256 of a file that the user trusts, or empty.
    """
    for source in _list_network_source_texts(suite):
        digest = sha256(source.encode()).hexdigest()
        if trusted_digest == digest or (_find_trusted_networks_folder() / f"{digest}.py").exists():
            continue
        path = _save_source(store / "imported-networks", source)
        danger = f"{suite.architecture_names} with your rights, a file that came with imported results"
        begin = fit_on_one_line(" ¶ ".join(line for line in source.splitlines() if line.strip()), _SHOWN_CHARACTERS)
        seen = f"{suite.name_in_commands} would run {danger}: {begin}"
        raise CallerError(f"{seen} (all of it: {path}); read it, then repeat the command with --trust-network {digest}")


def _list_network_source_texts(suite: SuiteSpec) -> list[str]:
    sources = [suite.network_source, *(network.source for network in suite.networks)]
    return [source for source in dict.fromkeys(sources) if source]


def _find_trusted_networks_folder() -> Path:
    """Return the folder of trusted files, which is outside of stores, because a store may come from another user."""
    return user_data_path("roarbench") / "trusted-networks"


def _save_source(folder: Path, source: str) -> Path:
    path = folder / f"{sha256(source.encode()).hexdigest()}.py"
    if not path.exists():
        with convert_write_errors(path):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lambda temporary: temporary.write_bytes(source.encode()))
    return path


LOCAL = "local"  # kind of images from a caller's folder


@dataclass(frozen=True)
class ImageSource(Keyed):
    """Source of a set of images, which a fingerprint identifies."""

    data: str  # fingerprint of the decoded images and labels
    dataset: str
    limit: int | None  # images per split of a reduced data set; None for the whole set
    kind: str  # `bundled`, `hub` or `generated`, the data set's own sources; or `LOCAL`
    folder: str = ""  # path of a local source; only the last part of the path if imported
    files: str = ""  # hash of a local source (`hash_record_and_files`); empty if unknown

    @property
    def is_imported(self) -> bool:
        """Return whether another store wrote the source; imports keep only the last part of a folder's path."""
        return self.kind == LOCAL and "/" not in self.folder


def read_image_sources(database: Database) -> list[ImageSource]:
    """Return all image sources of a store, oldest first."""
    columns = [images.c[field.name] for field in fields(ImageSource)]
    statement = select(*columns).order_by(images.c.created, images.c.key)
    return [ImageSource(**row._mapping) for row in database.read(statement)]


def store_image_sources(database: Database, new: Iterable[ImageSource], used: str = "") -> None:
    """Store image sources; existing ones stay unchanged, but those of the images `used`, a fingerprint, are newest.

    A user may restore files that were edited, and tables show the images that were used last.
    """
    sources = list(new)
    last = {source.key: source for source in sources if source.data == used}
    with database.begin_exclusive_write() as connection:
        insert_image_sources(connection, [source for source in sources if source.data != used])
        of_dataset = images.c.dataset.in_({source.dataset for source in last.values()})
        stored = connection.scalars(select(images.c.key).where(of_dataset).order_by(images.c.created)).all()
        if last.keys() == {*stored[len(stored) - len(last) :]}:  # a repeated command changes nothing
            return
        delete_rows(connection, images, last.keys())
        newest = connection.scalar(select(func.max(images.c.created))) or datetime.min.replace(tzinfo=UTC)
        time = max(datetime.now(UTC), newest + timedelta(microseconds=1))  # the clock may have been set back
        insert_new(connection, images, [{"key": key, **vars(source), "created": time} for key, source in last.items()])


def insert_image_sources(connection: Connection, new: Iterable[ImageSource]) -> None:
    insert_new(connection, images, [{"key": source.key, **vars(source)} for source in new])


def check_imported_source(source: ImageSource) -> ImageSource:
    """Check a source that was read from an export; raise ValueError for wrong types or a folder with a path."""
    check_field_values(source)
    if "/" in source.folder:
        raise ValueError(f"folder is {source.folder}, expected a name without '/'")
    return source


@lru_cache(4)  # a table asks three times; a manifest names every file of a user's folder
def _read_manifest(path: Path, time: int) -> dict[str, Any]:
    """Return the manifest of decoded images, last changed at a time in nanoseconds, which callers do not change."""
    manifest: dict[str, Any] = json.loads(path.read_text())
    return manifest


def read_sources_of_decoded_images(folder: Path, dataset: str) -> list[ImageSource]:
    """Return the sources of a data set's decoded images in a folder, oldest first."""
    sources = []
    for path in sorted(folder.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime_ns):
        with suppress(ValueError, LookupError):  # the code that loads the images reports a damaged manifest
            manifest = _read_manifest(path, path.stat().st_mtime_ns)
            source, record = manifest["source"], manifest["record"]
            local = source["kind"] == LOCAL
            origin = (source["folder"], hash_record_and_files(record, source)) if local else ()
            image_set = manifest["fingerprint"], record["name"], manifest["limit"], source["kind"]
            sources.append(ImageSource(*image_set, *origin))
    return [source for source in sources if source.dataset == dataset]


def find_day_before_changes(folder: Path, record: DatasetRecord, fingerprint: str) -> str:
    """Return the day on which a user's files were decoded into a folder if they have changed since; else "".

    Names, sizes and times of the files are compared, as by `run`. Files that are gone, or not on this machine, have not
    changed; a folder of more than `_MOST_COMPARED` files is not listed, because 100,000 take 1.8 processor seconds.
    """
    decoded = dict[float, object]()  # listings of the files by time
    for path in folder.glob("*/manifest.json") if record.own else ():
        with suppress(ValueError, LookupError, OSError):
            manifest = _read_manifest(path, path.stat().st_mtime_ns)
            source, same = manifest["source"], manifest["fingerprint"] == fingerprint
            if same and source["kind"] != LOCAL and len(source["files"]) <= _MOST_COMPARED:
                decoded[path.stat().st_mtime] = source["files"]
    if not decoded:
        return ""
    from roarbench.datasets.file_locations_and_downloads import make_source_identity  # imports pyarrow

    with suppress(DataError):
        if make_source_identity(record, None)["files"] not in decoded.values():
            return f"{datetime.fromtimestamp(max(decoded)):%Y-%m-%d}"
    return ""


def read_test_labels(folder: Path, fingerprint: str) -> NDArray[np.int64] | None:
    """Return the labels of the decoded test images with a fingerprint, int64 (n,); None if they are not in a folder."""
    for path in folder.glob("*/manifest.json"):
        with suppress(ValueError, LookupError, OSError):
            if _read_manifest(path, path.stat().st_mtime_ns)["fingerprint"] == fingerprint:
                return np.fromfile(path.parent / "test-labels.bin", np.int64)
    return None


def hash_record_and_files(record: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    """Return a hash of a data set's record and of its files' names, sizes and times, without the folder's path."""
    return hash_value({"record": record, "files": source["files"]})


def store_submission(database: Database, submission: Submission) -> None:
    """Store a submission's file; raise StoreError if a different file has the same id."""
    with database.begin_exclusive_write() as connection:
        insert_submission(connection, submission)


def insert_submission(connection: Connection, submission: Submission) -> None:
    """Store a submission within a transaction."""
    known = connection.scalar(select(entries.c.sha256).where(entries.c.id == submission.id_without_parameters))
    if known is None:
        row = {"id": submission.id_without_parameters, "sha256": submission.sha256, "source": submission.source}
        connection.execute(insert(entries), row)
    elif known != submission.sha256:
        seen = f"a different file is stored as {submission.id_without_parameters}"
        raise StoreError(f"{seen}; add a comment to your file, so that its id changes")


def read_submissions_by_id(database: Database, ids: Collection[str] | None = None) -> dict[str, Submission]:
    """Return a dict from ids to stored submissions; `ids` selects submissions, and None selects all."""
    wanted = select(entries.c.id, entries.c.source).order_by(entries.c.created, entries.c.id)
    rows = database.read(wanted) if ids is None else database.read(wanted, entries.c.id, ids)
    return {row.id: parse_submission(row.source) for row in rows}


def read_submissions_of_estimators(database: Database, estimators: Iterable[str]) -> dict[str, Submission]:
    """Return a dict from estimator ids to submissions with parameters; other estimators have no entry."""
    ids = {name: estimator_id for name in estimators if (estimator_id := EstimatorId.parse(name)).submitted}
    file_ids = {estimator_id.id_without_parameters for estimator_id in ids.values()}
    submissions = read_submissions_by_id(database, file_ids) if ids else {}
    return {
        name: submissions[estimator_id.id_without_parameters].replace_parameters(estimator_id.listed or "")
        for name, estimator_id in ids.items()
        if estimator_id.id_without_parameters in submissions
    }


def find_addable_estimators_with_runs(database: Database, dataset: str, model: str) -> list[str]:
    """Return the ids of stored submissions and other estimators that can be added to suites on a data set and network.

    Estimators that only have failed runs are included. Estimators that this version of roarbench lacks are not. A
    submission that ran without the sandbox has a different id, with `~trusted`.
    """
    done = select(results.c.estimator).where(results.c.dataset == dataset, results.c.model == model).distinct()
    failed = select(failures.c.record).distinct()
    with database.begin_read() as connection:
        estimators = set(connection.scalars(done))
        cells = [read_run_record(json.loads(text)).cell for text in connection.scalars(failed)]
    estimators |= {cell.estimator for cell in cells if (cell.dataset, cell.model) == (dataset, model)}
    return sorted(filter(is_addable_to_suites, estimators - {CLEAN}))
