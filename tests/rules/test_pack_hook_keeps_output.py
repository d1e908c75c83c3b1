from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG111"

FLAGGED = {
    "a method that counts bytes": """
        class Meter:
            def __init__(self):
                self.size = 0

            def pack(self, tensor):
                self.size += tensor.numel()
                return tensor  # !

            def unpack(self, tensor):
                return tensor

            def measure(self, model, x):
                with torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
                    return model(x).mean().item()
    """,
    "a class derived from the hooks": """
        from torch.autograd.graph import saved_tensors_hooks

        class Meter(saved_tensors_hooks):
            def __init__(self):
                self.sizes = {}
                super().__init__(self.pack, self.unpack)

            def pack(self, tensor):
                self.sizes[tensor.data_ptr()] = tensor.nbytes
                return tensor  # !

            def unpack(self, packed):
                return packed
    """,
    "lambdas": """
        from torch.autograd.graph import saved_tensors_hooks

        def probe(model, loader):
            for x in loader:
                with saved_tensors_hooks(lambda t: t, lambda t: t):  # !
                    print(model(x).mean().item())
    """,
    "in a tuple, by a function of the module": """
        def pack(tensor):
            if tensor.is_cuda:
                return tensor.device, tensor.cpu()
            return tensor.device, tensor  # !

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device)

        def forward(model, x):
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                return model(x)
    """,
}

CLEAN = {
    "detached": """
        def forward(model, x):
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
                return model(x)
    """,
    "a class derived from the hooks that detaches": """
        from torch.autograd.graph import saved_tensors_hooks

        class Meter(saved_tensors_hooks):
            def __init__(self):
                super().__init__(self.pack, lambda packed: packed)

            def pack(self, tensor):
                return tensor.detach()
    """,
    "made something else first": """
        def pack(tensor):
            tensor = tensor.cpu()
            return tensor

        def forward(model, x):
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t.cuda()):
                return model(x)
    """,
    "to disk": """
        def pack(tensor):
            name = f"/tmp/{id(tensor)}"
            torch.save(tensor, name)
            return name

        def forward(model, x):
            with torch.autograd.graph.saved_tensors_hooks(pack, torch.load):
                return model(x)
    """,
    "the unpack hook may": """
        def unpack(tensor):
            return tensor

        def forward(model, x):
            with torch.autograd.graph.saved_tensors_hooks(torch.clone, unpack):
                return model(x)
    """,
    "another function of that name": """
        class Hooks:
            def saved_tensors_hooks(self, pack, unpack):
                return pack, unpack

        def use(hooks):
            return hooks.saved_tensors_hooks(lambda t: t, lambda t: t)
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


@pytest.mark.parametrize("test", ["tensor.numel() < 1000", "not worth_it(tensor)", "isinstance(tensor, nn.Parameter)"])
def test_only_some_tensors_are_returned_as_they_are(test: str) -> None:
    snippet = f"""
        def pack(tensor):
            if {test}:
                return tensor{{}}
            return tensor.to(torch.bfloat16)

        def forward(model, x):
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed):
                return model(x)
    """
    assert_clean(snippet.format(""), CODE)
    assert_flagged(snippet.format("  # !"), CODE, Confidence.LOW)


def test_a_backward_may_free_what_was_saved() -> None:
    snippet = """
        def train(model, loader, optimizer):
            for x in loader:
                with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):  # !
                    loss = model(x).mean()
                optimizer.zero_grad()
                loss.backward({})
                optimizer.step()
    """
    assert_clean(snippet.format("").replace("  # !", ""), CODE)
    assert_flagged(snippet.format("retain_graph=True"), CODE)
