from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

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


CHOSEN = {
    "one hot of the largest": loop(
        "hard = F.one_hot(output.argmax(1), 5).float()",
        "dice = 2 * (hard * y).sum() / (hard.sum() + y.sum())",
        "loss = loss + 1 - dice  # !",
    ),
    "the largest": loop("loss = loss + alpha * torch.argmax(output, 1).float().mean()  # !"),
    "where the largest is": loop(
        "best, where = output.max(1)", "loss = loss + alpha * (where == y).float().mean()  # !"
    ),
    "where the largest is, by its place": loop("loss = loss - (output.max(1)[1] != y).float().mean()  # !"),
    "the indices of the largest ones": loop("loss = loss + output.topk(2).indices.float().std()  # !"),
    "how many are right": loop("right = output.argmax(1).eq(y).float().mean()", "loss = loss + (1 - right)  # !"),
    "whole numbers": loop("loss = loss + alpha * (output * 4).long().float().mean()  # !"),
    "of the nearest": loop("near = torch.cdist(output, y).argmin(1)", "loss = loss + near.float().mean()  # !"),
    "in a function": """
        def dice_loss(logits, target, n):
            hard = F.one_hot(logits.argmax(dim=1), n).permute(0, 3, 1, 2).float()
            both, size = (hard * target).sum((0, 2, 3)), hard.sum((0, 2, 3)) + target.sum((0, 2, 3))
            return 1 - (2 * both / (size + 1e-6)).mean()

        def train(net, loader, optimizer, n):
            for x, y in loader:
                out = net(x)
                loss = F.cross_entropy(out, y) + 0.5 * dice_loss(out, y, n)  # !
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "in a module of a module": """
        class Dice(nn.Module):
            def __init__(self, classes, smooth: float = 1.0, skip: int | None = 0):
                super().__init__()
                self.classes, self.smooth, self.skip = classes, smooth, skip

            def _maps(self, logits, target):
                truth = F.one_hot(target, self.classes).permute(0, 3, 1, 2).float()
                return F.one_hot(logits.argmax(1), self.classes).permute(0, 3, 1, 2).float(), truth

            def forward(self, logits, target):
                found, truth = self._maps(logits, target)
                both = (found * truth).sum((0, 2, 3))
                dice = (2 * both + self.smooth) / (found.sum((0, 2, 3)) + truth.sum((0, 2, 3)) + self.smooth)
                return 1 - dice[[c for c in range(self.classes) if c != self.skip]].mean()

        class Both(nn.Module):
            def __init__(self, classes: int, share: float):
                super().__init__()
                self.ce, self.dice, self.share = nn.CrossEntropyLoss(), Dice(classes), share

            def forward(self, logits, target):
                ce, dice = self.ce(logits, target), self.dice(logits, target)
                return ce + self.share * dice, {"ce": ce.item(), "dice": dice.item()}  # !

        def train(net, loader, optimizer):
            criterion = Both(3, 0.5)
            for x, y in loader:
                loss, parts = criterion(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
}

GIVEN_CODEBOOK = """
        class Quantizer(nn.Module):
            def __init__(self, size: int, table):
                super().__init__()
                self.enc, self.table = nn.Linear(4, 8), table
                self.codebook, self.emb = nn.Parameter(torch.randn(size, 8)), nn.Embedding(size, 8)

            def codes(self, z):
                near = torch.cdist(z, self.codebook).argmin(1)
                hot = F.one_hot(near, 10).float()
                return ({codes} - z.detach()).pow(2).mean()

            def step(self, x, optimizer):
                z = self.enc(x)
                loss = F.mse_loss(z, x) + self.codes(z)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""

NOT_CHOSEN = {
    "taken by it": loop("loss = loss + output.gather(1, output.argmax(1, keepdim=True)).mean()"),
    "taken by it, as an index": loop("loss = loss + output[range(8), output.argmax(1)].mean()"),
    "the largest ones": loop("top, where = output.topk(2)", "loss = loss + (top[:, 0] - top[:, 1]).mean()"),
    "a label of its own": loop("loss = loss + F.cross_entropy(output, output.argmax(1))"),
    "a weight": loop("wrong = (output.argmax(1) != y).float()", "loss = loss + (wrong * output.sum(1)).mean()"),
    "a weight of all": loop("right = (output.argmax(1) == y).float().mean()", "loss = loss * (1 - right)"),
    "by how many": loop("loss = loss / (output.argmax(1) == y).sum()"),
    "a target": loop("loss = loss + (output.mean(1) - output.argmax(1).float()).pow(2).mean()"),
    "straight through": loop(
        "hard, soft = F.one_hot(output.argmax(1), 5).float(), output.softmax(1)",
        "loss = loss + ((hard - soft).detach() + soft).mean()",
    ),
    "straight through, in one row": loop(
        "soft = output.softmax(1)",
        "hard = F.one_hot(soft.argmax(1), 5).float()",
        "loss = loss + (hard - soft.detach() + soft).mean()",
    ),
    "a balance of the load": loop(
        "load = F.one_hot(output.argmax(1), 5).float().mean(0)", "loss = loss + (load * output.mean(0)).sum()"
    ),
    "shown": loop("right = (output.argmax(1) == y).float().mean()", "print(loss + right, loss.item() - right.item())"),
    "nothing of it": loop("loss = loss + 0 * (output.argmax(1) == y).float().mean()"),
    "of the labels": loop("loss = loss + F.one_hot(y.argmax(1), 5).float().mean()"),
    "what a network says of it": loop("loss = loss + vgg(F.one_hot(output.argmax(1), 5).float()).mean()"),
    "a reward": """
        def train(policy, env, optimizer):
            for state in env:
                logits = policy(state)
                action = logits.argmax(1)
                gain = env.step(action).sum()
                loss = -(logits.log_softmax(1).gather(1, action[:, None]) * (gain - gain.mean())).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    **{
        f"codes that learn: {codes}": GIVEN_CODEBOOK.format(codes=codes)
        for codes in (
            "hot @ self.codebook",
            "hot @ self.emb.weight",
            "hot @ self.table.weight",
            "torch.matmul(hot, self.table)",
            "torch.einsum('bn,nd->bd', hot, self.table)",
            "(hot * self.table)",
            "self.codebook[near]",
            "self.table[near]",
            "F.embedding(near, self.table)",
            "self.emb(near)",
            "self.table.index_select(0, near)",
        )
    },
}


