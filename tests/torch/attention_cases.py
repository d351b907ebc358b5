"""Attention's options, every two values of which meet in a case: of the module, MHA; of the op, ATTENTION; and SMALL, those of the module
whose cases golden files can hold."""
from covering import cover

SIZES = (1, 2, 3, 7, 16, 33, 64, 65, 128)


def sizes(key, values=SIZES):
    return [{key: value} for value in values]


def flags(*keys):
    return [[{key: 0}, {key: 1}] for key in keys]


def masks(*shapes):
    return [dict(mask=mask, mask_float=real, hides=hides) for mask in shapes for real in (0, 1) for hides in (0, 1)]


def layouts(*names, kinds=("dense", "moved", "narrowed", "expanded")):
    return [[{f"layout_{name}": kind} for kind in kinds] for name in names]


OWN, KEYS = dict(cross=0), dict(cross=1, same_kv=1)   # keys are the queries, of which S is 0 below; or another sequence's
NO_MASK = [dict(mask="")]
WIDTHS = [{}, dict(kdim=5), dict(vdim=9), dict(kdim=3, vdim=7)]
SOURCES = [OWN, KEYS, KEYS | dict(kdim=6, vdim=6)] + [dict(cross=1) | widths for widths in WIDTHS]
WEIGHTS = [{}, dict(need_weights=1), dict(need_weights=1, per_head=1)]
KEY_MASKS = [dict(key_mask=0), dict(key_mask=1), dict(key_mask=1, all_masked=1)]
ROPES = [{}] + [dict(rope=1, rope_interleaved=interleaved, rope_base=base, rope_offset=offset)
                for interleaved, base, offset in ((0, 0, 0), (0, 100, 7), (1, 100, 0), (1, 0, 70))]
TURNS = [{}, dict(rope=1, rope_offset=7), dict(rope=1, rope_dims=2, positions="bt"), dict(rope=1, rope_table=1, positions="t"),
         dict(rope=1, rope_base=100, rope_interleaved=1, rope_dims=4, rope_factor=1.5, positions="bt"),
         dict(rope=1, rope_interleaved=1, rope_dims=6, rope_table=1, rope_factor=0.5), dict(rope=1, rope_table=1, positions="bt")]
NORMS = [{}, dict(qk_norm=1), dict(qk_norm=1, qk_norm_eps=0.01)]
DROPOUTS = [{}, dict(evaluate=1, dropout=0.5), dict(evaluate=1, out_dropout=0.5), dict(evaluate=1, dropout=0.5, out_dropout=0.5)]
WINDOWS = [{}, dict(window_left=1), dict(window_left=4), dict(window_right=3), dict(window_left=3, window_right=2)]
HEADS = [dict(num_heads=h, num_kv_heads=kv) for h, kv in ((1, 0), (2, 0), (3, 0), (4, 4), (2, 1), (4, 2), (6, 2))]


def dense(case, *names):
    return all(case.get("layout_" + name, "dense") == "dense" for name in names)


def module_fits(case):
    size = case.get("head_dim", 16)
    own, other = not case.get("cross", 1) or not case.get("S", 1), case.get("cross", 0) or case.get("S", 0)
    if own and (other or not dense(case, "k", "v")) or case.get("same_kv") and not dense(case, "v"):
        return False
    dims = case.get("rope_dims", size)
    if case.get("rope") and (dims % 2 or dims > size):
        return False
    return not (case.get("qk_norm") and size < 3)   # the norm of one value is its sign: noise


def mha(t, s, d, layout=layouts("q", "k", "v")):
    options = [sizes("B", (1, 2, 3)), HEADS, sizes("head_dim", d), sizes("T", t), sizes("S", (0, *s)), SOURCES, WEIGHTS, KEY_MASKS, ROPES,
               NORMS, DROPOUTS, NO_MASK + masks("ts", "b11s", "b1ts", "bhts", "s", "t1", "h11", "bh1s"),
               *flags("no_bias", "add_bias_kv", "add_zero_attn", "causal"), *layout]
    return [dict(kind="mha", embed_dim=case["num_heads"] * case["head_dim"]) | {k: v for k, v in case.items() if k != "head_dim"}
            for case in cover(options, module_fits)]


def wide():
    """Heads of any width, biases of q, k and v only, another scale, a softcap; windows, segments and lengths; positions of any kind."""
    options = [sizes("B", (1, 2)), HEADS, sizes("T", (1, 5, 17)), sizes("S", (0, 1, 5, 9)), sizes("embed_dim", (4, 12, 30)),
               sizes("head_dim", (1, 2, 6, 9, 16, 20)), sizes("bias", (0, 1, 2, 3)), sizes("scale", (0, 0.1, 1.5)), SOURCES, WEIGHTS[::2],
               KEY_MASKS[:2], TURNS, NORMS[:2], NO_MASK + masks("ts"), *flags("no_bias", "add_bias_kv", "causal"),
               sizes("softcap", (0, 0.7)), WINDOWS, *flags("segments", "lengths")]
    other, tokens = lambda case: case.get("cross") or case.get("S"), lambda case: case.get("segments") or case.get("lengths")
    fits = lambda case: module_fits(case) and not (other(case) and tokens(case)) and not (case.get("lengths") and case.get("add_bias_kv"))
    return [dict(kind="mha") | case for case in cover(options, fits)]


def op_fits(case):
    flat = case.get("mask", "ts") in ("", "s", "1")   # too few dims to turn
    return dense(case, *["mask"] * flat, *["key_mask"] * (not case.get("key_mask", 1)))


def op():
    options = [sizes("B", (1, 2, 3)), HEADS[1:], sizes("T"), sizes("S", (0, *SIZES)), sizes("d"), sizes("dv", (0, 1, 5, 16, 40)),
               sizes("scale", (0, 0.2, 2.0)), *flags("large", "causal", "need_weights"), KEY_MASKS,
               NO_MASK + masks("ts", "b11s", "b1ts", "bhts", "s", "hts", "t1", "h11", "bh1s", "1"),
               *layouts("q", "k", "v", kinds=("dense", "turned", "moved", "narrowed", "expanded")),
               *layouts("mask", kinds=("dense", "turned", "narrowed", "expanded")), *layouts("key_mask")]
    return [dict(kind="attention") | case | dict(num_kv_heads=case["num_kv_heads"] or case["num_heads"])
            for case in cover(options, op_fits)]


MHA, WIDE, ATTENTION = mha(SIZES, SIZES, SIZES), wide(), op()
SMALL = lambda: mha((1, 2, 3, 5), (1, 3, 4), (1, 2, 4), layout=[])
assert len(MHA) >= 200 and len(ATTENTION) >= 200, (len(MHA), len(ATTENTION))
