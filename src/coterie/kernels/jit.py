"""The one door to numba: a typed decorator, so that kernels stay plain functions to everyone else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import caching, config

Function = TypeVar("Function", bound=Callable[..., object])
Cache: Any = caching.FunctionCache  # numba's own types are partial
Settings: Any = config


class KernelCache(Cache):  # type: ignore[misc]
    """Compiled code beside the module, so that only the first process on a machine pays for compilation.

    What another version of the package left there may name classes that are gone. numba raises then; here it is a miss.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (AttributeError, ImportError):
            self.flush()
            return None


def kernel(function: Function) -> Function:
    compiled = numba.njit(function)
    if not Settings.DISABLE_JIT:
        compiled._cache = KernelCache(function)
    return cast(Function, compiled)


# For kernels that yield: numba fails on generators that it finds in its cache. Kernels that use them are cached.
generator = cast(Callable[[Function], Function], numba.njit)

# Put into its callers before they are compiled: for a step of a loop that a call would slow down (a function among its
# arguments too).
inlined = cast(Callable[[Function], Function], numba.njit(inline="always"))
