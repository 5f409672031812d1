/* The C kernel: the run of sim/reference.py for many runs and cells, to the bit. Loop order: run, round, words once, cells.
 *
 * Written by hand to have something to compare the numba kernel with: fixed sizes, packed words, no allocation in a run. The hot
 * stages are in plain.h, or with -DHAND in avx512.h; the rest is shared. compiled.py builds and calls it.
 */
#include <stdlib.h>
#ifdef HAND
#include "avx512.h"
#else
#include "plain.h"
#endif

typedef struct { /* what all steps of a call use */
  const Tables *tables;
  Tasks *tasks;
  Evals *evals;
  Routes *routes;
  Words words;
  i32 *train_bin, *eval_bin;
  Scratch *scratch;
} Call;

INLINE const u32 *pass_table(const Call *call, const Cell *cell) {
  return call->tables->pass_threshold + ((i64)cell->pass_table * ROWS << DIFFICULTY_BITS);
}
INLINE const i32 *signs(const Call *call, const Cell *cell) { return call->tables->effect_sign + (i64)cell->pass_table * ROWS; }

/* ------------------------------------------------------------ the shelf */

INLINE i64 sum_rates(const Tasks *tasks, u32 topic, const u32 *row) {
  i64 total = 0;
  for (i32 i = tasks->topic_end[topic]; i < tasks->topic_end[topic + 1]; i++) total += row[tasks->sorted_bin[i]] >> (32 - EVAL_BITS);
  return total;
}

INLINE void settle(const Call *call, const Cell *cell, Life *life, u32 topic) {
  i64 count = life->shelf.by_topic[topic] >> 16;
  i64 with = count ? (i64)((u64)(cell->recall_weight * life->on_sum[topic]) / (u64)count) : 0;
  life->on_gain[topic] = count ? with - cell->recall_weight * call->evals[cell->eval_table].none_sum[topic] : 0;
}

INLINE void change(const Call *call, const Cell *cell, Life *life, u32 topic, u32 row, i32 by) {
  for (u32 k = 0; k < (u32)WHOLE(cell->topics); k++) life->shelf.by_topic[k] += (k > topic) * by;
  life->shelf.by_topic[topic] += (u32)by << 16;
  life->shelf.size += by;
  life->on_sum[topic] += by * sum_rates(&call->tasks[cell->task_table], topic, pass_table(call, cell) + ((i64)row << DIFFICULTY_BITS));
  settle(call, cell, life, topic);
  life->changed = 1;
}

static void take(const Call *call, const Cell *cell, Life *life, i32 slot) {
  Shelf *s = &life->shelf;
  u32 gone = s->skill[slot];
  shift_down((u32 *)s->n, slot, s->size - 1), shift_down((u32 *)s->net, slot, s->size - 1), shift_down(s->skill, slot, s->size - 1);
  change(call, cell, life, skill_topic(gone), skill_row(gone), -1);
}

static void put(const Call *call, const Cell *cell, Life *life, u32 topic, u32 row) {
  Shelf *s = &life->shelf;
  i32 slot = (s->by_topic[topic] & 0xFFFF) + (s->by_topic[topic] >> 16);
  shift_up((u32 *)s->n, slot, s->size), shift_up((u32 *)s->net, slot, s->size), shift_up(s->skill, slot, s->size);
  s->n[slot] = s->net[slot] = 0;
  s->skill[slot] = (u32)life->births++ << 16 | topic << 8 | row;
  change(call, cell, life, topic, row, 1);
}

static void retire(const Call *call, const Cell *cell, Life *life) {
  Shelf *s = &life->shelf;
  const i32 *table = call->tables->retire + cell->retire_at;
  life->now[S_RETIRED] = 0;
  if (!any_retires(s, table)) return;
  for (i32 slot = 0; slot < s->size;) {
    if (s->net[slot] > table[s->n[slot]]) {
      slot++;
      continue;
    }
    life->now[S_RETIRED]++;
    life->record[RETIRE_TRIALS] += s->n[slot];
    life->record[WRONGLY_RETIRED] += signs(call, cell)[skill_row(s->skill[slot])] > 0;
    take(call, cell, life, slot);
  }
}

