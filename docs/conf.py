"""How the documentation is built: Markdown by MyST, the reference from docstrings. `make docs`."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import Any

from docutils import nodes
from docutils.utils import new_document
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

project = 'agent_graph'
author = 'the agent_graph developers'
copyright = author
release = version = version_of('agent-graph')

extensions = ['myst_parser', 'sphinx.ext.autodoc', 'sphinx.ext.viewcode']
exclude_patterns = ['_build']
nitpicky = False

myst_enable_extensions = ['colon_fence', 'deflist', 'fieldlist']
myst_heading_anchors = 3

autodoc_default_options = {'members': True, 'show-inheritance': True}
autodoc_member_order = 'bysource'
autodoc_typehints = 'signature'
autodoc_typehints_format = 'short'
autodoc_preserve_defaults = True
autodoc_type_aliases = {'JsonValue': 'JsonValue'}
python_use_unqualified_type_names = True

html_theme = 'furo'
html_title = 'agent_graph'
html_copy_source = False


class Markdown(SphinxDirective):
    """Markdown inside reStructuredText, which is what autodoc writes: docstrings are Markdown like everything else."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        inner = new_document(self.get_source_info()[0], self.state.document.settings)
        MystParser().parse('\n'.join(self.content), inner)
        return inner.children


def as_markdown(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = ['.. markdown::', '', *(f'   {line}' for line in lines), '']


def setup(app: Sphinx) -> None:
    app.add_directive('markdown', Markdown)
    app.connect('autodoc-process-docstring', as_markdown)
