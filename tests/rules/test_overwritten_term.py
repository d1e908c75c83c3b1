from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG242"
DETECTOR = """
    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Conv2d(3, 8, 3)
            self.cls_head, self.box_head, self.size_head = nn.Conv2d(8, 2, 1), nn.Conv2d(8, 4, 1), nn.Conv2d(8, 2, 1)
            self.criterion = nn.SmoothL1Loss()

        def losses(self, x, t, pos, extra=None):
            f = self.body(x)
            cls, box, size = self.cls_head(f), self.box_head(f), self.size_head(f)
"""

FLAGGED = {
    "one key for two": """
        losses = {"loss_cls": F.cross_entropy(cls, t["cls"])}
        losses["loss_box"] = F.l1_loss(box[pos], t["box"])
        losses["loss_box"] = F.smooth_l1_loss(size[pos], t["size"])  # !
        return losses
    """,
    "others between the two": """
        losses = dict()
        losses["box"] = self.criterion(box, t["box"])
        weight = 0.5
        losses["cls"] = F.cross_entropy(cls, t["cls"])
        losses["box"] = weight * self.criterion(size, t["size"])  # !
        return sum(losses.values())
    """,
    "the dict as it is made": """
        losses = {"loss_box": F.l1_loss(box, t["box"])}
        losses["loss_box"] = F.l1_loss(size, t["size"])  # !
        return losses
    """,
    "a dict that is written out": """
        return {
            "loss_cls": F.cross_entropy(cls, t["cls"]),
            "loss_box": F.l1_loss(box, t["box"]),
            "loss_box": F.l1_loss(size, t["size"]),  # !
        }
    """,
    "by an update": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        losses.update({"loss_box": F.l1_loss(size, t["size"])})  # !
        return losses
    """,
    "by an update with words": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        losses.update(loss_box=F.l1_loss(size, t["size"]))  # !
        return losses
    """,
    "of heads that are run there": """
        losses = {}
        losses["loss_box"] = F.l1_loss(self.box_head(f), t["box"])
        losses["loss_box"] = F.l1_loss(self.size_head(f), t["size"])  # !
        return losses
    """,
    "of the parts of an output": """
        out = self.body(x)
        losses = {}
        losses["loss_box"] = F.l1_loss(out.box, t["box"])
        losses["loss_box"] = F.l1_loss(out.size, t["size"])  # !
        return losses
    """,
    "in a branch, both": """
        losses = {}
        if pos is not None:
            losses["loss_box"] = F.l1_loss(box, t["box"])
            losses["loss_box"] = F.l1_loss(size, t["size"])  # !
        return losses
    """,
    "a dict that is given": """
        extra["loss_box"] = F.l1_loss(box, t["box"])
        extra["loss_box"] = F.l1_loss(size, t["size"])  # !
        return extra
    """,
}

