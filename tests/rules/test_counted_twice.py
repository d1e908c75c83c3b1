from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files

CODE = "GG222"


def loop(*lines: str) -> str:
    body = "\n            ".join(lines)
    return f"""
    def train(model, loader, optimizer, scaler, beta, log, other):
        for x, y in loader:
            optimizer.zero_grad()
            out, mu = model(x)
            recon = F.mse_loss(out, x)
            kl = mu.pow(2).mean()
            {body}
            optimizer.step()
    """


FIRST = "recon.backward(retain_graph=True)  # !"
SUM = "loss = recon + beta * kl"


@pytest.mark.parametrize(
    "lines",
    [
        (FIRST, SUM, "loss.backward()"),
        (SUM, FIRST, "loss.backward()"),
        (FIRST, "(recon + beta * kl).backward()"),
        (SUM, "loss.backward(retain_graph=True)", "recon.backward()  # !"),
        ("kl.backward(retain_graph=True)  # !", SUM, "loss.backward()"),
        ("kl.backward(retain_graph=True)  # !", "loss = recon + beta * (kl / 4)", "loss.backward()"),
        ("kl.backward(retain_graph=True)  # !", "loss = recon", "loss += beta * kl", "loss.backward()"),
        ("kl.backward(retain_graph=True)  # !", "loss = recon", "loss = loss + kl", "loss.backward()"),
        ("kl.backward(retain_graph=True)  # !", "loss = recon", "if beta: loss = loss + kl", "loss.backward()"),
        ("loss = recon", "loss.backward(retain_graph=True)  # !", "loss = loss + kl", "loss.backward()"),
        ("both = recon + kl", "recon.backward(retain_graph=True)  # !", "loss = both + y.mean()", "loss.backward()"),
        ("again = recon", "again.backward(retain_graph=True)  # !", SUM, "loss.backward()"),
        (FIRST, "loss = sum([recon, kl])", "loss.backward()"),
        (FIRST, "loss = torch.stack([recon, kl]).sum()", "loss.backward()"),
        (FIRST, "loss = torch.stack((recon, kl)).mean()", "loss.backward()"),
        ("scaler.scale(recon).backward(retain_graph=True)  # !", SUM, "scaler.scale(loss).backward()"),
        ("(recon / 4).backward(retain_graph=True)  # !", SUM, "(loss / 4).backward()"),
        ("torch.autograd.backward(recon, retain_graph=True)  # !", SUM, "torch.autograd.backward(loss)"),
        (
            "losses = [recon, kl]",
            "for l in losses:",
            "    l.backward(retain_graph=True)  # !",
            "sum(losses).backward()",
        ),
        (
            "losses = model.losses(x)",
            "for name, l in losses.items():",
            "    l.backward(retain_graph=True)  # !",
            "total = sum(losses.values())",
            "total.backward()",
        ),
        (
            "losses = {'recon': recon, 'kl': kl}",
            "losses['recon'].backward(retain_graph=True)  # !",
            "total = losses['recon'] + losses['kl']",
            "total.backward()",
        ),
        (
            "losses = model.losses(x)",
            "losses['recon'].backward(retain_graph=True)  # !",
            "sum(losses.values()).backward()",
        ),
        ("losses = []", "losses.append(recon)", "losses.append(kl)", FIRST, "sum(losses).backward()"),
        ("losses = [recon, kl]", FIRST, "sum(2 * l for l in losses).backward()"),
        ("rec_loss = recon", "rec_loss.mean().backward(retain_graph=True)  # !", "(rec_loss + kl).mean().backward()"),
        (SUM, "if log:", "    recon.backward(retain_graph=True)  # !", "loss.backward()"),
        (FIRST, "print(sum(p.grad.norm() for p in model.parameters()))", SUM, "loss.backward()"),
        (SUM, "loss.backward(retain_graph=True)  # !", "loss.backward()"),
        (SUM, "loss.backward(create_graph=True)  # !", "loss.backward()"),
    ],
)
def test_a_term_and_the_sum(lines: tuple[str, ...]) -> None:
    assert_flagged(loop(*lines), CODE)


def test_what_is_said() -> None:
    (finding,) = findings(loop(FIRST, SUM, "loss.backward()"), CODE)
    assert "`recon` counts twice" in finding.message
    assert "within `loss`" in finding.message
    assert [each.line for each in finding.related] == [finding.span.line + 2]


