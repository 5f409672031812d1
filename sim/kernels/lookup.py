"""What compiled Python does not say well by itself: moving a piece of an array, and looking up many entries of a small table.

A look-up is ``out[i] = table[at[i]]`` for i below n, a whole number of vectors.
What stands in ``out`` where ``at[i]`` is beyond ``entries`` may be anything; ``table`` can be read there nevertheless.

Processors read through an index one entry after another, even where everything else is done sixteen at a time, and three such
reads per trial were a third of the kernel's time. With AVX-512 a table of 32 words is two registers, and one instruction picks
sixteen of them. Elsewhere the plain loop below is used; both give the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core import config as numba_config
from numba.extending import intrinsic

from sim.kernels.jit import stage
from sim.kernels.words import LANES

TABLE = 2 * LANES  # entries looked up at once; a table has whole multiples of it, whatever it holds there
U32 = np.uint32


def has_permutes() -> bool:
    """Whether the processor that is compiled for picks 32-bit words from two 512-bit registers."""
    config: Any = numba_config
    return config.CPU_NAME is None and config.CPU_FEATURES is None and bool(binding.get_host_cpu_features().get("avx512f"))


@intrinsic
def _pick(typingctx: Any, out: Any, table: Any, at: Any, i: Any, base: Any) -> Any:
    """``out[j] = table[at[j]]`` for j from i to i + 15 whose ``at[j]`` is in base .. base + 31."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, vector = ir.IntType(32), ir.VectorType(ir.IntType(32), LANES)

        def pointer(which: int, index: Any) -> Any:
            data = context.make_array(signature.args[which])(context, builder, args[which]).data
            return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())

        def load(place: Any) -> Any:
            value = builder.load(place)
            value.align = 4
            return value

        i, base = args[3], args[4]
        low = load(pointer(1, base))
        high = load(pointer(1, builder.add(base, ir.Constant(base.type, LANES))))
        index = load(pointer(2, i))
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector, vector, vector]), "llvm.x86.avx512.vpermi2var.d.512"
        )
        found = builder.call(function, [low, index, high])
        start = builder.insert_element(ir.Constant(vector, ir.Undefined), builder.trunc(base, word), ir.Constant(word, 0))
        start = builder.shuffle_vector(start, start, ir.Constant(ir.VectorType(word, LANES), [0] * LANES))
        inside = builder.icmp_unsigned("<", builder.sub(index, start), ir.Constant(vector, [TABLE] * LANES))
        target = pointer(0, i)
        builder.store(builder.select(inside, found, load(target)), target, align=4)
        return context.get_dummy_value()

    return types.void(out, table, at, types.int64, types.int64), generate


@intrinsic
def move(typingctx: Any, values: Any, target: Any, source: Any, count: Any) -> Any:
    """``values[target:target + count] = values[source:source + count]``, as one move of memory; the two may overlap."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        size = context.get_abi_sizeof(context.get_data_type(values.dtype))
        cgutils.raw_memmove(builder, builder.gep(data, [args[1]]), builder.gep(data, [args[2]]), args[3], size)
        return context.get_dummy_value()

    return types.void(values, types.int64, types.int64, types.int64), generate


@stage
def _permuted(out, table, at, n, entries):
    for base in range(0, entries, TABLE):
        for i in range(0, n, LANES):
            _pick(out, table, at, i, base)


@stage
def _plain(out, table, at, n, entries):
    for i in range(n):
        out[i] = table[at[i]]


look_up = _permuted if has_permutes() else _plain
