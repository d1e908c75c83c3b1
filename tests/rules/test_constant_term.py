from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG215"


def loop(*lines: str) -> str:
    body = "\n                ".join(lines)
    return f"""
        def train(model, vgg, loader, optimizer, alpha=0.1):
            for x, y in loader:
                output = model(x)
                loss = F.l1_loss(output, y)
                aux = output.pow(2).mean()
                {body}
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """


FLAGGED = {
    "item": loop("loss = loss + aux.item()  # !"),
    "weighted": loop("loss = loss + alpha * aux.item()  # !"),
    "on the left": loop("loss = 0.1 * aux.item() + loss  # !"),
    "subtracted": loop("loss = loss - aux.item() / 2  # !"),
    "in place": loop("loss += aux.item()  # !"),
    "by float": loop("penalty = float(aux)", "loss = loss + penalty  # !"),
    "a new tensor": loop("loss = loss + torch.tensor(aux)  # !"),
    "of an old type": loop("loss = loss + torch.Tensor([aux]).mean()  # !"),
    "a list of losses": loop(
        "losses = []",
        "for a, b in zip(vgg(output), vgg(y)):",
        "    losses.append(F.mse_loss(a, b))",
        "loss = loss + torch.FloatTensor(losses).mean()  # !",
    ),
    "a list written out": loop("loss = loss + torch.tensor([aux, output.abs().mean()]).sum()  # !"),
    "moved": loop("loss = loss + torch.tensor([aux]).to(x.device)  # !"),
    "of each output": loop("loss = (F.l1_loss(output, y, reduction='none') + aux.item()).mean()  # !"),
    "divided later": loop("loss = loss + aux.item()  # !", "loss = loss / 4"),
    "the parameters": loop(
        "decay = sum(p.pow(2).sum() for p in model.parameters())", "loss = loss + 1e-4 * decay.item()  # !"
    ),
    "under a condition": loop("if alpha > 0:", "    loss = loss + alpha * aux.item()  # !"),
    "in a helper": """
        class Trainer:
            def content(self, output, y):
                found = [F.mse_loss(a, b) for a, b in zip(self.vgg(output), self.vgg(y))]
                return torch.tensor(found).sum()

            def loss_of(self, x, y):
                output = self.net(x)
                return F.l1_loss(output, y) + self.weight * self.content(output, y)  # !

            def step(self, x, y):
                self.opt.zero_grad()
                loss = self.loss_of(x, y)
                loss.backward()
                self.opt.step()
                return loss.item()
    """,
}

