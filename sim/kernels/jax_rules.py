"""What a curator other than Ratchet does in the JAX kernel: its functions, traced for one skill, mapped over the slots of a shelf.

A rule without ``after_trial`` has its trials counted all at once, as Ratchet has; with it, tasks are a scan, one after another.
What is worked out for empty slots means nothing, and is masked by who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from sim import rng
from sim.curators import Rule, Skill, Trial

if TYPE_CHECKING:
    from sim.kernels.jax_round import Shelf

I32, I64, U32 = jnp.int32, jnp.int64, jnp.uint32
BORN_AT = 10  # as in sim.kernels.jax_round
LOW16 = np.uint32(0xFFFF)


class CellTable:
    """The table of one cell's curator among all tables: looked up from where it begins. An index beyond the last is the last."""

    def __init__(self, tables: Any, cell: Any) -> None:
        self.values, self.start = tables.retire, cell.retire_at

    def __getitem__(self, index: Any) -> jax.Array:
        return self.values.at[jnp.asarray(self.start + index, I32)].get(mode="clip", wrap_negative_indices=False)


def number(value: Any) -> Any:
    """Return a result of a rule's function as int64: it may be a plain number, or a truth."""
    return jnp.asarray(value).astype(I64)


def skill_at(rule: Rule, n: Any, net: Any, born: Any, came: Any, last: Any, own: Any, t: jax.Array) -> Skill:
    """Return what the rule may look at, of one skill."""
    age, idle = (number(t - came), number(t - last)) if rule.clock else (number(0), number(0))
    return Skill(number(n), number(net), age, idle, number(born), tuple(own))


def every(rule: Rule, function: Any, shelf: Shelf, t: jax.Array) -> Any:
    """Return a function of one skill for all slots."""
    born = (shelf.skill >> BORN_AT) & LOW16
    none = jnp.zeros_like(shelf.n)
    came, last = (shelf.came, shelf.last) if rule.clock else (none, none)
    return jax.vmap(lambda n, net, b, c, u, own: function(skill_at(rule, n, net, b, c, u, own, t)))(
        shelf.n, shelf.net, born, came, last, shelf.evidence
    )


def begin(rule: Rule, cell: Any, shelf: Shelf, tables: Any) -> Shelf:
    """Give a shelf the evidence of skills that were written before the first round."""
    before = jnp.full(len(shelf.n), -1, I32) if rule.clock else None
    own = tuple(jnp.full(len(shelf.n), number(value), I64) for value in rule.first(CellTable(tables, cell)))
    return shelf._replace(evidence=own, came=before, last=before)


def credit(rule: Rule, cell: Any, t: jax.Array, shelf: Shelf, slot: jax.Array, trial: jax.Array, counts: jax.Array, tables: Any) -> Shelf:
    """Add a round's trials to the evidence. ``slot`` and ``trial`` are those of each task, ``counts`` the same by slot."""
    trials = (counts & LOW16).astype(I32)
    last = jnp.where(trials != 0, t, shelf.last) if rule.clock else None
    if rule.after_trial is None:
        return shelf._replace(n=shelf.n + trials, net=shelf.net + 2 * (counts >> 16).astype(I32) - trials, last=last)
    after_trial, table = rule.after_trial, CellTable(tables, cell)
    full, spare, none = number(shelf.size == cell.cap), jnp.zeros(1, I32), I64(0)

    def step(carry: Any, task: Any) -> tuple[Any, None]:
        n, net, own = carry
        j, observed = task[0].astype(I32), number(task[1] >> 16)
        n, net = n.at[j].add(1), net.at[j].add((2 * observed - 1).astype(I32))
        came = shelf.came.at[j].get(mode="clip") if rule.clock else none
        born = ((shelf.skill >> BORN_AT) & LOW16).at[j].get(mode="clip")
        skill = skill_at(rule, n[j], net[j], born, came, t, (values[j] for values in own), t)
        new = after_trial(skill, Trial(observed, number(t), full, none, none, none, none), table)
        return (n, net, tuple(values.at[j].set(number(value)) for values, value in zip(own, new, strict=True))), None

    carry = (jnp.concatenate([shelf.n, spare]), jnp.concatenate([shelf.net, spare]))
    own = tuple(jnp.concatenate([values, spare.astype(I64)]) for values in shelf.evidence)
    (n, net, own), _ = jax.lax.scan(step, (*carry, own), (slot, trial))
    return shelf._replace(n=n[:-1], net=net[:-1], evidence=tuple(values[:-1] for values in own), last=last)


def look_back(rule: Rule, cell: Any, t: jax.Array, shelf: Shelf, tables: Any) -> Shelf:
    """Let a rule look at every skill at the end of a round's trials."""
    if rule.after_round is None:
        return shelf
    after_round, table = rule.after_round, CellTable(tables, cell)
    new = every(rule, lambda skill: tuple(map(number, after_round(skill, number(t), table))), shelf, t)
    return shelf._replace(evidence=tuple(new))


def leaves(rule: Rule, cell: Any, t: jax.Array, shelf: Shelf, tables: Any) -> jax.Array:
    """Return who leaves by lever 1."""
    table = CellTable(tables, cell)
    return every(rule, lambda skill: number(rule.leaves(skill, number(t), table)), shelf, t) != 0


def word(rule: Rule, born: Any, t: jax.Array, key: Any) -> jax.Array:
    """Return the random word for a skill, 0 for a rule that draws none."""
    from sim.kernels.jax_round import threefry

    if not rule.draws:
        return I64(0)
    counter = np.uint32(rng.CURATOR << rng.INDEX_BITS) | jnp.asarray(born, U32)
    return number(threefry(key[0], key[1], counter, t.astype(U32))[0])


def strengths(rule: Rule, cell: Any, t: jax.Array, shelf: Shelf, key: Any, tables: Any) -> jax.Array:
    """Return the strength of every skill, int64."""
    if rule.strength is None:
        return jnp.zeros(len(shelf.n), I64)
    strength, table = rule.strength, CellTable(tables, cell)
    return every(rule, lambda skill: number(strength(skill, number(t), word(rule, skill.born, t, key), table)), shelf, t)


def newcomer(rule: Rule, cell: Any, t: jax.Array, born: jax.Array, key: Any, tables: Any) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Return the evidence and the strength of a skill that is just written."""
    table = CellTable(tables, cell)
    own = tuple(number(value) for value in rule.first(table))
    if rule.strength is None:
        return own, I64(0)
    skill = skill_at(rule, I64(0), I64(0), born, t, t, own, t)
    return own, number(rule.strength(skill, number(t), word(rule, born, t, key), table))


def settle(shelf: Shelf, put: jax.Array, own: tuple[jax.Array, ...], t: jax.Array) -> Shelf:
    """Give a new skill its evidence."""
    evidence = tuple(jnp.where(put, value, values) for value, values in zip(own, shelf.evidence, strict=True))
    clock = {} if shelf.came is None else {"came": jnp.where(put, t, shelf.came), "last": jnp.where(put, t, shelf.last)}
    return shelf._replace(evidence=evidence, **clock)
