"""The one door to numba: a typed decorator, so that kernels stay plain functions to everyone else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

# Compiled code is cached beside the module, so only the first process on a machine pays for compilation.
kernel = cast(Callable[[Function], Function], numba.njit(cache=True))

# For kernels that yield: numba fails on generators that it finds in its cache. Kernels that use them are cached.
generator = cast(Callable[[Function], Function], numba.njit)