MULTIPLIED = """
        def dual(policy, states, multiplier, limit, optimizer):
            chosen = policy(states)
            cost = chosen.pow(2).mean()
            loss = F.l1_loss(chosen, states) + {}
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    "term",
    [
        "multiplier * (cost.item() - limit)",
        "multiplier * (limit - cost.item())",
        "multiplier * (cost.item() + limit)",
        "(cost.item() - 0.1) * multiplier",
        "multiplier.exp() * cost.item()",
        "torch.exp(multiplier) * (cost.item() - limit)",
        "F.softplus(multiplier) * (cost.item() - limit)",
    ],
)
def test_a_number_that_trains_its_multiplier(term: str) -> None:
    assert_clean(MULTIPLIED.format(term), CODE)


@pytest.mark.parametrize(
    "term",
    [
        "multiplier * cost.item()",
        "0.1 * (cost.item() - limit)",
        "(cost.item() - limit)",
    ],
)
def test_a_number_with_a_weight(term: str) -> None:
    assert_flagged(MULTIPLIED.format(f"{term}  # !"), CODE)


CLEAN = {
    "the tensor": loop("loss = loss + alpha * aux"),
    "stacked": loop("loss = loss + torch.stack([aux, output.abs().mean()]).sum()"),
    "a list of losses, summed": loop("loss = loss + sum([aux, output.abs().mean()])"),
    "for printing": loop("print(loss.item() + aux.item())"),
    "a total": loop("total = loss.item() + alpha * aux.item()", "print(total)"),
    "a sum that is not backpropagated": loop("shown = loss + aux.item()", "print(shown)"),
    "detached on purpose": loop("loss = loss + (aux - aux.detach())"),
    "a weight": loop("loss = loss * aux.item()"),
    "a share": loop("loss = loss + aux * (loss.item() / aux.item())"),
    "a scale": loop("loss = loss / aux.item()"),
    "a target": loop("loss = (output.mean() - aux.item()) ** 2"),
    "a target of a loss function": loop("loss = F.mse_loss(output, torch.tensor([aux]).expand_as(output))"),
    "a margin": loop("loss = F.relu(loss - aux.item() + 1.0)"),
    "a margin, clamped": loop("loss = (loss - aux.item()).clamp(min=0)"),
    "a distance": loop("loss = (output - aux.item()).abs().mean()"),
    "of the data": loop("loss = loss + x.mean().item()"),
    "of the labels": loop("loss = loss + torch.tensor([y.float().mean()])"),
    "a setting": loop("loss = loss + torch.tensor(alpha)"),
    "how many are right": loop("loss = loss + 0 * (output.argmax(1) == y).float().mean().item()"),
    "computed without gradients": loop(
        "with torch.no_grad():", "    seen = vgg(x).mean()", "loss = loss + seen.item()"
    ),
    "backpropagated by itself": loop("aux.backward(retain_graph=True)", "loss = loss + aux.item()"),
    "flooding": loop("loss = (loss - alpha).abs() + alpha"),
    "the value of something else": loop("loss = loss - loss.item() + aux.item()"),
    "the value of a measure": loop("measure = x.sum()", "loss = loss + (measure - loss.item())"),
    "a shift of exponents": loop("top = output.max().item()", "loss = (output - top).exp().sum(1).log().mean() + top"),
    "the larger one": loop("loss = max(loss - aux.item(), 0 * loss)"),
    "a share of a sum": loop("loss = 1 / (loss + aux.item())"),
    "a baseline of the return": """
        def reinforce(policy, critic, episodes, optimizer):
            for states, actions, returns in episodes:
                advantage = returns - critic(states).mean().item()
                chosen = policy(states).log_softmax(1).gather(1, actions)
                loss = -(chosen * advantage).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "the target of a difference in time": """
        def q_learning(q, env, optimizer):
            for state, action, reward, following in env:
                error = reward + 0.99 * q(following).max().item() - q(state)[action]
                loss = error * error
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a temperature": """
        def alpha_step(policy, log_alpha, batches, optimizer, target):
            for states in batches:
                entropy = policy(states).mean()
                loss = -log_alpha * (entropy.item() + target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "what another step has trained": """
        def gan(g, d, real, opt_g, opt_d):
            for x in real:
                fake = g(torch.randn(8, 4))
                loss_d = d(fake.detach()).mean() - d(x).mean()
                opt_d.zero_grad()
                loss_d.backward()
                opt_d.step()
                loss_g = -d(fake).mean() + loss_d.item()
                opt_g.zero_grad()
                loss_g.backward()
                opt_g.step()
    """,
}


UNRECORDED = {
    "under no_grad": loop(
        "with torch.no_grad():", "    far = F.mse_loss(vgg(output), vgg(y))", "loss = loss + alpha * far  # !"
    ),
    "features under no_grad": loop(
        "with torch.no_grad():", "    ours, theirs = vgg(output), vgg(y)", "loss += F.mse_loss(ours, theirs)  # !"
    ),
    "in inference mode": loop(
        "with torch.inference_mode():", "    spread = output.std(0)", "loss = loss - alpha * spread.mean()  # !"
    ),
    "by a helper that is named as a loss": """
        class Trainer:
            def variation_loss(self, image):
                return (image[1:] - image[:-1]).abs().mean()

            def step(self, x, y):
                image = self.net(x)
                with torch.no_grad():
                    smooth = self.variation_loss(image)
                loss = F.l1_loss(image, y) + 0.1 * smooth  # !
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
    """,
    "by a decorated method": """
        class Perceptual(nn.Module):
            @torch.no_grad()
            def forward(self, image, target):
                return F.l1_loss(self.vgg(image), self.vgg(target))

        class Trainer:
            def __init__(self, net):
                self.net, self.far = net, Perceptual()

            def step(self, x, y):
                image = self.net(x)
                loss = F.l1_loss(image, y) + self.far(image, y)  # !
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
    """,
    "by a method whose features have no graph": """
        class Trainer:
            def features(self, image):
                with torch.no_grad():
                    return self.vgg(image)

            def content(self, image, target):
                return F.mse_loss(self.features(image), self.features(target))

            def step(self, x, y):
                image = self.net(x)
                loss = F.l1_loss(image, y)
                loss = loss + self.content(image, y)  # !
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
    """,
}