static void synthesise(const Call *call, const Cell *cell, Life *life) {
  ALIGNED u32 cluster[TOPICS];
  const Words *w = &call->words;
  clusters(cell, life, w, cluster);
  i32 written = 0, evicted = 0, topic;
  for (; written < cell->per_round; written++) {
    u32 failures = largest(cluster, cell->topics, &topic);
    if (failures < (u32)cell->min_pool) break;
    if (life->shelf.size == cell->cap) take(call, cell, life, weakest(&life->shelf)), evicted++;
    i64 chance = (i64)(w->first[w->synth + written] >> 16) * failures;
    u32 spurious = chance < (i64)cell->phantom_cost * life->phantom[topic];
    put(call, cell, life, topic, (w->second[w->synth + written] >> (32 - EFFECT_BITS)) + spurious * EFFECT_BINS);
    cluster[topic] = life->pool[topic] = life->phantom[topic] = 0;
  }
  life->now[S_SYNTHESISED] = written, life->now[S_EVICTED] = evicted;
}

/* ------------------------------------------------------------ sampled eval and rollback: not timed, the same in both builds */

static i32 sample_eval(const Call *call, const Cell *cell, const Life *life) {
  const Tasks *tasks = &call->tasks[cell->task_table];
  const Words *w = &call->words;
  const u32 *passes = pass_table(call, cell), *by_topic = life->shelf.by_topic;
  u32 total = 0;
  for (i32 i = 0; i < cell->n_eval; i++) {
    u32 topic = tasks->eval_topic[i], first = by_topic[topic] & 0xFFFF, count = by_topic[topic] >> 16;
    u32 word = w->first[w->eval_route + i], pick = w->second[w->eval_route + i] & 0xFFFF, row = NO_SKILL;
    if (count && word < cell->recall)
      row = skill_row(life->shelf.skill[first + (pick * count >> 16)]);
    else if (word < life->any[topic])
      row = OFF_TOPIC;
    total += w->first[w->eval_outcome + i] < passes[row << DIFFICULTY_BITS | call->eval_bin[i]];
  }
  return total;
}

static void roll_back(const Call *call, const Cell *cell, Life *life, Shelf *best, i32 sampled) {
  Shelf *here = &life->shelf;
  if (sampled > life->best) life->best = sampled, *best = *here;
  life->flags = life->best - sampled > cell->fall ? life->flags + 1 : 0;
  if (life->flags != cell->patience) return;
  i32 both = 0;
  for (i32 i = 0; i < here->size; i++)
    for (i32 j = 0; j < best->size; j++) both += here->skill[i] == best->skill[j];
  life->flags = 0;
  life->record[ROLLBACKS]++, life->record[RESTORED] += best->size - both, life->record[DROPPED] += here->size - both;
  *here = *best;
  memset(life->on_sum, 0, sizeof life->on_sum);
  for (i32 j = 0; j < here->size; j++) {
    u32 topic = skill_topic(here->skill[j]), row = skill_row(here->skill[j]);
    life->on_sum[topic] += sum_rates(&call->tasks[cell->task_table], topic, pass_table(call, cell) + ((i64)row << DIFFICULTY_BITS));
  }
  for (i32 k = 0; k < cell->topics; k++) settle(call, cell, life, k);
  life->changed = 1;
}

/* ------------------------------------------------------------ a run */

