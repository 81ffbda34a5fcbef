"""Load suites in Python by name, from a TOML file or a store; a suite has a plan and a store of its results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from platformdirs import user_data_path

from roarbench.api.neutral_settings import use_neutral_settings
from roarbench.common.enums import Split
from roarbench.common.errors import CallerError
from roarbench.plan.settings import Settings, find_default_store
from roarbench.plan.suite import SuiteSpec, describe_missing_controls, find_recorded_fill_name
from roarbench.plan.suite_changes import (
    add_submissions_and_estimators,
    apply_selection_options,
    find_unit,
    parse_estimators_option,
    set_allowed_fill_and_unit,
    set_explained_networks,
)

if TYPE_CHECKING:
    from rich.console import Console
    from torch import Tensor, nn

    from roarbench.api.evaluated_rows import EvaluatedRows
    from roarbench.execution.job_context import JobContext
    from roarbench.execution.run_suite import Request
    from roarbench.store.results import ResultsStore


def print_store_if_default(store: Path, console: "Console") -> None:
    """If the store is the default, print its folder and the options that choose another."""
    if store == user_data_path("roarbench"):
        console.print(f"store {store}; --store DIR or ROARBENCH_STORE=DIR chooses another", soft_wrap=True)


class LabelledImages(NamedTuple):
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
        model: The network in eval mode on the CPU; it takes normalised images and returns logits. It can be copied,
            pickled and saved whole by `torch.save(model, FILE)`.
        targets: int64 (n,), the network's predictions on the test images: the classes to explain.
        train_targets: The network's predictions on the training images; None if the suite explains no training images.
    """

    model: "nn.Module"
    targets: "Tensor"
    train_targets: "Tensor | None"


