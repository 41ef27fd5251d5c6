/* Copies between host buffers by several threads that all lanes share; called through ctypes, without the interpreter's lock.
 *
 * A copy is cut into blocks of whole cache lines of its destination. The caller and the helpers that join it take one block after
 * another, so nobody waits for a helper that wakes late. A job's ticket holds its generation, the seats that helpers may still take
 * and the blocks that nobody has taken yet, so that one compare-and-swap takes a block of the right job or none.
 */

#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define RELAX() _mm_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void)0)
#endif

enum { LINE = 64, PAGE = 4096, SMALLEST_BLOCK = 16384, BLOCKS_A_THREAD = 4, UNROLLED = 256 };
enum { BLOCK_BITS = 20, SEAT_BITS = 12, PAUSES_A_LOOK = 64, PAUSES_BEFORE_YIELD = 20000 };

#define BLOCKS_OF(ticket) ((uint32_t)((ticket) & ((1u << BLOCK_BITS) - 1)))
#define SEATS_OF(ticket) ((uint32_t)(((ticket) >> BLOCK_BITS) & ((1u << SEAT_BITS) - 1)))
#define GENERATION_OF(ticket) ((uint32_t)((ticket) >> 32))
#define ONE_SEAT (1ull << BLOCK_BITS)

typedef void (*mover)(char *dst, const char *src, size_t size);

struct job {
    _Alignas(LINE) _Atomic uint64_t ticket;
    _Alignas(LINE) _Atomic uint32_t done;
    _Alignas(LINE) _Atomic int claimed;
    char *dst;
    const char *src;
    size_t size, block;
    uint32_t blocks;
    mover move;
};

struct copier {
    _Alignas(LINE) _Atomic uint32_t bell;
    _Atomic int sleepers, closing;
    pid_t owner;
    int callers, helpers;
    int64_t spin_ns;
    pthread_t *threads;
    struct job *jobs;
};

static void move_plain(char *dst, const char *src, size_t size) { memcpy(dst, src, size); }

#if defined(__x86_64__)
/* Streaming stores go past the caches: no line of the destination is read before it is overwritten, and none is pushed out. */
#define STREAMING(name, isa, vector, load, store)                                                  \
    __attribute__((target(isa))) static void name(char *dst, const char *src, size_t size)         \
    {                                                                                              \
        enum { STEP = sizeof(vector), COUNT = UNROLLED / STEP };                                   \
        size_t head = (size_t)(-(uintptr_t)dst & (LINE - 1));                                      \
        head = head < size ? head : size;                                                          \
        memcpy(dst, src, head);                                                                    \
        dst += head, src += head, size -= head;                                                    \
        for (; size >= UNROLLED; dst += UNROLLED, src += UNROLLED, size -= UNROLLED) {             \
            vector part[COUNT];                                                                    \
            for (int i = 0; i < COUNT; ++i) part[i] = load((const vector *)(src + i * STEP));      \
            for (int i = 0; i < COUNT; ++i) store((vector *)(dst + i * STEP), part[i]);            \
        }                                                                                          \
        memcpy(dst, src, size);                                                                    \
        _mm_sfence();                                                                              \
    }

STREAMING(stream_sse2, "sse2", __m128i, _mm_loadu_si128, _mm_stream_si128)
STREAMING(stream_avx2, "avx2", __m256i, _mm256_loadu_si256, _mm256_stream_si256)
STREAMING(stream_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_stream_si512)

static mover streaming_mover(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return stream_avx512;
    return __builtin_cpu_supports("avx2") ? stream_avx2 : stream_sse2;
}
#else
static mover streaming_mover(void) { return NULL; }
#endif

/* Whether this processor has streaming stores that are made use of here. */
int dmalab_can_stream(void) { return streaming_mover() != NULL; }

static void do_block(struct job *job, uint32_t left)
{
    const size_t lead = (uintptr_t)job->dst & (LINE - 1), end = lead + job->size;
    const size_t number = job->blocks - left, from = number * job->block, to = from + job->block;
    const size_t first = from < lead ? lead : from, last = to < end ? to : end;
    job->move(job->dst + (first - lead), job->src + (first - lead), last - first);
    atomic_fetch_add_explicit(&job->done, 1, memory_order_release);
}

/* Take and do blocks of one generation until none is left; `cost` is the seat that the first one takes. */
static int work_on(struct job *job, uint64_t cost)
{
    uint64_t ticket = atomic_load_explicit(&job->ticket, memory_order_acquire);
    const uint32_t generation = GENERATION_OF(ticket);
    int done = 0;
    while (BLOCKS_OF(ticket) && GENERATION_OF(ticket) == generation && (!cost || SEATS_OF(ticket))) {
        if (!atomic_compare_exchange_weak_explicit(
                &job->ticket, &ticket, ticket - 1 - cost, memory_order_acq_rel, memory_order_acquire))
            continue;
        do_block(job, BLOCKS_OF(ticket));
        cost = 0, done = 1;
        ticket = atomic_load_explicit(&job->ticket, memory_order_acquire);
    }
    return done;
}