static void start(const Call *call, const Cell *cell, Life *life, const u32 *effects) {
  u32 *flip_fail = life->flip_fail, *flip_pass = life->flip_pass;
  memset(life, 0, sizeof *life);
  life->flip_fail = flip_fail, life->flip_pass = flip_pass, life->best = -1;
  refresh(cell, life, &call->evals[cell->eval_table], &call->routes[cell->route_table], call->tables->route_width);
  life->record[FLOOR_EVAL] = life->eval;
  for (i32 i = 0; i < cell->start; i++) put(call, cell, life, i % cell->topics, effects[i] >> (32 - EFFECT_BITS));
  if (cell->start) refresh(cell, life, &call->evals[cell->eval_table], &call->routes[cell->route_table], call->tables->route_width);
}

static void play_round(const Call *call, const Cell *cell, Life *life, Shelf *best, i32 t) {
  i64 *record = life->record, *now = life->now;
  const Evals *evals = &call->evals[cell->eval_table];
  const Routes *routes = &call->routes[cell->route_table];
  life->changed = 0;
  attempt(cell, life, &call->tasks[cell->task_table], call->train_bin, &call->words, pass_table(call, cell), call->scratch);
  retire(call, cell, life);
  now[S_SYNTHESISED] = now[S_EVICTED] = 0;
  if (t < cell->rounds - 1) synthesise(call, cell, life);
  if (life->changed) refresh(cell, life, evals, routes, call->tables->route_width);
  now[S_EVAL] = life->eval;
  i64 sampled = 0;
  if (cell->sampled) sampled = sample_eval(call, cell, life);
  if (cell->rollback) {
    i64 eval = life->eval;
    life->changed = 0;
    roll_back(call, cell, life, best, (i32)sampled);
    if (life->changed) refresh(cell, life, evals, routes, call->tables->route_width);
    now[S_EVAL] = eval;
  }
  now[S_ACTIVE] = life->shelf.size;
  if (now[S_EVAL] > record[PEAK_EVAL]) record[PEAK_EVAL] = now[S_EVAL];
  if (sampled > record[PEAK_SAMPLED]) record[PEAK_SAMPLED] = sampled;
  if (t < cell->window) record[FIRST_EVAL] += now[S_EVAL], record[FIRST_SAMPLED] += sampled;
  if (t >= cell->rounds - cell->window) record[TAIL_EVAL] += now[S_EVAL], record[TAIL_SAMPLED] += sampled;
  record[SYNTHESISED] += now[S_SYNTHESISED], record[RETIRED] += now[S_RETIRED], record[EVICTED] += now[S_EVICTED];
  record[OBSERVED_FAILURES] += now[S_OBSERVED_FAILURES];
}

static void finish(const Call *call, const Cell *cell, Life *life) {
  i64 *r = life->record;
  r[LIFT] = r[TAIL_EVAL] - cell->window * r[FLOOR_EVAL], r[ROLLING_GAIN] = r[TAIL_EVAL] - r[FIRST_EVAL];
  r[DEPRECATED] = r[RETIRED] + r[EVICTED], r[FLIPS] = r[HIDDEN_FAILURES] + r[PHANTOM_FAILURES];
  r[ACTIVE_FINAL] = life->shelf.size, r[RETIRE_TRIALS_X_RETIRED] = r[RETIRE_TRIALS] * r[RETIRED];
  for (i32 j = 0; j < life->shelf.size; j++) r[HARMFUL_FINAL] += signs(call, cell)[skill_row(life->shelf.skill[j])] < 0;
}

INLINE void add_record(const i64 *restrict x, const i64 *restrict base, i64 *restrict sums, i64 *histogram) {
  for (i32 m = 0; m < WIDE_METRICS; m++) {
    i64 d = x[m] - base[m], xx = x[m] * x[m], dd = d * d;
    i64 *at = sums + m;
    at[0] += x[m], at[WIDE_METRICS] += xx >> 32, at[2 * WIDE_METRICS] += xx & 0xFFFFFFFF;
    at[3 * WIDE_METRICS] += d, at[4 * WIDE_METRICS] += dd >> 32, at[5 * WIDE_METRICS] += dd & 0xFFFFFFFF;
  }
  histogram[x[RETIRED] < HISTOGRAM_BINS ? x[RETIRED] : HISTOGRAM_BINS - 1]++;
}

