"""Options that several commands take together, as records: `options.command` makes commands of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from roarbench.cli.options import (
    STORE,
    Data,
    Db,
    Fill,
    Limit,
    Rows,
    StoreDir,
    SuiteName,
    Trust,
    TrustNetwork,
    UnitName,
    Workers,
    complete_estimators,
    declare_option,
)
from roarbench.errors import CallerError
from roarbench.plan.suite import REFERENCE_SEED
from roarbench.protocols import PROTOCOLS, SHOWN

if TYPE_CHECKING:
    from roarbench.api.suites import Suite

_MOST_SEEDS = REFERENCE_SEED  # from this seed on they would be those of references and redrawn rankings


@dataclass(frozen=True)
class SuiteOptions:
    """Options that say what is run: a suite, or a part of it."""

    suite: SuiteName
    estimators: Annotated[
        list[str] | None,
        declare_option(
            "Only these and the controls: any of `roarbench estimators`, also 'var-grad(noise=0.05)'.",
            "A,B",
            "all",
            autocompletion=complete_estimators,
        ),
    ] = None
    protocol: Annotated[
        str, declare_option("Run only this protocol.", "NAME", "all of the suite", autocompletion=lambda: [*PROTOCOLS])
    ] = ""
    seeds: Annotated[
        int | None, declare_option("Trainings per cell; the suite's number by default.", "N", min=1, max=_MOST_SEEDS)
    ] = None


class _Source:
    """What both kinds of options have that name a suite's images and references."""

    def load(self, suite: str) -> "Suite":
        """Return the suite of this name, with its store, its images and its references."""
        from roarbench.api.suite_lookup import load_suite

        asked = {name: value for name, value in vars(self).items() if name != "workers"}
        return load_suite(suite, **asked | {"data": asked["data"] or None, "reference": asked["reference"] or ()})


@dataclass(frozen=True)
class WorkOptions(_Source):
    """Options that say with what it is run: processes, store, images and the explained weights."""

    workers: Workers = None
    store: StoreDir = STORE
    db: Db = ""
    data: Data = None
    limit: Limit = None
    reference: Annotated[
        list[str] | None,
        declare_option(
            "Explain these weights: a checkpoint of the suite's network, or torchvision:resnet50-v1. Repeatable.",
            "FILE|NAME",
            "trained by the suite's recipe",
        ),
    ] = None
    trust_network: TrustNetwork = ""
    fill: Fill = ""
    unit: UnitName = None


@dataclass(frozen=True)
class EngineOptions:
    """Options that say which machines do the work."""

    engine: Annotated[
        Literal["local", "ray"],
        declare_option("Work in processes on this machine, or on a Ray cluster."),
    ] = "local"
    address: Annotated[
        str,
        declare_option(
            "Head of a Ray cluster; auto on one of its machines.", "HOST:PORT", "a new cluster on this machine"
        ),
    ] = ""
    compile: Annotated[
        bool,
        declare_option("Compile the networks that GPUs train, also where `doctor --suite` did not find that it pays."),
    ] = False
    check_files: Annotated[
        bool,
        declare_option(
            "Read large files whole before the work, also those that were read whole once, and compare them."
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.address and self.engine != "ray":
            raise CallerError("--address says which Ray cluster does the work; add --engine ray")


@dataclass(frozen=True)
class SubmissionOptions:
    """Submitted estimators, and how their maps are made."""

    submission: Annotated[
        list[Path] | None,
        declare_option("Add this estimator, or 'FILE(samples=50)'; see submissions/. Repeatable.", "FILE", "none"),
    ] = None
    trust: Trust = False
    device: Annotated[
        Literal["cpu", "cuda"],
        declare_option("Device for submissions' maps; their rows record it.", flags="--submission-device"),
    ] = "cpu"

    def __post_init__(self) -> None:
        if not self.submission and (self.trust or self.device != "cpu"):
            raise CallerError("--trust-submission and --submission-device say how a file is run; add --submission FILE")


@dataclass(frozen=True)
class ResultsOptions(_Source):
    """Options that say which results are shown: those of a store, on these images and with this reference."""

    store: StoreDir = STORE
    db: Db = ""
    limit: Limit = None
    data: Annotated[
        str,
        declare_option(
            "Results on the images in this folder, or with this fingerprint prefix.", "DIR", "the suite's own images"
        ),
    ] = ""
    reference: Annotated[
        list[str] | None,
        declare_option(
            "Results that explain these weights: a file, or their name in titles. Repeatable.",
            "FILE|NAME",
            "the suite's own",
        ),
    ] = None
    fill: Fill = ""
    unit: UnitName = None


@dataclass(frozen=True)
class BoardOptions:
    """Options that say which board of a suite is shown, and which of its rows."""

    estimators: Rows = None
    protocol: Annotated[
        str,
        declare_option(
            f"{', '.join(SHOWN)}.",
            "NAME",
            "the suite's first that has results",
            autocompletion=lambda: [*SHOWN],
        ),
    ] = ""
