#!/usr/bin/env bash
# Guess: `CombinatorialGrouper(dataset, ["y", "background"])` of WILDS makes the groups of `["background", "y"]`, and
#   `group_str` names each by its own background and class; the order of the fields at most renumbers the groups.
# Behaviour: with wilds 2.0.0 numbers stay and names change places. Of data in the form of Waterbirds, the waterbirds on
#   land are called "background = water, y = landbird", and the other way round, without a word. With fields in the data
#   set's own order names are right.
# Cause: `CombinatorialGrouper.__init__` (wilds/common/grouper.py) collects the columns in the order of
#   `dataset.metadata_fields`, and `group_str` reads names from `groupby_fields`, which keeps the caller's order.
# Why it matters: the worst group is what WILDS is evaluated by. The names are printed by `standard_group_eval` and are
#   the keys of its results, so a table calls a spurious correlation by the opposite name; the numbers beside it are
#   right, and nothing looks wrong.
# Versions: wilds 2.0.0, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6, pandas 3.1.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q wilds==2.0.0 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6 pandas==3.1.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import tempfile

import torch
from wilds.common.grouper import CombinatorialGrouper
from wilds.datasets.wilds_dataset import WILDSDataset

FIELDS = {"background": ["land", "water"], "y": ["landbird", "waterbird"]}


class Birds(WILDSDataset):
    """A thousand birds, 90 % of them in front of their own background."""

    _dataset_name = "birds"

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        birds = torch.randint(2, (1000,), generator=generator)
        background = (birds + (torch.rand(1000, generator=generator) < 0.1)) % 2
        self._data_dir, self._split_scheme = tempfile.gettempdir(), "official"
        self._split_array = torch.zeros(1000, dtype=torch.long)
        self._y_array, self._y_size, self._n_classes = birds, 1, 2
        self._metadata_fields, self._metadata_map = list(FIELDS), dict(FIELDS)
        self._metadata_array = torch.stack([background, birds], 1)
        super().__init__(self._data_dir, False, "official")


def name_groups(fields):
    """Return pairs of the name that the grouper gives to a group, and the one that its first bird has."""
    grouper = CombinatorialGrouper(dataset, fields)
    groups = grouper.metadata_to_group(dataset.metadata_array)
    names = []
    for group in groups.unique():
        first = dict(zip(dataset.metadata_fields, dataset.metadata_array[groups == group][0].tolist(), strict=True))
        right = ", ".join(f"{field} = {FIELDS[field][first[field]]}" for field in reversed(fields))
        names.append((grouper.group_str(group.item()), right))
    return names


dataset = Birds()
assert all(given == right for given, right in name_groups(["background", "y"]))
wrong = [(given, right) for given, right in name_groups(["y", "background"]) if given != right]
for given, right in wrong:
    print(f"called {given}; is {right}")
assert len(wrong) == 2 and wrong[0] == wrong[1][::-1], "the behaviour changed"
assert "background = water, y = landbird" in dict(wrong), "the behaviour changed"
PYTHON