TRAINER = """
    class Trainer:
        def __init__(self, model, optimizer, beta):
            self.model, self.optimizer, self.beta, self.norms = model, optimizer, beta, []

        def measure(self, term):
            term.backward(retain_graph=True)  # !
            self.norms.append(sum(p.grad.norm().item() for p in self.model.parameters()))
            {cleared}

        def losses(self, x):
            out, mu = self.model(x)
            recon = F.mse_loss(out, x)
            kl = mu.pow(2).mean()
            return recon + self.beta * kl, recon, kl

        def step(self, x):
            loss, recon, kl = self.losses(x)
            self.optimizer.zero_grad()
            self.measure(recon)
            loss.backward()
            self.optimizer.step()
"""


def test_a_method_that_measures() -> None:
    assert_flagged(TRAINER.format(cleared="pass"), CODE)
    for cleared in ("self.optimizer.zero_grad()", "self.model.zero_grad()"):
        assert_clean(TRAINER.format(cleared=cleared).replace("  # !", ""), CODE)
    by_hand = "\n".join(("for p in self.model.parameters():", " " * 16 + "p.grad = None"))
    assert_clean(TRAINER.format(cleared=by_hand).replace("  # !", ""), CODE)


def test_losses_in_a_dict_that_a_method_gives() -> None:
    text = """
    class Trainer:
        def losses(self, x):
            out, mu = self.model(x)
            losses = {{"recon": F.mse_loss(out, x), "kl": mu.pow(2).mean()}}
            losses["loss"] = losses["recon"] + losses["kl"]
            return losses

        def step(self, x):
            self.optimizer.zero_grad()
            losses = self.losses(x)
            losses["recon"].backward(retain_graph=True)  # !
            losses["{other}"].backward()
            self.optimizer.step()
    """
    assert_flagged(text.format(other="loss"), CODE)
    assert_clean(text.format(other="kl").replace("  # !", ""), CODE)


def test_one_method_for_both() -> None:
    assert_flagged(
        """
    class Trainer:
        def back(self, loss):
            loss.backward(retain_graph=True)

        def step(self, x):
            recon, kl = self.model(x)
            self.optimizer.zero_grad()
            self.back(recon)  # !
            self.back(recon + kl)
            self.optimizer.step()
    """,
        CODE,
    )


def test_attributes_and_a_step_in_the_caller() -> None:
    assert_flagged(
        """
    class Model:
        def backward_all(self):
            self.loss_rec = F.l1_loss(self.fake, self.real)
            self.loss_gan = self.gan(self.fake)
            self.loss_rec.backward(retain_graph=True)  # !
            self.loss_all = self.loss_gan + 10 * self.loss_rec
            self.loss_all.backward()

        def optimize(self):
            self.optimizer.zero_grad()
            self.backward_all()
            self.optimizer.step()
    """,
        CODE,
    )


def test_a_closure() -> None:
    assert_flagged(
        """
    def train(model, x, optimizer):
        def closure():
            optimizer.zero_grad()
            recon, kl = model(x)
            recon.backward(retain_graph=True)  # !
            loss = recon + kl
            loss.backward()
            return loss

        for _ in range(100):
            optimizer.step(closure)
    """,
        CODE,
    )


def test_a_sum_over_an_epoch() -> None:
    assert_flagged(
        """
    def train(model, loader, optimizer):
        for epoch in range(9):
            optimizer.zero_grad()
            total = 0
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                loss.backward(retain_graph=True)  # !
                total += loss
            total.backward()
            optimizer.step()
    """,
        CODE,
    )


def test_other_files(tmp_path: Path) -> None:
    found = lines_in_files(
        tmp_path,
        {
            "looking.py": """\
            def look(term, model, log):
                term.backward(retain_graph=True)
                log.append(sum(p.grad.norm() for p in model.parameters()))


            def total(recon, kl, beta):
                return recon + beta * kl
            """,
            "training.py": """\
            import torch
            from looking import look, total


            def train(model, loader, optimizer, log):
                for x in loader:
                    recon, kl = model(x)
                    optimizer.zero_grad()
                    look(recon, model, log)
                    loss = total(recon, kl, 0.1)
                    loss.backward()
                    optimizer.step()
            """,
        },
        CODE,
    )
    assert found == [("looking.py", 2)]


