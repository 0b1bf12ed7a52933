"""c10d's collectives and messages over a unisono Group's."""

from __future__ import annotations

from unisono.torch.pure._exchanges import Exchanges
from unisono.torch.pure._messages import Messages
from unisono.torch.pure._movements import Movements
from unisono.torch.pure._reductions import Reductions


class Collectives(Reductions, Movements, Exchanges, Messages):
    """All of them, for PythonGroup."""
