"""Options that several commands share, records of options, and commands made from functions with such options."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cache
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args, get_origin

import click

from roarbench.common.enums import Unit
from roarbench.common.errors import CallerError
from roarbench.datasets.catalogue import DATASETS
from roarbench.plan.protocols import SHOWN
from roarbench.plan.settings import Settings, find_default_database, find_default_store
from roarbench.plan.suite import FIRST_REFERENCE_SEED

if TYPE_CHECKING:
    from roarbench.api.suites import Suite
    from roarbench.execution.submission_intake import SubmissionMode

_HELP_FLAGS = {"help_option_names": ["-h", "--help"]}


class PanelGroup(click.Group):
    """A group whose help lists the commands of each panel in the order of their addition."""

    def __init__(self, name: str, help: str, epilog: str) -> None:
        super().__init__(name, help=help, epilog=epilog, context_settings=_HELP_FLAGS)
        self.panels: dict[str, list[click.Command]] = {}

    def add_to_panel(self, panel: str, command: click.Command) -> None:
        """Add a command as the last of its panel."""
        self.add_command(command)
        self.panels.setdefault(panel, []).append(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the panels, with the first paragraph of each command's help."""
        width = max(map(len, self.commands))
        for panel, commands in self.panels.items():
            with formatter.section(panel):
                formatter.write_dl([(f"{one.name:{width}}", str(one.help).partition("\n\n")[0]) for one in commands])


app = PanelGroup(  # `main` adds the commands
    "roarbench",
    "Test feature-importance estimators: remove the features that they rank first, retrain, measure accuracy.",
    'Completion in bash: `eval "$(_ROARBENCH_COMPLETE=bash_source roarbench)"`',
)
_MOST_SEEDS = FIRST_REFERENCE_SEED  # larger seeds belong to references and redrawn rankings


def declare_option(
    help: str, metavar: str = "", displayed_default: str = "", flags: str = "", most: int = 0, **more: Any
) -> Any:
    """Declare an option: its help text, displayed placeholder and default, other flags than its name, and maximum."""
    if most:
        more["type"] = click.IntRange(1, most)
        more["type"].name = "integer"  # in messages, instead of "integer range"

    def make_option(name: str, **typed: Any) -> click.Option:
        names = [name, *(flags.split() or [f"--{name.replace('_', '-')}"])]
        typed |= {"show_default": displayed_default or typed.get("default") != "", "show_envvar": True}
        return click.Option(names, help=help, metavar=metavar or None, **{**typed, **more})

    return make_option


def declare_argument(help: str, metavar: str = "", displayed_default: str = "") -> Any:
    """Declare an argument: its help text, displayed placeholder and default."""
    shown = f"{help}  [default: ({displayed_default})]" if displayed_default else help
    return lambda name, **typed: click.Argument([name], help=shown, metavar=metavar or None, **typed)


STORE = find_default_store()
_MOST_IMAGES = max(max(record.train_images, record.test_images) for record in DATASETS.values())
TableFormat = Annotated[Literal["text", "json", "csv", "markdown"], declare_option("")]
ReportFormat = Annotated[Literal["text", "json"], declare_option("")]
SuiteName = Annotated[str, declare_option("A suite (`roarbench suites` lists them), or your own TOML file.",
    "NAME|FILE")]  # fmt: skip
StoreDir = Annotated[Path, declare_option("Folder of images, explained networks, rankings and results.", "DIR",
    "the user's data folder", envvar="ROARBENCH_STORE")]  # fmt: skip


Db = Annotated[str, declare_option("Database of results.", "URL",
    "ROARBENCH_DB for the default store, else an SQLite file in the store", callback=lambda context, option, url: (
        # an option of the call is processed before all options that the call lacks, so a store of the call is known
        url or find_default_database(Path(context.params.get("store") or find_default_store()))
    ))]  # fmt: skip
Data = Annotated[Path | None, declare_option("Read images from this folder (Hugging Face hub layout).", "DIR")]
Rows = Annotated[tuple[str, ...], declare_option("Use only these estimators, separated by commas.", "A,B", "all")]
Trust = Annotated[bool, declare_option("Run submissions without the sandbox; their rows are never verified.",
    flags="--trust-submission")]  # fmt: skip
TrustNetwork = Annotated[str, declare_option("Run the imported network file with this hash, with your rights.", "HASH",
    "only files that your own suites name")]  # fmt: skip
Workers = Annotated[int | None, declare_option(
    "Number of processes; by default one per GPU, or eight for small images; without GPUs one per core.", "N",
    most=4096)]  # fmt: skip  # `run` has a lower limit for this machine


def make_command(function: Callable[..., int | None], example: str) -> click.Command:
    """Make a command from a function that returns an exit code or None; the function's parameters are the options.

    Each dataclass parameter is replaced by its fields. Parameters and fields keep their order.
    """
    parameters = signature(function).parameters
    records: dict[str, Any] = {name: one.annotation for name, one in parameters.items() if is_dataclass(one.annotation)}
    fields = {name: signature(record).parameters for name, record in records.items()}
    made = [_make_option(each) for name, one in parameters.items() for each in fields.get(name, {name: one}).values()]

    def call(**values: Any) -> int | None:
        filled = {name: record(**{key: values.pop(key) for key in fields[name]}) for name, record in records.items()}
        return function(**values, **filled)

    name = function.__name__.rstrip("_").replace("_", "-")
    return click.Command(name, _HELP_FLAGS, call, made, getdoc(function), epilog=f"Example: `roarbench {example}`")


