"""How a model shows itself in a notebook: a table, and the graph viewer inline."""
from __future__ import annotations

import html
import os
from typing import TYPE_CHECKING, Optional

from .errors import TenonError
from .tools import graph

if TYPE_CHECKING:
    from .model import Model

LARGEST_PAGE = 4 << 20  # bytes of a viewer that a notebook is given


def table(model: "Model") -> str:
    """What a model takes and gives and what its program is made of."""
    info = model.info
    rows = [("input", v) for v in model.inputs] + [("output", v) for v in model.outputs]
    body = "".join(f"<tr><td>{which}</td><td>{html.escape(v.name)}</td><td><code>{html.escape(v.type)}</code></td></tr>"
                   for which, v in rows)
    made = f"{info['kernels']} kernels, {info['steps']} steps ({info['host_steps']} by the reference evaluation), " \
           f"{info['code_bytes'] / 1024:.1f} KiB of code, {info['constant_bytes'] / 2**20:.2f} MiB of constants"
    name = html.escape(os.path.basename(model.source) or "model")
    return (f"<div><b>{name}</b> for {html.escape(info['target'])}: {made}<table><thead><tr><th></th><th>name</th><th>type</th></tr>"
            f"</thead><tbody>{body}</tbody></table></div>")


def viewer(model: "Model") -> Optional[str]:
    """The graph viewer in a frame, or None where the model's file is not there or its page is too large."""
    source = model._source or model._bytes
    if source is None or (model._source and not os.path.exists(model._source)):
        return None
    try:
        page = graph(source)
    except (TenonError, OSError):
        return None
    if page is None or len(page) > LARGEST_PAGE:
        return None
    return f'<iframe srcdoc="{html.escape(page, quote=True)}" style="width:100%;height:480px;border:1px solid #ccc" ' \
           'sandbox="allow-scripts"></iframe>'


def model_html(model: "Model") -> str:
    """Both."""
    return table(model) + (viewer(model) or "")
