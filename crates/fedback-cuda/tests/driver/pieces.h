// Parts of the kernels one by one, for tests that call them.

#pragma once

extern "C" {
static Stream stream_of(u64 seed, u64 repetition, u64 round, u64 purpose, u32 client) {
    return of_client(of_round(of_purpose(seed, repetition, purpose), round), client);
}

u64 piece_word(u64 seed, u64 repetition, u64 round, u64 purpose, u32 client, u64 n) {
    return word(stream_of(seed, repetition, round, purpose, client), n);
}

u64 piece_index(u64 word, u64 length) { return index_below(word, length); }

f64 piece_unit(u64 word) { return unit(word); }

f64 piece_normal(const f64* edge, const f64* density, u64 seed, u64 round, u32 client, u64 n) {
    Stream stream = stream_of(seed, 0, round, DATA, client);
    return normal_at({edge, density}, stream, stream.position + n * GOLDEN, n);
}

f64 piece_exp_neg(f64 x) { return exp_neg(x); }

f64 piece_exp(f64 x) { return exp_below_zero(x); }

f64 piece_log(f64 x) { return log_of_unit(x); }

f64 piece_slope(u64 loss, f64 margin, f64 label) { return slope_of(loss, margin, label); }

f64 piece_step(u64 rule, f64 proximal, const f64* at, f64 gradient, f64 plain, f64 scaled) {
    return step_by(rule, proximal, {at[0], at[1], at[2]}, gradient, {plain, scaled});
}
}
