"""Functions that a decorator hands to somebody who calls them: told from text alone."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1_000)
def registered(name: str) -> re.Pattern[str]:
    """A function below a decorator that may register it, and does not only change how it is called."""
    return re.compile(
        r"^[ \t]*@(?!(?:\w+\.)*(?:property|cached_property|setter|getter|staticmethod|classmethod|abstractmethod|"
        r"overload|override|wraps|lru_cache|cache|contextmanager|no_grad|enable_grad|inference_mode|jit|compile|script|"
        r"export|unused|ignore|njit|autocast|custom_fwd|custom_bwd|final|singledispatch|typechecked|jaxtyped|profile)\b)"
        rf"[A-Za-z_][^\n]*\n(?:[ \t]*@[^\n]*\n)*[ \t]*(?:async[ \t]+)?def[ \t]+{re.escape(name)}\(",
        re.M,
    )
