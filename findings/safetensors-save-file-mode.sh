#!/usr/bin/env bash
# Guess: `save_file` of safetensors makes a file with the permissions of every new file (0666 less the umask), as open(),
#   numpy.save, torch.save and writing the bytes of its own `save` do.
# Behaviour: only the owner can read the file (0600), whatever the umask.
# Why it matters: weights that are saved into a folder shared by a group, or copied into a repository or a package with
#   their permissions, cannot be read by others; the other ways of saving the same tensors do not show it.
# Cause: the file is written under a temporary name (the crate tempfile makes such files private), then renamed.
# Versions: safetensors 0.8.0, numpy 2.4.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q safetensors==0.8.0 numpy==2.4.1
cd "$folder"
umask 0022
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from safetensors.numpy import save, save_file

weights = {"a": np.zeros(3, np.float32)}
save_file(weights, "save_file")
with open("save", "wb") as file:
    file.write(save(weights))
np.save("numpy.npy", weights["a"])
assert open("save", "rb").read() == open("save_file", "rb").read()
PYTHON
stat -c '%a %n' save_file save numpy.npy
[ "$(stat -c %a save_file)" = 600 ]
[ "$(stat -c %a save)" = 644 ] && [ "$(stat -c %a numpy.npy)" = 644 ]
