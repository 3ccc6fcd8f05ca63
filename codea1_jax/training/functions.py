"""Functions that a configuration names by their file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codea1_jax.common.errors import UserError


def named_function(key: str, named: str | None) -> Callable[..., Any] | None:
    """The function FUNCTION of `FILE.py:FUNCTION`; None for None.

    The file is executed once, as a module of its own. Raises UserError, naming `key`, if the file or the function does
    not exist, and whatever the file itself raises.
    """
    if named is None:
        return None
    file, _, name = named.rpartition(":")
    path = Path(file).expanduser()
    if not path.is_file() or not name:
        raise UserError(f"{key}: {named} is not FILE.py:FUNCTION of a file that is here")
    module_name = f"codea1_jax_named:{path.resolve()}"
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise UserError(f"{key}: {path} is no Python file; its name must end with .py")
        module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[module_name]
            raise
    function = getattr(sys.modules[module_name], name, None)
    if not callable(function):
        raise UserError(f"{key}: {path} defines no function {name}")
    return function