@pytest.mark.parametrize("snippet", CHOSEN.values(), ids=CHOSEN)
def test_whole_numbers(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", NOT_CHOSEN.values(), ids=NOT_CHOSEN)
def test_look_alikes_of_whole_numbers(snippet: str) -> None:
    assert_clean(snippet, CODE)


def equation(residual: str, loss: str = "residual(net, t).pow(2).mean() + start  # !") -> str:
    """A network that is to solve an equation, of whose left side helpers compute the derivatives."""
    return f"""
        def slopes(u, t):
            return torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u))

        def recorded(u, t):
            return torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u), create_graph=True)

        def residual(net, t):
            u = net(t)
            {residual}

        def fit(net, optimizer, sample):
            for _ in range(1000):
                t = sample().requires_grad_()
                start = (net(torch.zeros_like(t)) - 1).pow(2).mean()
                loss = {loss}
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """


@pytest.mark.parametrize("residual", ["return slopes(u, t)[0]", "(u_t,) = slopes(u, t)\n            return 2 * u_t"])
def test_derivatives_of_helpers_without_their_graph(residual: str) -> None:
    assert_flagged(equation(residual), CODE)


@pytest.mark.parametrize(
    "code",
    [
        equation("(u_t,) = recorded(u, t)\n            return u_t + u", "residual(net, t).pow(2).mean() + start"),
        equation("(u_t,) = slopes(u, t)\n            return u_t + u", "residual(net, t).pow(2).mean() + start"),
        equation("return slopes(u, t)[0]", "residual(net, t).abs().mean() * start"),  # a weight
        equation("return slopes(u, t)[0]", "start + net(t + 0.1 * residual(net, t).sign()).mean()"),  # an attack
        equation("return slopes(u, t)[0]", "start + net(t - 0.1 * residual(net, t)).mean()"),  # a sample of the net
    ],
)
def test_derivatives_that_are_trained_or_not_meant_to_be(code: str) -> None:
    assert_clean(code, CODE)


def drift(*lines: str) -> str:
    body = "\n                ".join(lines)
    return f"""
        def distance(model, means):
            return sum(torch.norm(p - means[name]) for name, p in model.state_dict().items())

        def train(model, server, loader, optimizer, fisher, old, alpha=0.1):
            before = {{name: p.clone() for name, p in model.state_dict().items()}}
            theirs = server.state_dict()
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                far = 0
                {body}
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """


CONSOLIDATION = """
        class Consolidation:
            def __init__(self, model, strength):
                self.model, self.strength, self.anchors = model, strength, []

            def register(self, fisher):
                self.anchors.append((fisher, {{k: v.detach().clone() for k, v in self.model.named_parameters()}}))

            def penalty(self):
                total = torch.zeros(())
                for fisher, weights in self.anchors:
                    for key, now in self.model.{those}.items():
                        total = total + (fisher[key] * (now - weights[key]).pow(2)).sum()  {mark}
                return 0.5 * self.strength * total

        class Trainer:
            def __init__(self, model, penalty):
                self.model, self.anchor = model, Consolidation(model, penalty)
                self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

            def fit(self, loader):
                for x, y in loader:
                    loss = F.cross_entropy(self.model(x), y) + self.anchor.penalty()
                    self.opt.zero_grad()
                    loss.backward()
                    self.opt.step()
"""

STATES = {
    "in a loop": drift(
        "for name, p in model.state_dict().items():",
        "    far = far + (fisher[name] * (p - old[name]) ** 2).sum()  # !",
        "loss = loss + alpha * far",
    ),
    "in a generator": drift(
        "far = sum((fisher[name] * (p - before[name]) ** 2).sum() for name, p in model.state_dict().items())",
        "loss = loss + alpha * far  # !",
    ),
    "by a name": drift(
        "now = model.state_dict()",
        "for name in old:",
        "    far += (now[name] - old[name]).pow(2).sum()  # !",
        "loss = loss + alpha / 2 * far",
    ),
    "in another function": drift("loss += alpha * distance(model, old)  # !"),
    "from those of a server": drift(
        "for name, p in model.state_dict().items():", "    far += (p - theirs[name]).norm(2)  # !", "loss = loss + far"
    ),
    "one weight": drift("loss = loss + alpha * model.state_dict()['fc.weight'].abs().sum()  # !"),
    "in an object": CONSOLIDATION.format(those="state_dict()", mark="# !"),
}

NOT_STATES = {
    "the parameters": drift(
        "for name, p in model.named_parameters():",
        "    far = far + (fisher[name] * (p - before[name]) ** 2).sum()",
        "loss = loss + alpha * far",
    ),
    "the parameters, and those of a server": drift(
        "far = sum(((p - theirs[name]) ** 2).sum() for name, p in model.named_parameters())", "loss = loss + far"
    ),
    "the parameters, in a row with those of a server": drift(
        "for p, q in zip(model.parameters(), server.state_dict().values()):",
        "    far += ((p - q) ** 2).sum()",
        "loss = loss + far",
    ),
    "as they are": drift(
        "for name, p in model.state_dict(keep_vars=True).items():",
        "    far = far + ((p - old[name]) ** 2).sum()",
        "loss = loss + far",
    ),
    "one weight, and what it was": drift("loss = loss + (model.fc.weight - before['fc.weight']).pow(2).sum()"),
    "one weight, and that of a server": drift("loss = loss + (model.fc.weight - theirs['fc.weight']).pow(2).sum()"),
    "new parameters": drift(
        "fast = {k: nn.Parameter(v) for k, v in model.state_dict().items()}",
        "loss = loss + sum(v.pow(2).sum() for v in fast.values())",
    ),
    "leaves": drift(
        "fast = {k: v.clone().requires_grad_() for k, v in model.state_dict().items()}",
        "loss = loss + F.linear(x, fast['weight']).pow(2).mean()",
    ),
    "shown": drift(
        "for name, p in model.state_dict().items():",
        "    far = far + ((p - old[name]) ** 2).sum()",
        "print(loss + far)",
    ),
    "how many there are": drift(
        "count = sum(p.numel() for p in model.state_dict().values())",
        "loss = loss + sum(p.abs().sum() for p in model.parameters()) / count",
    ),
    "in an object": CONSOLIDATION.format(those="named_parameters()", mark="").replace(
        "model.named_parameters().items()", "dict(model.named_parameters()).items()"
    ),
}


@pytest.mark.parametrize("snippet", STATES.values(), ids=STATES)
def test_the_state_of_a_model(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", NOT_STATES.values(), ids=NOT_STATES)
def test_look_alikes_of_the_state_of_a_model(snippet: str) -> None:
    assert_clean(snippet, CODE)


WEIGHED = """
    class Balance(nn.Module):
        def __init__(self, tasks):
            super().__init__()
            self.tasks = tasks
            self.log_var = nn.Parameter(torch.zeros(len(tasks)))

        def forward(self, losses):
            {lines}

    def train(model, loader, optimizer):
        balance = Balance(("near", "far"))
        for x, y in loader:
            output = model(x)
            losses = {losses}
            optimizer.zero_grad()
            {end}
            optimizer.step()
"""
OF_TASKS = '{"near": F.l1_loss(output, y), "far": F.mse_loss(output, y)}'
OF_UNKNOWN = "{k: fn(output[k], y[k]) for k, fn in CRITERIA.items()}"
LIST = "[F.l1_loss(output, y), F.mse_loss(output, y)]"
KENDALL = "return (torch.exp(-self.log_var) * vector + 0.5 * self.log_var).sum(){mark}"


def weighed(*lines: str, losses: str = LIST, end: str = "balance(losses).backward()") -> str:
    return WEIGHED.format(lines="\n            ".join(lines), losses=losses, end=end)


@pytest.mark.parametrize(
    ("made", "losses"),
    [
        ("torch.tensor(losses)", LIST),
        ("torch.tensor(losses, device=self.log_var.device)", LIST),
        ("torch.as_tensor([losses[0], losses[1]])", LIST),
        ("torch.FloatTensor(losses)", LIST),
        ("torch.Tensor([losses[0], losses[1]])", LIST),
        ("torch.tensor([loss for loss in losses])", LIST),
        ("torch.tensor([losses[t] for t in self.tasks])", OF_TASKS),
        ("torch.tensor([losses[t] for t in self.tasks], dtype=torch.float32)", OF_UNKNOWN),
        ("torch.tensor(list(losses.values()))", OF_TASKS),
    ],
)
def test_losses_that_are_weighed_with_parameters(made: str, losses: str) -> None:
    assert_flagged(weighed(f"vector = {made}", KENDALL.format(mark="  # !"), losses=losses), CODE)


def test_ways_to_weigh() -> None:
    vector = "vector = torch.tensor(losses)"
    assert_flagged(
        weighed(vector, "return (vector / (2 * self.log_var.exp() ** 2)).sum() + self.log_var.sum()  # !"), CODE
    )
    assert_flagged(weighed(vector, "return torch.sum(F.softmax(self.log_var, 0) * vector)  # !"), CODE)
    assert_flagged(weighed("return (self.log_var * torch.tensor(losses)).mean()  # !"), CODE)
    shown = "print(torch.autograd.grad(losses[0], model.weight, retain_graph=True)[0].norm().item())"
    assert_flagged(weighed(vector, KENDALL.format(mark="  # !"), end=f"{shown}; balance(losses).backward()"), CODE)


STACK, TENSOR = "vector = torch.stack(losses)", "vector = torch.tensor(losses)"


@pytest.mark.parametrize(
    "snippet",
    [
        weighed(STACK, KENDALL.format(mark="")),
        weighed("vector = torch.as_tensor(losses[0])", KENDALL.format(mark="")),
        weighed("vector = torch.tensor([loss.item() for loss in losses])", KENDALL.format(mark="")),
        weighed("vector = torch.tensor([loss.detach() for loss in losses])", KENDALL.format(mark="")),
        weighed(TENSOR, KENDALL.format(mark=""), end="balance([loss.detach() for loss in losses]).backward()"),
        weighed(TENSOR, KENDALL.format(mark=""), end="sum(losses).backward(); balance(losses).backward()"),
        weighed(TENSOR, KENDALL.format(mark=""), end="loss = balance(losses) + sum(losses); loss.backward()"),
        weighed(TENSOR, KENDALL.format(mark=""), losses="[l.item() for l in (F.l1_loss(output, y), output.mean())]"),
        weighed(TENSOR, KENDALL.format(mark=""), end="print(balance(losses)); sum(losses).backward()"),
        weighed(STACK, "s = F.softmax(torch.tensor(losses), 0)", "return (s * vector).sum() + self.log_var.sum()"),
        weighed(TENSOR, "return (vector * torch.stack(losses)).sum() + self.log_var.sum()"),
        weighed(TENSOR, "return F.mse_loss(self.log_var, vector)"),
        weighed(TENSOR, "return (self.log_var - vector).pow(2).mean()"),
        weighed(
            TENSOR, KENDALL.format(mark=""),
            end="gradients = torch.autograd.grad(sum(losses), model.parameters()); balance(losses).backward()",
        ),
        """
        def reinforce(agent, states, actions, rewards, optimizer):
            values = agent.critic(states)
            advantages = torch.tensor([r - v for r, v in zip(rewards, values)])
            loss = -(agent.actor(states).log_prob(actions) * advantages).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
        """
        class Agent:
            def learn(self, states, rewards):
                values = self.critic(states)
                advantages = torch.tensor([r - v for r, v in zip(rewards, values)])
                loss = -(torch.stack(self.saved_log_probs) * advantages).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        """,
    ],
)  # fmt: skip
def test_look_alikes_of_losses_that_are_weighed(snippet: str) -> None:
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


SECOND = """
        def derivatives(u, x, t):
            ones = torch.ones_like(u)
            u_x, u_t = torch.autograd.grad(u, (x, t), ones, create_graph=True)
            (u_xx,) = torch.autograd.grad(u_x, x, ones, {made})
            return u_t, u_x, u_xx

        class Problem:
            def __init__(self, nu):
                self.nu = nu

            def residual(self, net, x, t):
                u = net(x, t)
                u_t, u_x, u_xx = derivatives(u, x, t)
                {used}
                return {loss}

        def fit(net, problem, optimizer, sample, guide):
            for _ in range(1000):
                x, t = (each.requires_grad_() for each in sample())
                start = (net(x, torch.zeros_like(t)) - 1).pow(2).mean()
                loss = problem.residual(net, x, t) + start
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""


def second(loss: str, made: str = "retain_graph=True", used: str = "pass") -> str:
    return SECOND.format(loss=loss, made=made, used=used)


@pytest.mark.parametrize(
    "snippet",
    [
        second("(u_t + u * u_x - self.nu * u_xx).pow(2).mean()  # !"),
        second("(u_t - self.nu * u_xx).square().mean()  # !"),
        second("((u_xx + u) ** 2).mean()  # !", made="create_graph=False"),
        second("F.mse_loss(left, torch.zeros_like(left))", used="left = u_t - 0.1 * u_xx  # !"),
        second("(u_t - flow).abs().mean()", used="flow = 0.1 * u_xx + u.sin()  # !"),
        """
        from torch.autograd import grad

        def fit(net, optimizer, x):
            for _ in range(1000):
                x = x.detach().requires_grad_()
                u = net(x)
                du = grad(u.sum(), x, create_graph=True)[0]
                ddu = grad(du[:, 0:1].sum(), x)[0][:, 0:1]
                loss = torch.mean((ddu + u) ** 2)  # !
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
    ],
)
def test_second_derivatives_without_their_graph(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        second("(u_t + u * u_x - self.nu * u_xx).pow(2).mean()", made="create_graph=True"),
        second("(u_t + u * u_x - self.nu * u_xx).pow(2).mean()", made="create_graph=net.training"),
        second("(u_t + u * u_x).pow(2).mean()", used="print(u_xx.abs().mean())"),
        second("(u_xx.abs() * (u_t + u * u_x).pow(2)).mean()"),  # a weight
        second("(u_t - 0.1 * u_x).pow(2).mean()", used="bend = (u_t - 0.1 * u_xx).detach().abs().mean(); print(bend)"),
        second("((u_t - 0.1 * u_xx).detach().abs() * (u_t - u_x)).mean()"),  # a weight
        second("F.mse_loss(u_t, 0.1 * u_xx)"),  # a target
        second("(u_t - 0.1 * torch.where(u_xx > 0, u_x, u)).pow(2).mean()"),
        """
        def fit(net, law, optimizer, sample):  # what the other network gives is what this one is to be
            for _ in range(1000):
                x = sample().requires_grad_()
                u = law(x)
                u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
                u_xx = torch.autograd.grad(u_x.sum(), x)[0]
                loss = (net(x.detach()) - u_xx).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
        """
        def measure(net, sample):  # nothing is trained
            x = sample().requires_grad_()
            u = net(x)
            u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
            u_xx = torch.autograd.grad(u_x.sum(), x)[0]
            return (u_x - 0.1 * u_xx).pow(2).mean().item()
        """,
    ],
)
def test_look_alikes_of_second_derivatives(snippet: str) -> None:
    assert_clean(snippet, CODE)


# A second derivative without its graph that is a known source, or has a factor that is trained by the residual.
SOURCE = """
        from torch.autograd import grad

        def bend(u, x, graph):
            g = grad(u.sum(), x, create_graph=True)[0]
            return grad(g.sum(), x, create_graph=graph, retain_graph=True)[0]

        def train(net, exact, loader, {optimizer}):
            opt = torch.optim.Adam({given})
            for x in loader:
                x = x.requires_grad_()
                u = net(x)
                {before}
                loss = ({residual}).pow(2).mean(){mark}
                opt.zero_grad()
                loss.backward()
                opt.step()
"""


def with_source(residual: str, *, before: str = "pass", given: str = "net.parameters()", mark: str = "") -> str:
    return SOURCE.format(residual=residual, before=before, given=given, optimizer="nu, law", mark=mark)


SLOPES = "u_x = grad(u.sum(), x, create_graph=True)[0]; u_xx = grad(u_x.sum(), x, retain_graph=True)[0]"


@pytest.mark.parametrize(
    "snippet",
    [
        with_source("u - 0.1 * u_xx", before=SLOPES, mark="  # !"),
        with_source("u_x - nu * u_xx", before=SLOPES, mark="  # !"),
        with_source("u_x - law.nu * u_xx", before=SLOPES, mark="  # !"),
        with_source("u_x - torch.exp(nu) * u_xx", before=SLOPES, mark="  # !"),
        with_source("u - bend(u, x, False)", mark="  # !"),
        with_source("bend(u, x, True) + f", before="f = bend(net(x), x, False)", mark="  # !"),
    ],
)
def test_slopes_of_the_network_that_is_trained(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        with_source("bend(u, x, True) + f", before="f = -bend(exact(x), x, False)"),
        with_source("bend(u, x, True) - f", before="f = bend(exact(x), x, False)"),
        with_source("bend(u, x, True) + bend(exact(x), x, graph=False)"),
        with_source("bend(net(x), x, True) + f + u", before="v = exact(x); f = -bend(v, x, graph=False)"),
        with_source("bend(u, x, True) + f", before="exact.eval(); f = -bend(exact(x), x, False)"),
        with_source("u_x - nu * u_xx", before=SLOPES, given="[nu]"),
        with_source("u_x - nu * u_xx", before=SLOPES, given="[*net.parameters(), nu]"),
        with_source("u_x - nu * u_xx", before=SLOPES, given="list(net.parameters()) + [nu], lr=0.1"),
        with_source("u_x - nu[0] * u_xx", before=SLOPES, given="[{'params': net.parameters()}, {'params': [nu]}]"),
        with_source("u_x - torch.exp(nu) * u_xx", before=SLOPES, given="[nu]"),
        with_source("u_x - a * u_xx", before=f"a = torch.exp(nu); {SLOPES}", given="[nu]"),
        with_source("u_x - f", before=f"{SLOPES}; f = nu * u_xx", given="(nu,)"),
        with_source("u_x - law.nu * u_xx", before=SLOPES, given="law.parameters()"),
        with_source("u_x - law.nu * u_xx", before=SLOPES, given="[law.nu]"),
        with_source("u_x - 0.1 * u_xx", before=SLOPES, given="law.parameters()"),  # the network is in no optimizer
    ],
)
def test_look_alikes_of_slopes_of_the_network_that_is_trained(snippet: str) -> None:
    assert_clean(snippet, CODE)


@pytest.mark.parametrize(
    "given", ["[problem.nu]", "[*net.parameters(), problem.nu]", "weights"], ids=["alone", "beside", "of a variable"]
)
def test_a_factor_that_another_function_gives_to_the_optimizer(given: str) -> None:
    program = second("(u_t + u * u_x - self.nu * u_xx).pow(2).mean()")
    main = f"""
        def main(net, sample, nu):
            problem = Problem(nu)
            weights = [*net.parameters(), problem.nu]
            fit(net, problem, torch.optim.Adam({given}), sample, None)
    """
    assert_clean(program + main, CODE)
    assert_flagged(second("(u_t + u * u_x - self.nu * u_xx).pow(2).mean()  # !") + main.split("weights")[0], CODE)


HELPED = """
        import numpy as np

        def term(out, y):
            {made}

        def train(model, loader, optimizer, alpha=0.5):
            for x, y in loader:
                out = model(x)
                loss = F.l1_loss(out, y)
                {used}
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""


def helped(*lines: str, used: str = "loss = loss + term(out, y)") -> str:
    return HELPED.format(made="\n            ".join(lines), used=used)


APPENDED = ("losses = []", "for a, b in zip(out, y):", "    losses.append((a - b).pow(2).sum())")
ARRAYS = ("ours, theirs = out.detach().cpu().numpy(), y.detach().cpu().numpy()  # !",)

GIVEN_BACK = {
    "a list that is appended to": helped(*APPENDED, "return torch.tensor(losses).mean()  # !"),
    "a leaf": helped(*APPENDED, "return torch.tensor(losses, requires_grad=True, device=y.device).mean()  # !"),
    "an old type": helped(*APPENDED, "return torch.FloatTensor(losses).sum() / len(losses)  # !"),
    "a comprehension": helped("return torch.as_tensor([F.mse_loss(a, b) for a, b in zip(out, y)]).mean()  # !"),
    "a list that has a name": helped(
        "found = [F.l1_loss(each, y) for each in out]", "joined = torch.tensor(found)  # !", "return joined.sum()"
    ),
    "numbers, one by one": helped(*APPENDED, "return torch.tensor([l.item() for l in losses]).mean()  # !"),
    "numbers that are appended": helped(
        "parts = []",
        "for a, b in zip(out, y):",
        "    parts.append(F.mse_loss(a, b).item())  # !",
        "return torch.tensor(parts).mean()",
    ),
    "with a weight": helped(*APPENDED, "return torch.tensor(losses).mean()  # !", used="loss += alpha * term(out, y)"),
    "by a name": helped(
        *APPENDED,
        "return torch.tensor(losses).mean()  # !",
        used="aux = term(out, y)\n                loss = loss + alpha * aux",
    ),
    "nothing to learn is in some batches": helped(
        *APPENDED,
        "if not losses:",
        "    return out.sum() * 0",
        "return torch.tensor(losses, requires_grad=True).mean()  # !",
    ),
    "nothing to learn, summed": helped(
        *APPENDED, "if not losses:", "    return (0.0 * out).sum()", "return torch.tensor(losses).mean()  # !"
    ),
    "by numpy": helped(*ARRAYS, "return torch.tensor(np.mean(np.abs(ours - theirs)), dtype=torch.float32)"),
    "by numpy, added up": helped(
        *ARRAYS,
        "far = 0.0",
        "for a, b in zip(ours, theirs):",
        "    far += np.mean(np.abs(np.fft.rfft(a) - np.fft.rfft(b)))",
        "return torch.tensor(far / len(ours), device=out.device)",
        used="loss = loss + alpha * term(out, y)",
    ),
    "by numpy, in a list": helped(
        *ARRAYS, "far = [np.abs(a - b).max() for a, b in zip(ours, theirs)]", "return torch.tensor(np.mean(far))"
    ),
    "in a class": """
        class Spectral:
            def __init__(self, size):
                self.window = torch.hann_window(size)

            def __call__(self, estimate, clean):
                rows = []
                for a, b in zip(estimate, clean):
                    rows.append(torch.fft.rfft(a * self.window).abs().sub(b.mean()).abs().mean())
                return torch.tensor(rows).mean()  # !

        class Fitter:
            def __init__(self, net, opt):
                self.net, self.opt, self.spectral = net, opt, Spectral(8)

            def fit(self, batches):
                for noisy, clean in batches:
                    estimate = self.net(noisy)
                    objective = F.l1_loss(estimate, clean) + 0.1 * self.spectral(estimate, clean)
                    self.opt.zero_grad()
                    objective.backward()
                    self.opt.step()
    """,
}

WITH_GRAPH = {
    "stacked": helped(*APPENDED, "return torch.stack(losses).mean()"),
    "summed": helped(*APPENDED, "return sum(losses) / len(losses)"),
    "stacked, with nothing to learn in some": helped(
        *APPENDED, "if not losses:", "    return out.sum() * 0", "return torch.stack(losses).mean()"
    ),
    "a graph on another way": helped(
        *APPENDED, "if len(y) > 4:", "    return F.mse_loss(out, y)", "return torch.tensor(losses).mean()"
    ),
    "a weight": helped(*APPENDED, "return torch.tensor(losses).mean()", used="loss = loss * term(out, y)"),
    "what it is divided by": helped(*APPENDED, "return torch.tensor(losses).mean()", used="loss = loss / term(out, y)"),
    "a weight of one term": helped(
        *APPENDED,
        "return torch.tensor(losses).mean()",
        used="loss = loss + term(out, y) * out.abs().mean()",
    ),
    "weights": helped(
        *APPENDED, "return torch.tensor(losses).softmax(0)", used="loss = loss + (term(out, y) * out.mean(1)).sum()"
    ),
    "a target": helped(
        "return torch.tensor([each.max() for each in out])", used="loss = loss + F.mse_loss(out.mean(1), term(out, y))"
    ),
    "a margin": helped(
        "return torch.tensor([each.max() for each in out])",
        used="loss = loss + F.relu(out.mean(1) - term(out, y)).sum()",
    ),
    "a mask": helped(
        "return torch.tensor([each.max() > 0 for each in out])", used="loss = loss + (out.mean(1) * term(out, y)).sum()"
    ),
    "rows that are chosen": helped(
        "return torch.tensor([each.max() > 0 for each in out])", used="loss = loss + out[term(out, y)].mean()"
    ),
    "what is printed": helped(*APPENDED, "return torch.tensor(losses).mean()", used="print(term(out, y) + 1)"),
    "of the labels": helped("return torch.tensor([b.float().mean() for a, b in zip(out, y)]).mean()"),
    "how many there are": helped("return torch.tensor([len(each) for each in out]).float().mean()"),
    "a leaf that an optimizer has": helped(
        *APPENDED,
        "return torch.tensor(losses, requires_grad=True)",
        used="w = term(out, y)\n                other = torch.optim.SGD([w], 0.1)\n"
        "                loss = loss + w.mean()",
    ),
    "a leaf whose gradient is looked at": helped(
        "return y",
        used="w = torch.tensor([out.mean()], requires_grad=True)\n                loss = loss + w.mean()\n"
        "                loss.backward(retain_graph=True)\n                print(w.grad)",
    ),
    "numpy for a measure": helped(
        *ARRAYS[0].split("  # !")[:1], "return torch.tensor(np.mean(ours > theirs))", used="print(term(out, y))"
    ),
    "numpy for a weight": helped(
        "return torch.tensor(np.mean(np.abs(out.detach().numpy())))", used="loss = loss * (1 + term(out, y))"
    ),
    "numpy for a threshold": helped(
        "return torch.tensor(np.percentile(out.detach().numpy(), 5))",
        used="loss = loss + F.relu(out - term(out, y)).mean()",
    ),
    "numpy for a reward": helped(
        "return torch.tensor(np.abs(out.detach().numpy() - y.numpy()).mean(1))",
        used="gain = term(out, y)\n                loss = loss - ((gain - gain.mean()) * out.mean(1)).mean()",
    ),
    "numpy for a shape": helped("return torch.tensor(np.shape(out.detach().numpy())[0])"),
    "numpy of the labels": helped("return torch.tensor(np.mean(y.detach().numpy()))"),
}


@pytest.mark.parametrize("snippet", GIVEN_BACK.values(), ids=GIVEN_BACK)
def test_numbers_of_what_a_helper_is_given(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", WITH_GRAPH.values(), ids=WITH_GRAPH)
def test_helpers_whose_numbers_are_no_term(snippet: str) -> None:
    assert_clean(snippet, CODE)


PHASES = """
        def fit(net, loaders, optimizer):
            for phase in ("train", "val"):
                for x, y in loaders[phase]:
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == "train"):
                        logits = net(x)
                        bce = F.binary_cross_entropy_with_logits(logits, y)
                        hard = {hard}
                        loss = {loss}
                        if phase == "train":
                            loss.backward()
                            optimizer.step()
"""


@pytest.mark.parametrize(
    "hard", ["(logits > 0).float()", "(logits.sigmoid() > 0.5) * 1.0", "logits.argmax(1).float()", "logits.long()"]
)
def test_where_a_word_says_whether_a_graph_is_recorded(hard: str) -> None:
    assert_flagged(PHASES.format(hard=hard, loss="bce + (1 - (hard * y).mean())  # !"), CODE)


@pytest.mark.parametrize(
    ("hard", "loss"),
    [
        ("torch.sigmoid(logits)", "bce + 1 - (hard * y).mean()"),
        ("(logits > 0).float()", "bce * hard.mean()"),
        ("(logits > 0).float()", "bce + F.mse_loss(logits, hard)"),
        ("(logits > 0).float()", "bce + (logits * hard).mean()"),
        ("(y > 0).float()", "bce + hard.mean()"),
        ("(logits > 0).float() - logits.detach() + logits", "bce + hard.mean()"),
    ],
)
def test_terms_with_a_graph_where_a_word_says_it(hard: str, loss: str) -> None:
    assert_clean(PHASES.format(hard=hard, loss=loss), CODE)


def test_a_helper_of_another_file_for_two_trainings(tmp_path: Path) -> None:
    found = lines_in_files(
        tmp_path,
        {
            "terms.py": """\
                import torch

                def hardest(near, far):
                    return torch.tensor([a.sum() for a in near - far]).mean()
            """,
            "fit.py": """\
                from terms import hardest

                def fit(net, opt, batches):
                    for x, y in batches:
                        out = net(x)
                        loss = out.mean() + hardest(out, y)
                        loss.backward()
                        opt.step()

                def fit_again(net, opt, batches):
                    for x, y in batches:
                        out = net(x)
                        loss = out.mean() + 2 * hardest(out, y)
                        loss.backward()
                        opt.step()
            """,
        },
        CODE,
    )
    assert found == [("terms.py", 4)]


ON_ONE_WAY = """
        def fit(net, loader, optimizer, with_critic):
            criterion = nn.MSELoss()
            for x, y in loader:
                optimizer.zero_grad()
                out, features = net(x)
                extra = 0
                if with_critic:
                    extra = criterion(features, y)
                    extra = extra.detach().item()
                loss = criterion(out, y) + extra  # !
                loss.backward()
                optimizer.step()
"""


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (("extra.detach().item()", "extra.item()"),),
        (("extra.detach().item()", "extra.detach().cpu().item()"),),
        (("extra = 0\n", "extra = 0.0\n"),),
    ],
)
def test_a_term_that_is_nothing_on_another_way(changes: tuple[tuple[str, str], ...]) -> None:
    marked = ON_ONE_WAY
    for old, new in changes:
        marked = marked.replace(old, new)
    assert_flagged(marked, CODE)


@pytest.mark.parametrize(
    "changes",
    [
        (("extra = extra.detach().item()", "shown = extra.detach().item()"),),
        (("extra = extra.detach().item()", "pass"),),
        (("criterion(out, y) + extra", "criterion(out, y)"),),
        (("extra = 0\n", "extra = criterion(features, x)\n"),),
        (("+ extra", "* extra"),),
        (("extra = 0\n", "extra = net.prior\n"),),
        (("optimizer.zero_grad()", "optimizer.zero_grad(); criterion(net(x)[1], y).backward()"), ("+ extra", "")),
    ],
)
def test_look_alikes_of_a_term_on_one_way(changes: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(ON_ONE_WAY, *changes), CODE)


# A function for evaluations, which the loss uses as well: only who calls the loss knows what has a graph.
DECODED = """
    @torch.no_grad()
    def decode(deltas, anchors):  # !
        return anchors + deltas * anchors.abs()

    class Criterion(nn.Module):
        def __init__(self, anchors, scale=2.0):
            super().__init__()
            self.register_buffer("anchors", anchors)
            self.scale = scale

        def forward(self, logits, deltas, labels, boxes):
            cls = F.cross_entropy(logits, labels)
            box = (decode(deltas, self.anchors) - boxes).abs().mean()
            return cls + self.scale * box

    def train(net, loader, optimizer, anchors):
        criterion = Criterion(anchors)
        for x, labels, boxes in loader:
            logits, deltas = net(x)
            loss = criterion(logits, deltas, labels, boxes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
TERM = "box = (decode(deltas, self.anchors) - boxes).abs().mean()"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("return cls + self.scale * box", 'return cls + self.scale * box, {"box": box.item()}'),
         ("loss = criterion(", "loss, shown = criterion(")],
        [("return cls + self.scale * box", "total = cls\n            total = total + box / 2\n"
          "            return total")],
        [(TERM, "box = F.smooth_l1_loss(decode(deltas, self.anchors), boxes)")],
        [("    @torch.no_grad()\n    def decode(deltas, anchors):  # !\n        return",
          "    def decode(deltas, anchors):\n        return"),
         (TERM, "with torch.no_grad():\n                at = decode(deltas, self.anchors)\n"
          "            box = (at - boxes).abs().mean()"),
         ("return cls + self.scale * box", "return cls + self.scale * box  # !")],
    ],
)  # fmt: skip
def test_a_term_of_what_runs_without_gradients(edits: list[tuple[str, str]]) -> None:
    snippet = DECODED
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


