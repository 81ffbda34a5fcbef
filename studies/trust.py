"""Write the corrections of docs/corrections.md and the limits of the studies into leaderboard/trust.json.

python -m studies.trust

The findings in trust.json are written by hand from the studies' pages.
"""

import json
import re
from pathlib import Path
from typing import Any

from studies.page import make_parser

ROOT = Path(__file__).parents[1]
TRUST = ROOT / "leaderboard" / "trust.json"
_LIMITS = re.compile(
    r"^\*\*(?:Left out|Where it falls short|What it cannot do)\.\*\* (.+)$|^(What it cannot tell: .+)$", re.M
)
_CORRECTION = re.compile(r'^\| .+? \| "(.+?)" \| .+? \| (.+?) \([^()]+\) \|$', re.M)


def make_trust_record() -> dict[str, Any]:
    """Return the content of trust.json with its own findings."""
    corrections = (ROOT / "docs/corrections.md").read_text("utf-8")
    return {
        "findings": json.loads(TRUST.read_text("utf-8"))["findings"],
        "corrections": [
            {"said": _strip_markdown(said), "holds": _strip_markdown(holds)}
            for said, holds in _CORRECTION.findall(corrections)
        ],
        "limits": [
            {"study": page.parent.name, "text": _strip_markdown(" ".join(found))}
            for page in sorted(ROOT.glob("studies/*/README.md"))
            for found in _LIMITS.findall(page.read_text("utf-8"))
        ],
    }


def _strip_markdown(markdown: str) -> str:
    return re.sub(r"\[(.+?)\]\(.+?\)", r"\1", markdown).replace("**", "").replace("`", "").replace("\\", "").strip()


if __name__ == "__main__":
    make_parser(__doc__).parse_args()
    TRUST.write_text(json.dumps(make_trust_record(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
