/* The hot stages in plain C, written so that the compiler vectorises them: no branches in loops over tasks, whole vectors of 16. */
#include "kernel.h"

#define ROTATE(y, r) ((y) << (r) | (y) >> (32 - (r)))
#define MIX(r) x += y, y = ROTATE(y, r), y ^= x;
#define FOUR(a, b, c, d) MIX(a) MIX(b) MIX(c) MIX(d)

/* Threefry-2x32-20 of sim/rng.py over a list of counters. */
static void fill(const u32 *restrict counter, u32 *restrict first, u32 *restrict second, i32 n, u32 round, u32 key0, u32 key1) {
  u32 key2 = key0 ^ key1 ^ 0x1BD11BDAu;
  for (i32 i = 0; i < WHOLE(n); i++) {
    u32 x = counter[i] + key0, y = round + key1;
    FOUR(13, 15, 26, 6) x += key1, y += key2 + 1;
    FOUR(17, 29, 16, 24) x += key2, y += key0 + 2;
    FOUR(13, 15, 26, 6) x += key0, y += key1 + 3;
    FOUR(17, 29, 16, 24) x += key1, y += key2 + 4;
    FOUR(13, 15, 26, 6)
    first[i] = x + key2, second[i] = y + key0 + 5;
  }
}

typedef struct { /* what a round leaves to be counted */
  ALIGNED u32 slot[TASKS], trial[TASKS], label[TASKS], flip[TASKS];
  ALIGNED u32 by_slot[CAP + LANES], by_label[TOPICS + LANES];
} Scratch;

#define IN const u32 *restrict
#define OUT u32 *restrict

/* Routes, solves and observes the trials of a round. A function of its own, so that the compiler believes that no two arrays overlap. */
static __attribute__((noinline)) void trials(const Cell *cell, i32 n, u32 size, const i32 *restrict train_topic, const i32 *restrict bin,
                                             IN route, IN pick, IN outcome, IN flip, IN by_topic, IN any, IN skill, IN passes,
                                             IN flip_fail, IN flip_pass, OUT out_slot, OUT out_trial, OUT out_label, OUT out_flip) {
  const u32 recall = cell->recall, mislabel = cell->mislabel, topics = cell->topics;
  for (i32 i = 0; i < WHOLE(n); i++) {
    i32 topic = train_topic[i];
    u32 packed = by_topic[topic], first = packed & 0xFFFF, count = packed >> 16, off = size - count;
    u32 on = -(u32)(route[i] < recall) & -(u32)(count != 0), hit = on | -(u32)(route[i] < any[topic]);
    u32 place = (pick[i] & 0xFFFF) * ((count & on) | (off & ~on)) >> 16;
    u32 slot = place + ((first & on) | (count & ~on & -(u32)(place >= first)));
    slot = (slot & hit) | ((CAP + (i & (LANES - 1))) & ~hit);
    u32 row = (skill[(i32)slot] & 0xFF & on) | (OFF_TOPIC & hit & ~on) | (NO_SKILL & ~hit);
    u32 passed = -(u32)(outcome[i] < passes[(i32)(row << DIFFICULTY_BITS | bin[i])]);
    u32 flipped = -(u32)(flip[i] < ((flip_pass[i] & passed) | (flip_fail[i] & ~passed)));
    u32 seen = passed ^ flipped, mistaken = -(u32)(pick[i] >> 16 < mislabel);
    u32 label = (((route[i] & 0xFFFF) * topics >> 16) & mistaken) | (topic & ~mistaken);
    out_slot[i] = slot;
    out_trial[i] = 1 + (seen & 1 << 16);
    out_label[i] = (label & ~seen) | ((TOPICS + (i & (LANES - 1))) & seen);
    out_flip[i] = 1 + (flipped & 1 << 16);
  }
}

INLINE u32 keep(u32 pool, u32 memory) { return (pool >> 16) * memory + ((pool & 0xFFFF) * memory >> 16); }

static __attribute__((noinline)) u32 credit(i32 size, OUT by_slot, OUT n, OUT net) {
  u32 routed = 0;
  for (i32 j = 0; j < WHOLE(size); j++) {
    u32 made = by_slot[j] & 0xFFFF;
    n[j] += made, net[j] += 2 * (by_slot[j] >> 16) - made, routed += made, by_slot[j] = 0;
  }
  return routed;
}

static __attribute__((noinline)) u32 pool_failures(i32 topics, u32 memory, OUT by_label, OUT pool, OUT phantom) {
  u32 both = 0; /* phantom failures << 16 | failures */
  for (i32 k = 0; k < WHOLE(topics); k++) {
    u32 failed = by_label[k] & 0xFFFF, spurious = by_label[k] >> 16;
    both += by_label[k], by_label[k] = 0;
    pool[k] = keep(pool[k], memory) + failed * POOL_ONE;
    phantom[k] = keep(phantom[k], memory) + spurious * POOL_ONE;
  }
  return both;
}

