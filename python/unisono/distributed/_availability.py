"""What programs ask before they choose a back end: here there is one, for arrays in main memory."""

from __future__ import annotations

from typing import Any

from unisono.distributed._types import Backend, ReduceOp


def is_backend_available(backend: str) -> bool:
    """Whether a program that asks for this back end finds what it needs: so it is of "unisono" and "gloo"."""
    return backend.lower() in (Backend.UNISONO, Backend.GLOO)


def is_gloo_available() -> bool:
    """Whether a program for Gloo, the back end for CPUs, can run here: it can, over unisono."""
    return True


def is_nccl_available() -> bool:
    """Whether arrays in the memory of NVIDIA GPUs can be used: no."""
    return False


def is_mpi_available() -> bool:
    """Whether MPI is below: no."""
    return False


def is_ucc_available() -> bool:
    """Whether UCC is below: no."""
    return False


def is_xccl_available() -> bool:
    """Whether arrays in the memory of Intel GPUs can be used: no."""
    return False


def get_default_backend_for_device(device: Any) -> str:
    """The back end for a device: "unisono". Raises ValueError for any but the CPU."""
    kind = str(getattr(device, "type", device)).split(":")[0]
    if kind != "cpu":
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.UNISONO


def supports_complex(reduceOp: Any) -> bool:  # noqa: N803 - torch's name
    """Whether complex numbers can be combined so: SUM, AVG and PRODUCT."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT)