/* ------------------------------------------------------------ tasks */

static void draw_topics(i32 *restrict topic, const u32 *restrict word, i32 n, const u32 *cdf, i32 topics) {
  memset(topic, 0, WHOLE(n) * sizeof *topic);
  for (i32 k = 0; k < topics - 1; k++)
    for (i32 i = 0; i < WHOLE(n); i++) topic[i] += word[i] >= cdf[k];
}

static void sort_eval(Tasks *tasks, const i32 *bin) {
  i32 *end = tasks->topic_end;
  memset(end, 0, sizeof tasks->topic_end);
  for (i32 i = 0; i < tasks->n_eval; i++) end[tasks->eval_topic[i] + 1]++;
  for (i32 k = 0; k < tasks->topics; k++) end[k + 1] += end[k];
  for (i32 i = 0; i < tasks->n_eval; i++) tasks->sorted_bin[end[tasks->eval_topic[i]]++] = bin[i];
  for (i32 k = tasks->topics; k > 0; k--) end[k] = end[k - 1];
  end[0] = 0;
}

static void sum_evals(const Call *call, Evals *evals, const Cell *cell) {
  const Tasks *tasks = &call->tasks[cell->task_table];
  const u32 *none = pass_table(call, cell) + ((i64)NO_SKILL << DIFFICULTY_BITS), *off = none - (1 << DIFFICULTY_BITS);
  memset(evals->none_sum, 0, sizeof evals->none_sum), memset(evals->off_gain, 0, sizeof evals->off_gain);
  evals->none_total = 0;
  for (i32 i = 0; i < cell->n_eval; i++) {
    i32 topic = tasks->eval_topic[i], bin = call->eval_bin[i];
    i64 bare = none[bin] >> (32 - EVAL_BITS);
    evals->none_sum[topic] += bare, evals->none_total += bare;
    evals->off_gain[topic] += (i64)(off[bin] >> (32 - EVAL_BITS)) - bare;
  }
}

typedef struct { /* the longest of each, and buffers for the draws */
  i32 n_train, n_eval, units, start, rounds, kinds, eval_kinds;
  u32 *counter, *first, *second;
} Draws;

static void draw(const Draws *d, u32 purpose, i32 n, u32 key0, u32 key1) {
  for (i32 i = 0; i < WHOLE(n); i++) d->counter[i] = purpose << 24 | i;
  fill(d->counter, d->first, d->second, n, 0, key0, key1);
}

static void lay_out(const Call *call, const Draws *d, Life *lives, u32 key0, u32 key1) {
  const Tables *t = call->tables;
  draw(d, TRAIN_DRAW, d->n_train, key0, key1);
  for (i32 i = 0; i < WHOLE(d->n_train); i++) call->train_bin[i] = d->second[i] >> (32 - DIFFICULTY_BITS);
  for (i32 k = 0; k < d->kinds; k++)
    draw_topics(call->tasks[k].train_topic, d->first, d->n_train, t->topic_cdf + k * t->topics, call->tasks[k].topics);
  draw(d, EVAL_DRAW, d->n_eval, key0, key1);
  for (i32 i = 0; i < WHOLE(d->n_eval); i++) call->eval_bin[i] = d->second[i] >> (32 - DIFFICULTY_BITS);
  for (i32 k = 0; k < d->kinds; k++) {
    draw_topics(call->tasks[k].eval_topic, d->first, d->n_eval, t->topic_cdf + k * t->topics, call->tasks[k].topics);
    sort_eval(&call->tasks[k], call->eval_bin);
  }
  for (i32 e = 0; e < d->eval_kinds; e++) sum_evals(call, &call->evals[e], &t->cell[call->evals[e].cell]);
  if (d->units) draw(d, RATE_DRAW, d->units, key0, key1);
  for (i32 c = 0; c < t->cells; c++) {
    const Cell *cell = &t->cell[c];
    const u32 *rate = t->flip_rate + ((i64)cell->rate_table << (RATE_BITS + 1));
    for (i32 i = 0; i < (cell->spread_by_task || cell->spread_by_topic ? cell->n_train : 0); i++) {
      i32 unit = cell->spread_by_task ? i : call->tasks[cell->task_table].train_topic[i];
      lives[c].flip_fail[i] = rate[d->first[unit] >> (32 - RATE_BITS)];
      lives[c].flip_pass[i] = rate[(1 << RATE_BITS) + (d->second[unit] >> (32 - RATE_BITS))];
    }
  }
  if (d->start) draw(d, START, d->start, key0, key1);
}

