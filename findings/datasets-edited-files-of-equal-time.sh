#!/usr/bin/env bash
# Guess: `load_dataset` looks a local file up in its cache by the file's content, or at least by its size and time.
# Behaviour: with datasets 5.2.0 it is looked up by its path and time alone. A file with other labels, more rows and so
#   another size, but the same modification time, gives the rows of the earlier file, in silence.
# Cause: of a local file, `_get_single_origin_metadata` (datasets/data_files.py) hashes `mtime`.
# Why it matters: reproducible archives and packages set one time for all files (SOURCE_DATE_EPOCH), and the second
#   version of a data set, unpacked over the first, is trained and scored as the first.
# Versions: datasets 5.2.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0
export HF_HOME="$folder/home" HF_HUB_OFFLINE=1
cd "$folder"
cat >program.py <<'PYTHON'
import sys

import datasets

datasets.disable_progress_bars()
found = datasets.load_dataset("csv", data_files="labels.csv", split="train")["label"][:]
print(f"labels: {found}, in the file: {[line.strip() for line in open('labels.csv')][1:]}")
assert found == sys.argv[1:], "the behaviour changed"
PYTHON
unpack() {
    printf '%s\n' label "$@" >labels.csv
    touch -d @1700000000 labels.csv
}
unpack cat cat cat
venv/bin/python program.py cat cat cat
unpack dog dog dog dog dog
venv/bin/python program.py cat cat cat
touch labels.csv
venv/bin/python program.py dog dog dog dog dog
