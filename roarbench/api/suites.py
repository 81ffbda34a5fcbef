"""A suite in Python: its plan, where its results lie, its images, and the networks that it explains."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from platformdirs import user_data_path
from rich.console import Console

from roarbench.analysis.load import Question, open_results
from roarbench.errors import EmptyStore, UnknownName
from roarbench.plan.suite import Suite as Plan
from roarbench.plan.suites import find_suite
from roarbench.plan.weights import explaining
from roarbench.store.layout import Workspace
from roarbench.terms import Split

if TYPE_CHECKING:
    from torch import Tensor, nn

    from roarbench.execution.context import RunContext
    from roarbench.execution.runner import Request


class Images(NamedTuple):
    """One split of a suite's images.

    Attributes:
        images: float32 (n, c, h, w), normalised as the networks take them.
        labels: int64 (n,), the true classes.
    """

    images: "Tensor"
    labels: "Tensor"


class Reference(NamedTuple):
    """A network that a suite explains.

    Attributes:
        model: In eval mode, on the processor: normalised images in, logits out.
        targets: int64 (n,), what it predicts for the test images: the classes to explain.
        train_targets: The same for the training images; None where the suite explains none of them.
    """

    model: "nn.Module"
    targets: "Tensor"
    train_targets: "Tensor | None"


def default_store() -> Path:
    """Return the folder of the store where none is named: the environment's ROARBENCH_STORE, or the user's data."""
    return Path(os.environ.get("ROARBENCH_STORE") or user_data_path("roarbench"))


@dataclass(eq=False)
class Suite:
    """A suite, what of its data set is used, and the store that has its results; of `load` or `from_arrays`.

    Attributes:
        plan: Its cells: data set, network, recipes, protocols, estimators, levels and seeds.
        store: Folder of images, references, rankings and results; the one that `evaluate` was told last.
        db: URL of the database of results, where it is not in the store.
        data: Folder of the images, where they are not the suite's own.
        limit: Images of each split; None for all.
        weights: Where the weights of each reference are, if they are given; else the suite trains them.
        named: What it was found by; the network of a TOML file is its owner's, and trusted.
        trusted: SHA-256 of the file of another's network that may be run.
    """

    plan: Plan
    store: Path = field(default_factory=default_store)
    db: str = ""
    data: Path | None = None
    limit: int | None = None
    weights: tuple[str, ...] = ()
    named: str = ""
    trusted: str = ""

    def __repr__(self) -> str:
        plan = self.plan
        return f"Suite({plan.title}: {plan.dataset}, {plan.model}, {len(plan.estimators)} estimators, {self.store})"

    @property
    def name(self) -> str:
        """Return its name."""
        return self.plan.name

    @property
    def version(self) -> int | str:
        """Return its version: a number, or of one's own suite the start of a hash."""
        return self.plan.version

    @property
    def question(self) -> Question:
        """Return which results of the store are its own."""
        return Question(self.store, self.db, self.limit, str(self.data or ""), self.weights)

    @cached_property
    def fitted(self) -> Plan:
        """Return the plan as it can be run: one's own network is trusted and tried, and given weights are explained.

        Raises:
            CallerError: Its network does not fit its images, or is not trusted.
        """
        from roarbench.execution.fitness import fitted
        from roarbench.store.trusted import check_network, trust_network

        if self.plan.own and self.named.endswith(".toml"):
            trust_network(self.plan)
        elif self.plan.own:
            check_network(self.plan, self.trusted, self.store)
        return explaining(fitted(self.plan), self.weights)

    def request(self, plan: Plan, workers: int | None = None) -> "Request":
        """Return what is to be run of a plan, by so many processes of this machine; one for each core if None."""
        from roarbench.execution.local_workers import workers_here
        from roarbench.execution.runner import Request

        return Request(plan, self.data, self.limit, self.weights, workers_here(workers))

    @property
    def references(self) -> list[Reference]:
        """Return the networks that it explains, trained first where the store has them not."""
        context, numbers = self._explained(), range(self.fitted.references)
        return [_reference(context.explaining(number)) for number in numbers]

    @property
    def test(self) -> Images:
        """Return the test images, decoded first where the store has them not."""
        return self._images(Split.TEST)

    @property
    def train(self) -> Images:
        """Return the training images, decoded first where the store has them not."""
        return self._images(Split.TRAIN)

    def _explained(self) -> "RunContext":
        from roarbench.execution.runner import begun, make_references

        request, workspace = self.request(self.fitted), Workspace(self.store)
        with open_results(self.store, self.db, read_only=False) as results:
            context = begun(request, workspace, results, console())
            make_references(request, workspace, results, console(), context)
        return context

    def _images(self, split: Split) -> Images:
        """Return images of a split; normalised as given weights want it, which are read first."""
        import torch

        from roarbench.execution.runner import begun
        from roarbench.kernels.inputs import normalise

        if self.weights:
            context = self._explained()
            norm = context.reference_norm
        else:
            with open_results(self.store, self.db, read_only=False) as results:
                context = begun(self.request(self.fitted), Workspace(self.store), results, console())
            norm = context.norm
        labels = torch.from_numpy(context.images(split).labels)
        return Images(normalise(context.pixels(split), norm).contiguous(), labels)


