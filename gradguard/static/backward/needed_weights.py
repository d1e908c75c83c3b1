"""Modules whose backward needs their weights as they were: more than one layer, or one behind another.

The gradient of a layer's input is computed with its weight. The first layer of a network is given data, and nobody
asks for the gradient of that: its weight may be changed between the forward and the backward, and nothing raises.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.made_objects import Made, Place, makers
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Forward

_LAYERS = re.compile(r"(?:Lazy)?(?:Linear|Bilinear|Conv(?:Transpose)?[123]d)|(?:RNN|LSTM|GRU)Cell")
# They have several weights, one behind another.
_DEEP = re.compile(r"RNN|LSTM|GRU|MultiheadAttention|Transformer\w*")
_NETWORKS = re.compile(r"(?:torchvision\.models|timm|segmentation_models_pytorch|transformers)\.")
# Layers that compute with something else than their weights as they are: with a multiple of them, with another copy.
_SCALED = re.compile(
    r"[Ee]quali[sz]ed|\bEqual(?:ized)?_?(?:Linear|Conv)|\bself\.weight\w*\s*\*\s*(?:self\.)?\w|"
    r"\w\s*\*\s*self\.weight\b|\.weight\.clone\(|weight_gain|lr_mul"
)


def needs_weights(flow: Flow, run: Forward, path: str) -> bool:
    """Whether the backward of a run needs the weights of the module that ran (reads other files).

    Args:
        path: the module's.
    """
    expr = _expression(path)
    made = makers(Place(flow.module, flow.ref), expr) if expr is not None else []
    if not made:
        return run.of_graph and not flow.project.survey.mentions(_SCALED, flow.module)
    return all(_needs(flow, each, run.of_graph) for each in made)


def is_of_torch(flow: Flow, path: str) -> bool:
    """Whether a module surely is one of ``torch.nn``: it is known what it gives."""
    expr = _expression(path)
    made = makers(Place(flow.module, flow.ref), expr) if expr is not None else []
    return bool(made) and all(_layer(each) for each in made)


def gives_one(flow: Flow, path: str | None) -> bool:
    """Whether a module of the program gives one tensor: not a list, of which a loss may have some."""
    expr = _expression(path) if path is not None else None
    made = makers(Place(flow.module, flow.ref), expr) if expr is not None else []
    forwards = [each.of.method("forward") if isinstance(each.of, Class) else None for each in made]
    flows = [flow.project.flow(ref) if ref is not None else None for ref in forwards]
    returned = [each.facts.returns if each is not None else None for each in flows]
    return bool(made) and all(
        each is not None and each.kind is not Kind.CONTAINER and not each.parts for each in returned
    )


def _needs(flow: Flow, made: Made, of_graph: bool) -> bool:
    """Whether what a call makes does.

    Args:
        of_graph: what it is given has a graph.
    """
    name = _layer(made)
    if name == "Sequential":
        return _any_needs(flow, made, of_graph)
    if name:
        return _DEEP.fullmatch(name) is not None or (of_graph and _LAYERS.fullmatch(name) is not None)
    if isinstance(made.of, str) and _NETWORKS.match(made.of):
        return True
    return of_graph and not flow.project.survey.mentions(_SCALED, flow.module)


def _any_needs(flow: Flow, sequence: Made, of_graph: bool) -> bool:
    """Whether some layer of a sequence does: one behind another, where the first is given data."""
    for arg in sequence.call.args:
        if arg.star:
            return True
        made = makers(sequence.place, arg.value)
        if made and all(_needs(flow, each, of_graph) for each in made):
            return True
        of_graph = of_graph or bool(made and all(map(_has_weights, made)))
    return False


def _has_weights(made: Made) -> bool:
    name = _layer(made)
    return _LAYERS.fullmatch(name) is not None or name in ("Embedding", "EmbeddingBag")


def _layer(made: Made) -> str:
    """``Linear`` of ``torch.nn.Linear``; empty for what is not of torch."""
    is_of_torch = isinstance(made.of, str) and made.of.startswith("torch.nn.")
    return made.of.rpartition(".")[2] if isinstance(made.of, str) and is_of_torch else ""


def _expression(path: str) -> t.Expr | None:
    """A path as an expression; None of one that leads into a collection."""
    head, *names = path.split(".")
    if not head.isidentifier() or not all(name.isidentifier() for name in names):
        return None
    expr: t.Expr = t.Name(None, head)
    for name in names:
        expr = t.Attribute(None, expr, name)
    return expr
