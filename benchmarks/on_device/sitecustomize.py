"""Puts the tensors of a program that names no device on ``$DEVICE``, when this folder is on the path of its Python.

A program that is written for a CPU runs so on a GPU as it is: what makes a tensor without naming a device makes it
there (``torch.set_default_device``), and so does a generator of random numbers.
"""

import os

import torch

DEVICE = os.environ["DEVICE"]


class Generator(torch.Generator):
    """Of the device where tensors are made: those of another cannot be used there."""

    def __new__(cls, device: str = DEVICE) -> "Generator":
        return super().__new__(cls, device)


torch.Generator = Generator  # type: ignore[misc]
torch.set_default_device(DEVICE)
