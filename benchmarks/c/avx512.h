/* The hot stages by hand for AVX-512 (F, BW, DQ, VL, VBMI, VPOPCNTDQ): the same interface and results as plain.h.
 *
 * - Small tables are looked up by permutes of registers: by topic (64 words), effect rows (128 bytes), route thresholds.
 * - Counting is done in bit planes. Bit b of the counters of 64 trials is one 64-bit mask; the trials of counter j are the AND of
 *   the planes or their complements, and a population count does the rest, for eight counters at a time.
 */
#include "kernel.h"
#include <immintrin.h>
#if !(defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__AVX512VBMI__) && \
      defined(__AVX512VPOPCNTDQ__))
#error "this processor has not all of AVX-512 that the hand-written stages use"
#endif

#define LOAD(p) _mm512_loadu_si512((const void *)(p))
#define STORE(p, v) _mm512_storeu_si512((void *)(p), v)
#define ALL(x) _mm512_set1_epi32((int)(x))

typedef struct {
  ALIGNED u32 counts[TOPICS];
} Scratch;

/* ------------------------------------------------------------ words */

#define MIX(r) \
  for (int v = 0; v < 4; v++) x[v] = _mm512_add_epi32(x[v], y[v]); \
  for (int v = 0; v < 4; v++) y[v] = _mm512_xor_si512(_mm512_rol_epi32(y[v], r), x[v]);
#define FOUR(a, b, c, d) MIX(a) MIX(b) MIX(c) MIX(d)
#define KEY(a, b) for (int v = 0; v < 4; v++) x[v] = _mm512_add_epi32(x[v], ALL(a)), y[v] = _mm512_add_epi32(y[v], ALL(b));

/* Threefry-2x32-20 of sim/rng.py over a list of counters, four vectors side by side. */
static void fill(const u32 *counter, u32 *first, u32 *second, i32 n, u32 round, u32 key0, u32 key1) {
  u32 key2 = key0 ^ key1 ^ 0x1BD11BDAu;
  i32 end = WHOLE(n);
  for (i32 i = 0; i < end; i += 4 * LANES) {
    __m512i x[4], y[4];
    int here = end - i < 4 * LANES ? (end - i) / LANES : 4;
    for (int v = 0; v < 4; v++) x[v] = _mm512_add_epi32(LOAD(counter + i + (v < here ? v : 0) * LANES), ALL(key0)), y[v] = ALL(round + key1);
    FOUR(13, 15, 26, 6) KEY(key1, key2 + 1)
    FOUR(17, 29, 16, 24) KEY(key2, key0 + 2)
    FOUR(13, 15, 26, 6) KEY(key0, key1 + 3)
    FOUR(17, 29, 16, 24) KEY(key1, key2 + 4)
    FOUR(13, 15, 26, 6) KEY(key2, key0 + 5)
    for (int v = 0; v < here; v++) STORE(first + i + v * LANES, x[v]), STORE(second + i + v * LANES, y[v]);
  }
}

/* ------------------------------------------------------------ trials */

typedef struct { /* what a shelf gives to the trials of a round, in registers */
  __m512i by_topic[4], any[4], row[2];
} Lookup;

INLINE __m512i of64(const __m512i *table, __m512i at, int wide) {
  __m512i low = _mm512_permutex2var_epi32(table[0], at, table[1]);
  if (!wide) return low;
  __m512i high = _mm512_permutex2var_epi32(table[2], at, table[3]);
  return _mm512_mask_blend_epi32(_mm512_test_epi32_mask(at, ALL(32)), low, high);
}

INLINE __m512i planes(u64 bits) { return _mm512_set1_epi64((i64)bits); }

