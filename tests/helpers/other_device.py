"""A device that computes as the CPU does, and that no tensor of the CPU can be mixed with.

It stands for a GPU where there is none. Its tensors say that they are on `meta` and hold their numbers in a
tensor of the CPU. As on a GPU, an operation whose tensors are on two devices is an error, except that
tensors without dimensions and indices may be on the CPU, and that copies go from one device to the other.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

THERE = torch.device("meta")
aten = torch.ops.aten
COPIES = {aten.copy_, aten._to_copy, aten.to}
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}


class Elsewhere(torch.Tensor):
    """A tensor on the other device."""

    @staticmethod
    def __new__(cls, here):
        return torch.Tensor._make_wrapper_subclass(
            cls, here.shape, strides=here.stride(), storage_offset=here.storage_offset(),
            dtype=here.dtype, device=THERE, requires_grad=here.requires_grad,
        )  # fmt: skip

    def __init__(self, here):
        self.here = here

    def __repr__(self):
        return f"Elsewhere({self.here})"

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            # Of a list PyTorch makes an index on the device by itself, without asking the code below.
            args = (args[0], tree_map_only(list, torch.tensor, args[1], is_leaf=is_list), *args[2:])
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return computed(operation, args, kwargs or {})


class OtherDevice(TorchDispatchMode):
    """Inside this context, tensors can be made on the device and moved to it."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return computed(operation, args, kwargs or {})


def computed(operation, args, kwargs):
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    there = any(isinstance(tensor, Elsewhere) for tensor in tensors)
    if operation.overloadpacket not in COPIES:
        check_together(operation, args, tensors)
    inner = {**kwargs}
    if (device := kwargs.get("device")) is not None:
        there = torch.device(device) == THERE
        inner["device"] = "cpu"
    inner_args, inner = tree_map(brought_here, (args, inner))
    found = operation(*inner_args, **inner)
    if operation is aten.copy_.default:
        return args[0]
    if not there:
        return found
    if found is getattr(args[0] if args else None, "here", None):
        return args[0]
    usual = any(isinstance(one, Elsewhere) and not one.is_inference() for one in tensors)
    with torch.inference_mode(torch.is_inference_mode_enabled() and not usual):
        out = tree_map(lambda one: Elsewhere(one) if isinstance(one, torch.Tensor) else one, found)
    moved = operation.overloadpacket in COPIES and not isinstance(args[0], Elsewhere)
    if moved or torch.is_inference_mode_enabled():  # where autograd follows no views
        return out
    return return_and_correct_aliasing(operation, args, kwargs, out)


def brought_here(one):
    assert isinstance(one, Elsewhere) or getattr(one, "device", None) != THERE, "it has no numbers"
    return one.here if isinstance(one, Elsewhere) else one


def is_list(one):
    return isinstance(one, list)


def check_together(operation, args, tensors):
    if operation in INDEXING and isinstance(args[0], Elsewhere):
        tensors = [args[0], *(part for part in args[2:] if isinstance(part, torch.Tensor))]
    sizes = {type(one) is Elsewhere for one in tensors if one.ndim}
    if len(sizes) > 1:
        raise RuntimeError(f"Expected all tensors of {operation} to be on the same device.")