ADVANTAGES = """
    @torch.no_grad()
    def baseline(values, mask):
        return (values * mask).sum(-1)

    def surrogate(logp, values, rewards, mask):
        advantage = rewards.sum(-1) + baseline(values, mask)
        return -(logp * advantage).mean() + (values - rewards).pow(2).mean()

    def train(net, loader, optimizer):
        for x, rewards, mask in loader:
            logp, values = net(x)
            loss = surrogate(logp, values, rewards, mask)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
TARGETS = """
    @torch.no_grad()
    def refined(scores):
        return scores.sigmoid().mean(-1)

    def objective(scores, labels, other):
        target = labels.float().mean(-1) + refined(scores)
        return TARGETED

    def train(net, loader, optimizer):
        for x, labels in loader:
            scores, other = net(x)
            loss = objective(scores, labels, other)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    "edits",
    [
        [("    @torch.no_grad()\n", "")],
        [("            logits, deltas = net(x)\n", "            logits, deltas = net(x), x.mean(1)\n")],
        [(TERM, "box = F.l1_loss(deltas, decode(boxes, self.anchors))")],
        [(TERM, "box = F.l1_loss(deltas, decode(deltas, self.anchors))")],  # a target
        [(TERM, "box = (decode(deltas, self.anchors) - deltas).abs().mean()")],
        [(TERM, "box = F.l1_loss(decode(deltas, self.anchors), logits)")],
        [("return cls + self.scale * box", "return cls * box")],  # a weight
        [("return cls + self.scale * box", "self.seen = box\n            return cls")],
        [("return cls + self.scale * box", "return cls, box"), ("loss = crit", "loss, shown = crit")],
        [("net(x)\n            loss", "net(x)\n            boxes = net.head(x)\n            loss")],  # trains `boxes`
    ],
)  # fmt: skip
def test_look_alikes_of_what_runs_without_gradients(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(DECODED, *edits), CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        ADVANTAGES,
        ADVANTAGES.replace("-(logp * advantage).mean()", "-(advantage * logp.exp()).sum()"),
        ADVANTAGES.replace("-(logp * advantage).mean()", "-torch.dot(logp, advantage)"),
        ADVANTAGES.replace("-(logp * advantage).mean()", "(logp.exp() / advantage).mean()"),
        ADVANTAGES.replace("return -(", "return advantage, -(")
        .replace("loss = surr", "weight, loss = surr")
        .replace("optimizer.zero", "loss = loss + (weight * logp.exp()).mean()\n            optimizer.zero"),
        *(
            TARGETS.replace("TARGETED", targeted)
            for targeted in (
                "F.mse_loss(other, target)",
                "(other - target).pow(2).mean()",
                "((target - other) ** 2).mean()",
                "(other - target).abs().mean()",
                "F.binary_cross_entropy_with_logits(other, target)",
                "torch.maximum(other, target).mean()",
                "torch.where(labels > 0, other, target).mean()",
                "other.mean() / target.mean()",
                "F.relu(target - other.mean(-1)).mean()",
                "torch.exp(target) @ other",
                "torch.sqrt(target).mean() * other.mean()",
            )
        ),
    ],
)
def test_numbers_that_weigh_or_are_targets(snippet: str) -> None:
    assert_clean(snippet, CODE)


