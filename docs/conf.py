"""Sphinx: `make docs`. A link that leads nowhere is an error."""

from importlib.metadata import version as version_of

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

project = "Code-A1 in JAX"
author = "the authors of Code-A1 in JAX"
copyright = "Apache-2.0"
version = release = version_of("codea1-jax")

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = []
linkcheck_timeout = 20
linkcheck_retries = 2
html_math_renderer = "mathml"


def setup(app):
    """Formulas as MathML: browsers need no script, and the pages no network."""

    def write(as_block):
        def visit(translator, node):
            translator.body.append(tex2mathml(node.astext(), as_block=as_block))
            raise nodes.SkipNode

        return visit, None

    app.add_html_math_renderer("mathml", write(as_block=False), write(as_block=True))
