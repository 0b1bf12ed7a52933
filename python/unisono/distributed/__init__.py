"""torch.distributed's interface over unisono, for NumPy arrays and torch CPU tensors; torch itself is not needed.

    import unisono.distributed as dist

    dist.init_process_group()            # started by: unisono run -n 4 -- python program.py
    x = np.full(1000, float(dist.get_rank()))
    dist.all_reduce(x)                   # in place; every rank has the sum
    dist.destroy_process_group()

Names, arguments, defaults and results are torch.distributed's; docs/distributed.md lists the differences.
"""

from __future__ import annotations

from unisono.distributed._availability import (
    get_default_backend_for_device,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_ucc_available,
    is_xccl_available,
    supports_complex,
)
from unisono.distributed._barriers import monitored_barrier
from unisono.distributed._collectives import (
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from unisono.distributed._group import (
    GroupMember,
    ProcessGroup,
    get_global_rank,
    get_group_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
)
from unisono.distributed._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from unisono.distributed._p2p import P2POp, batch_isend_irecv, irecv, isend, recv, send
from unisono.distributed._stores import FileStore, HashStore, PrefixStore, QueueEmptyError, Store, TCPStore
from unisono.distributed._subgroups import new_group, new_subgroups, new_subgroups_by_enumeration, split_group
from unisono.distributed._types import Backend, ReduceOp
from unisono.distributed._work import Future, Work
from unisono.distributed._world import (
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_node_local_rank,
    init_process_group,
    is_available,
    is_initialized,
    is_torchelastic_launched,
)
from unisono.errors import Error as DistBackendError
from unisono.errors import Error as DistError
from unisono.errors import Error as DistStoreError
from unisono.errors import SystemError as DistNetworkError

reduce_op = ReduceOp

__all__ = [
    "Backend",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "Future",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "split_group",
    "supports_complex",
]
