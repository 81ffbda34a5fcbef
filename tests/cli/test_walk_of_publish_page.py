"""Author, maintainer and reviewer walk docs/publish.md with three stores; the author's processor trains other networks.

oneDNN and torch read the instructions that they may use from the environment, so one machine has two processors. With
AVX2 instead of SSE41, nothing would change on a processor without AVX-512.
"""

import json
import re
import shlex
import subprocess

import numpy as np
import pytest
from PIL import Image

from roarbench.store.published_networks import read_network_file
from tests.helpers import forked
from tests.helpers.processes import PATIENCE

pytestmark = [pytest.mark.process, pytest.mark.slow]

OTHER_PROCESSOR = {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default"}
SUITE = """name = "pics"
references = 3
seeds = 2
protocols = ["roar", "own-network"]
estimators = ["random", "grad", "input-x-grad"]
levels = [0.5]
add_controls = false
data = {images = "pics", size = 8, train = "train", test = "test"}
network = {name = "resnet-planted"}
recipe = {like = "planted@1", epochs = 6}
"""


def write_pictures(folder):
    """Write 60 and 30 pictures of 8 by 8 pixels; pictures of the second class are lighter at the top."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 60), ("test", 30)):
        for number in range(count):
            pixels = draw.integers(0, 120, (8, 8, 3))
            pixels[:5] += 100 * (number % 2)
            path = folder / split / ("dark", "light")[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)


@pytest.fixture
def shell(working_folder, monkeypatch):
    """A function that runs a command line in the folder of the test and returns its output; `code` is expected."""
    write_pictures(working_folder / "pics")
    (working_folder / "pics.toml").write_text(SUITE)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A. Author")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "author@example.org")
    (working_folder / "results").mkdir()
    (working_folder / "results" / "index.json").write_text('{"format": 1, "files": []}')
    for line in ("init -q", "add .", "commit -qm start"):
        subprocess.run(["git", "-C", "results", *line.split()], check=True)
    numbers = iter(range(99))

    def run(line, code=0, **variables):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            log = working_folder / f"{next(numbers)}.log"
            process = forked.start(tuple(shlex.split(line)), log)
            process.join(PATIENCE)
        said = re.sub(r"(?m)^stored \w+\n", "", log.read_text())
        assert process.exitcode == code, said
        return said

    return run


def read_table(shell, store):
    return json.loads(shell(f"table --suite pics --protocol roar --format json {store}"))


def read_places(shell, store):
    return {row["estimator"]: row["place_low"] for row in read_table(shell, store)["rows"]}


def publish(shell, row, store):
    return shell(f"submit {row} --suite pics --results results --about 'A. Author' --write {store}")


def test_row_of_another_processor_is_published_ranked_and_reproduced(shell, working_folder, store_url):
    maintainer, author, alone = ("--store maintainer", f"--store author --db {store_url}", "--store alone")
    run = "run --suite pics.toml --workers 1 --estimators"
    shell(f"{run} random,grad {maintainer}")
    seen = "2 of 4 runs of untouched images and random missing; submit random, too"
    assert f"warning: grad has no rank (roar scalar): {seen}" in publish(shell, "grad", maintainer)
    publish(shell, "random", maintainer)
    published = sorted((working_folder / "results" / "networks").glob("*.safetensors"))
    assert len(published) == 3
    shell("results check results")

    # a row that explains networks of this processor would have no rank, and is refused with the command that mends it
    shell(f"{run} random,input-x-grad {alone}", **OTHER_PROCESSOR)
    refused = shell(f"submit input-x-grad --suite pics --results results --about me --write {alone}", code=2)
    assert "not published, since a row would have no rank: input-x-grad has no rank" in refused
    assert "run --suite pics --estimators input-x-grad --store NEW`" in refused and refused.count("\n") == 1

    # an author takes the published networks
    assert "read: results: 3 explained networks" in shell(f"import results {author}")
    said = shell(f"{run} random,input-x-grad {author}", **OTHER_PROCESSOR)
    assert "explains 3 published networks, not trained here" in said
    subprocess.run(["cp", "-r", "results", "before"], check=True)
    assert "warning" not in publish(shell, "input-x-grad", author)
    assert "new in pics/" in shell("results check results --before before")
    weights = {json.loads(path.read_text())["weights"] for path in working_folder.glob("author/references/*/*.json")}
    assert weights == {read_network_file(path).checksum for path in published}

    # a reviewer imports the folder, sees the row's place, and repeats runs
    reviewer = "--store review"
    shell(f"import results {reviewer}")
    places = read_places(shell, reviewer)
    assert places.keys() == {"random", "grad", "input-x-grad"} and None not in places.values()
    # the digits that the author cites, and what doubts need to know, travel with the rows
    tables = [read_table(shell, store) for store in (author, reviewer)]
    assert tables[0]["hash"] == tables[1]["hash"]
    assert tables[0]["chance"] == tables[1]["chance"] == 0.5
    assert "3 explained networks" in shell(f"table --suite pics --protocol roar --notes {reviewer}")
    listed = shell(f"runs --suite pics --estimators input-x-grad {reviewer}")
    for protocol, counted in (("roar", "correct"), ("own-network", "predictions kept")):
        key = re.findall(rf"(?m)^(\w+) +done +{protocol} input-x-grad", listed)[-1]
        verdict = shell(f"reproduce {key} --data pics {reviewer}")
        assert re.search(rf"(?m)^(equal|within the interval): \d+ of 30 {counted}, \d+ in the stored", verdict), verdict
        assert re.search(r"(correctness differs|kept predictions differ) on (no|\d+) images?", verdict)
        assert "explained network: stored weights " in verdict
    # decoding the images by another command hides no row
    assert read_places(shell, reviewer) == places
    assert "input-x-grad" in shell(f"runs --suite pics {reviewer}")
