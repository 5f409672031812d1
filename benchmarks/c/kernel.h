/* Types and helpers of the C kernel: a hand-written version of MODEL.md, the anchor that the numba kernel's speed is compared with. */
#ifndef HALFBLIND_KERNEL_H
#define HALFBLIND_KERNEL_H
#include <stdint.h>
#include <string.h>

typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;

#define ALIGNED __attribute__((aligned(64)))
#define INLINE static inline __attribute__((always_inline))
#define LANES 16
#define WHOLE(n) (((n) + LANES - 1) / LANES * LANES) /* rounded up to whole vectors */

/* sim/tables.py: bits, rows and limits */
enum { EFFECT_BITS = 6, DIFFICULTY_BITS = 8, RATE_BITS = 12, EVAL_BITS = 20, POOL_ONE = 256 };
enum { EFFECT_BINS = 1 << EFFECT_BITS, OFF_TOPIC = 2 * EFFECT_BINS, NO_SKILL, ROWS, TOPICS = 64, CAP = 128, TASKS = 4096 };
/* sim/rng.py: purposes */
enum { TRAIN_DRAW, EVAL_DRAW, RATE_DRAW, ROUTE, OUTCOME, EVAL_ROUTE, EVAL_OUTCOME, COVER, SYNTH, START };
/* sim/variables.py: what a run records, in this order */
enum {
  TAIL_EVAL, FIRST_EVAL, PEAK_EVAL, FLOOR_EVAL, LIFT, ROLLING_GAIN, TAIL_SAMPLED, FIRST_SAMPLED, PEAK_SAMPLED, SYNTHESISED, RETIRED,
  EVICTED, DEPRECATED, ROLLBACKS, RESTORED, DROPPED, FLIPS, OBSERVED_FAILURES, HIDDEN_FAILURES, PHANTOM_FAILURES, ROUTED,
  ACTIVE_FINAL, HARMFUL_FINAL, WRONGLY_RETIRED, RETIRE_TRIALS, RETIRE_TRIALS_X_RETIRED, METRICS
};
enum { S_EVAL, S_ACTIVE, S_RETIRED, S_EVICTED, S_SYNTHESISED, S_OBSERVED_FAILURES, SERIES };
enum { METRIC_SUMS = 6, SERIES_SUMS = 3, HISTOGRAM_BINS = 64, WIDE_METRICS = 32, WIDE_SERIES = 8 };

typedef struct { /* CELL_DTYPE */
  i32 n_train, n_eval, topics, per_round, cap, rounds, window, min_pool, start;
  u32 recall, cover_guard, flip_fail, flip_pass;
  i32 mislabel, memory, phantom_cost;
  i64 recall_weight;
  i32 spread_by_task, spread_by_topic, sampled, rollback, fall, patience;
  i32 task_table, pass_table, eval_table, route_table, rate_table, retire_at;
  i32 favour_table, mislabel_by_weight; /* not played here: 0 */
} Cell;

typedef struct { /* sim.tables.Tables, with the lengths of its axes */
  i64 cells, task_kinds, topics, route_kinds, route_width;
  const Cell *cell;
  const u32 *topic_cdf, *pass_threshold;
  const i32 *effect_sign;
  const u32 *route_any;
  const i64 *off_weight;
  const u32 *flip_rate;
  const i32 *retire;
} Tables;

typedef struct { /* skills by topic, then birth; a skill is one word: birth << 16 | topic << 8 | row */
  ALIGNED u32 skill[CAP + 2 * LANES];
  ALIGNED i32 n[CAP + 2 * LANES];
  ALIGNED i32 net[CAP + 2 * LANES];
  ALIGNED u32 by_topic[TOPICS]; /* count << 16 | first */
  i32 size;
} Shelf;

typedef struct { /* a cell within a run */
  Shelf shelf;
  ALIGNED u32 any[TOPICS]; /* threshold below which a task of the topic gets some skill */
  ALIGNED u32 pool[TOPICS], phantom[TOPICS];
  ALIGNED i64 on_sum[TOPICS], on_gain[TOPICS];
  ALIGNED i64 record[WIDE_METRICS];
  ALIGNED i64 now[WIDE_SERIES];
  ALIGNED uint8_t row[CAP]; /* low bytes of skill[] */
  i32 births, best, flags, changed;
  i64 eval;
  u32 *flip_fail, *flip_pass; /* error rates by train task */
} Life;

typedef struct { /* tasks of a run, by task table */
  ALIGNED i32 train_topic[TASKS], eval_topic[TASKS], sorted_bin[TASKS];
  i32 topic_end[TOPICS + 1];
  i32 topics, n_eval;
} Tasks;

typedef struct { /* by eval table */
  ALIGNED i64 none_sum[TOPICS], off_gain[TOPICS];
  i64 none_total;
  i32 cell;
} Evals;

typedef struct { /* by route table: back to front, so that the entry for m on-topic skills of size is at width - 1 - size + m */
  ALIGNED u32 any[2][CAP + 1 + LANES], off[2][CAP + 1 + LANES];
} Routes;

typedef struct { /* the random words of a round, first and second of each call; where each purpose begins */
  u32 *counter, *first, *second;
  i32 length, unsampled; /* of all; of those a round without sampled eval needs */
  i32 route, outcome, cover, synth, eval_route, eval_outcome;
} Words;

INLINE u32 skill_topic(u32 skill) { return skill >> 8 & 0xFF; }
INLINE u32 skill_row(u32 skill) { return skill & 0xFF; }
#endif
