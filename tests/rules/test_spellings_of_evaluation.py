"""GG301: how else an evaluation is written: where the model is put into evaluation mode, and how it is run."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG301"

SAMPLER = """
    {header}

    def sample(net: nn.Module, count, devices):
        net.eval()
        z = torch.randn(64, 100)
        while count > 0:
            inputs = (z.normal_(), z)
            image, _ = {run}{mark}
            save(image.data.cpu().numpy())
            count -= len(image)
"""
RUNS = {
    "a display": ("", "nn.parallel.data_parallel(net, (z, z), devices)"),
    "a tuple": ("", "nn.parallel.data_parallel(net, inputs, devices)"),
    "one tensor": ("", "torch.nn.parallel.data_parallel(net, z, devices)"),
    "imported": ("from torch.nn.parallel import data_parallel", "data_parallel(net, z)"),
    "keywords": ("", "nn.parallel.data_parallel(module=net, inputs=(z, z), device_ids=devices)"),
    "called": ("", "net(*inputs)"),
}


@pytest.mark.parametrize(("header", "run"), RUNS.values(), ids=RUNS)
def test_how_a_model_is_run(header: str, run: str) -> None:
    assert_flagged(SAMPLER.format(header=header, run=run, mark="  # !"), CODE)
    frozen = SAMPLER.replace("net.eval()", "net.eval().requires_grad_(False)")
    assert_clean(frozen.format(header=header, run=run, mark=""), CODE)


def test_a_parallel_run_that_is_trained() -> None:
    assert_clean("""
        def train(net, loader, optimizer, devices):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(nn.parallel.data_parallel(net, (x,), devices), y)
                loss.backward()
                optimizer.step()
    """)


ROLLOUT = """
    def play(actor: nn.Module, critic: nn.Module, env, steps):
        state = env.reset()
        score = 0
        for step in range(steps):
            {begin}
            mean, std = actor(torch.Tensor(state)){mark}
            state, reward, done = env.step(torch.normal(mean, std).data.numpy())
            score += reward
            {end}
        return score
"""
BEGINS = (
    "actor.eval()",
    "actor.eval(), critic.eval()",
    "actor.eval(); critic.eval()",
    "last = state; actor.eval()",
)


@pytest.mark.parametrize("begin", BEGINS)
def test_each_iteration_begins_with_it(begin: str) -> None:
    assert_flagged(ROLLOUT.format(begin=begin, end="pass", mark="  # !"), CODE)


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("actor.eval()", "actor.train()"),
        ("actor.train(); critic.eval()", "pass"),
        ("actor.eval()", "critic(torch.Tensor(state)).mean().backward()"),
        ("if step > 9: actor.eval()", "pass"),
        ("learn(actor, env); actor.eval()", "pass"),
        ("loss = learn(actor, env); actor.eval()", "pass"),
        ("env.eval(); learn(actor)", "pass"),
        ("eval('step')", "pass"),
        ("frame.eval('step + 1')", "pass"),
        ("actor.eval().requires_grad_(False)", "pass"),
    ],
)
def test_each_iteration_begins_with_something_else(begin: str, end: str) -> None:
    assert_clean(ROLLOUT.format(begin=begin, end=end, mark=""), CODE)


ADVERSARIAL = """
    def train(G, D, loader, val_loader, opt_d, opt_g):
        for epoch in range(100):
            for p in D.parameters():
                {freeze}
            for z in loader:
                opt_g.zero_grad()
                D(G(z)).mean().backward()
                opt_g.step()
            for {names} in D.{parameters}():
                {learn}
            for x in loader:
                opt_d.zero_grad()
                (D(G(x).detach()) - D(x)).mean().backward()
                opt_d.step()
            for x in val_loader:
                with torch.no_grad():
                    real = x
                print(D(real).mean().item()){mark}
"""
UNFREEZING = (
    ("p.requires_grad_(False)", "p", "parameters", "p.requires_grad_(True)"),
    ("p.requires_grad_(False)", "p", "parameters", "p.requires_grad_()"),
    ("p.requires_grad = False", "p", "parameters", "p.requires_grad = True"),
    ("p.requires_grad = False", "name, p", "named_parameters", "p.requires_grad = epoch > 3"),
    ("p.requires_grad_(requires_grad=False)", "_, p", "named_parameters", "p.requires_grad_(requires_grad=True)"),
)


@pytest.mark.parametrize(("freeze", "names", "parameters", "learn"), UNFREEZING)
def test_parameters_that_learn_again(freeze: str, names: str, parameters: str, learn: str) -> None:
    written = ADVERSARIAL.format(freeze=freeze, names=names, parameters=parameters, learn=learn, mark="  # !")
    assert_flagged(written, CODE)
    assert_clean(
        written.replace("  # !", "").replace("print(D(real)", "real = D(real.requires_grad_()); print(real"), CODE
    )


@pytest.mark.parametrize("freeze", ["p.requires_grad_(False)", "p.requires_grad = False"])
def test_parameters_that_are_frozen_one_by_one(freeze: str) -> None:
    evaluation = """
        def evaluate(net: nn.Module, loader):
            net.eval()
            for p in net.parameters():
                {freeze}
            for x in loader:
                print(net(x).argmax(1)){mark}
    """
    assert_clean(evaluation.format(freeze=freeze, mark=""), CODE)
    assert_flagged(evaluation.format(freeze="p.data.clamp_(-1, 1)", mark="  # !"), CODE)
