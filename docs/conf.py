"""The site of the documentation, built by `make docs` into dist/docs."""

from __future__ import annotations

from importlib.metadata import version as installed

project = "Delta CDC Ingest"
version = release = installed("delta-cdc-ingest")
extensions = ["myst_parser"]
exclude_patterns = ["README.md"]
# Anchors of headings, so that links to them are checked.
myst_heading_anchors = 3
# A link that leads nowhere, within the site or to a file of the repository, ends the build.
nitpicky = True
html_theme = "furo"
html_title = f"{project} {version}"
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["published"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"
