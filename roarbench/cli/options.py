"""Options that several commands share, records of options, and the decorator that expands these records."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from roarbench.common.enums import Unit
from roarbench.common.errors import CallerError
from roarbench.datasets.catalogue import DATASETS
from roarbench.plan.protocols import SHOWN
from roarbench.plan.settings import Settings, find_default_database, find_default_store
from roarbench.plan.suite import FIRST_REFERENCE_SEED

if TYPE_CHECKING:
    from roarbench.api.suites import Suite
    from roarbench.execution.submission_intake import SubmissionMode

app = typer.Typer(  # `main` adds the commands
    name="roarbench",
    help="Test feature-importance estimators: remove the features that they rank first, retrain, measure accuracy.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
_MOST_SEEDS = FIRST_REFERENCE_SEED  # larger seeds belong to references and redrawn rankings


def declare_option(help: str, metavar: str = "", displayed_default: str = "", flags: str = "", **more: Any) -> Any:
    """Declare an option: its help text, displayed placeholder and default, and flags that differ from its name."""
    return typer.Option(
        *flags.split(), help=help, metavar=metavar or None, show_default=displayed_default or True, **more
    )


def declare_argument(help: str, metavar: str = "", displayed_default: str = "") -> Any:
    return typer.Argument(help=help, metavar=metavar or None, show_default=displayed_default or True)


STORE = find_default_store()
_MOST_IMAGES = max(max(record.train_images, record.test_images) for record in DATASETS.values())
_MOST_WORKERS = 4096  # upper limit for all machines; `run` has a lower limit for this machine
TableFormat = Literal["text", "json", "csv", "markdown"]
ReportFormat = Literal["text", "json"]
SuiteName = Annotated[
    str, declare_option("A suite (`roarbench suites` lists them), or your own TOML file.", "NAME|FILE")
]
StoreDir = Annotated[
    Path,
    declare_option(
        "Folder of images, references, rankings and results.", "DIR", "the user's data folder", envvar="ROARBENCH_STORE"
    ),
]


def _read_database(context: typer.Context, url: str) -> str:
    """Return the URL of the call, or else of ROARBENCH_DB, which belongs to the default store; another store has none.

    An option of the call is processed before all options that the call lacks, so a store of the call is known here.
    """
    return url or find_default_database(Path(context.params.get("store") or find_default_store()))


Db = Annotated[
    str,
    declare_option(
        "Database of results.",
        "URL",
        "ROARBENCH_DB for the default store, else an SQLite file in the store",
        callback=_read_database,
    ),
]
Limit = Annotated[
    int | None,
    declare_option("Use only this many images of each split.", "N", flags="--max-images", min=1, max=_MOST_IMAGES),
]
Data = Annotated[Path | None, declare_option("Read images from this folder (Hugging Face hub layout).", "DIR")]
Rows = Annotated[list[str] | None, declare_option("Use only these estimators, separated by commas.", "A,B", "all")]
Fill = Annotated[
    str, declare_option("Fill value of removed features, such as linear (ROAD's) or black.", "NAME", "the suite's own")
]
UnitName = Annotated[
    Unit | None,
    declare_option("Unit of a feature: one number, or all channels of a pixel.", displayed_default="the suite's own"),
]
Trust = Annotated[
    bool,
    declare_option("Run submissions without the sandbox; their rows are never verified.", flags="--trust-submission"),
]
TrustNetwork = Annotated[
    str,
    declare_option(
        "Run the imported network file with this hash, with your rights.",
        "HASH",
        "only files that your own suites name",
    ),
]
Workers = Annotated[
    int | None,
    declare_option(
        "Number of processes; by default one per GPU, or eight for small images; without GPUs one per core.",
        "N",
        min=1,
        max=_MOST_WORKERS,
    ),
]


def expand_option_records(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command whose options are a function's parameters; each dataclass parameter is replaced by its fields.

    Options keep the order of the parameters, and the fields of a dataclass keep their order.
    """
    parameters = signature(function).parameters
    records: dict[str, Any] = {
        name: parameter.annotation for name, parameter in parameters.items() if is_dataclass(parameter.annotation)
    }
    fields = {name: signature(record).parameters for name, record in records.items()}
    options: list[Parameter] = []
    for name, parameter in parameters.items():
        options += fields[name].values() if name in fields else [parameter]
    options = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]

    @wraps(function)
    def command(**values: Any) -> None:
        filled = {name: record(**{key: values.pop(key) for key in fields[name]}) for name, record in records.items()}
        function(**values, **filled)

    command.__signature__ = Signature(options)  # type: ignore[attr-defined]  # typer reads the signature
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


