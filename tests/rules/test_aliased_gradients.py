"""GG272: gradients that are collected as they are, and reset in place."""

from __future__ import annotations

import textwrap

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG272"

SURGERY = """
    class Surgery:
        def __init__(self, shared):
            self.shared = list(shared)

        def _clear(self):
            for p in self.shared:
                if p.grad is not None:
                    p.grad.zero_()

        def run(self, losses):
            per_task = []
            for i, loss in enumerate(losses):
                self._clear()
                loss.backward(retain_graph=i < len(losses) - 1)
                per_task.append([p.grad for p in self.shared])  # !
            for p, *grads in zip(self.shared, *per_task):
                p.grad.copy_(sum(grads) / len(losses))
"""
BY_CLIENT = """
    def influences(model, samples, labels, optimizer):
        rows = {}
        for k, (x, y) in enumerate(zip(samples, labels)):
            optimizer.zero_grad(set_to_none=False)
            F.cross_entropy(model(x), y).backward()
            rows[k] = {name: p.grad for name, p in model.named_parameters()}  # !
        return rows
"""
IN_A_LOOP = """
    def collect(net, batches):
        table = []
        for x, y in batches:
            loss = (net(x) - y).pow(2).mean()
            loss.backward()
            for p in net.parameters():
                table.append(p.grad.detach().view(-1))  # !
            for p in net.parameters():
                p.grad.data.zero_()
        return torch.stack(table)
"""
NAMED = """
    def gradients(net):
        return [p.grad for p in net.parameters()]

    def collect(net, losses):
        found = []
        for loss in losses:
            for p in net.parameters():
                if p.grad is not None:
                    p.grad.fill_(0)
            loss.backward(retain_graph=True)
            grads = gradients(net)
            found.append(grads)  # !
        return found
"""
FIRST = "                self._clear()\n"


@pytest.mark.parametrize(
    "snippet",
    [
        SURGERY,
        SURGERY.replace("[p.grad for p", "[p.grad.detach() for p"),
        SURGERY.replace("[p.grad for p", "[p.grad.data for p"),
        SURGERY.replace("[p.grad for p", "[p.grad.flatten() for p"),
        SURGERY.replace("[p.grad for p", "[p.grad if p.grad is not None else torch.zeros_like(p) for p"),
        SURGERY.replace("[p.grad for p in self.shared]", "list(p.grad for p in self.shared)"),
        SURGERY.replace("[p.grad for p in self.shared]", "(self.shared[0].grad, self.shared[1].grad)"),
        SURGERY.replace(
            "per_task.append([p.grad for p in self.shared])", "per_task += [[p.grad for p in self.shared]]"
        ),
        SURGERY.replace("p.grad.zero_()", "p.grad.data.mul_(0)"),
        BY_CLIENT,
        BY_CLIENT.replace("rows[k] =", "rows[f'sample {k}'] ="),
        IN_A_LOOP,
        IN_A_LOOP.replace(".detach().view(-1)", ""),
        NAMED,
        NAMED.replace("grads = gradients(net)", "grads = [p.grad for p in net.parameters()]"),
        NAMED.replace("grads = gradients(net)", "params = list(net.parameters()); grads = [p.grad for p in params]"),
    ],
)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(SURGERY, ("[p.grad for p", "[p.grad.clone() for p")),
        twin(SURGERY, ("[p.grad for p", "[p.grad.detach().clone() for p")),
        twin(SURGERY, ("[p.grad for p", "[p.grad.view(-1).clone() for p")),
        twin(SURGERY, ("[p.grad for p", "[p.grad / 2 for p")),
        twin(SURGERY, ("[p.grad for p", "[p.grad.norm() for p")),
        twin(SURGERY, ("[p.grad for p", "[p.grad.cpu().numpy().copy() for p")),
        twin(SURGERY, ("[p.grad for p in", "[torch.clone(p.grad) for p in")),
        twin(SURGERY, ("[p.grad for p in self.shared]", "torch.cat([p.grad.flatten() for p in self.shared])")),
        twin(SURGERY, ("[p.grad for p in self.shared]", "copy.deepcopy([p.grad for p in self.shared])")),
        twin(SURGERY, ("p.grad.zero_()", "p.grad = None")),
        twin(SURGERY, ("if p.grad is not None:\n                    p.grad.zero_()", "p.grad = None")),
        twin(SURGERY, (FIRST, "                self.optimizer.zero_grad()\n")),
        twin(SURGERY, (FIRST, FIRST + "                self.net.zero_grad()\n")),
        twin(SURGERY, (FIRST, FIRST + "                per_task = []\n")),
        twin(SURGERY, ("self._clear()\n", "per_task.clear(); self._clear()\n")),
        twin(SURGERY, (FIRST, "")),
        twin(SURGERY, ("loss.backward(retain_graph=i < len(losses) - 1)", "loss.backward(create_graph=True)")),
        twin(
            SURGERY,
            ("loss.backward(retain_graph=i < len(losses) - 1)", "g = torch.autograd.grad(loss, self.shared)"),
            ("[p.grad for p in self.shared]", "g"),
        ),
        twin(BY_CLIENT, ("set_to_none=False", "")),
        twin(BY_CLIENT, ("set_to_none=False", "set_to_none=True")),
        twin(BY_CLIENT, ("name: p.grad for", "name: p.grad.clone() for")),
        twin(BY_CLIENT, ("rows[k] =", "rows['newest'] =")),
        twin(BY_CLIENT, ("rows[k] =", "rows[x.shape] =")),
        twin(BY_CLIENT, ("optimizer.zero_grad", "model = make(); optimizer.zero_grad")),
        twin(IN_A_LOOP, ("p.grad.detach().view(-1)", "p.grad.detach().view(-1).clone()")),
        twin(IN_A_LOOP, ("p.grad.detach().view(-1)", "p.grad.detach().mean()")),
        twin(IN_A_LOOP, ("for x, y in batches:", "for net, x, y in batches:")),
        twin(IN_A_LOOP, ("for x, y in batches:", "for x, y in batches:\n            net = copy.deepcopy(start)")),
        twin(NAMED, ("[p.grad for p in net.parameters()]", "[p.grad.clone() for p in net.parameters()]")),
        twin(NAMED, ("gradients(net)\n            found", "[g.clone() for g in gradients(net)]\n            found")),
        twin(NAMED, ("p.grad.fill_(0)", "p.grad = None")),
    ],
)
def test_look_alikes(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_what_is_said() -> None:
    (finding,) = findings(textwrap.dedent(SURGERY), CODE)
    assert "`per_task` gets the same tensors each time" in finding.message
    assert [each.message for each in finding.related] == ["they are reset in place here"]