/* Which trials have each of the eight values of the three lowest bits, given the planes of those bits. */
INLINE __m512i low_three(__m512i bytes) {
  __m512i all = _mm512_set1_epi64(-1), zero = _mm512_setzero_si512();
  __m512i b0 = planes(_mm512_movepi8_mask(_mm512_slli_epi16(bytes, 7))), b1 = planes(_mm512_movepi8_mask(_mm512_slli_epi16(bytes, 6)));
  __m512i b2 = planes(_mm512_movepi8_mask(_mm512_slli_epi16(bytes, 5)));
  __m512i n0 = _mm512_mask_blend_epi64(0x55, zero, all), n1 = _mm512_mask_blend_epi64(0x33, zero, all), n2 = _mm512_mask_blend_epi64(0x0F, zero, all);
  return _mm512_and_si512(_mm512_xor_si512(b0, n0), _mm512_and_si512(_mm512_xor_si512(b1, n1), _mm512_xor_si512(b2, n2)));
}

/* Of the trials in ``of``, those whose counter is in group 8 g .. 8 g + 7: split by bits 3 to 6. */
INLINE void split(__m512i bytes, u64 of, i32 groups, u64 *out) {
  u64 bit[4] = {_mm512_movepi8_mask(_mm512_slli_epi16(bytes, 4)), _mm512_movepi8_mask(_mm512_slli_epi16(bytes, 3)),
                _mm512_movepi8_mask(_mm512_slli_epi16(bytes, 2)), _mm512_movepi8_mask(_mm512_slli_epi16(bytes, 1))};
  u64 a[4] = {of & ~bit[0] & ~bit[1], of & bit[0] & ~bit[1], of & ~bit[0] & bit[1], of & bit[0] & bit[1]};
  for (i32 g = 0; g < groups; g += 4) {
    u64 high = (g & 4 ? bit[2] : ~bit[2]) & (g & 8 ? bit[3] : ~bit[3]);
    for (int q = 0; q < 4; q++) out[g + q] = a[q] & high;
  }
}

INLINE __m256i count(__m512i low, u64 group) { return _mm512_cvtepi64_epi32(_mm512_popcnt_epi64(_mm512_and_si512(low, planes(group)))); }