PENALTY = """
        def penalty(critic, real, fake):
            mixed = (0.5 * real + 0.5 * fake).detach().requires_grad_()
            slopes = torch.autograd.grad(critic(mixed).sum(), mixed, {made})[0]
            return ((slopes.flatten(1).norm(2, dim=1) - 1) ** 2).mean()

        def train(critic, generator, loader, optimizer):
            for real in loader:
                fake = generator(torch.randn(8, 4)).detach()
                loss = critic(fake).mean() - critic(real).mean() + {term}
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""

DICE = """
        def dice(mask, target):
            mask, target = mask.flatten(1), target.flatten(1)
            both = (mask * target).sum(1)
            return (2 * both / (mask.sum(1) + target.sum(1) + 1)).mean()

        class Loss(nn.Module):
            def __init__(self, share=0.5):
                super().__init__()
                self.share, self.bce = share, nn.BCEWithLogitsLoss()

            def forward(self, logits, target):
                found = {found}
                missed = 1 - dice(found, target)
                return self.share * self.bce(logits, target) + {term}

        def train(net, loader, optimizer):
            criterion = Loss()
            for x, y in loader:
                loss = criterion(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""

WEIGHTS = """
        def penalty(net, means, fisher):
            total = 0
            for name, p in net.named_parameters():
                total += {term}
            return total

        def train(net, loader, optimizer, means, fisher):
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                loss = loss + 0.1 * penalty(net, means, fisher)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""

WITHOUT = {
    "a penalty whose gradients have no graph": PENALTY.format(
        made="retain_graph=True", term="10 * penalty(critic, real, fake)  # !"
    ),
    "a penalty of gradients that nobody asked for more of": PENALTY.format(
        made="create_graph=False", term="10 * penalty(critic, real, fake)  # !"
    ),
    "a mask by a threshold": DICE.format(found="(torch.sigmoid(logits) > 0.5).float()", term="0.5 * missed  # !"),
    "a mask by a threshold, weighted by a setting": DICE.format(
        found="(logits.sigmoid() >= self.share).to(target.dtype)", term="(1 - self.share) * missed  # !"
    ),
    "how sparse it is": loop("small = (output.abs() < 0.1).float()", "loss = loss - alpha * small.mean()  # !"),
    "the data of the weights": WEIGHTS.format(term="(fisher[name] * (p.data - means[name]) ** 2).sum()  # !"),
    "the norm of the data of the weights": WEIGHTS.format(term="p.data.norm()  # !"),
}

WITH = {
    "a penalty with its graph": PENALTY.format(made="create_graph=True", term="10 * penalty(critic, real, fake)"),
    "a penalty whose graph an option asks for": PENALTY.format(
        made="create_graph=critic.training", term="10 * penalty(critic, real, fake)"
    ),
    "a penalty that is shown": PENALTY.format(
        made="retain_graph=True", term="0 * critic(real).mean()\n                print(penalty(critic, real, fake))"
    ),
    "the probabilities": DICE.format(found="torch.sigmoid(logits)", term="0.5 * missed"),
    "a mask of the target": DICE.format(found="torch.sigmoid(logits) * (target > 0.5).float()", term="0.5 * missed"),
    "a mask as a weight": loop("near = (output.abs() < 1).float()", "loss = loss + (near * output.pow(2)).mean()"),
    "how many there are": loop("near = (output > 0).float()", "loss = loss + (near * output).sum() / near.sum()"),
    "two losses, by a mask": loop(
        "near = (output > 0).float()", "loss = loss + (near * output + (1 - near) * output.pow(2)).mean()"
    ),
    "straight through a threshold": loop(
        "hard = (output > 0).float()", "gate = output + (hard - output).detach()", "loss = loss + gate.mean()"
    ),
    "how many are right, printed": loop("print((loss + (output.argmax(1) == y).float().mean()).item())"),
    "the weights": WEIGHTS.format(term="(fisher[name] * (p - means[name]) ** 2).sum()"),
    "the data of the means": WEIGHTS.format(term="(fisher[name].data * (p - means[name].data) ** 2).sum()"),
    "the scale of the weights": WEIGHTS.format(term="p.pow(2).sum() / p.data.norm()"),
}


@pytest.mark.parametrize("snippet", WITHOUT.values(), ids=WITHOUT)
def test_numbers_that_never_had_a_gradient(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", WITH.values(), ids=WITH)
def test_look_alikes_of_numbers_that_never_had_a_gradient(snippet: str) -> None:
    assert_clean(snippet, CODE)


RECORDED = {
    "recorded": loop("far = F.mse_loss(vgg(output), vgg(y))", "loss = loss + alpha * far"),
    "of the target alone": loop(
        "with torch.no_grad():", "    theirs = vgg(y)", "loss = loss + F.mse_loss(vgg(output), theirs)"
    ),
    "a teacher": loop("with torch.no_grad():", "    taught = vgg(x)", "loss = loss + F.mse_loss(output, taught)"),
    "a weight under no_grad": loop(
        "with torch.no_grad():", "    share = loss.mean() / aux.mean()", "loss = loss + share * aux"
    ),
    "a weight of its own parts": loop(
        "with torch.no_grad():", "    worst = output.abs().max()", "loss = loss / worst + aux / worst"
    ),
    "the mean taken away": loop(
        "with torch.no_grad():", "    middle = output.mean()", "loss = loss + (output - middle).pow(2).mean()"
    ),
    "the mean taken away, of a sum": loop(
        "with torch.no_grad():", "    middle = output.mean()", "loss = loss + (output - middle).mean()"
    ),
    "straight through": loop(
        "with torch.no_grad():",
        "    change = output.round() - output",
        "rounded = output + change",
        "loss = loss + rounded.mean()",
    ),
    "shown": loop("with torch.no_grad():", "    shown = output.std(0).mean()", "print(loss + shown)"),
    "how many are right, under no_grad": loop(
        "with torch.no_grad():", "    right = (output.argmax(1) == y).float().mean()", "loss = loss + 0 * right"
    ),
    "it may be recorded": loop(
        "with torch.set_grad_enabled(alpha > 0):", "    far = F.mse_loss(vgg(output), y)", "loss = loss + far"
    ),
    "a leaf made of it": loop(
        "with torch.no_grad():",
        "    start = output.mean()",
        "shift = start.requires_grad_()",
        "loss = loss + shift",
    ),
    "recorded within": loop(
        "with torch.no_grad():",
        "    with torch.enable_grad():",
        "        far = F.mse_loss(vgg(output), y)",
        "loss = loss + far",
    ),
    "of another batch": loop(
        "with torch.no_grad():", "    before = F.mse_loss(model(x + 1), y)", "loss = loss + before"
    ),
    "trains a multiplier": """
        def dual(policy, states, multiplier, limit, optimizer):
            chosen = policy(states)
            with torch.no_grad():
                cost = chosen.pow(2).mean()
            loss = F.l1_loss(chosen, states) + multiplier * (cost - limit)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "a frozen network": """
        class Perceptual(nn.Module):
            def __init__(self, vgg):
                super().__init__()
                self.vgg = vgg.requires_grad_(False)

            def forward(self, image, target):
                with torch.no_grad():
                    wanted = self.vgg(target)
                return F.l1_loss(self.vgg(image), wanted)

        class Trainer:
            def __init__(self, net, vgg):
                self.net, self.far = net, Perceptual(vgg)

            def step(self, x, y):
                image = self.net(x)
                loss = F.l1_loss(image, y) + self.far(image, y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
    """,
    "dreamed values": """
        def imagine(actor, critic, model, starts, optimizer):
            for state in starts:
                action = actor(state)
                following, reward = model(state, action).chunk(2)
                with torch.no_grad():
                    value = critic(following)
                loss = -(reward + 0.99 * value).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
}


@pytest.mark.parametrize("snippet", UNRECORDED.values(), ids=UNRECORDED)
def test_computed_without_a_graph(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", RECORDED.values(), ids=RECORDED)
def test_look_alikes_of_what_is_computed_without_a_graph(snippet: str) -> None:
    assert_clean(snippet, CODE)


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_copied_in_another_file(tmp_path: Path) -> None:
    files = {
        "losses.py": """
            import torch
            import torch.nn.functional as F

            def perceptual(vgg, output, target):
                terms = []
                for ours, theirs in zip(vgg(output), vgg(target)):
                    terms.append(F.mse_loss(ours, theirs))
                return torch.tensor(terms).mean()
        """,
        "train.py": """
            import torch.nn.functional as F
            from torchvision.models import vgg16
            from losses import perceptual

            def train(net, loader, optimizer):
                vgg = vgg16().features.eval()
                for x, y in loader:
                    output = net(x)
                    loss = F.l1_loss(output, y) + perceptual(vgg, output, y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("train.py", 10)]
    files["losses.py"] = files["losses.py"].replace("torch.tensor(terms)", "torch.stack(terms)")
    assert lines_in_files(tmp_path, files, CODE) == []