/* Steps 1 and 2 of a round: evidence of the skills, pools of failures, records. */
static void attempt(const Cell *cell, Life *life, const Tasks *tasks, const i32 *bin, const Words *words, const u32 *passes, Scratch *s) {
  const u32 *first = words->first, *second = words->second;
  trials(cell, cell->n_train, life->shelf.size, tasks->train_topic, bin, first + words->route, second + words->route, first + words->outcome,
         second + words->outcome, life->shelf.by_topic, life->any, life->shelf.skill, passes, life->flip_fail, life->flip_pass, s->slot,
         s->trial, s->label, s->flip);
  for (i32 i = 0; i < cell->n_train; i++) { /* two trials may meet in one counter */
    s->by_slot[s->slot[i]] += s->trial[i];
    s->by_label[s->label[i]] += s->flip[i];
  }
  life->record[ROUTED] += credit(life->shelf.size, s->by_slot, (u32 *)life->shelf.n, (u32 *)life->shelf.net);
  u32 both = pool_failures(cell->topics, cell->memory, s->by_label, life->pool, life->phantom), hidden = 0;
  for (i32 k = TOPICS; k < TOPICS + LANES; k++) hidden += s->by_label[k] >> 16, s->by_label[k] = 0;
  life->now[S_OBSERVED_FAILURES] = both & 0xFFFF;
  life->record[HIDDEN_FAILURES] += hidden, life->record[PHANTOM_FAILURES] += both >> 16;
}

/* Whether lever 1 removes a skill: usually not, and then no loop has to look at each. */
INLINE u32 any_retires(const Shelf *shelf, const i32 *restrict table) {
  u32 found = 0;
  for (i32 j = 0; j < shelf->size; j++) found |= shelf->net[j] <= table[shelf->n[j]];
  return found;
}

/* Lever 2: the smallest net / n, then the oldest. Quotients of whole numbers below 2^26 are equal, or ordered, as doubles too. */
INLINE i32 weakest(const Shelf *shelf) {
  double chat[CAP + LANES], least = 2.0;
  u32 oldest = ~0u;
  for (i32 j = 0; j < WHOLE(shelf->size); j++) chat[j] = (double)shelf->net[j] / (double)(shelf->n[j] > 1 ? shelf->n[j] : 1);
  for (i32 j = 0; j < shelf->size; j++) least = chat[j] < least ? chat[j] : least;
  i32 worst = 0;
  for (i32 j = 0; j < shelf->size; j++)
    if (chat[j] == least && shelf->skill[j] < oldest) oldest = shelf->skill[j], worst = j;
  return worst;
}

/* The pools that may become a skill. */
INLINE void clusters(const Cell *cell, const Life *life, const Words *words, u32 *restrict cluster) {
  const u32 *even = words->first + words->cover, *odd = words->second + words->cover;
  for (i32 k = 0; k < WHOLE(cell->topics); k += 2) {
    u32 free0 = -(u32)(life->shelf.by_topic[k] < 1 << 16) | -(u32)(even[k / 2] >= cell->cover_guard);
    u32 free1 = -(u32)(life->shelf.by_topic[k + 1] < 1 << 16) | -(u32)(odd[k / 2] >= cell->cover_guard);
    cluster[k] = life->pool[k] & free0, cluster[k + 1] = life->pool[k + 1] & free1;
  }
}

INLINE u32 largest(const u32 *restrict cluster, i32 topics, i32 *topic) {
  u32 best = 0;
  for (i32 k = 0; k < WHOLE(topics); k++) best = cluster[k] > best ? cluster[k] : best;
  i32 at = 0;
  while (cluster[at] != best) at++;
  *topic = at;
  return best;
}

INLINE void shift_down(u32 *a, i32 slot, i32 last) { memmove(a + slot, a + slot + 1, (last - slot) * sizeof *a); }
INLINE void shift_up(u32 *a, i32 slot, i32 size) { memmove(a + slot + 1, a + slot, (size - slot) * sizeof *a); }

/* What the trials and the expected eval need to know of a shelf that changed. */
static void refresh(const Cell *cell, Life *life, const Evals *evals, const Routes *routes, i32 route_width) {
  const u32 *restrict by_topic = life->shelf.by_topic, *restrict any = routes->any[0], *restrict off = routes->off[0];
  i32 base = route_width - 1 - life->shelf.size, second = CAP + 1 + LANES;
  i64 total = evals->none_total << EVAL_BITS;
  for (i32 k = 0; k < WHOLE(cell->topics); k++) {
    i32 count = by_topic[k] >> 16, at = base + count + (count ? second : 0);
    life->any[k] = any[at];
    total += life->on_gain[k] + (i64)off[at] * evals->off_gain[k];
  }
  life->eval = (total >> EVAL_BITS) / cell->n_eval;
}

INLINE void add_series(const i64 *restrict now, i64 *restrict sums) {
  for (i32 s = 0; s < WIDE_SERIES; s++) {
    i64 square = now[s] * now[s];
    sums[s] += now[s], sums[WIDE_SERIES + s] += square >> 32, sums[2 * WIDE_SERIES + s] += square & 0xFFFFFFFF;
  }
}
