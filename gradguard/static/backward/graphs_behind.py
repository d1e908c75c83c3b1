"""Tensors that surely have a graph where a module is trained: a layer with parameters is behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.backward.written_behind import is_own_layer
from gradguard.static.model import Mode
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.made_objects import Place, makers, named_in
from gradguard.static.program.reaching import bound_at

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 12
# What has a graph where what it is given has one.
_CARRIES = frozenset(
    "softmax log_softmax softmin sigmoid logsigmoid tanh relu relu6 leaky_relu gelu silu elu selu celu mish softplus "
    "hardtanh hardswish hardsigmoid exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos square pow abs "
    "erf matmul bmm mm einsum baddbmm addmm mul add sub div cat concat stack view view_as reshape transpose permute "
    "flatten squeeze unsqueeze contiguous mean sum norm std var amax amin logsumexp cumsum cumprod prod clamp clip "
    "normalize dropout dropout1d dropout2d dropout3d interpolate pad linear conv1d conv2d conv3d max_pool1d "
    "max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d masked_fill where "
    "expand expand_as repeat chunk split unbind select narrow gather index_select float double half to cuda cpu clone "
    "t neg layer_norm batch_norm group_norm instance_norm tile roll flip swapaxes movedim unfold fold pixel_shuffle "
    "grid_sample repeat_interleave scaled_dot_product_attention type_as".split()
)


class GraphsBehind:
    """What is known of the graphs in a function: of a module's method, or of one that trains.

    Args:
        hidden: what it computes without a graph.
    """

    def __init__(self, flow: Flow, place: Place) -> None:
        self.flow, self.place, self.define = flow, place, flow.ref.define
        self.hidden = frozenset(cut(self.define))
        modes = (Mode.OFF, Mode.UNKNOWN)
        runs = flow.facts.forwards if flow.facts.backwards else []
        self._runs = {f.site.node for f in runs if f.mode not in modes and not f.is_frozen and not f.evaluates}

    def is_learning(self, call: t.Call) -> bool:
        """Whether a call surely begins a graph: it is that of a layer with parameters."""
        return call not in self.hidden and (call in self._runs or is_own_layer(self.flow, call))

    def has_graph(self, expr: t.Expr, depth: int = 0) -> bool:
        """Whether parameters of the object, or a network that the function trains, are surely behind a tensor."""
        if depth > _DEPTH or expr in self.hidden:
            return False
        parts: list[t.Expr] = []
        if isinstance(expr, t.Name):
            bound = bound_at(self.define, expr, expr.id)
            parts += [each.value for each in bound if each.value is not None]
        elif isinstance(expr, t.Call):
            if self.is_learning(expr):
                return True
            parts += self._given(expr)
        elif isinstance(expr, t.Operation) and expr.operator in k.ARITHMETIC:
            parts += expr.operands
        elif isinstance(expr, t.Display):
            parts += expr.items
        elif isinstance(expr, t.Subscript):
            parts.append(expr.value)
        elif isinstance(expr, t.Attribute):
            if self._is_parameter(expr):
                return True
            parts += [expr.value] if expr.name in ("T", "mT") else []
        elif isinstance(expr, t.Conditional):
            return self.has_graph(expr.body, depth + 1) and self.has_graph(expr.orelse, depth + 1)
        return any(self.has_graph(part, depth + 1) for part in parts)

    def _given(self, call: t.Call) -> list[t.Expr]:
        """What a call computes with, where what it gives has a graph if that has one."""
        func, named = call.func, named_in(self.place, call.func)
        given = [arg.value for arg in call.args if arg.keyword in (None, "input")]
        if isinstance(named, str):
            return given if call.name in _CARRIES else []
        if isinstance(func, t.Attribute) and t.path_of(func.value) != "self":
            return [func.value, *given] if call.name in _CARRIES else []
        made = makers(self.place, func) if isinstance(func, t.Attribute) else []
        return given if made and all(isinstance(m.of, str) and m.of.startswith("torch.nn.") for m in made) else []

    def _is_parameter(self, expr: t.Attribute) -> bool:
        """``self.scale``, ``self.fc.weight``."""
        owner = expr.value if expr.name == "weight" else expr
        if not isinstance(owner, t.Attribute) or t.path_of(owner.value) != "self" or expr in self.hidden:
            return False
        return is_own_layer(self.flow, t.Call(None, owner, []))