def _reference(context: "RunContext") -> Reference:
    import torch

    said = {split: context.references.predictions(context.reference, split).targets for split in context.splits}
    targets = {split: torch.from_numpy(found) for split, found in said.items()}
    return Reference(context.trained_reference(), targets[Split.TEST], targets.get(Split.TRAIN))


def load(
    suite: str | Path,
    store: str | Path | None = None,
    *,
    db: str = "",
    data: str | Path | None = None,
    limit: int | None = None,
    reference: str | Sequence[str] = (),
    trust_network: str = "",
) -> Suite:
    """Return a suite; nothing is computed, and nothing is read but its description.

    Args:
        suite: A name, such as `quick-matched` (`quick@1` for an older version); a TOML file; or the name of one's own
            suite whose results the store has.
        store: Folder of images, references, rankings and results; the user's data folder if None.
        db: URL of the database of results; an SQLite file in the store if empty.
        data: Folder to read the images from, in the hub's layout.
        limit: Images of each split; all if None.
        reference: Weights to explain instead of trained ones: a file, or `torchvision:resnet50-v1`; several are
            several references.
        trust_network: SHA-256 of the file of a network that came with imported results, to run it.

    Raises:
        CallerError: There is no such suite, or the file describes none.
    """
    folder = default_store() if store is None else Path(store)
    weights = (reference,) if isinstance(reference, str) and reference else tuple(reference)
    named, images = str(suite), None if data is None else Path(data)
    return Suite(planned(named, folder, db), folder, db, images, limit, weights, named, trust_network)


def planned(name: str, store: Path, db: str = "") -> Plan:
    """Return the suite of a name, a TOML file or a store, as far as it is known without its network.

    Args:
        name: As `load` takes it; `NAME@VERSION` of one's own suite, whose NAME alone is the newest in the store.
        store: Folder of the store.
        db: URL of its database, if that is named.

    Raises:
        CallerError: There is no such suite, or the file describes none.
    """
    if name.endswith(".toml"):
        from roarbench.plan.custom_suite import without
        from roarbench.plan.suite_file import read_suite

        plan = read_suite(Path(name))
        known = [kept for kept in _kept(store, db) if kept.called == plan.called]
        return without(plan, known[0].left_out) if known else plan
    try:
        return find_suite(name)
    except UnknownName:
        kept = _kept(store, db)
        found = [plan for plan in kept if name in (plan.called, plan.name)]
        if not found:
            if kept:
                raise UnknownName("suite", name, [plan.called for plan in kept], "roarbench suites") from None
            raise
        return found[-1]


def console(quiet: bool = False) -> Console:
    """Return where progress goes: standard error, or the output of a notebook's cell."""
    return Console(stderr=True, highlight=False, markup=False, quiet=quiet)


def _kept(store: Path, db: str) -> Iterable[Plan]:
    from roarbench.store.kept_suites import kept_suites

    try:
        with open_results(store, db) as results:
            return kept_suites(results.database)
    except EmptyStore:
        return []
