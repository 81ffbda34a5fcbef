#!/usr/bin/env bash
# Guess: casting a ClassLabel column of `datasets` to a ClassLabel with other names keeps each row's class, as casting a
#   pandas categorical does, or is refused, as `concatenate_datasets` refuses such columns.
# Behaviour: `cast_column` and `cast` keep the numbers, so every row of class 0 gets the new name 0: a cat becomes a dog.
#   `class_encode_column` sorts numbers as text: of the labels 2, 9 and 10, the label 10 becomes class 0.
#   `align_labels_with_mapping` keeps the classes.
# Cause: `ClassLabel.cast_storage` (datasets/features/features.py) checks that integers are below the number of classes,
#   and does not know the old names; `class_encode_column` casts the column to strings before it sorts.
# Why it matters: casting is the obvious remedy for splits whose class names differ. Afterwards both splits have equal
#   names, so no later reader can see that every test label is wrong.
# Versions: datasets 5.2.0, pyarrow 26.0.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0 pyarrow==26.0.1
HF_HOME=$folder "$folder/venv/bin/python" - <<'PYTHON'
from datasets import ClassLabel, Dataset, Features, Value, concatenate_datasets, disable_progress_bars

disable_progress_bars()


def make(names):
    rows = {"animal": ["cat", "dog"], "label": ["cat", "dog"]}
    return Dataset.from_dict(rows, features=Features({"animal": Value("string"), "label": ClassLabel(names=names)}))


def name_classes(made):
    return [made.features["label"].int2str(label) for label in made["label"]]


train, test = make(["cat", "dog"]), make(["dog", "cat"])
assert name_classes(test) == test["animal"][:] == ["cat", "dog"]
cast = {
    "cast_column": test.cast_column("label", train.features["label"]),
    "cast": test.cast(train.features),
    "align_labels_with_mapping": test.align_labels_with_mapping({"cat": 0, "dog": 1}, "label"),
}
for function, made in cast.items():
    print(f"{function}: rows of cat, dog have the classes {name_classes(made)}")
assert [name_classes(made) for made in cast.values()] == [["dog", "cat"], ["dog", "cat"], ["cat", "dog"]]
try:
    concatenate_datasets([train, test])
    raise SystemExit("the behaviour changed")
except ValueError:
    print("concatenate_datasets: refused")
encoded = Dataset.from_dict({"label": [2, 9, 10]}).class_encode_column("label")
print("class_encode_column: labels 2, 9, 10 become", encoded["label"][:], encoded.features["label"].names)
assert encoded["label"][:] == [1, 2, 0]
PYTHON
