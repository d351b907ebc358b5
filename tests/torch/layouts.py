"""How an input of a case lies: its values, of those drawn; the leaf whose view ours is; that leaf's gradient; the view, of our tensors."""
import collections
import math

import torch.nn.functional as F

import ct

Layout = collections.namedtuple("Layout", "values leaf gradient view")
same = lambda x: x
pad = lambda x: F.pad(x, (2, 1), value=math.nan if x.dtype.is_floating_point else True)
LAYOUTS = dict(
    dense=Layout(same, same, same, lambda x, shape: x),
    turned=Layout(same, lambda x: x.mT, lambda g: g.mT, lambda x, shape: ct.lib.ct_transpose(x, -1, -2)),
    moved=Layout(same, lambda x: x.transpose(0, 1), lambda g: g.transpose(0, 1), lambda x, shape: ct.lib.ct_transpose(x, 0, 1)),
    narrowed=Layout(same, pad, lambda g: F.pad(g, (2, 1)), lambda x, shape: ct.lib.ct_narrow(x, -1, 2, shape[-1])),
    expanded=Layout(lambda x: x[:1].expand(x.shape), lambda x: x[:1], lambda g: g.sum(0, keepdim=True),
                    lambda x, shape: ct.lib.ct_expand(x, ct.shape(shape))),
)


def layout(case, name):
    return LAYOUTS[case.get("layout_" + name, "dense")]
