"""List, verify, export and import a suite's explained networks, rankings and scoring networks.

An exported folder lets others do the runs without making maps:

    index.json                 the suite, its images, the author, and every file with its hash
    rankings/, references/     the suite's files as in a store, 3 bits per feature

A folder may contain only the networks, so that another machine can explain the same networks. A network's predictions
on a split may be missing, because a store only has the predictions that its runs needed; the importing machine then
computes them. Nothing is imported unless every file fits the suite and the images of the importing store.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from roarbench.common.enums import Split
from roarbench.common.errors import CallerError, Hint, StoreError
from roarbench.common.files import compute_sha256, convert_write_errors, flush_to_disk
from roarbench.common.identity import check_field_values, hash_value, make_json_record
from roarbench.common.text import fit_on_one_line, format_count
from roarbench.datasets.open_decoded import refuse_altered_split
from roarbench.execution.job_context import JobContext, ReferenceModel
from roarbench.execution.job_graph import Step, list_common_network_steps, list_rankings_of_runs
from roarbench.plan.cells_and_runs import Run, hash_fine_tuned_network
from roarbench.plan.planned_runs import list_runs, needs_explained_network
from roarbench.store.annotations_and_scores import AnnotationKind, insert_annotations
from roarbench.store.artifact_checksums import Artifact, RecordedChecksum
from roarbench.store.networks import StoredNetwork, compute_weights_checksum
from roarbench.store.published_folder import INDEX, read_index_json
from roarbench.store.ranking_files import MANIFEST, RankingSpec
from roarbench.store.rankings import Rankings
from roarbench.store.results import ResultsStore, find_imported_keys
from roarbench.store.run_result import RunResult, count_cores
from roarbench.store.workspace import Workspace

_FAULTS = (LookupError, ValueError, TypeError, RuntimeError, RecursionError, OSError)


def list_needed_artifacts(work: JobContext, runs: list[Run]) -> Iterator[Artifact]:
    """Yield the artifacts that runs need; the checksum of an artifact that is not made yet is empty."""
    for number in sorted({work.find_explained_network(run).number for run in runs if run.reference}):
        yield from _list_reference_artifacts(work.explained[number])
    for spec in list_rankings_of_runs(work, runs):
        yield _make_ranking_artifact(work, spec)
    for step in list_common_network_steps(work, runs, ()):
        yield from list_output_artifacts(step)


def verify_images_and_rankings(work: JobContext, runs: list[Run], hash_whole_files: bool = False) -> None:
    """Compare images and existing rankings with the checksums of their manifests; raise StoreError for altered files.

    A command calls this function once, before its workers read the files. Only a sample of a large file that was
    completely hashed before is compared, unless `hash_whole_files` is true.
    """
    store, specs = work.rankings, list_rankings_of_runs(work, runs)
    checks = [partial(refuse_altered_split, work.images.folder, split, hash_whole_files) for split in Split]
    checks += [partial(store.verify_files, spec, hash_whole_files) for spec in specs if store.has_finished(spec)]
    with ThreadPoolExecutor(count_cores()) as pool:  # hashing releases the interpreter lock
        for future in [pool.submit(check) for check in checks]:
            future.result()


def read_recorded_checksums(work: JobContext, results: Iterable[RunResult]) -> Iterator[RecordedChecksum]:
    """Yield the checksums of rankings and weights that results record, each with that of the file in the folder."""
    rankings: dict[RankingSpec, tuple[Artifact, set[str]]] = {}
    for result in results:
        run, own = result.run, work.find_explained_network(result.run)
        if result.rankings and (spec := work.make_ranking_spec_of_run(run)):
            if spec not in rankings:
                rankings[spec] = _make_ranking_artifact(work, spec), work.rankings.list_checksums_with_any_levels(spec)
            ranking, known = rankings[spec]
            if ranking.checksum:
                here = result.rankings if result.rankings in known else ranking.checksum
                yield RecordedChecksum(run.key, ranking.name, result.rankings, here)
        if result.weights and own.store.has_weights():
            yield RecordedChecksum(run.key, _make_network_title(own), result.weights, own.store.read_checksum())


def list_output_artifacts(step: Step) -> list[Artifact]:
    """Return the artifacts that a finished step has made for several runs; empty for steps that make none."""
    first, *others = step.job.arguments
    if step.kind == "reference":
        return list(_list_reference_artifacts(first))
    if step.kind == "network":
        (key,), name = step.keys, f"{step.job.name} of {first.suite.title}"
        return [Artifact(key, name, first.get_stored_network(key).read_checksum(), key)]
    if step.kind == "tune":
        common, spec = others
        rankings, name = _read_ranking_checksum(first, spec), f"network ({step.job.name}) of {first.suite.title}"
        checksum = first.get_stored_network(hash_fine_tuned_network(common.key, rankings)).read_checksum()
        return [Artifact(step.keys[0], name, checksum, common.key, rankings)]
    return [_make_ranking_artifact(first, others[0])] if step.kind == "seal" else []


def _list_reference_artifacts(explained: ReferenceModel) -> Iterator[Artifact]:
    """Yield an artifact for each ranked split: an explained network's weights and its predictions on the split."""
    reference, title = explained.reference.key, _make_network_title(explained)
    for split in explained.ranked_splits:
        checksum = _hash_weights_and_predictions(explained, split)
        yield Artifact(hash_value([reference, str(split)]), f"{title} ({split} images)", checksum, reference)


