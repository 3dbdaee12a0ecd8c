/* Leapfrog, drift-kick-drift, as one would write it by hand: what `rhel-hw benchmark forward` is measured against.

   One thread, single precision, lanes last and contiguous, so that the inner loops are vectors of lanes. FEATURES, the
   number of inputs of a unit, is set when this is compiled. Built at run time by studies/benchmarks/kernel.py. */

#include <stddef.h>

#define TILE 256 /* lanes whose injections are held at a time */

/* tanh by a rational function: minimax of relative error on [0, 9], 4.2e-7 in single precision; XLA's has 2.9e-7. */
static inline float hyperbolic_tangent(float x)
{
    const float y = x > 9.0f ? 9.0f : x < -9.0f ? -9.0f : x, t = y * y;
    const float above = (((1.3393029e-8f * t + 2.0641275e-5f) * t + 3.4977508e-3f) * t + 0.13382921f) * t + 1.0f;
    const float below = (((7.7935755e-7f * t + 3.2890239e-4f) * t + 2.5885435e-2f) * t + 0.46716240f) * t + 1.0f;
    return y * above / below;
}

/* A unit with energy delta (p^2/2 + stiffness q^2/2 + log cosh(gain q + u)/gain), whose u is held over the step. */
static inline void unit(float delta, float gain, float stiffness, float u, float *q, float *p)
{
    const float kick = *q + 0.5f * delta * *p;
    *p -= delta * (hyperbolic_tangent(gain * kick + u) + stiffness * kick);
    *q = kick + 0.5f * delta * *p;
}

/* Row of n units on their own, u = B x. x: (steps, FEATURES, lanes); B: (n, FEATURES); q, p: (n, lanes), moved in
   place; path: positions after every step, (steps, n, lanes), or none. */
void units(size_t steps, size_t n, size_t lanes, const float *delta, const float *gain, const float *stiffness,
           const float *B, const float *x, float *q, float *p, float *path)
{
    for (size_t k = 0; k < steps; k++, x += FEATURES * lanes) {
        for (size_t i = 0; i < n; i++) {
            const float *row = B + i * FEATURES;
            if (lanes == 1) { /* a vector of one lane costs more than it saves */
                float u = 0.0f;
                for (size_t f = 0; f < FEATURES; f++)
                    u += row[f] * x[f];
                unit(delta[i], gain[i], stiffness[i], u, q + i, p + i);
            }
            for (size_t first = 0; lanes > 1 && first < lanes; first += TILE) {
                const size_t count = lanes - first < TILE ? lanes - first : TILE;
                const float d = delta[i], a = gain[i], s = stiffness[i], *given = x + first;
                float *restrict qs = q + i * lanes + first, *restrict ps = p + i * lanes + first, u[TILE];
                for (size_t l = 0; l < count; l++)
                    u[l] = row[0] * given[l];
                for (size_t f = 1; f < FEATURES; f++)
                    for (size_t l = 0; l < count; l++)
                        u[l] += row[f] * given[f * lanes + l];
                for (size_t l = 0; l < count; l++)
                    unit(d, a, s, u[l], qs + l, ps + l);
            }
        }
        if (path)
            for (size_t i = 0; i < n * lanes; i++)
                *path++ = q[i];
    }
}

/* Chain of n linear oscillators: force -own[i] q[i] - next[i - 1] q[i - 1] - next[i] q[i + 1], and inject u on the
   first. u: (steps, lanes); q, p: (n, lanes), moved in place; paths: (steps, n, lanes) each, or none. The three parts
   of a step follow each other down the chain: a node drifts, the one before is kicked, the one before that drifts. */
void ladder(size_t steps, size_t n, size_t lanes, float step, const float *mobility, const float *own,
            const float *next, float inject, const float *u, float *q, float *p, float *q_path, float *p_path)
{
    for (size_t k = 0; k < steps; k++, u += lanes) {
        for (size_t i = 0; i < n + 2; i++) {
            if (i < n) {
                float *restrict here = q + i * lanes;
                const float *restrict momentum = p + i * lanes, drift = 0.5f * step * mobility[i];
                for (size_t l = 0; l < lanes; l++)
                    here[l] += drift * momentum[l];
            }
            if (i >= 1 && i <= n) {
                const size_t at = i - 1;
                const float *here = q + at * lanes, stiffness = step * own[at];
                const float below = at ? step * next[at - 1] : 0.0f, above = i < n ? step * next[at] : 0.0f;
                const float *before = at ? here - lanes : here, *after = i < n ? here + lanes : here;
                float *restrict momentum = p + at * lanes;
                for (size_t l = 0; l < lanes; l++)
                    momentum[l] -= stiffness * here[l] + below * before[l] + above * after[l];
                if (!at)
                    for (size_t l = 0; l < lanes; l++)
                        momentum[l] += step * inject * u[l];
            }
            if (i >= 2) {
                const size_t at = i - 2;
                float *restrict here = q + at * lanes;
                const float *restrict momentum = p + at * lanes, drift = 0.5f * step * mobility[at];
                for (size_t l = 0; l < lanes; l++)
                    here[l] += drift * momentum[l];
            }
        }
        if (q_path)
            for (size_t i = 0; i < n * lanes; i++) {
                *q_path++ = q[i];
                *p_path++ = p[i];
            }
    }
}
