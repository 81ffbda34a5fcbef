"""A suite and the place where it is done: which reference, rankings and networks each of its jobs is given."""

from dataclasses import dataclass

from roarbench.datasets.decoded import ImageData
from roarbench.estimators import Estimator
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution.workplace import ReferenceModel, Workplace
from roarbench.plan.common import CommonNetwork, common_network
from roarbench.plan.keys import ranked_splits, reference_of
from roarbench.plan.runs import Run
from roarbench.plan.suite import Suite
from roarbench.store.layout import Workspace
from roarbench.store.ranking_spec import RankingSpec, ranking_spec
from roarbench.terms import Unit


@dataclass(frozen=True)
class SuiteWork:
    """A suite, the images that it is asked of, and the store where its work rests."""

    workspace: Workspace
    images: ImageData
    suite: Suite
    # where each reference's weights are: a file, or the name of published ones; empty if they are trained
    given: tuple[str, ...] = ()

    @property
    def place(self) -> Workplace:
        """Return where its jobs find what they need."""
        return Workplace(self.workspace, self.images, self.suite.network_source)

    @property
    def explained(self) -> tuple[ReferenceModel, ...]:
        """Return the networks that it explains."""
        return tuple(map(self._explained, range(self.suite.references)))

    def _explained(self, number: int) -> ReferenceModel:
        suite = self.suite
        reference = reference_of(suite, self.images.fingerprint, number)
        given = self.given[number] if self.given else ""
        return ReferenceModel(self.place, reference, ranked_splits(suite), given, suite.recipe, suite.maps)

    def numbered(self, number: int) -> str:
        """Return what the names of steps say of a reference, where there are several."""
        return f" {number + 1}" if self.suite.references > 1 else ""

    def number_of(self, run: Run) -> int:
        """Return the number of the reference that a run depends on, or of the first one."""
        return self.suite.reference_number(run.seed, run.cell.estimator) if run.reference else 0

    def explained_by(self, run: Run) -> ReferenceModel:
        """Return the reference of that number."""
        return self._explained(self.number_of(run))

    def scored_by(self, run: Run) -> int:
        """Return the number of the reference that is scored as it is: the seed's, whichever one a map explains."""
        return self.suite.reference_number(run.seed)

    def scoring(self, run: Run) -> tuple[ReferenceModel, ReferenceModel, Run, RankingSpec | None]:
        """Return what `jobs.score` takes."""
        return self.explained_by(run), self._explained(self.scored_by(run)), run, self.row_spec(run)

    def ranking_spec(self, estimator: Estimator, unit: Unit, number: int = 0) -> RankingSpec:
        """Return under what identity the ranking of an estimator is stored that explains this reference."""
        images = self.images
        return ranking_spec(self.suite, images.fingerprint, images.record.shape, estimator, unit, number)

    def control_specs(self, unit: Unit) -> list[RankingSpec]:
        """Return the same for the controls that common networks meet."""
        return [self.ranking_spec(find_estimator(name), unit) for name in self.suite.controls]

    def row_spec(self, run: Run) -> RankingSpec | None:
        """Return what a run removes by; None for untouched images, and where it is drawn anew at every reading.

        Each image's own, also for a run that hands them to other images.
        """
        estimator = run.cell.ranked_by
        return self.ranking_spec(estimator, run.cell.unit, self.number_of(run)) if estimator else None

    def common_network(self, run: Run) -> CommonNetwork:
        """Return the record of the network that scores a run, before it is tuned on the run's row."""
        cell = run.cell
        return common_network(self.suite, self.images.fingerprint, cell.order, cell.unit, run.seed, cell.fill)
