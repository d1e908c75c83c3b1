"""GG401: of two handles that are bound to one name, the first is lost unless something used it before."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG401"

BOTH_WAYS = """
    class Pruner:
        def __init__(self, net):
            self.net, self.outputs, self.grads, self.handles, self.by_name = net, {{}}, {{}}, [], {{}}

        def watch(self):
            for name, layer in self.net.named_modules():
                handle = layer.register_forward_hook(self.keep_output){mark}
                {keep}
                handle = layer.register_full_backward_hook(self.keep_grad)
                self.handles.append(handle)

        def keep_output(self, layer, given, output):
            self.outputs[layer] = output.detach()

        def keep_grad(self, layer, grad_in, grad_out):
            self.grads[layer] = grad_out[0].detach()

        def rest(self):
            for handle in (*self.handles, *self.by_name.values()):
                handle.remove()
            self.handles.clear()

        def rank(self, x, y):
            self.watch()
            F.cross_entropy(self.net(x), y).backward()
            self.rest()
            return [(self.grads[layer] * output).sum() for layer, output in self.outputs.items()]

    def prune(net, loader):
        pruner = Pruner(net)
        for x, y in loader:
            yield pruner.rank(x, y)

    list(prune(nn.Linear(4, 2), []))
"""
KEPT_BEFORE_THE_NEXT = (
    "self.handles.append(handle)",
    "self.handles += [handle]",
    "self.handles.extend([handle])",
    "self.by_name[name] = handle",
    "first = handle; self.handles.append(first)",
    "self.handles.insert(0, handle)",
)


@pytest.mark.parametrize("keep", KEPT_BEFORE_THE_NEXT)
def test_a_handle_that_is_kept_before_the_next_takes_its_name(keep: str) -> None:
    assert_clean(BOTH_WAYS.format(keep=keep, mark=""), CODE)


@pytest.mark.parametrize("keep", ["pass", "print(name)", "self.outputs.pop(layer, None)"])
def test_a_handle_in_whose_place_the_next_one_comes(keep: str) -> None:
    assert_flagged(BOTH_WAYS.format(keep=keep, mark="  # !"), CODE)
