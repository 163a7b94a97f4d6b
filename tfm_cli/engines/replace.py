"""Linear maps of a loaded family exchanged for others that compute the same in another way."""

from collections.abc import Callable

from torch import Tensor, nn

from tfm_cli.transformer.family import Family

Maker = Callable[[Tensor, Tensor | None], nn.Module]


def replace_linear(family: Family, make: Maker) -> None:
    """Put ``make(weight, bias)`` in the place of every linear map, that to the vocabulary among them."""
    network = family.network
    for module in list(family.modules()):
        for name, part in list(module.named_children()):
            if isinstance(part, nn.Linear) and part is not network.output:
                setattr(module, name, make(part.weight, part.bias))
    network.projection = make(network.output_weight, None)