KEPT = "recon.backward(retain_graph=True)"


@pytest.mark.parametrize(
    "lines",
    [
        (KEPT, "kl.backward()"),
        (KEPT, "optimizer.zero_grad()", SUM, "loss.backward()"),
        (KEPT, "model.zero_grad()", SUM, "loss.backward()"),
        (KEPT, "for p in model.parameters(): p.grad = None", SUM, "loss.backward()"),
        (KEPT, "for p in model.parameters(): p.grad.zero_()", SUM, "loss.backward()"),
        (KEPT, "optimizer.step()", "optimizer.zero_grad()", SUM, "loss.backward()"),
        (KEPT, "loss = recon.detach() + kl", "loss.backward()"),
        (KEPT, "loss = recon.item() + kl", "loss.backward()"),
        (KEPT, "loss = float(recon) + kl", "loss.backward()"),
        (KEPT, "loss = recon.data + kl", "loss.backward()"),
        (KEPT, "kl.backward()", "loss = recon + kl", "print(loss.item())"),
        (KEPT, SUM, "log.append(loss.detach())", "kl.backward()"),
        (KEPT, "recon = F.l1_loss(out, x)", SUM, "loss.backward()"),
        (KEPT, "recon = recon.detach()", SUM, "loss.backward()"),
        (KEPT, "loss = kl - recon", "loss.backward()"),
        (KEPT, "loss = kl / recon", "loss.backward()"),
        (KEPT, "first = [p.grad.clone() for p in model.parameters()]", SUM, "loss.backward()"),
        (KEPT, "loss = kl * 2", "loss.backward()"),
        ("recon.backward(torch.tensor(-1.0), retain_graph=True)", SUM, "loss.backward()"),
        ("recon.backward(retain_graph=True, inputs=[mu])", SUM, "loss.backward()"),
        ("(-recon).backward(retain_graph=True)", SUM, "loss.backward()"),
        ("(beta * recon).backward(retain_graph=True)", SUM, "loss.backward()"),
        ("torch.autograd.grad(recon, model.parameters(), retain_graph=True)", SUM, "loss.backward()"),
        ("if beta:", "    recon.backward(retain_graph=True)", "else:", "    (recon + kl).backward()"),
        ("if beta:", f"    {KEPT}", "    optimizer.step()", "    continue", SUM, "loss.backward()"),
        ("if beta:", f"    {KEPT}", "    continue", SUM, "loss.backward()"),
        ("if beta:", f"    {KEPT}", "if not beta:", "    (recon + kl).backward()"),
        (KEPT, "other_optimizer.step()", SUM, "loss.backward()"),
        (KEPT, "other_optimizer.zero_grad()", SUM, "loss.backward()"),
        ("losses = [recon, kl]", "losses[0].backward(retain_graph=True)", "losses[1].backward()"),
        ("losses = [recon, kl]", "for l in losses:", "    l.backward(retain_graph=True)", "print(sum(losses).item())"),
        (
            "losses = [recon, kl]",
            "for l in losses:",
            "    l.backward(retain_graph=True)",
            "    optimizer.zero_grad()",
            "sum(losses).backward()",
        ),
        ("losses = {'a': recon, 'b': kl}", "losses['a'].backward(retain_graph=True)", "losses['b'].backward()"),
        (KEPT, "model.head.requires_grad_(False)", SUM, "loss.backward()"),
        (KEPT, "for p in model.head.parameters(): p.requires_grad = False", SUM, "loss.backward()"),
        ("a = recon + kl.detach()", "a.backward(retain_graph=True)", "b = kl + recon.detach()", "b.backward()"),
        ("a = recon + kl", "a.backward(retain_graph=True)", "b = F.l1_loss(out, y) + kl", "b.backward()"),
        ("mu.mean().backward(retain_graph=True)", "loss = (mu * y).sum()", "loss.backward()"),
        ("mu.sum().backward(retain_graph=True)", "loss = recon + mu.mean()", "loss.backward()"),
        ("h = mu + x", "F.mse_loss(h, y).backward(retain_graph=True)", "(recon + h.mean()).backward()"),
    ],
)
def test_look_alikes(lines: tuple[str, ...]) -> None:
    assert_clean(loop(*lines), CODE)


