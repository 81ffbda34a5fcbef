"""Makes a large static board small: its pages and downloads deflated, each page still a file of its own.

A page of 200 estimators in 5 suites repeats itself so much that it shrinks to a tenth. The browser unpacks it
(`assets/unpack.js`), with or without a server. Small boards stay as they are, and are read without scripts.
"""

import base64
import re
import zlib
from pathlib import Path
from string import Template

LIMIT = 3_000_000  # bytes of a whole board
_UNPACK = "unpack.js"
_LINK = re.compile(r'<a href="([^"/]+)" download>')
_PAGE = Template("""<!doctype html>
<html lang="en">
$head
<body><noscript><p>This board is large, so its pages are packed: they need scripts.</p></noscript>
<script type="text/plain" id="packed">$page</script>
$files
</body>
</html>
""")


def pack(folder: Path) -> None:
    """Pack all pages of a folder with the downloads that they link, if the folder is larger than the limit."""
    if sum(path.stat().st_size for path in folder.iterdir()) <= LIMIT:
        return
    linked: set[str] = set()
    for path in sorted(folder.glob("*.html")):
        text = path.read_text(encoding="utf-8")
        names = [name for name in dict.fromkeys(_LINK.findall(text)) if (folder / name).is_file()]
        path.write_text(_packed(text, {name: (folder / name).read_bytes() for name in names}), encoding="utf-8")
        linked.update(names)
    for name in linked:
        (folder / name).unlink()
    (folder / _UNPACK).write_bytes((Path(__file__).parent / "assets" / _UNPACK).read_bytes())


def _packed(text: str, files: dict[str, bytes]) -> str:
    """A page that holds its own body, and the files that it links, as deflated text."""
    head, _, body = text.partition("<body>")
    head = head[head.index("<head>") :].rstrip().replace('src="board.js"', f'src="{_UNPACK}"')
    kept = [
        f'<script type="text/plain" data-file="{name}">{_deflated(content)}</script>' for name, content in files.items()
    ]
    return _PAGE.substitute(head=head, page=_deflated(body.rpartition("</body>")[0].encode()), files="\n".join(kept))


def _deflated(content: bytes) -> str:
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)  # raw deflate
    return base64.b64encode(packer.compress(content) + packer.flush()).decode()
