import re
import subprocess
import sys

import pytest

from roarbench.datasets import DATASETS, find_dataset
from roarbench.errors import UnknownName


def test_find_dataset() -> None:
    assert find_dataset("cifar10").hub == "uoft-cs/cifar10"


def test_unknown_name_guesses() -> None:
    with pytest.raises(UnknownName, match="no data set 'cifar11'; did you mean 'cifar10'?"):
        find_dataset("cifar11")


def test_hub_revisions_are_whole_commits() -> None:
    for record in DATASETS.values():
        assert re.fullmatch("[0-9a-f]{40}", record.revision) or not record.hub


def test_records_do_not_import_torch() -> None:
    program = "import sys; import roarbench.datasets; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