@pytest.mark.parametrize(
    "text",
    [
        """
    def train(netD, netG, loader, optimizerD, optimizerG):
        for real, noise in loader:
            netD.zero_grad()
            errD_real = F.softplus(-netD(real)).mean()
            errD_real.backward(retain_graph=True)
            fake = netG(noise)
            errD_fake = F.softplus(netD(fake.detach())).mean()
            errD_fake.backward(retain_graph=True)
            errD = errD_real + errD_fake
            optimizerD.step()
            netG.zero_grad()
            errG = F.softplus(-netD(fake)).mean()
            errG.backward()
            optimizerG.step()
            print(errD.item(), errG.item())
    """,
        """
    def train(encoder, decoder, loader, optimizer_e, optimizer_d):
        for x in loader:
            optimizer_e.zero_grad()
            optimizer_d.zero_grad()
            z = encoder(x)
            recon = F.mse_loss(decoder(z), x)
            loss_e = recon + z.pow(2).mean()
            recon.backward(retain_graph=True)
            loss_e.backward()
            optimizer_d.step()
            optimizer_e.step()
    """,
        """
    def test_it_adds(model, x, optimizer):
        loss = model(x).mean()
        for _ in range(2):
            loss.backward(retain_graph=True)
            loss.backward(retain_graph=True)
            optimizer.step()
    """,
        """
    def minimax(model, loader, optimizer, k):
        for x in loader:
            optimizer.zero_grad()
            out, series, prior = model(x)
            recon = F.mse_loss(out, x)
            loss1 = recon - k * series
            loss2 = recon + k * prior
            loss1.backward(retain_graph=True)
            loss2.backward()
            optimizer.step()
    """,
        """
    def of_each(model, loader, optimizers):
        for x in loader:
            for optimizer in optimizers:
                optimizer.zero_grad()
            recon, kl = model(x)
            recon.backward(retain_graph=True)
            (recon + kl).backward()
            for optimizer in optimizers:
                optimizer.step()
    """,
        """
    class Trainer:
        def look(self, term):
            kept = [p.grad for p in self.model.parameters()]
            for p in self.model.parameters():
                p.grad = None
            term.backward(retain_graph=True)
            norms = [p.grad.norm() for p in self.model.parameters()]
            for p, grad in zip(self.model.parameters(), kept):
                p.grad = grad
            return norms

        def step(self, x):
            recon, kl = self.model(x)
            self.optimizer.zero_grad()
            self.look(recon)
            (recon + kl).backward()
            self.optimizer.step()
    """,
        """
    class Trainer:
        def look(self, term):
            return torch.autograd.grad(term, list(self.model.parameters()), retain_graph=True)

        def step(self, x):
            recon, kl = self.model(x)
            self.optimizer.zero_grad()
            self.look(recon)
            (recon + kl).backward(retain_graph=True)
            self.optimizer.step()
    """,
        """
    class Trainer:
        def back(self, loss):
            self.optimizer.zero_grad()
            loss.backward(retain_graph=True)
            self.optimizer.step()

        def step(self, x):
            recon, kl = self.model(x)
            self.back(recon)
            self.back(recon + kl)
    """,
        """
    def show(model, x):
        loss = model(x).mean()
        loss.backward(retain_graph=True)
        print(model.weight.grad)
        loss.backward()
        print(model.weight.grad)
    """,
        """
    def surgery(model, losses, optimizer):
        flat = []
        for loss in losses:
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            flat.append([p.grad.clone() for p in model.parameters()])
        optimizer.zero_grad()
        sum(losses).backward()
        for p, *grads in zip(model.parameters(), *flat):
            p.grad = sum(grads)
        optimizer.step()
    """,
        """
    def balance(model, weights, losses, optimizer):
        total = sum(w * l for w, l in zip(weights, losses))
        optimizer.zero_grad()
        total.backward(retain_graph=True)
        weights.grad.data.zero_()
        norms = [torch.autograd.grad(l, model.shared.weight, retain_graph=True)[0].norm() for l in losses]
        torch.stack(norms).std().backward()
        optimizer.step()
    """,
        """
    def train(model, loader, optimizer, total):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward(retain_graph=True)
            optimizer.step()
            total = total + loss
        total.backward()
    """,
    ],
)
def test_other_look_alikes(text: str) -> None:
    assert_clean(text, CODE)
