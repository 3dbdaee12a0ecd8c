/* Loops over many lanes, called by XLA: what they have in common. What comes before this, in a program that is written by
   source.py, defines T, the type of a number; BYTES of one; whether it is DOUBLE; WIDTH, lanes of a vector; LANES, all
   lanes; ROOM, vectors that a tile needs to work in; MOST, arrays at most. What comes after is `tile`: the loop for WIDTH
   lanes. */

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

typedef T vec __attribute__((vector_size(WIDTH * BYTES)));
typedef T loose __attribute__((vector_size(WIDTH * BYTES), aligned(BYTES), may_alias));
#if DOUBLE
typedef int64_t mask __attribute__((vector_size(WIDTH * BYTES)));
#define S(name) name
#else
typedef int32_t mask __attribute__((vector_size(WIDTH * BYTES)));
#define S(name) name##f
#endif

#define LOAD(place) (*(const loose *)(place))
#define STORE(place, x) (*(loose *)(place) = (x))
#define ZERO ((vec){0})
#define SPREAD(x) (ZERO + (T)(x))
#define SELECT(m, yes, no) ((vec)(((mask)(yes) & (m)) | ((mask)(no) & ~(m))))
#define CLAMP(i, most) ((i) < 0 ? 0 : (i) > (most) ? (most) : (i))

/* Functions of all numbers of a vector: of the C library where it has them, one by one where it has not. */
#if LIBMVEC
#define JOIN(a, b, c) a##b##c
#define NAMED(a, b, c) JOIN(a, b, c)
#if WIDTH * BYTES == 64
#define KIND _ZGVeN
#elif WIDTH * BYTES == 32
#define KIND _ZGVdN
#else
#define KIND _ZGVbN
#endif
#define ONE(name) NAMED(NAMED(KIND, WIDTH, v_), name, )
#define TWO(name) NAMED(NAMED(KIND, WIDTH, vv_), name, )
#define EACH(name)                   \
    extern vec ONE(S(name))(vec);    \
    static inline vec v_##name(vec x) { return ONE(S(name))(x); }
extern vec TWO(S(pow))(vec, vec);
static inline vec v_pow(vec x, vec y) { return TWO(S(pow))(x, y); }
#else
#define EACH(name)                                                                         \
    static inline vec v_##name(vec x)                                                      \
    {                                                                                      \
        vec found;                                                                         \
        for (int i = 0; i < WIDTH; i++)                                                    \
            found[i] = S(name)(x[i]);                                                      \
        return found;                                                                      \
    }
static inline vec v_pow(vec x, vec y)
{
    vec found;
    for (int i = 0; i < WIDTH; i++)
        found[i] = S(pow)(x[i], y[i]);
    return found;
}
#endif
EACH(exp)
EACH(expm1)
EACH(log)
EACH(log1p)
EACH(sin)
EACH(cos)
EACH(tan)
#if DOUBLE
EACH(tanh)
#else
/* By a rational function, minimax of relative error on [0, 9]: 4.2e-7. */
static inline vec v_tanh(vec x)
{
    const vec most = SPREAD(9), y = SELECT(x > most, most, SELECT(x < -most, -most, x)), t = y * y;
    const vec above = (((1.3393029e-8f * t + 2.0641275e-5f) * t + 3.4977508e-3f) * t + 0.13382921f) * t + 1.0f;
    const vec below = (((7.7935755e-7f * t + 3.2890239e-4f) * t + 2.5885435e-2f) * t + 0.46716240f) * t + 1.0f;
    return y * above / below;
}
#endif
static inline vec v_sqrt(vec x)
{
    vec found;
    for (int i = 0; i < WIDTH; i++)
        found[i] = S(sqrt)(x[i]);
    return found;
}
/* To the nearest whole number, even ones from halfway: beyond 2^51 (2^22) all are whole. */
static inline vec v_round(vec x)
{
    const vec shift = SPREAD(DOUBLE ? 0x1.8p52 : 0x1.8p23), most = SPREAD(DOUBLE ? 0x1p51 : 0x1p22);
    return SELECT((x < most) & (x > -most), (x + shift) - shift, x);
}
static inline vec v_floor(vec x)
{
    const vec near = v_round(x);
    return SELECT(near > x, near - 1, near);
}
static inline vec v_rsqrt(vec x) { return 1 / v_sqrt(x); }
static inline vec v_logistic(vec x) { return 1 / (1 + v_exp(-x)); }
static inline vec v_abs(vec x) { return SELECT(x < 0, -x, x); }
static inline vec v_sign(vec x) { return SELECT(x > 0, SPREAD(1), SELECT(x < 0, SPREAD(-1), x)); }
static inline vec v_max(vec x, vec y) { return SELECT((x > y) | (x != x), x, y); }
static inline vec v_min(vec x, vec y) { return SELECT((x < y) | (x != x), x, y); }

