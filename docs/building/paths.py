"""Where the site's parts are: what is written by hand is in docs, all that is made is in build."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "docs"
SOURCES = ROOT / "build" / "site-source"
"""What Sphinx reads: copies of the documents, with their links made into links of the site, and pages made from code."""
SITE = ROOT / "build" / "site"
