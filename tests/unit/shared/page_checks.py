"""Checks that every page is well formed, one file with nothing to fetch, no script, ids that are
its own."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class Checker(HTMLParser):
    """Tags of a page, and whether all that were opened are closed."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.fetched = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.fetched += [
            value
            for key, value in attrs
            if key in ("src", "href", "xlink:href") and value and not value.startswith("#")
        ]
        self.fetched += [key for key, _ in attrs if key.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag


def checked(path) -> tuple[str, Checker]:
    text = path.read_text(encoding="utf-8")
    page = Checker()
    page.feed(text)
    assert page.open == [] and page.fetched == [] and not {"script", "img", "iframe", "link", "object"} & set(page.seen)
    assert "@import" not in text and "url(http" not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)), "charts on one page must not share ids"
    assert all(reference in ids for reference in re.findall(r"url\(#([^)]+)\)", text))
    return text, page
