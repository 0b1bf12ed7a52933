"""Which tests the back end in Python does not pass, and why: with UNISONO_TORCH_BACKEND=python they say SKIPPED.

docs/migration.md has the same list for users. Files with such tests name this module in `pytest_plugins`.
"""

from __future__ import annotations

import pytest
from chosen import in_python

ALLOCATOR = "torch takes an allocator from C++ alone: shared_allocator() gives ordinary memory"
ADOPTION = "which ordinary tensors come to be shared is decided by unisono's core, that knows less of torch's memory"
RECORD = "the flight record is kept in C++"
FUTURE = "torch's hooks in C++ take a future that C++ has made"

COMPILED_ALONE = {
    "test_allocator.py::test_what_lies_in_shared_memory": ALLOCATOR,
    "test_allocator.py::test_collectives_copy_nothing_when_all_ranks_take_part[all": ALLOCATOR,
    "test_allocator.py::test_tensors_outlive_their_group": ALLOCATOR,
    "test_allocator.py::test_a_forked_child_takes_nothing": ALLOCATOR,
    "test_allocator.py::test_wrong_use_is_refused": ALLOCATOR,
    "test_allocator.py::test_ddp_buckets_are_shared": ALLOCATOR,
    "test_allocator.py::test_fsdp2_buffers": ALLOCATOR,
    "test_adoption.py::test_what_others_reach_is_shared": ADOPTION,
    "test_adoption.py::test_operations_under_way_lose_nothing": ADOPTION,
    "test_adoption.py::test_what_stays_private": ADOPTION,
    "test_adoption.py::test_it_ends_with_the_tensor": ADOPTION,
    "test_adoption.py::test_who_forked_before_is_not_punished": ADOPTION,
    "test_flight_record.py": RECORD,
    "test_ddp.py::test_torchs_own_hooks[2-ranks-builtin_fp16_compress": FUTURE,
    "test_ddp.py::test_torchs_own_hooks[4-ranks-builtin_fp16_compress": FUTURE,
}
"""The beginning of a test's name, behind its folder's, and the reason."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not in_python():
        return
    for item in items:
        name = item.nodeid.rpartition("/")[2]
        for beginning, reason in COMPILED_ALONE.items():
            if name.startswith(beginning):
                item.add_marker(pytest.mark.skip(reason=f"SKIPPED: the back end in Python: {reason}"))
