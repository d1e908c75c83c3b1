"""Modules that are known by what they are derived from in other packages (GG301 needs to know them)."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG301"

DERIVED = """
        from diffusers import UNet2DModel
        import diffusers.models
        import transformers

        class Denoiser({}):
            def widen(self):
                self.wide = nn.Linear(64, 64)

            def save(self, path):
                torch.save(self.state_dict(), path)

        def evaluate(loader, optimize):
            denoiser = Denoiser(64)
            optimize(denoiser)
            denoiser.eval()
            total = 0.0
            for x, noise in loader:
                total += F.mse_loss(denoiser(x).sample, noise).item(){}
            return total
"""


@pytest.mark.parametrize(
    "base",
    [
        "UNet2DModel",
        "diffusers.models.UNet2DConditionModel",
        "diffusers.ModelMixin",
        "transformers.BertModel",
        "transformers.BertForMaskedLM",
        "transformers.T5ForConditionalGeneration",
    ],
)
def test_a_model_of_a_library(base: str) -> None:
    assert_flagged(DERIVED.format(base, "  # !"), CODE)


@pytest.mark.parametrize(
    "base", ["transformers.TFBertModel", "transformers.TrainerCallback", "diffusers.DDPMScheduler", "dict"]
)
def test_what_is_no_model_of_torch(base: str) -> None:
    assert_clean(DERIVED.format(base, ""), CODE)
