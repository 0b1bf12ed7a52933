"""How torch makes a group of this back end."""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from typing import Any

from unisono.torch import _load, _memory


@cache
def worlds() -> Any:
    """What the groups of this process share; left when the interpreter ends."""
    made = _load.backend().Worlds()
    atexit.register(_leave, made, os.getpid())
    os.register_at_fork(after_in_parent=made.forked)
    return made


def create_backend(details: Any, options: Any) -> Any:
    """Join a group. details: torch's _DistributedBackendOptions; options: what the user gave as pg_options, or None."""
    module = _load.backend()
    if options is not None and not isinstance(options, module.Options):
        raise TypeError(
            f'pg_options is a {type(options).__name__}; the back end "unisono" takes unisono.torch.Options, or none'
        )
    chosen = module.Options(details.timeout)
    chosen.global_ranks_in_group = details.global_ranks_in_group
    chosen.group_name = details.group_id if details.global_ranks_in_group else "world"
    _memory.let_ddp_ask()
    return module.Backend(worlds(), details.store, details.group_rank, details.group_size, chosen)


def _leave(made: Any, owner: int) -> None:
    """When a program ends without destroy_process_group(): the others get what is on its way, or hear why it ended."""
    if os.getpid() != owner:  # a forked child leaves its parent's groups, and record, alone
        return
    from unisono.torch._record import dump_where_asked

    dump_where_asked()
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    made.leave(None if error is None else f"its program ended with {type(error).__name__}: {error}")
