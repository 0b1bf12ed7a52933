"""The back end in Python, for machines without a C++ compiler: what `unisono.torch._backend` offers, as far as it can.

Collectives move their data in unisono's C++ library, as ever. What is slower is the way there, which is Python's, and
each asynchronous call whose future is asked for costs a thread. What needs torch's C++ interfaces is
refused with a sentence: the flight record, and `init_process_group("cpu:unisono,cuda:nccl")`, in which torch takes a
group in Python for all devices.
"""

from __future__ import annotations

import torch

from unisono.torch.pure._group import PythonGroup as Backend
from unisono.torch.pure._group import PythonOptions as Options
from unisono.torch.pure._memory import AllocationScope, is_shared
from unisono.torch.pure._worlds import Worlds

__all__ = ["TORCH_VERSION", "AllocationScope", "Backend", "Options", "Worlds", "is_shared"]

TORCH_VERSION = str(torch.__version__).split("+")[0]