def _make_network_title(explained: ReferenceModel) -> str:
    return f"{explained.step_name} of {explained.work.suite.title}"


def _make_ranking_artifact(work: JobContext, spec: RankingSpec) -> Artifact:
    return Artifact(spec.key, f"ranking of {spec.name} ({spec.unit})", _read_ranking_checksum(work, spec))


def _read_ranking_checksum(work: JobContext, spec: RankingSpec) -> str:
    return work.rankings.open(spec).checksum if work.rankings.has_finished(spec) else ""


def _hash_weights_and_predictions(explained: ReferenceModel, split: Split) -> str:
    """Return a checksum of a network's weights and predictions on a split; empty if either is missing."""
    store = explained.store
    if not (store.has_weights() and store.has_predictions(split)):
        return ""
    arrays = store.load_predictions(split)._asdict()
    predicted = compute_weights_checksum({name: torch.from_numpy(array) for name, array in arrays.items()})
    return hash_value([store.read_checksum(), predicted])


@dataclass(frozen=True)
class BundleIndex:
    """Index of an exported folder."""

    format: int  # increases when older versions of roarbench cannot read the folder
    suite: str
    data: str  # fingerprint of the images
    about: str  # author and machine of the rankings, one line
    files: dict[str, str]  # from each file's path within the folder to the file's SHA-256


def export_rankings(work: JobContext, folder: Path, about: str, references_only: bool = False) -> list[Rankings]:
    """Export a suite's rankings and explained networks to a new folder; raise StoreError for altered files."""
    specs = [] if references_only else _list_ranking_specs_of_suite(work)
    root, names = work.workspace.root, _list_ranking_and_network_files(work, specs)
    if not names:
        raise CallerError(f"{work.suite.title} has no explained network; leave --references-only out")
    if folder.exists():
        raise CallerError(f"{folder} already exists; name a new folder")
    existing = [name for name in names if (root / name).exists()]
    if lacking := sorted(_drop_prediction_files(names) - {*existing}):
        seen = f"{root} lacks {format_count(len(lacking), 'file')} of {work.suite.title}, such as {lacking[0]}"
        raise CallerError(seen, Hint("; `{}` creates them", "run"))
    with convert_write_errors(folder), TemporaryDirectory(dir=folder.absolute().parent) as temporary:
        copy = _copy_files(root, Path(temporary) / "copy", existing)
        with _replace_copy_path_in_errors(copy, root, "nothing was exported"):
            exported = _read_and_check_rankings(work, copy, specs)
        hashes = {name: compute_sha256(copy / name) for name in existing}
        index = BundleIndex(1, work.suite.title, work.images.fingerprint, about, hashes)
        (copy / INDEX).write_text(json.dumps(make_json_record(index), indent=1) + "\n", "utf-8")
        read_bundle_index(copy)
        copy.rename(folder)
    return exported


