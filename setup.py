"""Builds GradGuard as ``pyproject.toml`` says; with ``GRADGUARD_USE_MYPYC=1`` the static half is compiled to C.

The same source either way, and the same findings: compiled, ``check`` takes less time. mypy, setuptools, a C compiler
and what GradGuard needs must be there already: ``GRADGUARD_USE_MYPYC=1 pip install --no-build-isolation .``
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, setup

# Read as they are, since mypyc cannot compile them: a subclass of ``set``, a protocol that is asked at run time, and
# frozen dataclasses with slots that another process sends.
_LEFT_OUT = ("asked.py", "kinship.py", "last_run.py", "traits.py")


def _extensions() -> list[Extension]:
    if os.environ.get("GRADGUARD_USE_MYPYC") != "1":
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        raise SystemExit("GRADGUARD_USE_MYPYC=1: install mypy here first, and pass --no-build-isolation") from None

    files = [str(file) for file in sorted(Path("gradguard/static").rglob("*.py")) if file.name not in _LEFT_OUT]
    level = os.environ.get("MYPYC_OPT_LEVEL", "2")  # 0 compiles in a fraction of the time, for tests
    return mypycify(["--strict", *files], group_name="gradguard", opt_level=level, multi_file=True)


setup(ext_modules=_extensions())
