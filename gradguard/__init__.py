"""GradGuard: the memory-leak linter and runtime profiler for PyTorch training loops."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"
__all__ = ["__version__"]

# An installed GradGuard holds its rules in gradguard/rules; a plain checkout on PYTHONPATH holds them beside the
# package, and `import gradguard.rules` has to find them there too.
_checkout = Path(__file__).resolve().parent.parent
if not (_checkout / "gradguard" / "rules").is_dir() and (_checkout / "rules" / "__init__.py").is_file():
    __path__.append(str(_checkout))
del _checkout, Path