INLINE void trials(const Cell *cell, Life *life, const Tasks *tasks, const i32 *bin, const Words *words, const u32 *passes, Scratch *s,
                   int clustered, int wide) {
  Shelf *shelf = &life->shelf;
  const u32 *route = words->first + words->route, *pick = words->second + words->route;
  const u32 *outcome = words->first + words->outcome, *flip = words->second + words->outcome;
  const i32 n_train = cell->n_train, size = shelf->size;
  const __m512i low16 = ALL(0xFFFF), recall = ALL(cell->recall), sizes = ALL(size), topics = ALL(cell->topics), mislabel = ALL(cell->mislabel);
  const __m512i fail_rate = ALL(cell->flip_fail), pass_rate = ALL(cell->flip_pass);
  Lookup t;
  for (int v = 0; v < (wide ? 4 : 2); v++) t.by_topic[v] = LOAD(shelf->by_topic + 16 * v), t.any[v] = LOAD(life->any + 16 * v);
  t.row[0] = LOAD(life->row), t.row[1] = LOAD(life->row + 64);
  u64 routed = 0, failures = 0, phantoms = 0, hidden = 0;
  for (i32 begin = 0; begin < n_train; begin += 64) {
    ALIGNED uint8_t slots[64], labels[64];
    u64 hits = 0, passed = 0, seen = 0, valid = n_train - begin >= 64 ? ~0ull : (1ull << (n_train - begin)) - 1;
    i32 end = n_train - begin < 64 ? n_train - begin : 64;
    for (i32 j = 0; j < end; j += LANES) {
      i32 i = begin + j;
      __m512i topic = LOAD(tasks->train_topic + i), word = LOAD(route + i), partner = LOAD(pick + i);
      __m512i packed = of64(t.by_topic, topic, wide), any = of64(t.any, topic, wide);
      __m512i first = _mm512_and_si512(packed, low16), count_on = _mm512_srli_epi32(packed, 16), off = _mm512_sub_epi32(sizes, count_on);
      __mmask16 has = _mm512_test_epi32_mask(count_on, count_on), on = _mm512_mask_cmplt_epu32_mask(has, word, recall);
      __mmask16 hit = _mm512_cmplt_epu32_mask(word, any) | on;
      __m512i among = _mm512_mask_blend_epi32(on, off, count_on);
      __m512i place = _mm512_srli_epi32(_mm512_mullo_epi32(_mm512_and_si512(partner, low16), among), 16);
      __mmask16 later = _mm512_cmpge_epu32_mask(place, first);
      __m512i slot = _mm512_add_epi32(place, _mm512_mask_blend_epi32(on, _mm512_maskz_mov_epi32(later, count_on), first));
      __m512i row = _mm512_mask_blend_epi32(hit, ALL(NO_SKILL), ALL(OFF_TOPIC));
      __m512i own = _mm512_and_si512(_mm512_permutex2var_epi8(t.row[0], slot, t.row[1]), ALL(0xFF));
      row = _mm512_mask_mov_epi32(row, on, own);
      __m512i at = _mm512_or_si512(_mm512_slli_epi32(row, DIFFICULTY_BITS), LOAD(bin + i));
      __m512i threshold = _mm512_i32gather_epi32(at, (const int *)passes, 4);
      __mmask16 pass = _mm512_cmplt_epu32_mask(LOAD(outcome + i), threshold);
      __m512i on_fail = clustered ? LOAD(life->flip_fail + i) : fail_rate, on_pass = clustered ? LOAD(life->flip_pass + i) : pass_rate;
      __mmask16 flipped = _mm512_cmplt_epu32_mask(LOAD(flip + i), _mm512_mask_blend_epi32(pass, on_fail, on_pass));
      __mmask16 mistaken = _mm512_cmplt_epu32_mask(_mm512_srli_epi32(partner, 16), mislabel);
      __m512i random = _mm512_srli_epi32(_mm512_mullo_epi32(_mm512_and_si512(word, low16), topics), 16);
      _mm_store_si128((__m128i *)(slots + j), _mm512_cvtepi32_epi8(slot));
      _mm_store_si128((__m128i *)(labels + j), _mm512_cvtepi32_epi8(_mm512_mask_mov_epi32(topic, mistaken, random)));
      hits |= (u64)hit << j, passed |= (u64)pass << j, seen |= (u64)(__mmask16)(pass ^ flipped) << j;
    }
    u64 failed = valid & ~seen, spurious = failed & passed, group[16];
    hits &= valid;
    routed += __builtin_popcountll(hits), failures += __builtin_popcountll(failed), phantoms += __builtin_popcountll(spurious);
    hidden += __builtin_popcountll(valid & seen & ~passed);

    __m512i bytes = LOAD(slots), low = low_three(bytes);
    i32 groups = (size + 7) / 8;
    split(bytes, hits, groups, group);
    for (i32 g = 0; g < groups; g++) {
      __m256i made = count(low, group[g]), good = count(low, group[g] & seen);
      __m256i *n = (__m256i *)(shelf->n + 8 * g), *net = (__m256i *)(shelf->net + 8 * g);
      *n = _mm256_add_epi32(*n, made);
      *net = _mm256_add_epi32(*net, _mm256_sub_epi32(_mm256_add_epi32(good, good), made));
    }
    bytes = LOAD(labels), low = low_three(bytes);
    groups = WHOLE(cell->topics) / 8; /* what lies beyond the topics is read too, and stays zero */
    split(bytes, failed, groups, group);
    for (i32 g = 0; g < groups; g++) {
      __m256i *at = (__m256i *)(s->counts + 8 * g);
      __m256i both = _mm256_or_si256(count(low, group[g]), _mm256_slli_epi32(count(low, group[g] & passed), 16));
      *at = begin ? _mm256_add_epi32(*at, both) : both;
    }
  }
  life->now[S_OBSERVED_FAILURES] = failures;
  life->record[ROUTED] += routed, life->record[HIDDEN_FAILURES] += hidden, life->record[PHANTOM_FAILURES] += phantoms;
}

INLINE __m512i keep(__m512i pool, __m512i memory) {
  __m512i low = _mm512_srli_epi32(_mm512_mullo_epi32(_mm512_and_si512(pool, ALL(0xFFFF)), memory), 16);
  return _mm512_add_epi32(_mm512_mullo_epi32(_mm512_srli_epi32(pool, 16), memory), low);
}

