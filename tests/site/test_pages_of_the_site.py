"""The built site is whole: a page for every name and command, and no link that leads nowhere."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from docs.building.commands import commands, page_name
from docs.building.public import ROOMS, own_docstring, public_names

import ridgeformer

pytestmark = pytest.mark.site

ADDRESSES = {"a": "href", "link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}  # fmt: skip
TUTORIALS = 5


class Page(HTMLParser):
    """What a page names: its anchors, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.images = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        address = given.get(ADDRESSES.get(tag, ""))
        self.images += tag == "img"
        if address:
            self.links.append(address)
            if tag != "a":
                self.loaded.append(address)


@pytest.fixture(scope="module")
def read(pages):
    return {path: Page(path.read_text(encoding="utf-8")) for path in pages}


def test_every_link_leads_somewhere(read, site):
    broken = []
    for path, page in read.items():
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if (
                not target.is_file()
                or not target.is_relative_to(site)
                or (
                    parts.fragment
                    and target in read
                    and unquote(parts.fragment) not in read[target].anchors
                )
            ):
                broken.append((str(path.relative_to(site)), address))
    assert broken == []


def test_links_are_followed_at_all(read):
    """The test above would hold of a site without links."""
    assert sum(len(page.links) for page in read.values()) > 5000
    assert len(read) > 150


def test_nothing_is_loaded_from_another_host(read):
    for path, page in read.items():
        foreign = [address for address in page.loaded if urlsplit(address).netloc]
        assert foreign == [], path


def test_every_command_has_a_page(site):
    """The pages are as many as the commands, and each shows the options of its command."""
    made = {path.stem for path in (site / "commands").glob("*.html")} - {"index"}
    assert made == {page_name(words) for words in commands()}
    assert {"compile", "zoo-rebuild", "lm-study", "suite-score", "explore"} <= made
    shown = (site / "commands" / "compile.html").read_text(encoding="utf-8")
    assert "--max-eigenvalue" in shown
    assert "--temperature" in shown


def test_the_page_of_every_command_has_an_example(site):
    """A command with sub-commands has a table of them instead."""
    every = commands()
    for words in every:
        shown = (site / "commands" / f"{page_name(words)}.html").read_text(encoding="utf-8")
        above = any(other.startswith(f"{words} ") for other in every)
        assert above or 'id="examples"' in shown, words


def test_every_public_name_has_a_page(site):
    made = {path.stem for path in (site / "reference").glob("*.html")}
    own = [public for public in public_names() if public.home == "ridgeformer"]
    assert {public.name for public in own} == set(ridgeformer.__all__)
    rooms = {f"ridgeformer.{room}" for room in ROOMS}
    with_pages = [public for public in public_names() if public.has_page]
    assert len({public.page for public in with_pages}) == len(with_pages)
    assert made == {public.page for public in with_pages} | rooms | {"index", "rooms"}


def test_every_name_of_a_room_is_on_its_page(read, site):
    for public in public_names():
        page = read[site / "reference" / f"{public.page}.html"]
        assert public.anchor in page.anchors, public.dotted


def test_every_public_name_says_what_it_is():
    silent = [public.dotted for public in public_names() if not own_docstring(public.value)]
    assert silent == []


def test_every_tutorial_was_run(read, site):
    """Each has printed and drawn something, and none says that it failed."""
    made = sorted((site / "tutorials").glob("plot_*.html"))
    assert len(made) == TUTORIALS
    for path in made:
        text = path.read_text(encoding="utf-8")
        assert "sphx-glr-timing" in text, path
        assert "Traceback (most recent call last)" not in text, path
        assert "sphx-glr-script-out" in text, path
        assert read[path].images >= 1, path


def test_the_front_page_leads_to_the_explorer(read, site):
    assert "explorer.html" in read[site / "index.html"].links
    assert Path(site / "explorer.html").stat().st_size > 1_000_000


def test_every_document_is_a_page(site):
    from docs.building.staging import documents

    for page in documents().values():
        assert (site / page.with_suffix(".html")).exists(), page