SILENT = {
    "keys of their own": """
        losses = {"loss_cls": F.cross_entropy(cls, t["cls"])}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        losses["loss_size"] = F.l1_loss(size, t["size"])
        return losses
    """,
    "a sum": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        losses["loss_box"] = losses["loss_box"] + F.l1_loss(size, t["size"])
        losses["loss_box"] += F.l1_loss(size, t["size"])
        return losses
    """,
    "a weight": """
        losses = {"loss_box": F.l1_loss(box, t["box"])}
        losses["loss_box"] = 0.5 * losses["loss_box"]
        return losses
    """,
    "branches": """
        losses = {}
        if pos is None:
            losses["loss_box"] = F.l1_loss(box, t["box"])
        else:
            losses["loss_box"] = F.l1_loss(size, t["size"])
        return losses
    """,
    "another loss where that is asked for": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        if pos is not None:
            losses["loss_box"] = F.l1_loss(size, t["size"])
        return losses
    """,
    "a number to begin with": """
        losses = {"loss_box": 0.0, "loss_cls": cls.sum() * 0}
        losses["loss_box"] = torch.zeros(())
        losses["loss_box"] = F.l1_loss(size, t["size"])
        losses["loss_cls"] = F.cross_entropy(cls, t["cls"])
        return losses
    """,
    "something reads it": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        total = losses["loss_box"]
        losses["loss_box"] = F.l1_loss(size, t["size"])
        return total + losses["loss_box"]
    """,
    "something is handed it": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        self.add(losses)
        losses["loss_box"] = F.l1_loss(size, t["size"])
        return losses
    """,
    "it is added up": """
        total = 0
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        total += sum(losses.values())
        losses["loss_box"] = F.l1_loss(size, t["size"])
        return total + sum(losses.values())
    """,
    "in a loop": """
        total, losses = 0, {}
        for part in (box, size):
            losses["loss_box"] = F.l1_loss(part, t["box"])
            total = total + losses["loss_box"]
        return total
    """,
    "another loss of the same": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        losses["loss_box"] = F.smooth_l1_loss(box, t["norm"], beta=0.1)
        return losses
    """,
    "keys that vary": """
        losses = {}
        for i in range(2):
            losses[f"loss_{i}"] = F.l1_loss(box, t["box"])
            losses[f"loss_{i}"] = F.l1_loss(size, t["size"])
        return losses
    """,
    "a new dict": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        kept = losses
        losses = {}
        losses["loss_box"] = F.l1_loss(size, t["size"])
        return kept, losses
    """,
    "what has the dict too": """
        losses = self.terms
        losses["loss_box"] = F.l1_loss(box, t["box"])
        self.flush()
        losses["loss_box"] = F.l1_loss(size, t["size"])
        return losses
    """,
    "a closure": """
        losses = {}
        def flush():
            return losses["loss_box"]
        losses["loss_box"] = F.l1_loss(box, t["box"])
        total = flush()
        losses["loss_box"] = F.l1_loss(size, t["size"])
        return total + losses["loss_box"]
    """,
    "numbers to print": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"]).item()
        losses["loss_box"] = F.l1_loss(size, t["size"]).item()
        return losses
    """,
    "under no_grad": """
        losses = {}
        with torch.no_grad():
            losses["loss_box"] = F.l1_loss(box, t["box"])
            losses["loss_box"] = F.l1_loss(size, t["size"])
        return losses
    """,
    "a copy of it": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        both = [dict(losses)]
        losses["loss_box"] = F.l1_loss(size, t["size"])
        return both + [losses]
    """,
    "no losses": """
        out = {}
        out["box"] = torch.cat([box, size])
        out["box"] = size.relu()
        return out
    """,
    "a yield": """
        losses = {}
        losses["loss_box"] = F.l1_loss(box, t["box"])
        yield losses
        losses["loss_box"] = F.l1_loss(size, t["size"])
        yield losses
    """,
}

EVALUATION = """
    @torch.no_grad()
    def evaluate(model, x, t):
        losses = {}
        losses["loss_box"] = F.l1_loss(model(x), t["box"])
        losses["loss_box"] = F.l1_loss(model(t), t["size"])
        return losses

    def measure(model, x, t):
        losses = {}
        losses["loss_box"] = F.l1_loss(model(x), t["box"])
        losses["loss_box"] = F.l1_loss(model(t), t["size"])
        return losses

    def report(model, x, t):
        with torch.no_grad():
            return measure(model, x, t)
"""


def _in_method(snippet: str) -> str:
    return DETECTOR + "".join(f"    {line}\n" for line in snippet.splitlines())


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_a_term_that_nothing_has_read(snippet: str) -> None:
    assert_flagged(_in_method(snippet), CODE)


@pytest.mark.parametrize("snippet", SILENT.values(), ids=SILENT)
def test_what_is_read_or_begins_with_a_number_or_is_another_loss_of_the_same(snippet: str) -> None:
    assert_clean(_in_method(snippet), CODE)


def test_what_is_measured_alone_is_not_flagged() -> None:
    assert_clean(EVALUATION, CODE)
