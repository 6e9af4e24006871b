"""Sphinx's configuration. `make site` builds the site, by `python -m docs.building`."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from docs.building.docstrings import link_to_public_name, mend_docstring  # noqa: E402
from docs.building.paths import SOURCES  # noqa: E402

import ridgeformer  # noqa: E402

project = "ridgeformer"
author = "the authors of ridgeformer"
copyright = "2026, MIT licence"
release = version = ridgeformer.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["static", "beside", "**/README.md"]

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"ridgeformer {release}"
html_static_path = [str(SOURCES / "static"), str(ROOT / "docs/building/static")]
html_extra_path = [str(SOURCES / "beside")]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_search_summary = (
    False  # it would be fetched, which browsers refuse where there is no server
)
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "monokai"

# Formulas are drawn by the copy of MathJax that the site holds, where they come into view: the theorems have thousands.
# There is no menu, which would fetch more of it.
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"loader": {"load": ["ui/lazy"]}, "options": {"enableMenu": False}}

autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "member-order": "bysource",
    "show-inheritance": True,
}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "docs/tutorials")],
    "gallery_dirs": [str(SOURCES / "tutorials")],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 0,
    "write_computation_times": False,
}


def setup(app):
    app.connect("autodoc-process-docstring", mend_docstring)
    app.connect("missing-reference", link_to_public_name)