static int help(struct copier *copier)
{
    int done = 0;
    for (int i = 0; i < copier->callers; ++i) done |= work_on(&copier->jobs[i], ONE_SEAT);
    return done;
}

static int work_waits(struct copier *copier)
{
    for (int i = 0; i < copier->callers; ++i) {
        const uint64_t ticket = atomic_load(&copier->jobs[i].ticket);
        if (BLOCKS_OF(ticket) && SEATS_OF(ticket)) return 1;
    }
    return 0;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void sleep_until_rung(struct copier *copier)
{
    const uint32_t seen = atomic_load(&copier->bell);
    atomic_fetch_add(&copier->sleepers, 1);
    if (!work_waits(copier) && !atomic_load(&copier->closing))
        syscall(SYS_futex, &copier->bell, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&copier->sleepers, 1);
}

static void ring(struct copier *copier, int count)
{
    atomic_fetch_add(&copier->bell, 1);
    syscall(SYS_futex, &copier->bell, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void *helper(void *given)
{
    struct copier *copier = given;
    int64_t idle_since = now_ns();
    pthread_setname_np(pthread_self(), "dmalab-copy");
    while (!atomic_load_explicit(&copier->closing, memory_order_relaxed)) {
        if (help(copier)) {
            idle_since = now_ns();
            continue;
        }
        for (int i = 0; i < PAUSES_A_LOOK && !work_waits(copier); ++i) RELAX();
        if (now_ns() - idle_since >= copier->spin_ns) {
            sleep_until_rung(copier);
            idle_since = now_ns();
        }
    }
    return NULL;
}

/* Start `helpers` threads for copies of at most `callers` threads at a time; an idle one spins for `spin_us`, then sleeps.
 * NULL where the system has no memory or threads left. */
struct copier *dmalab_copier_open(int callers, int helpers, int spin_us)
{
    struct copier *copier = aligned_alloc(LINE, sizeof *copier);
    struct job *jobs = aligned_alloc(LINE, (size_t)callers * sizeof *jobs);
    pthread_t *threads = calloc((size_t)helpers + 1, sizeof *threads);
    sigset_t all, before;
    if (!copier || !jobs || !threads) {
        free(copier), free(jobs), free(threads);
        return NULL;
    }
    memset(copier, 0, sizeof *copier);
    memset(jobs, 0, (size_t)callers * sizeof *jobs);
    copier->owner = getpid(), copier->callers = callers, copier->spin_ns = spin_us * 1000ll;
    copier->threads = threads, copier->jobs = jobs;
    /* Signals are for the interpreter's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (copier->helpers < helpers && !pthread_create(&threads[copier->helpers], NULL, helper, copier)) ++copier->helpers;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return copier;
}

/* The helpers that could be started. */
int dmalab_copier_helpers(const struct copier *copier) { return copier->helpers; }

/* Stop and free everything; in a forked child, which has no helpers, only the memory is left behind. */
void dmalab_copier_close(struct copier *copier)
{
    if (copier->owner != getpid()) return;
    atomic_store(&copier->closing, 1);
    ring(copier, copier->helpers);
    for (int i = 0; i < copier->helpers; ++i) pthread_join(copier->threads[i], NULL);
    free(copier->threads), free(copier->jobs), free(copier);
}

static struct job *claim(struct copier *copier)
{
    for (;;) {
        for (int i = 0; i < copier->callers; ++i) {
            int free_one = 0;
            if (atomic_compare_exchange_strong(&copier->jobs[i].claimed, &free_one, 1)) return &copier->jobs[i];
        }
        sched_yield();
    }
}

/* Copy `size` bytes by at most `threads` threads, the caller one of them; past the caches where `streaming` says so. */
void dmalab_copy(struct copier *copier, void *dst, const void *src, size_t size, int threads, int streaming)
{
    const mover move = streaming ? streaming_mover() : NULL;
    if (threads <= 1 || !copier) {
        (move ? move : move_plain)(dst, src, size);
        return;
    }
    struct job *job = claim(copier);
    const size_t span = ((uintptr_t)dst & (LINE - 1)) + size;
    size_t block = span / ((size_t)threads * BLOCKS_A_THREAD);
    block = block < SMALLEST_BLOCK ? SMALLEST_BLOCK : (block + PAGE - 1) / PAGE * PAGE;
    job->dst = dst, job->src = src, job->size = size, job->block = block;
    job->blocks = (uint32_t)((span + block - 1) / block);
    job->move = move ? move : move_plain;
    atomic_store(&job->done, 0);
    const uint64_t generation = (uint64_t)(GENERATION_OF(atomic_load(&job->ticket)) + 1u);
    atomic_store(&job->ticket, generation << 32 | (uint64_t)(threads - 1) << BLOCK_BITS | job->blocks);
    if (atomic_load(&copier->sleepers)) ring(copier, threads - 1);
    work_on(job, 0);
    for (int i = 0; atomic_load_explicit(&job->done, memory_order_acquire) != job->blocks; ++i) {
        RELAX();
        if (i > PAUSES_BEFORE_YIELD) sched_yield();
    }
    atomic_store_explicit(&job->claimed, 0, memory_order_release);
}