@cache  # commands share options
def _make_option(parameter: Parameter) -> click.Parameter:
    """Make the option or argument that a parameter declares; its annotation gives the type."""
    kind, *_, declared = get_args(parameter.annotation)
    typed = {"required": True} if parameter.default is Parameter.empty else {"default": parameter.default}
    if type(None) in get_args(kind):
        kind = get_args(kind)[0]
    if get_origin(kind) is tuple:
        kind, typed["multiple"] = get_args(kind)[0], True
    typed |= {"is_flag": True} if kind is bool else {}
    if kind is Path:
        kind = click.Path(path_type=Path)
    elif get_origin(kind) is Literal:
        kind = click.Choice(get_args(kind))
    option: click.Parameter = declared(parameter.name, type=kind, **typed)
    return option


@dataclass(frozen=True)
class SuiteOptions:
    """Options that select a suite or a part of it."""

    suite: SuiteName
    estimators: Annotated[tuple[str, ...], declare_option(
        "Use only these of `roarbench estimators` and the controls; 'var-grad(noise=0.05)' sets a parameter.", "A,B",
        "all")] = ()  # fmt: skip
    protocol: Annotated[str, declare_option("Run only this protocol.", "NAME", "all of the suite")] = ""
    seeds: Annotated[int | None, declare_option("Training runs per cell; the suite's number by default.", "N",
        most=_MOST_SEEDS)] = None  # fmt: skip


@dataclass(frozen=True)
class BoardOptions:
    """Options that select a suite's table and rows."""

    seeds: ClassVar[None] = None
    estimators: Rows = ()
    protocol: Annotated[str, declare_option(f"One of {', '.join(SHOWN)}.", "NAME",
        "the suite's first that has results")] = ""  # fmt: skip


@dataclass(frozen=True)
class ResultsOptions:
    """Options that select results by store, images and explained networks."""

    store: StoreDir = STORE
    db: Db = ""
    limit: Annotated[int | None, declare_option("Use only this many images of each split.", "N", flags="--max-images",
        most=_MOST_IMAGES)] = None  # fmt: skip
    data: Annotated[Path | None, declare_option(
        "Use results for images in this folder, or for images whose fingerprint begins with these digits.", "DIR",
        "the suite's own images")] = None  # fmt: skip
    reference: Annotated[tuple[str, ...], declare_option(
        "Use results for maps of these weights (a file, or the name in table titles). Repeatable.", "FILE|NAME",
        "the suite's own")] = ()  # fmt: skip
    fill: Annotated[str, declare_option("Fill value of removed features, such as linear (ROAD's) or black.", "NAME",
        "the suite's own")] = ""  # fmt: skip
    unit: Annotated[Unit | None, declare_option("Unit of a feature: one number, or all channels of a pixel.",
        displayed_default="the suite's own", type=click.Choice([*map(str, Unit)]),
        callback=lambda context, option, name: name and Unit(name))] = None  # fmt: skip

    def load(self, suite: str, selected: SuiteOptions | BoardOptions = BoardOptions()) -> "Suite":
        """Load the suite of this name with the settings of the command."""
        from roarbench.api.suites import Suite

        settings = Settings(
            store=self.store,
            db=self.db,
            limit=self.limit,
            data=str(self.data or ""),
            weights=self.reference,
            trusted_network=getattr(self, "trust_network", ""),  # of commands that run
            fill=self.fill,
            unit=self.unit,
            estimators=selected.estimators or None,
            protocol=selected.protocol,
            seeds=selected.seeds,
        )
        return Suite.load(suite, settings)


@dataclass(frozen=True)
class WorkOptions(ResultsOptions):
    """Options on how to run: store, images, explained weights and processes."""

    data: Data = None
    reference: Annotated[tuple[str, ...], declare_option(
        "Explain these weights: a checkpoint of the suite's network, or torchvision:resnet50-v1. Repeatable.",
        "FILE|NAME", "trained by the suite's recipe")] = ()  # fmt: skip
    trust_network: TrustNetwork = ""
    workers: Workers = None


@dataclass(frozen=True)
class EngineOptions:
    """Options on the machines that run the work."""

    engine: Annotated[Literal["local", "ray"], declare_option(
        "Run in processes on this machine, or on a Ray cluster.")] = "local"  # fmt: skip
    address: Annotated[str, declare_option("Head of a Ray cluster; auto on a machine of the cluster.", "HOST:PORT",
        "a new cluster on this machine")] = ""  # fmt: skip
    check_files: Annotated[bool, declare_option(
        "Verify full checksums of large files before the run, even of files that were verified before.",
        )] = False  # fmt: skip

    def __post_init__(self) -> None:
        if self.address and self.engine != "ray":
            raise CallerError("--address names a Ray cluster; add --engine ray")


@dataclass(frozen=True)
class SubmissionOptions:
    """Options on submitted estimators."""

    submission: Annotated[tuple[Path, ...], declare_option(
        "Add this estimator, or 'FILE(samples=50)'; see submissions/. Repeatable.", "FILE", "none")] = ()  # fmt: skip
    trust: Trust = False
    device: Annotated[Literal["cpu", "cuda"], declare_option("Device for submissions' maps; rows record the device.",
        flags="--submission-device")] = "cpu"  # fmt: skip

    def __post_init__(self) -> None:
        if not self.submission and (self.trust or self.device != "cpu"):
            raise CallerError("--trust-submission and --submission-device need a submission; add --submission FILE")

    def make_mode(self, suite: "Suite") -> "SubmissionMode":
        """Return the settings with which these submissions are checked and run for a suite."""
        from roarbench.execution.submission_intake import SubmissionMode

        return SubmissionMode(self.trust, self.device == "cuda", suite.plan, suite.settings.limit)
