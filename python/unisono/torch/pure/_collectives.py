"""c10d's collectives over a unisono Group's."""

from __future__ import annotations

from unisono.torch.pure._exchanges import Exchanges
from unisono.torch.pure._movements import Movements
from unisono.torch.pure._reductions import Reductions


class Collectives(Reductions, Movements, Exchanges):
    """All of them, for PythonGroup."""