static void attempt(const Cell *cell, Life *life, const Tasks *tasks, const i32 *bin, const Words *words, const u32 *passes, Scratch *s) {
  if (cell->spread_by_task || cell->spread_by_topic)
    trials(cell, life, tasks, bin, words, passes, s, 1, 1);
  else if (cell->topics > 32)
    trials(cell, life, tasks, bin, words, passes, s, 0, 1);
  else
    trials(cell, life, tasks, bin, words, passes, s, 0, 0);
  __m512i memory = ALL(cell->memory);
  for (i32 k = 0; k < cell->topics; k += LANES) {
    __m512i counts = LOAD(s->counts + k), failed = _mm512_slli_epi32(_mm512_and_si512(counts, ALL(0xFFFF)), 8);
    __m512i spurious = _mm512_slli_epi32(_mm512_srli_epi32(counts, 16), 8);
    STORE(life->pool + k, _mm512_add_epi32(keep(LOAD(life->pool + k), memory), failed));
    STORE(life->phantom + k, _mm512_add_epi32(keep(LOAD(life->phantom + k), memory), spurious));
  }
}

/* ------------------------------------------------------------ the shelf */

INLINE __mmask16 first_lanes(i32 n) { return n >= LANES ? 0xFFFF : (1u << n) - 1; }

INLINE u32 any_retires(const Shelf *shelf, const i32 *table) {
  u32 found = 0;
  for (i32 j = 0; j < shelf->size; j += LANES) {
    __mmask16 live = first_lanes(shelf->size - j);
    __m512i bound = _mm512_mask_i32gather_epi32(ALL(INT32_MIN), live, LOAD(shelf->n + j), table, 4);
    found |= _mm512_mask_cmple_epi32_mask(live, LOAD(shelf->net + j), bound);
  }
  return found;
}

/* The smallest net / n, then the oldest. Quotients of whole numbers below 2^26 are equal, or ordered, as doubles too. */
INLINE i32 weakest(const Shelf *shelf) {
  double chat[CAP + LANES];
  __m512d least = _mm512_set1_pd(2.0);
  for (i32 j = 0; j < shelf->size; j += 8) {
    __m256i n = _mm256_max_epi32(_mm256_loadu_si256((const __m256i *)(shelf->n + j)), _mm256_set1_epi32(1));
    __m512d value = _mm512_div_pd(_mm512_cvtepi32_pd(_mm256_loadu_si256((const __m256i *)(shelf->net + j))), _mm512_cvtepi32_pd(n));
    value = _mm512_mask_mov_pd(_mm512_set1_pd(2.0), (__mmask8)first_lanes(shelf->size - j), value);
    _mm512_storeu_pd(chat + j, value);
    least = _mm512_min_pd(least, value);
  }
  least = _mm512_set1_pd(_mm512_reduce_min_pd(least));
  u32 oldest = ~0u;
  i32 worst = 0;
  for (i32 j = 0; j < shelf->size; j += 8) {
    u32 equal = _mm512_cmp_pd_mask(_mm512_loadu_pd(chat + j), least, _CMP_EQ_OQ);
    for (; equal; equal &= equal - 1) {
      i32 at = j + __builtin_ctz(equal);
      if (shelf->skill[at] < oldest) oldest = shelf->skill[at], worst = at;
    }
  }
  return worst;
}

INLINE void clusters(const Cell *cell, const Life *life, const Words *words, u32 *cluster) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0), eight = ALL(8);
  for (i32 k = 0; k < cell->topics; k += LANES) {
    i32 at = words->cover + k / 32 * LANES;
    __m512i order = k & LANES ? _mm512_add_epi32(low, eight) : low;
    __m512i cover = _mm512_permutex2var_epi32(LOAD(words->first + at), order, LOAD(words->second + at));
    __mmask16 barred = _mm512_cmplt_epu32_mask(cover, ALL(cell->cover_guard));
    barred = _mm512_mask_cmpge_epu32_mask(barred, LOAD(life->shelf.by_topic + k), ALL(1 << 16));
    STORE(cluster + k, _mm512_mask_mov_epi32(LOAD(life->pool + k), barred, _mm512_setzero_si512()));
  }
}

