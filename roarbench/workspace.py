"""Where the files of a store lie, how a planned point becomes a run with a key, and which ranking it removes by."""

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path

from roarbench.datasets.decoded import ImageData
from roarbench.errors import StoreError
from roarbench.estimators import Estimator, find_estimator
from roarbench.plan import CLEAN, REFERENCE_SEED, Cell, Point, Reference, Run, Suite, expand
from roarbench.recipes import find_recipe
from roarbench.store.files import write_whole, writing
from roarbench.store.images import ImageNote, decoded_notes
from roarbench.store.rankings import RankingSpec
from roarbench.terms import MORF, PAPER_LEVELS, Precision, Retrain, Split, Unit


@dataclass(frozen=True)
class Workspace:
    """The folders of one store: all but the results can be deleted and made again."""

    root: Path

    @property
    def data(self) -> Path:
        """Decoded images."""
        return self.root / "data"

    def decoded(self, dataset: str) -> list[ImageNote]:
        """Where the decoded images of a data set came from, whole or small; those decoded last are last."""
        return [note for note in decoded_notes(self.data) if note.dataset == dataset]

    @property
    def references(self) -> Path:
        """Weights and predictions of the explained models."""
        return self.root / "references"

    @property
    def rankings(self) -> Path:
        """Bit-planes of the rankings."""
        return self.root / "rankings"

    @property
    def checkpoints(self) -> Path:
        """Trainings that are under way or were cut off."""
        return self.root / "checkpoints"

    @property
    def submissions(self) -> Path:
        """Files of what was submitted, by id."""
        return self.root / "submissions"

    def keep_submission(self, entry: str, source: bytes) -> None:
        """Keep a submission's file where every worker finds it.

        Raises:
            StoreError: There is another file under its id, or the folder cannot be written.
        """
        path = self.submissions / f"{entry}.py"
        if path.exists():
            self.submission(entry)
            if path.read_bytes() != source:
                raise StoreError(f"{path} holds another file under the same id; change your file by a comment")
            return
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_suffix(f".{secrets.token_hex(8)}")
            write_whole(path, lambda place: place.write_bytes(source), beside)

    def submission(self, entry: str) -> bytes:
        """The file of a submission, of this id, whatever follows its `~`.

        Raises:
            StoreError: It is not there, or is not the one of this id.
        """
        name = entry.partition("~")[0]
        path = self.submissions / f"{name}.py"
        try:
            source = path.read_bytes()
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror or error}; hand the submission in again") from error
        if hashlib.sha256(source).hexdigest()[:8] != name.partition("@")[2]:
            raise StoreError(f"{path} was altered: its hash is not that of its name; delete it and hand it in again")
        return source


def reference_of(suite: Suite, data: str) -> Reference:
    """The model that a suite explains on the data of this fingerprint."""
    recipe = "" if suite.given else suite.reference_recipe
    return Reference(suite.dataset, data, suite.model, recipe, REFERENCE_SEED, suite.given)


def reference_epochs(suite: Suite) -> float:
    """Passes over the training images that the reference's training takes; 0 where its weights are given."""
    return 0.0 if suite.given else find_recipe(suite.reference_recipe).epochs


def bind(suite: Suite, point: Point, data: str, limit: int | None) -> Run:
    """Give a planned point the fingerprints that make it a run.

    Args:
        suite: What the point belongs to.
        point: Cell and seed.
        data: Fingerprint of the decoded images and labels.
        limit: Images per split if the data set was made small.
    """
    cell, reference = point.cell, reference_of(suite, data)
    explained = needs_reference(cell)
    shared = cell.estimator != CLEAN and find_estimator(cell.estimator).shared
    return Run(
        cell=cell,
        seed=point.seed,
        recipe=reference.recipe if cell.retrain is Retrain.NONE else suite.recipe,
        data=data,
        estimator="" if cell.estimator == CLEAN else find_estimator(cell.estimator).fingerprint,
        reference=reference.key if explained else "",
        limit=limit,
        given=suite.given if explained else "",
        maps=suite.maps if shared else Precision.FLOAT32,
    )


def ranking_spec(suite: Suite, images: ImageData, estimator: Estimator, unit: Unit) -> RankingSpec:
    """Under what identity the ranking of an estimator is stored, for all suites that can share it.

    Args:
        suite: What asks for it; its estimators need not hold this one.
        images: What is ranked.
        estimator: Which.
        unit: What one feature is.
    """
    record = images.record
    return RankingSpec(
        data=images.fingerprint,
        reference="" if estimator.control else reference_of(suite, images.fingerprint).key,
        estimator=estimator.fingerprint,
        name=estimator.id,
        unit=unit,
        levels=stored_levels(suite),
        shape=(record.channels, record.size, record.size),
        splits=ranked_splits(suite),
        maps=suite.maps if estimator.shared else Precision.FLOAT32,
    )


def needs_reference(cell: Cell) -> bool:
    """Whether a cell's outcome depends on the reference: it is what is scored, or what was explained."""
    ranked = cell.estimator != CLEAN and not find_estimator(cell.estimator).control
    return ranked or cell.retrain is Retrain.NONE


def reference_point(suite: Suite) -> Point:
    """The reference as it is on untouched images: how good it is. A suite without such scoring has it beside."""
    clean = Cell(suite.dataset, suite.model, CLEAN, MORF.order, Retrain.NONE, "mean", Unit.SCALAR, 0.0)
    return Point(clean, 0)


def explains(suite: Suite) -> bool:
    """Whether any of a suite's outcomes depends on its reference, or one was given."""
    return bool(suite.given) or any(needs_reference(point.cell) for point in expand(suite))


def stored_levels(suite: Suite) -> tuple[float, ...]:
    """The levels that the suite's rankings are stored for: the paper's five, so that suites share them, or its own."""
    levels = {t for block in suite.blocks for t in block.levels}
    return PAPER_LEVELS if levels <= set(PAPER_LEVELS) else tuple(sorted(levels | set(PAPER_LEVELS)))


def ranked_splits(suite: Suite) -> tuple[Split, ...]:
    """Whose images the suite ranks: only the test images where no network is trained on degraded ones."""
    retrained = any(block.protocol.retrain is not Retrain.NONE for block in suite.blocks)
    return tuple(Split) if retrained else (Split.TEST,)