@dataclass(eq=False)
class Suite:
    """A suite, and the settings of its data and results; made by `load_suite` or `from_arrays`.

    Attributes:
        plan: Data set, network, recipes, protocols, estimators, levels and seeds.
        settings: Store, database, images, pretrained weights, fill and unit; `evaluate` may change the store.
        name_or_file: Name or file by which the suite was loaded; the network of a TOML file is trusted.
    """

    plan: SuiteSpec
    settings: Settings = field(default_factory=Settings)
    name_or_file: str = ""

    @classmethod
    def load(cls, name_or_file: str, settings: Settings) -> "Suite":
        """Return the suite with this name or file; raise CallerError as `load_suite` does."""
        from roarbench.analysis.load_results import find_suite_spec

        plan = find_suite_spec(name_or_file, settings.store, settings.database)
        return cls(set_allowed_fill_and_unit(plan, settings.fill, settings.unit), settings, name_or_file)

    @classmethod
    @use_neutral_settings
    def from_arrays(
        cls,
        model: "nn.Module",
        train: tuple[Any, Any] | None,
        test: tuple[Any, Any],
        *,
        name: str = "mine",
        protocols: Sequence[str] = ("matched", "morf", "lerf"),
        estimators: Sequence[str] = ("grad", "input-x-grad", "ig(baseline=mean)"),
        levels: Sequence[float] = (0.1, 0.5, 0.9),
        seeds: int = 3,
        fills: Sequence[str] = ("mean",),
        network: "str | Callable[..., nn.Module]" = "",
        store: str | Path | None = None,
    ) -> "Suite":
        """Make a suite that explains your network on your images (tables: `roarbench new-suite FILE.csv`).

        The network itself is explained; its weights are not changed. Protocols with training train networks of the
        same structure from random weights, on shifted images that are never mirrored. If the network accepts smaller
        images, the first epochs use smaller images.
        Three short trials before the first training run choose the peak learning rate, and the suite's version depends
        on this rate. Images are stored in 256 steps between the smallest and largest training value of each channel;
        far outliers are clipped.

        Args:
            model: A trained network that returns one logit per class; or a single logit z, if class 1 has probability
                sigmoid(z). The network may have more classes than the images. Tensors that each forward pass stores in
                attributes, such as attention, are not part of the network.
            train: A pair of images and labels. Images: float (n, c, h, w), square, 1 or 3 channels, resized, cropped
                and normalised as the network expects (`rb.Preprocessing` does this for photographs). Labels: integers
                (n,), indices of the network's outputs. None if no protocol trains: the mean of the test images is then
                the fill value, and controls fitted to training images are left out.
            test: The same pair for test images.
            name: Name of the suite: lowercase letters, digits, hyphens; its version is a hash of all arguments.
            protocols: Protocols; the first is the default of tables.
            estimators: Estimators; controls are added.
            levels: Removal fractions.
            seeds: Training runs per point of a curve.
            fills: Fill values; tables use the first. `linear` is ROAD's, `black` the smallest value of each channel.
                Protocols with exchanged masks, such as `matched`, use only fills that are fast enough.
            network: A function that builds the network, with no arguments or with (classes, channels, size), such as
                `lambda: MyNet(width=16)`; or FILE.py:FUNCTION, whose file may import installed packages only. Needed if
                the network's source cannot be copied, or if no `reset_parameters` sets the initial values of its own
                layers. Without it, all parameters are drawn anew and trained, also frozen ones.
            store: Folder of the store; ROARBENCH_STORE or the user's data folder if None.

        Raises:
            CallerError: The arguments do not fit together.

        Examples:
            >>> import torch
            >>> images, labels = torch.rand(24, 1, 8, 8), torch.arange(24) % 2
            >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
            >>> suite = Suite.from_arrays(model, (images, labels), (images, labels), protocols=["morf"], store="store")
            >>> suite.name, suite.plan.estimators[-3:]
            ('mine', ('grad', 'input-x-grad', 'ig(baseline=mean)'))
        """
        from roarbench.api.suite_from_arrays import write_array_suite

        root = find_default_store() if store is None else Path(store)
        given: dict[str, Any] = dict(protocols=protocols, estimators=estimators, levels=levels, fills=fills)
        for key, value in given.items():
            if isinstance(value, str | float | int):
                raise CallerError(f"{key} is {value!r}, expected a list; write {key}=[{value!r}]")
        lists = {key: list(value) for key, value in given.items()}
        lists["fills"] = [*map(find_recorded_fill_name, lists["fills"])]
        settings: dict[str, Any] = {"name": name, **lists, "seeds": seeds}
        say = partial(make_console().print, soft_wrap=True)
        folder = write_array_suite(model, train, test, settings, root, network, say)
        path = str(folder / "suite.toml")
        return cls.load(path, Settings(root, weights=(str(folder / "weights.pt"),)))

    def __repr__(self) -> str:
        plan, store = self.plan, self.store
        return f"Suite({plan.title}: {plan.dataset}, {plan.model}, {len(plan.estimators)} estimators, {store})"

    @property
    def store(self) -> Path:
        """Return the folder of images, networks, rankings and results."""
        return self.settings.store

    @property
    def name(self) -> str:
        """Return the suite's name."""
        return self.plan.name

    @property
    def version(self) -> int | str:
        """Return the suite's version: a number, or the start of a hash for your own suite."""
        return self.plan.version

    @property
    def runnable_plan(self) -> SuiteSpec:
        """Check that your own network is trusted and runs, and return the plan with its explained networks.

        Raises:
            CallerError: The network does not fit the suite's images, or is not trusted.
        """
        return self._runnable_plan_and_warnings[0]

    @property
    def warnings(self) -> list[str]:
        """Return warnings about your own suite and network, one line each; raise as `runnable_plan` does."""
        missing = (describe_missing_controls(self.plan, block.protocol) for block in self.plan.blocks)
        return [*islice(filter(None, missing), 1), *self._runnable_plan_and_warnings[1]]

    @cached_property
    @use_neutral_settings
    def _runnable_plan_and_warnings(self) -> tuple[SuiteSpec, list[str]]:
        settings = self.settings
        if self.plan.own is None:
            return set_explained_networks(self.plan, settings.weights), []
        from roarbench.execution.network_trials import check_network_and_drop_estimators
        from roarbench.store.user_files import record_trusted_network, refuse_untrusted_network

        if self.name_or_file.endswith(".toml"):
            record_trusted_network(self.plan)
        else:
            refuse_untrusted_network(self.plan, settings.trusted_network, settings.store)
        plan, warnings = check_network_and_drop_estimators(self.plan, trains_explained=not settings.weights)
        plan = set_explained_networks(plan, settings.weights)
        return set_allowed_fill_and_unit(plan, settings.fill, settings.unit), warnings

    def find_learning_rate_if_missing(self, protocol: str, console: "Console") -> None:
        """Find the missing peak learning rate of a suite from arrays if `protocol` (any if empty) trains networks."""
        from roarbench.analysis.load_results import find_suite_spec
        from roarbench.api.suite_from_arrays import write_peak_learning_rate_if_missing

        trains = any(block.protocol.trains for block in self.plan.blocks if protocol in ("", block.protocol.name))
        if not trains or not self.name_or_file.endswith(".toml"):
            return
        if write_peak_learning_rate_if_missing(Path(self.name_or_file), partial(console.print, soft_wrap=True)):
            self.plan = find_suite_spec(self.name_or_file, self.store, self.settings.database)
            self.__dict__.pop("_runnable_plan_and_warnings", None)

    def make_request(self, plan: SuiteSpec, workers: int | None = None) -> "Request":
        """Return the request to run a plan with this many processes; one per core if None."""
        from roarbench.execution.run_suite import Request
        from roarbench.execution.workload import choose_worker_count

        return Request(plan, self.settings, choose_worker_count(workers, plan.dataset_record.size))

    def select_part(self, submissions: Sequence[str] = ()) -> SuiteSpec:
        """Return the part that the settings select, with the submissions of these ids."""
        return apply_selection_options(self.runnable_plan, self.settings, submissions)

    def result(self, estimators: Sequence[str] | None = None) -> "EvaluatedRows":
        """Return stored rows, optionally of these estimators only; nothing is run.

        Raises:
            StoreError: There is no store.
            CallerError: The store lacks these rows, images or networks.
        """
        result = self.read_result_or_empty(estimators)
        if not {*result.stored.by_estimator} & {*(result.rows or result.stored.suite.estimators)}:
            requested = ", ".join(result.rows or [self.plan.title])
            seen = f"{self.store} has no results of {requested}"
            raise CallerError(f"{seen}; roarbench.evaluate(suite) computes them")
        return result

    def read_result_or_empty(self, estimators: Sequence[str] | None = None) -> "EvaluatedRows":
        """Return rows as `result` does, even if the store has no rows."""
        from roarbench.api.evaluated_rows import EvaluatedRows

        estimators = self.settings.estimators if estimators is None else estimators
        result = EvaluatedRows.read(add_submissions_and_estimators(self.plan, estimators), self.settings)
        rows = parse_estimators_option(result.stored.suite, estimators)
        return replace(result, rows=tuple(rows) if rows else None)

    @use_neutral_settings
    def load_or_train_references(self) -> list[Reference]:
        """Return the explained networks; train them first if the store lacks them."""
        import torch

        from roarbench.compute.external_networks import add_source_to_pickles

        console, references = make_console(), []
        with self.open_store_for_writing(console) as results:
            work = self.make_context_with_networks(self.runnable_plan, results, console)
        for explained in work.explained:
            predictions = {split: explained.store.load_predictions(split) for split in explained.ranked_splits}
            targets = {split: torch.from_numpy(predicted.targets) for split, predicted in predictions.items()}
            model = add_source_to_pickles(explained.load_trained())
            references.append(Reference(model, targets[Split.TEST], targets.get(Split.TRAIN)))
        return references

    @use_neutral_settings
    def load_test_data(self) -> LabelledImages:
        """Return the test images and labels; decode them first if the store lacks them."""
        return self._load_images(Split.TEST)

    @use_neutral_settings
    def load_training_data(self) -> LabelledImages:
        """Return the training images and labels; decode them first if the store lacks them."""
        return self._load_images(Split.TRAIN)

    def open_store_for_writing(self, console: "Console") -> "ResultsStore":
        """Open the results for writing, store your own suite's description, and print the default store's folder."""
        from roarbench.analysis.load_results import open_store_for_writing
        from roarbench.datasets.file_locations_and_downloads import make_source_identity
        from roarbench.store.user_files import store_or_replace_suite

        print_store_if_default(self.store, console)
        plan = self.runnable_plan
        identify_source = partial(make_source_identity, plan.dataset_record, self.settings.image_folder)
        results = open_store_for_writing(self.store, self.settings.database, identify_source)
        if plan.own:
            store_or_replace_suite(results.database, plan)
        for name, reason in plan.left_out.items():
            console.print(f"left out: {name}: {reason}", soft_wrap=True)
        for warning in self.warnings:
            console.print(f"warning: {warning}", soft_wrap=True)
        return results

    def make_context_with_networks(self, plan: SuiteSpec, results: "ResultsStore", console: "Console") -> "JobContext":
        """Decode missing images, train missing explained networks, and return the plan's `JobContext`."""
        from roarbench.execution.run_suite import decode_images_and_check_weights, make_and_score_references

        request = self.make_request(plan)
        work = decode_images_and_check_weights(request, results, console)
        make_and_score_references(request, results, console, work)
        return work

    def _load_images(self, split: Split) -> LabelledImages:
        import torch

        from roarbench.compute.prediction import normalise
        from roarbench.execution.run_suite import decode_images_and_check_weights

        console, plan = make_console(), self.runnable_plan
        with self.open_store_for_writing(console) as results:
            if self.settings.weights:
                work = self.make_context_with_networks(plan, results, console)
            else:
                work = decode_images_and_check_weights(self.make_request(plan), results, console)
        norms = {explained.norm for explained in work.explained}
        if len(norms) > 1:
            seen = "the given weights need differently normalised images"
            raise CallerError(f"{seen}; load the suite with one of them at a time")
        pixels, labels = torch.from_numpy(work.images[split].pixels), torch.from_numpy(work.images[split].labels)
        return LabelledImages(normalise(pixels, norms.pop()).contiguous(), labels)