def import_rankings(work: JobContext, store: ResultsStore, folder: Path) -> list[Rankings]:
    """Import a suite's rankings from a folder of `export_rankings`; raise StoreError if they do not fit the store."""
    root, index = work.workspace.root, read_bundle_index(folder)
    # a folder without rankings has only explained networks
    specs = _list_ranking_specs_of_suite(work) if any(name.startswith("rankings/") for name in index.files) else []
    _check_bundle_index(work, folder, index, specs)
    with convert_write_errors(root), TemporaryDirectory(dir=root, prefix="import-") as temporary:
        copy = _copy_files(folder, Path(temporary), index.files)
        for name, expected in index.files.items():
            if (seen := compute_sha256(copy / name)) != expected:
                wanted = f"expected {expected[:12]}… as in {INDEX}"
                raise StoreError(f"{folder / name} has the SHA-256 {seen[:12]}…, {wanted}")
        with _replace_copy_path_in_errors(copy, folder, "nothing was imported"):
            imported = _read_and_check_rankings(work, copy, specs)
        subfolders = sorted({str(Path(name).parent) for name in index.files})
        new = [subfolder for subfolder in subfolders if not _has_equal_folder(root, subfolder, index.files, copy)]
        # rankings that this store made, or another machine of its database, stay its own
        added = [rankings for rankings in imported if str(rankings.folder.relative_to(copy)) in new]
        added = [rankings for rankings in added if not _has_own_results(store, rankings.checksum)]
        annotations = {f"{AnnotationKind.IMPORTED} {rankings.checksum}": True for rankings in added}
        with store.database.begin_exclusive_write() as connection:
            insert_annotations(connection, annotations)
        for subfolder in new:
            (root / subfolder).parent.mkdir(parents=True, exist_ok=True)
            (copy / subfolder).rename(root / subfolder)
            flush_to_disk((root / subfolder).parent)
    return imported


@contextmanager
def _replace_copy_path_in_errors(copy: Path, source: Path, outcome: str) -> Iterator[None]:
    """Raise an error about a copied file as a one-line StoreError that names the original file."""
    try:
        yield
    except (StoreError, *_FAULTS) as error:
        seen = str(error).replace(f"{copy}", f"{source}") or type(error).__name__
        raise StoreError(f"{outcome}: {fit_on_one_line(seen, 300)}") from None


def _list_ranking_specs_of_suite(work: JobContext) -> list[RankingSpec]:
    runs = list_runs(work.suite, work.images.fingerprint, work.images.limit).values()
    return list_rankings_of_runs(work, list(runs))


def _list_ranking_and_network_files(work: JobContext, specs: Sequence[RankingSpec]) -> list[str]:
    names = {work.rankings.get_folder(spec): [f"{split}.arrow" for split in spec.splits] for spec in specs}
    for explained in work.explained if needs_explained_network(work.suite) else ():
        names[explained.store.folder] = ["weights.pt", *(f"{split}.npz" for split in explained.ranked_splits)]
    paths = [folder / name for folder, files in names.items() for name in (*files, MANIFEST)]
    return [str(path.relative_to(work.workspace.root)) for path in paths]


def _drop_prediction_files(names: Iterable[str]) -> set[str]:
    """Return the files that an export must have: all but the predictions, which can be computed from weights."""
    return {name for name in names if not name.endswith(".npz")}


def _copy_files(source: Path, target: Path, names: Iterable[str]) -> Path:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
        flush_to_disk(target / name)
    return target


