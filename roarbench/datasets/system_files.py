"""Names of folders and files that operating systems and programs create in users' folders, and that are no data."""

import re
from collections import Counter

from roarbench.common.text import list_some

# Synology, QNAP and other network drives; Windows; Linux; macOS and its archives; Jupyter, Python, Picasa
_FOLDERS = {
    *("@eadir", "@recycle", "@recently-snapshot", "@tmp", "@__thumb", "#recycle", "#snapshot"),
    *("$recycle.bin", "system volume information", "lost+found", ".thumbnails", ".trash", ".trashes"),
    *(".spotlight-v100", ".fseventsd", ".temporaryitems", ".documentrevisions-v100", ".appledouble"),
    *("network trash folder", "temporary items", "__macosx", "__pycache__", ".ipynb_checkpoints", ".picasaoriginals"),
}
_FILES = {
    *("thumbs.db", "thumbs.db:encryptable", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini", ".ds_store"),
    *(".picasa.ini", "picasa.ini", ".localized", ".directory", "icon\r"),
}
# numbered folders: .Trash-1000 of Linux desktops, FOUND.000 of Windows' disk check
_NUMBERED_FOLDER = re.compile(r"\.trash-\d+|found\.\d{3}")
_APPLE_DOUBLE = "._"  # prefix of the files in which macOS keeps attributes on foreign disks: `._photo.jpg`


def is_system_folder(name: str) -> bool:
    """Return whether a folder of this name is made by a system or a program, such as `@eaDir`; case is ignored."""
    return name.lower() in _FOLDERS or _NUMBERED_FOLDER.fullmatch(name.lower()) is not None


def is_system_file(name: str) -> bool:
    """Return whether a file of this name is made by a system or a program, such as `Thumbs.db`; case is ignored."""
    return name.lower() in _FILES or name.startswith(_APPLE_DOUBLE)


def group_file_name(name: str) -> str:
    """Return the name under which a file is counted: `._*` for all files whose names start with `._`."""
    return f"{_APPLE_DOUBLE}*" if name.startswith(_APPLE_DOUBLE) else name


def describe_left_out(counts: Counter[str]) -> str:
    """Describe in a line which folders and files are left out, with the count of each name; empty if there are none."""
    names = [f"{count} {name}" if count > 1 else name for name, count in counts.most_common()]
    return f"left out, because systems make them or they are hidden: {list_some(names, 6)}" if names else ""
