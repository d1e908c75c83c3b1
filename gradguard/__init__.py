"""GradGuard: the memory-leak linter and runtime profiler for PyTorch training loops."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradguard.api import LeakError, LeakWarning, show_graph, snapshot, steps, watch

__version__ = "0.1.0"
__all__ = ["LeakError", "LeakWarning", "__version__", "show_graph", "snapshot", "steps", "watch"]


def __getattr__(name: str) -> Any:
    """The API is loaded when it is asked for: ``gradguard --version`` does not need it."""
    if name in __all__:
        from gradguard import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# An installed GradGuard holds its rules in gradguard/rules; a plain checkout on PYTHONPATH holds them beside the
# package, and `import gradguard.rules` has to find them there too.
_checkout = Path(__file__).resolve().parent.parent
if not (_checkout / "gradguard" / "rules").is_dir() and (_checkout / "rules" / "__init__.py").is_file():
    __path__.append(str(_checkout))
del _checkout, Path