def make_console(quiet: bool = False) -> "Console":
    """Return the console for progress: standard error, or a notebook cell's output."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, quiet=quiet)


def load_suite(
    suite: str | Path,
    store: str | Path | None = None,
    *,
    db: str = "",
    data: str | Path | None = None,
    limit: int | None = None,
    reference: str | Path | Sequence[str | Path] = (),
    trust_network: str = "",
    fill: str = "",
    unit: str | None = None,
) -> Suite:
    """Load the description of a suite; nothing is computed.

    Args:
        suite: A name, such as `quick-matched` (`quick@6` for an older version); a TOML file; or the name of your own
            suite, if the store has results of it.
        store: Folder of images, networks, rankings and results; ROARBENCH_STORE or the user's data folder if None.
        db: URL of the database of results; if empty, ROARBENCH_DB for the default store, else an SQLite file in the
            store.
        data: Folder to read the images from, in the layout of the Hugging Face hub.
        limit: Number of images of each split; all if None.
        reference: Pretrained weights to explain, in place of training a network: a file, or `torchvision:resnet50-v1`;
            each item of a sequence is one explained network.
        trust_network: SHA-256 of a network's file that came with imported results; this allows the file to run.
        fill: Fill in place of the suite's own fills, such as `linear` (ROAD's) or `black` (0).
        unit: Unit in place of the suite's own units: `scalar`, `pixel` …

    Raises:
        CallerError: There is no such suite, or the file does not describe one.

    Examples:
        >>> suite = load_suite("planted", limit=8)
        >>> suite.name, suite.version, suite.plan.estimators[:2]
        ('planted', 1, ('truth', 'random'))
    """
    references = (reference,) if isinstance(reference, str | Path) else reference or ()
    settings = Settings(
        find_default_store() if store is None else Path(store),
        db,
        limit,
        str(data or ""),
        tuple(str(weights_file) for weights_file in references if weights_file),
        trust_network,
        fill,
        find_unit(unit) if unit else None,
    )
    return Suite.load(str(suite), settings)