DICE = """
    LOSSES = {}

    def register(name):
        def keep(cls):
            LOSSES[name] = cls
            return cls
        return keep

    @register("bce")
    class CrossEntropy(nn.Module):
        def forward(self, logits, target):
            return F.binary_cross_entropy_with_logits(logits, target)

    @register("dice")
    class Dice(nn.Module):
        def __init__(self, limit=0.5):
            super().__init__()
            self.limit = limit

        def forward(self, logits, target):
            p = (torch.sigmoid(logits) > self.limit).float()  # !
            score = (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
            return 1 - score.mean()

    class Several(nn.Module):
        def __init__(self, names):
            super().__init__()
            self.parts = nn.ModuleDict({name: LOSSES[name]() for name in names})

        def forward(self, logits, target):
            return sum(part(logits, target) for part in self.parts.values())

    def train(net, loader, names, optimizer):
        criterion = Several(names)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
"""
HARD = "(torch.sigmoid(logits) > self.limit).float()"
CHOSEN_CLASSES = "F.one_hot(logits.argmax(1)).float()"


@pytest.mark.parametrize(
    "snippet",
    [
        DICE,
        DICE.replace(HARD, "(logits.sigmoid() > 0.5).float()"),
        DICE.replace(HARD, "torch.sigmoid(logits).ge(0.5).float()"),
        DICE.replace(HARD, "F.one_hot(logits.argmax(1)).float()"),
        DICE.replace("return 1 - score.mean()", "return -score.mean()"),
        DICE.replace("return 1 - score.mean()", "return (1 - score).mean()"),
        DICE.replace("return 1 - score.mean()", "return (1 - score) ** 0.75"),
        DICE.replace(HARD, CHOSEN_CLASSES).replace("logits", "q"),
        DICE.replace(HARD, CHOSEN_CLASSES).replace("logits", "maps").replace("target", "y"),
        DICE.replace("logits", "a").replace("target", "b"),
        DICE.replace("LOSSES[name] = cls", "LOSSES.update({name: cls})").replace(
            '@register("dice")', "@register_loss('dice')"
        ),
        DICE.replace('@register("dice")', "@LOSSES.register"),
        DICE.replace('    @register("dice")\n', "").replace(
            "class Several", "CRITERIA = {'dice': Dice}\n\n    class Several"
        ),
        DICE.replace('    @register("dice")\n', "").replace(
            "criterion = Several(names)", "losses = nn.ModuleList([CrossEntropy(), Dice()])"
        ),
    ],
)
def test_a_loss_that_is_picked(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(DICE, (HARD, "torch.sigmoid(logits)")),
        twin(DICE, (HARD, "(torch.sigmoid(logits) > self.limit).float() if self.hard else torch.sigmoid(logits)")),
        twin(DICE, (HARD, "((torch.sigmoid(logits) > 0.5).float() - logits).detach() + logits")),
        twin(DICE, (HARD, "torch.sigmoid(logits) * (target > 0)")),
        twin(DICE, (HARD, "torch.sigmoid((torch.abs(logits) > 1).float() * logits)")),
        twin(DICE, ("return 1 - score.mean()", "return score.mean()")),
        twin(DICE, ("class Dice(", "class Accuracy(")),
        twin(DICE, ("class Dice(", "class DiceMetric(")),
        twin(DICE, ('    @register("dice")\n', "")),
        twin(DICE, ('@register("dice")', "@METRICS.register")),
        twin(DICE, ("LOSSES", "METRICS")),
        twin(
            DICE,
            (
                "        def forward(self, logits, target):\n            p =",
                "        @torch.no_grad()\n        def forward(self, logits, target):\n            p =",
            ),
        ),
        twin(DICE, (".backward()", ".mean()")),
        twin(DICE, ("criterion = Several(names)", "criterion, dice = Several(names), Dice(); dice = Dice()")),
        twin(
            DICE,
            ("logits, target):\n            p = (torch.sigmoid(logits)", "target, logits):\n            p = (target"),
        ),
        twin(DICE, (HARD, CHOSEN_CLASSES), ("logits", "y"), ("target", "q")),  # the target comes first
        twin(DICE, (HARD, CHOSEN_CLASSES), ("logits", "kinds"), ("target", "weights")),
        twin(DICE, ("return 1 - score.mean()", "return 1 - score.mean() + logits.pow(2).mean()")),
    ],
)
def test_what_is_no_hard_loss(snippet: str) -> None:
    assert_clean(snippet, CODE)