/* ------------------------------------------------------------ one call */

static void *made(size_t bytes) { /* zeroed, whole cache lines */
  void *at = aligned_alloc(64, (bytes + 127) / 64 * 64);
  return at ? memset(at, 0, (bytes + 127) / 64 * 64) : (abort(), at);
}

INLINE i32 longer(i32 a, i32 b) { return a > b ? a : b; }

static i32 block(Words *w, u32 purpose, i32 n) { /* appends the counters of a purpose, in whole vectors */
  i32 at = w->length;
  for (i32 i = 0; i < WHOLE(n); i++) w->counter[at + i] = purpose << 24 | i;
  w->length += WHOLE(n);
  return at;
}

i64 cell_bytes(void) { return sizeof(Cell); }

/* Adds runs first_run .. first_run + runs - 1 of all cells to the sums of sim.sums, as sim.kernels.numba_kernel.run does. */
void simulate(const Tables *t, const i32 *baseline, u32 seed, u32 first_run, i64 runs, i64 *metrics, i64 *series, i64 *histogram) {
  Call call = {.tables = t};
  Draws d = {.kinds = t->task_kinds};
  i32 synth = 1, topics = 1, any_sampled = 0;
  for (i32 c = 0; c < t->cells; c++) {
    const Cell *x = &t->cell[c];
    d.n_train = longer(d.n_train, x->n_train), d.n_eval = longer(d.n_eval, x->n_eval), d.rounds = longer(d.rounds, x->rounds);
    d.units = longer(d.units, longer(x->spread_by_task * x->n_train, x->spread_by_topic * x->topics));
    d.start = longer(d.start, x->start), d.eval_kinds = longer(d.eval_kinds, x->eval_table + 1);
    synth = longer(synth, x->per_round), topics = longer(topics, x->topics), any_sampled |= x->sampled;
  }
  i32 most = WHOLE(longer(longer(d.n_train, d.n_eval), longer(d.units, d.start)));
  u32 *buffers = made(3 * most * sizeof(u32));
  d.counter = buffers, d.first = buffers + most, d.second = buffers + 2 * most;
  Words *w = &call.words;
  i32 room = 2 * WHOLE(d.n_train) + 2 * WHOLE(d.n_eval) + WHOLE((topics + 1) / 2) + WHOLE(synth) + 4 * LANES;
  u32 *words = made(3 * room * sizeof(u32));
  w->counter = words, w->first = words + room, w->second = words + 2 * room;
  w->route = block(w, ROUTE, d.n_train), w->outcome = block(w, OUTCOME, d.n_train);
  w->cover = block(w, COVER, (topics + 1) / 2), w->synth = block(w, SYNTH, synth), w->unsampled = w->length;
  w->eval_route = block(w, EVAL_ROUTE, d.n_eval), w->eval_outcome = block(w, EVAL_OUTCOME, d.n_eval);
  i32 length = any_sampled ? w->length : w->unsampled;

  call.tasks = made(t->task_kinds * sizeof(Tasks)), call.evals = made(d.eval_kinds * sizeof(Evals));
  call.routes = made(t->route_kinds * sizeof(Routes)), call.scratch = made(sizeof(Scratch));
  call.train_bin = made(WHOLE(d.n_train) * sizeof(i32)), call.eval_bin = made(WHOLE(d.n_eval) * sizeof(i32));
  Life *lives = made(t->cells * sizeof(Life));
  Shelf *best = made(t->cells * sizeof(Shelf));
  u32 *rates = made((i64)t->cells * 2 * WHOLE(d.n_train) * sizeof(u32));
  i64 *wide_series = made(t->cells * d.rounds * SERIES_SUMS * WIDE_SERIES * sizeof(i64));
  i64 *wide_metrics = made(t->cells * METRIC_SUMS * WIDE_METRICS * sizeof(i64));
  for (i32 c = t->cells - 1; c >= 0; c--) {
    const Cell *x = &t->cell[c];
    call.tasks[x->task_table].topics = x->topics, call.tasks[x->task_table].n_eval = x->n_eval, call.evals[x->eval_table].cell = c;
    lives[c].flip_fail = rates + (i64)2 * c * WHOLE(d.n_train), lives[c].flip_pass = lives[c].flip_fail + WHOLE(d.n_train);
    for (i32 i = 0; i < WHOLE(d.n_train); i++) lives[c].flip_fail[i] = x->flip_fail, lives[c].flip_pass[i] = x->flip_pass;
  }
  for (i32 r = 0; r < t->route_kinds; r++)
    for (i32 has = 0; has < 2; has++)
      for (i32 j = 0; j < t->route_width; j++) {
        i64 from = (i64)(r * 2 + has) * t->route_width + t->route_width - 1 - j;
        call.routes[r].any[has][j] = t->route_any[from], call.routes[r].off[has][j] = (u32)t->off_weight[from];
      }

  for (i64 run = 0; run < runs; run++) {
    u32 key1 = first_run + (u32)run;
    lay_out(&call, &d, lives, seed, key1);
    for (i32 c = 0; c < t->cells; c++) start(&call, &t->cell[c], &lives[c], d.second);
    for (i32 r = 0; r < d.rounds; r++) {
      fill(w->counter, w->first, w->second, length, r, seed, key1);
      for (i32 c = 0; c < t->cells; c++) {
        if (r >= t->cell[c].rounds) continue;
        play_round(&call, &t->cell[c], &lives[c], &best[c], r);
        add_series(lives[c].now, wide_series + ((i64)c * d.rounds + r) * SERIES_SUMS * WIDE_SERIES);
      }
    }
    for (i32 c = 0; c < t->cells; c++) finish(&call, &t->cell[c], &lives[c]);
    for (i32 c = 0; c < t->cells; c++)
      add_record(lives[c].record, lives[baseline[c]].record, wide_metrics + (i64)c * METRIC_SUMS * WIDE_METRICS, histogram + c * HISTOGRAM_BINS);
  }

  for (i64 c = 0; c < t->cells; c++)
    for (i32 m = 0; m < METRICS; m++)
      for (i32 s = 0; s < METRIC_SUMS; s++) metrics[(c * METRICS + m) * METRIC_SUMS + s] += wide_metrics[(c * METRIC_SUMS + s) * WIDE_METRICS + m];
  for (i64 c = 0; c < t->cells * d.rounds; c++)
    for (i32 m = 0; m < SERIES; m++)
      for (i32 s = 0; s < SERIES_SUMS; s++) series[(c * SERIES + m) * SERIES_SUMS + s] += wide_series[(c * SERIES_SUMS + s) * WIDE_SERIES + m];
  void *all[] = {buffers, words, call.tasks, call.evals, call.routes, call.scratch, call.train_bin, call.eval_bin, lives, best, rates, wide_series, wide_metrics};
  for (u32 i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