@dataclass(frozen=True)
class SuiteOptions:
    """Options that select a suite or a part of it."""

    suite: SuiteName
    estimators: Annotated[
        list[str] | None,
        declare_option(
            "Use only these of `roarbench estimators` and the controls; 'var-grad(noise=0.05)' sets a parameter.",
            "A,B",
            "all",
        ),
    ] = None
    protocol: Annotated[str, declare_option("Run only this protocol.", "NAME", "all of the suite")] = ""
    seeds: Annotated[
        int | None,
        declare_option("Training runs per cell; the suite's number by default.", "N", min=1, max=_MOST_SEEDS),
    ] = None


@dataclass(frozen=True)
class BoardOptions:
    """Options that select a suite's table and rows."""

    seeds: ClassVar[None] = None
    estimators: Rows = None
    protocol: Annotated[
        str, declare_option(f"One of {', '.join(SHOWN)}.", "NAME", "the suite's first that has results")
    ] = ""


@dataclass(frozen=True)
class ResultsOptions:
    """Options that select results by store, images and explained networks."""

    store: StoreDir = STORE
    db: Db = ""
    limit: Limit = None
    data: Annotated[
        Path | None,
        declare_option(
            "Use results for images in this folder, or for images whose fingerprint begins with these digits.",
            "DIR",
            "the suite's own images",
        ),
    ] = None
    reference: Annotated[
        list[str] | None,
        declare_option(
            "Use results for maps of these weights (a file, or the name in table titles). Repeatable.",
            "FILE|NAME",
            "the suite's own",
        ),
    ] = None
    fill: Fill = ""
    unit: UnitName = None

    def load(self, suite: str, selected: SuiteOptions | BoardOptions = BoardOptions()) -> "Suite":
        """Load the suite of this name with the settings of the command."""
        from roarbench.api.suites import Suite

        settings = Settings(
            self.store,
            self.db,
            self.limit,
            str(self.data or ""),
            tuple(filter(None, self.reference or ())),
            getattr(self, "trust_network", ""),  # of commands that run
            self.fill,
            self.unit,
            tuple(selected.estimators) if selected.estimators else None,
            selected.protocol,
            selected.seeds,
        )
        return Suite.load(suite, settings)


@dataclass(frozen=True)
class WorkOptions(ResultsOptions):
    """Options on how to run: store, images, explained weights and processes."""

    data: Data = None
    reference: Annotated[
        list[str] | None,
        declare_option(
            "Explain these weights: a checkpoint of the suite's network, or torchvision:resnet50-v1. Repeatable.",
            "FILE|NAME",
            "trained by the suite's recipe",
        ),
    ] = None
    trust_network: TrustNetwork = ""
    workers: Workers = None


@dataclass(frozen=True)
class EngineOptions:
    """Options on the machines that run the work."""

    engine: Annotated[
        Literal["local", "ray"], declare_option("Run in processes on this machine, or on a Ray cluster.")
    ] = "local"
    address: Annotated[
        str,
        declare_option(
            "Head of a Ray cluster; auto on a machine of the cluster.", "HOST:PORT", "a new cluster on this machine"
        ),
    ] = ""
    check_files: Annotated[
        bool,
        declare_option(
            "Verify full checksums of large files before the run, even of files that were verified before.",
            flags="--check-files",
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.address and self.engine != "ray":
            raise CallerError("--address names a Ray cluster; add --engine ray")


@dataclass(frozen=True)
class SubmissionOptions:
    """Options on submitted estimators."""

    submission: Annotated[
        list[Path] | None,
        declare_option("Add this estimator, or 'FILE(samples=50)'; see submissions/. Repeatable.", "FILE", "none"),
    ] = None
    trust: Trust = False
    device: Annotated[
        Literal["cpu", "cuda"],
        declare_option("Device for submissions' maps; rows record the device.", flags="--submission-device"),
    ] = "cpu"

    def __post_init__(self) -> None:
        if not self.submission and (self.trust or self.device != "cpu"):
            raise CallerError("--trust-submission and --submission-device need a submission; add --submission FILE")

    def make_mode(self, suite: "Suite") -> "SubmissionMode":
        """Return the settings with which these submissions are checked and run for a suite."""
        from roarbench.execution.submission_intake import SubmissionMode

        return SubmissionMode(self.trust, self.device == "cuda", suite.plan, suite.settings.limit)