INLINE u32 largest(const u32 *cluster, i32 topics, i32 *topic) {
  __m512i best = LOAD(cluster);
  for (i32 k = LANES; k < topics; k += LANES) best = _mm512_max_epu32(best, LOAD(cluster + k));
  u32 most = _mm512_reduce_max_epu32(best);
  for (i32 k = 0;; k += LANES) {
    u32 equal = _mm512_cmpeq_epi32_mask(LOAD(cluster + k), ALL(most));
    if (equal) return *topic = k + __builtin_ctz(equal), most;
  }
}

INLINE void shift_down(u32 *a, i32 slot, i32 last) {
  for (i32 j = slot; j < last; j += LANES) STORE(a + j, LOAD(a + j + 1));
}

INLINE void shift_up(u32 *a, i32 slot, i32 size) {
  for (i32 j = size - LANES; j > slot; j -= LANES) STORE(a + j + 1, LOAD(a + j));
  __mmask16 rest = first_lanes(size - slot > LANES ? (size - slot - 1) % LANES + 1 : size - slot);
  _mm512_mask_storeu_epi32(a + slot + 1, rest, LOAD(a + slot));
}

INLINE i64 sum8(__m512i v) { return _mm512_reduce_add_epi64(v); }

static void refresh(const Cell *cell, Life *life, const Evals *evals, const Routes *routes, i32 route_width) {
  Shelf *shelf = &life->shelf;
  i32 base = route_width - 1 - shelf->size;
  for (i32 j = 0; j < shelf->size; j += LANES) _mm_store_si128((__m128i *)(life->row + j), _mm512_cvtepi32_epi8(LOAD(shelf->skill + j)));
  /* by number of on-topic skills: none, 1 to 15, and beyond that from memory */
  __m512i any = _mm512_mask_set1_epi32(LOAD(routes->any[1] + base), 1, (int)routes->any[0][base]);
  __m512i off = _mm512_mask_set1_epi32(LOAD(routes->off[1] + base), 1, (int)routes->off[0][base]), total = _mm512_setzero_si512();
  for (i32 k = 0; k < cell->topics; k += LANES) {
    __m512i count = _mm512_srli_epi32(LOAD(shelf->by_topic + k), 16);
    __m512i threshold = _mm512_permutexvar_epi32(count, any), weight = _mm512_permutexvar_epi32(count, off);
    __mmask16 many = _mm512_cmpge_epi32_mask(count, ALL(LANES));
    if (__builtin_expect(many, 0)) {
      threshold = _mm512_mask_i32gather_epi32(threshold, many, count, routes->any[1] + base, 4);
      weight = _mm512_mask_i32gather_epi32(weight, many, count, routes->off[1] + base, 4);
    }
    STORE(life->any + k, threshold);
    for (int h = 0; h < 2; h++) {
      __m512i wide = _mm512_cvtepu32_epi64(h ? _mm512_extracti64x4_epi64(weight, 1) : _mm512_castsi512_si256(weight));
      total = _mm512_add_epi64(total, _mm512_mullo_epi64(wide, LOAD(evals->off_gain + k + 8 * h)));
      total = _mm512_add_epi64(total, LOAD(life->on_gain + k + 8 * h));
    }
  }
  life->eval = (i64)((u64)((evals->none_total << EVAL_BITS) + sum8(total)) >> EVAL_BITS) / cell->n_eval;
}

INLINE void add_series(const i64 *now, i64 *sums) {
  __m512i x = LOAD(now), square = _mm512_mullo_epi64(x, x), low = _mm512_set1_epi64(0xFFFFFFFF);
  STORE(sums, _mm512_add_epi64(LOAD(sums), x));
  STORE(sums + 8, _mm512_add_epi64(LOAD(sums + 8), _mm512_srli_epi64(square, 32)));
  STORE(sums + 16, _mm512_add_epi64(LOAD(sums + 16), _mm512_and_si512(square, low)));
}
