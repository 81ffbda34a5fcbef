#!/usr/bin/env bash
# Guess: `Dataset.map` looks results up by a hash of its function's code, so they are computed anew after an edit,
#   wherever the function lives.
# Behaviour: with datasets 5.2.0 this holds for functions of the program itself. A function from an imported module
#   counts by its name: after its code and a constant of its module change, `map` returns the old column, in silence. A
#   lambda that calls it gets new results after a change of the constant, and old ones after a change of the code.
# Cause: dill stores what can be imported as module and name (`Hasher`, datasets/fingerprint.py).
# Why it matters: preprocessing lives in modules. After a wrong mean or a wrong label is mended there, networks are
#   trained and scored on the old images. Known: https://github.com/huggingface/datasets/issues/3297.
# Versions: datasets 5.2.0, dill 0.4.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0 dill==0.4.1
export HF_HOME="$folder/home" HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1
cd "$folder"
printf 'shade\n1\n2\n' >images.csv
cat >program.py <<'PYTHON'
import sys

import datasets
import preprocessing

datasets.disable_progress_bars()
rows = datasets.load_dataset("csv", data_files="images.csv", split="train")
functions = {"function": preprocessing.scale, "lambda": lambda row: preprocessing.scale(row)}
expected = dict(zip(functions, map(eval, sys.argv[1:])))
fresh = [preprocessing.scale(row)["value"] for row in rows]
for name, function in functions.items():
    found = rows.map(function)["value"][:]
    print(f"{name}: {found}, computed now: {fresh}")
    assert found == expected[name], "the behaviour changed"
PYTHON
edit_and_run() {
    printf '%s\n' "FACTOR = $1" "def scale(row):" "    return {'value': row['shade'] * FACTOR$2}" >preprocessing.py
    venv/bin/python program.py "$3" "$4"
}
edit_and_run 1 "" "[1, 2]" "[1, 2]"
edit_and_run 1 " + 7" "[1, 2]" "[1, 2]"
edit_and_run 100 " + 7" "[1, 2]" "[107, 207]"