static inline T s_exp(T x) { return S(exp)(x); }
static inline T s_expm1(T x) { return S(expm1)(x); }
static inline T s_log(T x) { return S(log)(x); }
static inline T s_log1p(T x) { return S(log1p)(x); }
static inline T s_sin(T x) { return S(sin)(x); }
static inline T s_cos(T x) { return S(cos)(x); }
static inline T s_tan(T x) { return S(tan)(x); }
static inline T s_tanh(T x) { return S(tanh)(x); }
static inline T s_sqrt(T x) { return S(sqrt)(x); }
static inline T s_rsqrt(T x) { return 1 / S(sqrt)(x); }
static inline T s_pow(T x, T y) { return S(pow)(x, y); }
static inline T s_logistic(T x) { return 1 / (1 + S(exp)(-x)); }
static inline T s_abs(T x) { return S(fabs)(x); }
static inline T s_sign(T x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static inline T s_round(T x) { return S(rint)(x); }
static inline T s_floor(T x) { return S(floor)(x); }
static inline T s_max(T x, T y) { return x > y || x != x ? x : y; }
static inline T s_min(T x, T y) { return x < y || x != x ? x : y; }
static inline int64_t i_abs(int64_t x) { return x < 0 ? -x : x; }
static inline int64_t i_sign(int64_t x) { return (x > 0) - (x < 0); }
static inline int64_t i_max(int64_t x, int64_t y) { return x > y ? x : y; }
static inline int64_t i_min(int64_t x, int64_t y) { return x < y ? x : y; }

static void tile(void *const *in, void *const *out, int64_t first, vec *work);

/* Tiles are taken one after another by the thread that calls and by those of XLA that help it. */

#define TILES ((LANES + WIDTH - 1) / WIDTH)

typedef struct {
    atomic_int_fast64_t next, done; /* tiles that were taken, and that are done */
    atomic_int_fast64_t users;      /* threads that may still look here; the last one lets it go */
    void *in[MOST], *out[MOST];
} job;

static void take_part(job *shared)
{
    vec *work = NULL;
    for (int64_t i; (i = atomic_fetch_add(&shared->next, 1)) < TILES; atomic_fetch_add(&shared->done, 1)) {
        if (ROOM && work == NULL)
            work = aligned_alloc(64, (ROOM * sizeof(vec) + 63) / 64 * 64);
        /* The last tile goes over lanes again that the one before it had, rather than beyond the last lane. */
        tile(shared->in, shared->out, (i + 1) * WIDTH <= LANES ? i * WIDTH : LANES - WIDTH, work);
    }
    free(work);
}

static void leave(job *shared)
{
    if (atomic_fetch_sub(&shared->users, 1) == 1)
        free(shared);
}

static void help(void *shared)
{
    take_part(shared);
    leave(shared);
}

/* How many threads may help. */
static int64_t helpers(XLA_FFI_CallFrame *frame)
{
    const char *cores = getenv("RHEL_HW_CORES");
    int64_t threads = 1;
    XLA_FFI_ThreadPool_NumThreads_Args asked = {XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, NULL, frame->ctx, &threads};
    XLA_FFI_Error *error = frame->api->XLA_FFI_ThreadPool_NumThreads(&asked);
    if (error != NULL) {
        XLA_FFI_Error_Destroy_Args gone = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, NULL, error};
        frame->api->XLA_FFI_Error_Destroy(&gone);
        return 0;
    }
    if (cores != NULL && atoll(cores) > 0 && atoll(cores) < threads)
        threads = atoll(cores);
    return (threads < TILES ? threads : TILES) - 1;
}

XLA_FFI_Error *run(XLA_FFI_CallFrame *frame)
{
    XLA_FFI_Extension_Base *extension = frame->extension_start;
    if (extension != NULL && extension->type == XLA_FFI_Extension_Metadata) {
        XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
        metadata->api_version.major_version = XLA_FFI_API_MAJOR;
        metadata->api_version.minor_version = XLA_FFI_API_MINOR;
        return NULL;
    }
    job *shared = malloc(sizeof(job));
    for (int64_t i = 0; i < frame->args.size; i++)
        shared->in[i] = ((XLA_FFI_Buffer *)frame->args.args[i])->data;
    for (int64_t i = 0; i < frame->rets.size; i++)
        shared->out[i] = ((XLA_FFI_Buffer *)frame->rets.rets[i])->data;
    const int64_t others = helpers(frame);
    atomic_init(&shared->next, 0);
    atomic_init(&shared->done, 0);
    atomic_init(&shared->users, others + 1);
    for (int64_t i = 0; i < others; i++) {
        XLA_FFI_ThreadPool_Schedule_Args asked = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, NULL, frame->ctx, help, shared};
        XLA_FFI_Error *error = frame->api->XLA_FFI_ThreadPool_Schedule(&asked);
        if (error != NULL) {
            XLA_FFI_Error_Destroy_Args gone = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, NULL, error};
            frame->api->XLA_FFI_Error_Destroy(&gone);
            leave(shared);
        }
    }
    take_part(shared);
    while (atomic_load(&shared->done) < TILES)
        sched_yield();
    leave(shared);
    return NULL;
}