def read_bundle_index(folder: Path) -> BundleIndex:
    """Read and check the index of a folder."""
    path = folder / INDEX
    try:
        index = BundleIndex(**read_index_json(path, "a folder of `roarbench rankings export`"))
        check_field_values(index)
        if index.format != 1:
            raise ValueError(f"its format is {index.format}, but this version of roarbench reads format 1")
    except _FAULTS as error:
        raise StoreError(f"{path} is not an index of rankings: {fit_on_one_line(str(error), 200)}") from None
    return index


def _check_bundle_index(work: JobContext, folder: Path, index: BundleIndex, specs: Sequence[RankingSpec]) -> None:
    expected = f"{work.suite.title} on images with fingerprint {work.images.fingerprint[:8]}"
    if (index.suite, index.data) != (work.suite.title, work.images.fingerprint):
        raise StoreError(f"{folder} has files for {index.suite} on images {index.data[:8]}, expected {expected}")
    paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    if links := [path for path in paths if path.is_symlink() or not path.is_file()]:
        raise StoreError(f"{links[0]} is a link; a folder of rankings may have only plain files")
    present = {f"{path.relative_to(folder)}" for path in paths} - {INDEX}
    wanted = {*_list_ranking_and_network_files(work, specs)}
    wanted = _drop_prediction_files(wanted) | (wanted & {*index.files})
    for names, where in ((present, "the folder"), (wanted, f"the files of {expected}")):
        if odd := sorted(names ^ {*index.files}):
            raise StoreError(f"{folder}: {fit_on_one_line(odd[0], 200)} is not in both {INDEX} and {where}")


def _read_and_check_rankings(work: JobContext, folder: Path, specs: Sequence[RankingSpec]) -> list[Rankings]:
    """Read these rankings from another folder, and check all their bytes and the explained networks."""
    other, weights = replace(work, workspace=Workspace(folder)), {"": ""}
    for explained in other.explained if needs_explained_network(work.suite) else ():
        explained.load_trained()
        weights[explained.reference.key] = explained.store.read_checksum()
        for split in filter(explained.store.has_predictions, explained.ranked_splits):
            count = len(explained.store.load_predictions(split).targets)
            _check_image_count(explained.store.folder, count, work, split)
    checked = []
    for spec in specs:
        other.rankings.verify_files(spec)
        checked.append(rankings := other.rankings.open(spec))
        if rankings.weights != weights[spec.reference]:
            wrong = "rankings of a different network than the one that is stored with them"
            raise ValueError(f"{rankings.folder} has {wrong}")
        for split in spec.splits:
            _check_image_count(rankings.folder, len(rankings.splits[split]), work, split)
    return checked


def _check_image_count(location: Path, seen: int, work: JobContext, split: Split) -> None:
    if seen != (expected := len(work.images[split].labels)):
        raise ValueError(f"{location} has {seen:,} {split} images, expected {expected:,}")


def _has_own_results(store: ResultsStore, checksum: str) -> bool:
    """Return whether the database has results that were computed here from rankings with this checksum."""
    keys = store.list_keys_with_rankings(checksum)
    return bool(set(keys) - find_imported_keys(store.database, keys))


def _has_equal_folder(root: Path, subfolder: str, files: Mapping[str, str], copy: Path) -> bool:
    """Return whether a store already has a folder with the same files; raise StoreError if the files differ.

    Files of two networks with equal weights differ in times, or because published weights came first.
    """
    if not (root / subfolder).exists():
        return False
    names = {name for name in files if str(Path(name).parent) == subfolder}
    compared = _drop_prediction_files(names) | {name for name in names if (root / name).exists()}
    if any(compute_sha256(root / name) != files[name] for name in compared):
        stored, imported = (StoredNetwork(folder, "", subfolder).read_checksum() for folder in (root, copy))
        if not subfolder.startswith("references/") or not stored or stored != imported:
            raise StoreError(f"{root / subfolder} already has different files; use a new --store")
    return True
