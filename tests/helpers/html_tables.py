"""Tables of a page, read back from its HTML."""

from html.parser import HTMLParser


class HtmlTables(HTMLParser):
    """The cells of every table of a page, by the table's caption, as rows of heading and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, list[dict[str, str]]] = {}
        self._caption, self._headings = "", [""]
        self._words: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._lines: list[list[str]] = []
        if tag == "tr":
            self._lines.append([])
        if tag in ("caption", "th", "td"):
            self._words = []

    def handle_data(self, data: str) -> None:
        if self._words is not None:
            self._words.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("caption", "th", "td") and self._words is not None:
            text, self._words = " ".join("".join(self._words).split()), None
            if tag == "caption":
                self._caption = text
            else:
                self._lines[-1].append(text)
        if tag == "table":
            head, *lines = self._lines
            self.found[self._caption] = [dict(zip(head, line, strict=True)) for line in lines]
