"""Commands that read and write no results, such as suites, new-suite, estimators, validate and doctor."""

from functools import partial
from pathlib import Path
from typing import Annotated

from roarbench.cli.options import STORE, StoreDir, declare_argument, declare_option
from roarbench.cli.terminal import err, out, propose_command
from roarbench.common.errors import CallerError
from roarbench.datasets.catalogue import FOLDERS, PARQUET
from roarbench.plan.suites import make_renamed_suite_text


def suites(
    suite: Annotated[str, declare_argument("Suite to describe, with its runs and cost; or `show`, to print a suite's "
        "file.", "[NAME|FILE|show]", "all")] = "",
    name: Annotated[str, declare_argument("With `show`: print this suite's TOML file; redirect it to edit a copy "
        "(`> mine.toml`).", "[NAME]", "none")] = "",
) -> None:  # fmt: skip
    """List all suites, show one suite, check a TOML file and try its network, or print a suite's TOML file."""
    from roarbench.report import descriptions_and_repeat_commands as descriptions

    if (suite == "show") != bool(name):
        raise CallerError(f"cannot read suites {suite} {name}".rstrip() + "; write suites NAME, or suites show NAME")
    if name:
        print(make_renamed_suite_text(name), end="", file=out.file)
        return
    if suite:
        from roarbench.api.suites import load_suite
        from roarbench.datasets.class_report import describe_images
        from roarbench.datasets.infer_dataset import describe_columns
        from roarbench.datasets.undecoded_splits import list_user_images

        loaded = load_suite(suite, STORE)
        spec = loaded.runnable_plan if suite.endswith(".toml") else loaded.plan
        for warning in loaded.warnings if suite.endswith(".toml") else []:
            err.print(f"warning: {warning}", soft_wrap=True)
        if suite.endswith(".toml") and spec.dataset_record.own in (FOLDERS, PARQUET):
            columns, images = describe_columns(spec.dataset_record), list_user_images(spec.dataset_record)
            for line in (*columns, *describe_images(images)):
                err.print(line, soft_wrap=True)
        out.print(descriptions.format_suite(spec, out.width), soft_wrap=True)
        err.print(f"next: {propose_command('plan', '--suite', suite)}", soft_wrap=True)
        return
    out.print(descriptions.format_suite_list(out.width), soft_wrap=True)
    plan = propose_command("plan", "--suite", "NAME")
    out.print(f"{plan} estimates time, disk and memory; --measure times a suite on this machine")


def new_suite(
    folder: Annotated[Path, declare_argument("Class folders (split or not), parquet files, or a table as parquet or "
        "CSV.", "FOLDER|FILE")],
    network: Annotated[str, declare_option("Network to explain: NAME, torchvision:NAME, timm:NAME or FILE.py:FUNCTION.",
        "NAME")] = "",
    paper: Annotated[bool, declare_option("The paper's experiment: 18 estimators, five levels, ROAR and KAR.")] = False,
) -> None:  # fmt: skip
    """Write a commented TOML suite for your own images or table into this folder.

    The suite asks the questions of `make run`. Three short training runs find a peak learning rate.
    """
    from roarbench.execution.network_trials import insert_tuned_learning_rate
    from roarbench.plan.suite_template import write_new_suite_file

    say = partial(err.print, soft_wrap=True)
    path = write_new_suite_file(folder, say, network, paper, partial(insert_tuned_learning_rate, say=say))
    out.print(f"{path.read_text('utf-8')}", soft_wrap=True, end="", markup=False)
    lines = (propose_command(command, "--suite", str(path)) for command in ("plan", "run"))
    err.print("\n  ".join([f"written: {path}; next:", *lines]), soft_wrap=True)


def estimators() -> None:
    """List the estimators and controls."""
    from roarbench.report import descriptions_and_repeat_commands as descriptions

    out.print(descriptions.make_estimator_table())


def toy(
    output: Annotated[
        Path | None, declare_option("Draw the figure into this file.", "FILE", flags="-o --output")
    ] = None,
) -> None:
    """Run the paper's figure 2: a 16-dimensional linear experiment with a known true ranking."""
    from roarbench.report.curve_panels import check_picture_path, make_figure, save_figure
    from roarbench.report.table_renderers import format_text
    from toy.linear import run_experiment
    from toy.report import make_chart, make_table

    if output:
        check_picture_path(output)  # before the experiment, which takes seconds
    result = run_experiment()
    if output:  # before the table, so that an error is the only output
        save_figure(make_figure(make_chart(result)), output)
        err.print(f"drawn: {output}", soft_wrap=True)
    out.print(format_text(make_table(result), out.width))


def doctor(store: StoreDir = STORE) -> None:
    """Check processor, memory, disk and libraries, and suggest what to change."""
    from roarbench.cli.doctor import examine_machine, make_findings_table

    out.print(make_findings_table(examine_machine(store)))


def new_submission(name: Annotated[str, declare_argument("1-40 characters of a-z, 0-9 and -.")]) -> None:
    """Write a submission template into this folder."""
    from roarbench.submissions.submission_file import write_template

    path = write_template(name)
    err.print(f"written: {path}; next: {propose_command('validate', path)}", soft_wrap=True)


def validate(
    file: Annotated[Path, declare_argument("The submission, one Python file; or FILE(samples=50).")],
    explain: Annotated[bool, declare_option("Show the traceback if the submission is refused.")] = False,
) -> None:
    """Check a submission in a sandbox in seconds; draw maps, and show the cost of running it in the suite quick."""
    from roarbench.execution.submission_intake import check_submission
    from roarbench.report.map_picture import write_map_picture
    from roarbench.submissions.limits_and_faults import Refusal
    from roarbench.submissions.submission_file import read_submission

    try:
        accepted = check_submission(read_submission(file), err)
        out.print(accepted.format_report(), soft_wrap=True)
        picture = Path(f"{accepted.submission.name}-maps.png")
        try:
            write_map_picture(accepted.submission.id, accepted.images.numpy(), accepted.importance.numpy(), picture)
            out.print(f"maps: {picture}", soft_wrap=True)
        except CallerError as error:  # the submission is accepted all the same
            err.print(f"maps are not drawn: {error}", soft_wrap=True)
        command = propose_command("run", "--suite", accepted.suite.name_in_commands, "--submission", file)
        err.print(f"next: {command}", soft_wrap=True)
    except Refusal as refusal:
        if not refusal.trace:
            raise
        if not explain:
            raise CallerError(f"{refusal}; `--explain` shows the traceback") from refusal
        err.print(refusal.trace, soft_wrap=True)
        raise
