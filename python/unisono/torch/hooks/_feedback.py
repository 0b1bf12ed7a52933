"""Error feedback: what compression left out of a gradient is added to the next one."""

import torch


class Residuals:
    """What was not sent yet, by parameter: a bucket's index holds other parameters after the first step."""

    def __init__(self) -> None:
        self._by_parameter: dict[torch.Tensor, torch.Tensor] = {}

    def add_to(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """Add what is left of earlier steps, in place."""
        residual = self._by_parameter.get(parameter)
        if residual is not None:
            gradient += residual

    def keep(self, parameter: torch.Tensor, residual: torch.Tensor) -> None:
        """Keep what is left now; the tensor must not change afterwards."""
        self._by_parameter[parameter] = residual

    def of(self, parameter: torch.Tensor) -> torch.Tensor:
        """What is left of a parameter's gradients: zeros when nothing is."""
        residual = self._by_parameter.get(parameter)
        return torch.zeros_like(parameter, requires_grad=False) if residual is None else residual

    def state_dict(self, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        """Copies by the parameters' names, for this rank's checkpoint: each rank has its own."""
        return {
            name: self._by_parameter[parameter].clone()
            for name, parameter in model.named_parameters()
            if parameter in self._by_parameter
        }

    def load_state_dict(self, model: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
        """Take over what state_dict returned, on the same rank. Raises KeyError for a name the model does not have."""
        parameters = dict(model.named_parameters())
        unknown = sorted(state.keys() - parameters.keys())
        if unknown:
            raise KeyError(f"the model has no parameters {', '.join(unknown)}: the checkpoint is of another model")
        self._by_parameter = {parameters[name]: residual.clone() for name, residual in state.items()}
