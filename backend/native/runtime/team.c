// A team of threads that share the tasks of one job.
//
// Each thread of a job gets a contiguous span of the tasks, the same one every time, so that it works
// on what its core has in its caches.
//
// A worker polls for the next job for a moment and then sleeps (a futex on `asleep`).  The caller never
// waits for a worker that has not arrived: a worker claims its span in a cache line of its own, and the
// caller waits only for those that have.  A job of many tasks has ranges: an atomic counter for each
// span hands them out, a thread that has finished its own span takes ranges of the others', and the
// caller closes the job when none is left.  Looking for ranges takes as long as a few short tasks, so a
// job of few has none: spans that no worker has claimed when the caller has finished its own are the
// caller's.  What many threads write in turn is slow where there are many cores, so nothing is.  On a
// machine that is busy with something else, the caller does the work alone.  A worker that finds itself
// on the caller's core sleeps at once.  A call that finds the team busy runs its tasks alone.
//
#define _GNU_SOURCE // sched_getcpu
#include "team.h"

#ifndef __linux__

void parallel(task_function function, void *arguments, int64_t tasks, int64_t threads) {
    (void)threads;
    function(arguments, 0, tasks);
}

void parallel_brief(task_function function, void *arguments, int64_t tasks, int64_t threads) {
    parallel(function, arguments, tasks, threads);
}

#else

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    // Threads of a team, at most (threads.py: MOST_THREADS).
    MOST_THREADS = 1024,
    // Ranges of a thread's span.
    RANGES = 16,
    // A job of at most so many tasks for each thread has no ranges.
    FEW_TASKS = 2,
    // Tasks in a range of an interruptible job, at most: some milliseconds (threads.py: MOST_TASKS).
    MOST_TASKS = 128,
    // How long an idle worker polls: longer than Python needs between two calls, shorter than anybody
    // who wants the core would notice.
    POLL_NS = 25 * 1000,
    // How often the caller polls for the last workers before it sleeps.
    CALLER_POLLS = 2000,
    // After this time an interruptible job lets Python handle signals.
    INTERRUPT_NS = 50 * 1000 * 1000,
    // How long OpenMP's threads may keep the caller waiting when it has nothing left to do.
    STALL_NS = 200 * 1000,
    // Jobs without OpenMP after a stall: at least, at most.
    LEAST_AVOIDED = 64,
    MOST_AVOIDED = 1 << 20,
    // Brief jobs that the caller does alone after workers slept again at once, at least, and after it
    // had to sleep for a worker.
    ALONE_AFTER_WAKING = 16,
    ALONE_AFTER_SLEEP = 1024,
    STACK_BYTES = 4 << 20,
    CACHE_LINE = 64,
};

#define NEVER INT64_MAX
#define OWN_LINE _Alignas(CACHE_LINE)

struct counter {
    OWN_LINE _Atomic int64_t value;
};

// The job.  It is written by the caller that has set `busy`, when no worker is inside.
static OWN_LINE struct {
    _Atomic uint64_t number;                // counts jobs; below: OPEN, and the last thread's number
    task_function function;
    void *arguments;
    uint64_t tasks, threads;
    int64_t range;                          // tasks in a range; 0: there are none
    _Atomic int32_t caller_core;
} job = {.caller_core = -1};
static struct counter handed_out[MOST_THREADS]; // tasks of each span that some thread has taken
static OWN_LINE _Atomic int32_t busy;
static int64_t deadline;                    // when the caller pauses the job
static OWN_LINE _Atomic int32_t paused;     // no more ranges are taken

struct presence {
    // The number of the last job in which the worker's span was claimed; below: whether the worker is
    // inside.
    OWN_LINE _Atomic uint64_t claim;
    _Atomic uint32_t asleep;                // whether the worker must be woken
};
enum { THREADS = MOST_THREADS - 1, OPEN = MOST_THREADS, NEXT = 2 * MOST_THREADS, INSIDE = 1 };
static OWN_LINE _Atomic uint32_t caller_sleeps; // whether the caller must be woken
static struct presence workers[MOST_THREADS];
static OWN_LINE int64_t started = 1;        // threads, the caller included

// Whether in the last job a worker had a span, and whether the caller slept until it had left.
static int32_t helped, slept;
// Brief jobs that the caller is going to do alone, and how many the next time; whether threads have
// been woken for the next one.
static int64_t briefs_alone, most_alone;
static int32_t woken;

// OpenMP's threads, if they are the team.  Their caller waits for all of them, also for one that does
// not run: after a long wait OpenMP is avoided for some jobs, twice as many each time.
typedef void (*gomp_parallel_function)(void (*)(void *), void *, unsigned, unsigned);
static gomp_parallel_function gomp_parallel;
static int (*omp_thread_number)(void);
static int64_t caller_finished;             // when the caller had nothing left to do
static int64_t jobs_to_avoid, penalty = LEAST_AVOIDED;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void cpu_pause(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __builtin_arm_yield();
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t while_value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int64_t count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, (int)count, NULL, NULL, 0);
}

// --- a thread's share of the job ---------------------------------------------------------------

static int64_t first_task(uint64_t span) {
    return (int64_t)(job.tasks * span / job.threads);
}

static void whole_span(uint64_t span) {
    job.function(job.arguments, first_task(span), first_task(span + 1));
}

// Ranges of the thread's own span, then of the others'.
static void ranges(uint64_t thread) {
    const task_function function = job.function;
    void *const arguments = job.arguments;
    const uint64_t threads = job.threads;
    const int64_t range = job.range;
    for (uint64_t k = 0; k < threads; k++) {
        const uint64_t span = (thread + k) % threads;
        const int64_t first = first_task(span), last = first_task(span + 1);
        for (;;) {
            // Reading first: a line that all threads only read stays in the caches of all.
            if (atomic_load_explicit(&paused, memory_order_relaxed)) {
                return;
            }
            if (first + atomic_load_explicit(&handed_out[span].value, memory_order_relaxed) >= last) {
                break;
            }
            const int64_t begin =
                first
                + atomic_fetch_add_explicit(&handed_out[span].value, range, memory_order_relaxed);
            if (begin >= last) {
                break;
            }
            function(arguments, begin, begin + range < last ? begin + range : last);
            if (thread == 0 && deadline != NEVER && now() >= deadline) {
                atomic_store_explicit(&paused, 1, memory_order_relaxed);
                return;
            }
        }
    }
}

static void work(uint64_t thread) {
    if (job.range) {
        ranges(thread);
    } else {
        whole_span(thread);
    }
}

// --- workers -----------------------------------------------------------------------------------

static bool has_thread(uint64_t number, uint64_t thread) {
    return number & OPEN && thread <= (number & THREADS);
}

// Claim a worker's span, for itself (INSIDE) or for the caller (0): false if it has been claimed.
static bool claim(struct presence *of, uint64_t number, uint64_t by) {
    uint64_t before = atomic_load(&of->claim);
    while (before >> 1 < number) {
        if (atomic_compare_exchange_weak(&of->claim, &before, number << 1 | by)) {
            return true;
        }
    }
    return false;
}

// The worker is not inside any more.  The claim may be another's already if the job was closed.
static void leave(struct presence *own, uint64_t number) {
    uint64_t mine = number << 1 | INSIDE;
    atomic_compare_exchange_strong(&own->claim, &mine, number << 1);
    if (atomic_load(&caller_sleeps) && atomic_exchange(&caller_sleeps, 0)) {
        futex_wake(&caller_sleeps, 1);
    }
}

// Whether the worker may work at the job.  It writes first and then reads what the caller writes, who
// does the same, in one order for all (seq_cst): the worker finds the job closed, or the caller finds
// the worker inside.  A claim of a closed job means nothing to anybody.
static bool enter(struct presence *own, uint64_t number) {
    if (!claim(own, number, INSIDE)) {
        return false;
    }
    if (atomic_load(&job.number) == number) {
        return true;
    }
    leave(own, number);
    return false;
}

static uint64_t next_job(struct presence *own, uint64_t thread, uint64_t previous) {
    int64_t since = now();
    for (;;) {
        const uint64_t number = atomic_load(&job.number);
        if (number != previous) {
            if (has_thread(number, thread)) {
                return number;
            }
            previous = number;
            since = now(); // the next one may have more threads
        }
        cpu_pause();
        if (sched_getcpu() == atomic_load_explicit(&job.caller_core, memory_order_relaxed)
            || now() - since >= POLL_NS) {
            // As in `enter`: the worker finds the next job, or the caller finds the worker asleep.
            atomic_store(&own->asleep, 1);
            if (atomic_load(&job.number) == number) {
                futex_wait(&own->asleep, 1);
            }
            atomic_store(&own->asleep, 0);
            since = now();
        }
    }
}

static void *worker(void *thread) {
    struct presence *const own = &workers[(uintptr_t)thread];
    uint64_t number = 0;
    for (;;) {
        number = next_job(own, (uintptr_t)thread, number);
        if (enter(own, number)) {
            work((uintptr_t)thread);
            leave(own, number);
        }
    }
    return NULL;
}

// Start what is missing of so many threads; fewer, if the system refuses.
static void start_workers(int64_t threads) {
    if (started >= threads) {
        return;
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigset_t all, before; // signals are for the threads of Python
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (; started < threads; started++) {
        pthread_t made;
        if (pthread_create(&made, &attributes, worker, (void *)(uintptr_t)started)) {
            break;
        }
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// --- the caller --------------------------------------------------------------------------------

static void openmp_member(void *unused) {
    (void)unused;
    const int thread = omp_thread_number();
    work((unsigned)thread);
    if (thread == 0) {
        caller_finished = now();
    }
}

static void run_by_openmp(int64_t threads) {
    const int64_t began = now();
    gomp_parallel(openmp_member, NULL, (unsigned)threads, 0);
    const int64_t waited = now() - caller_finished;
    // The last range of a long job takes long, too.
    const int64_t tolerated = (caller_finished - began) / 2 + STALL_NS;
    if (waited > tolerated) {
        penalty = penalty * 2 < MOST_AVOIDED ? penalty * 2 : MOST_AVOIDED;
        jobs_to_avoid = penalty;
    } else {
        penalty = LEAST_AVOIDED;
    }
}

static bool is_inside(int64_t thread, uint64_t number) {
    return atomic_load(&workers[thread].claim) == (number << 1 | INSIDE);
}

static void wait_for(int64_t thread, uint64_t number) {
    int polls = 0;
    while (is_inside(thread, number)) {
        if (polls++ < CALLER_POLLS) {
            cpu_pause();
            continue;
        }
        polls = 0;
        slept = 1;
        atomic_store(&caller_sleeps, 1);
        if (is_inside(thread, number)) {
            futex_wait(&caller_sleeps, 1);
        }
        atomic_store(&caller_sleeps, 0);
    }
}

static uint64_t next_number(void) {
    return (atomic_load_explicit(&job.number, memory_order_relaxed) / NEXT + 1) * NEXT;
}

// Wake those of so many threads that sleep: whether there were any.
static bool wake(int64_t threads) {
    bool any = false;
    for (int64_t k = 1; k < threads; k++) {
        if (atomic_load(&workers[k].asleep) && atomic_exchange(&workers[k].asleep, 0)) {
            futex_wake(&workers[k].asleep, 1);
            any = true;
        }
    }
    return any;
}

static void run_job(int64_t threads) {
    if (gomp_parallel) {
        if (jobs_to_avoid == 0) {
            run_by_openmp(threads);
            return;
        }
        jobs_to_avoid--;
    }
    start_workers(threads);
    atomic_store_explicit(&job.caller_core, sched_getcpu(), memory_order_relaxed);
    const uint64_t number = next_number() | OPEN | (uint64_t)(threads - 1);
    atomic_store(&job.number, number);
    wake(threads);
    helped = slept = 0;
    work(0);
    if (job.range) {
        atomic_store(&job.number, number ^ OPEN);
    } else {
        for (int64_t k = 1; k < threads; k++) {
            if (claim(&workers[k], number, 0)) {
                whole_span((uint64_t)k);
            } else {
                helped = 1;
            }
        }
    }
    for (int64_t k = 1; k < threads; k++) {
        wait_for(k, number);
    }
}

static void release_team(void) {
    atomic_store_explicit(&busy, 0, memory_order_release);
}

// Take the team and set its job, or do all tasks here: whether the team was taken.
static bool take_team(task_function function, void *arguments, int64_t tasks, int64_t threads) {
    int32_t idle = 0;
    if (threads <= 1 || !atomic_compare_exchange_strong(&busy, &idle, 1)) {
        function(arguments, 0, tasks);
        return false;
    }
    job.function = function;
    job.arguments = arguments;
    job.tasks = (uint64_t)tasks;
    job.threads = (uint64_t)threads;
    job.range = tasks / (threads * RANGES) > 1 ? tasks / (threads * RANGES) : 1;
    return true;
}

static void start_ranges(void) {
    atomic_store_explicit(&paused, 0, memory_order_relaxed);
    for (uint64_t k = 0; k < job.threads; k++) {
        atomic_store_explicit(&handed_out[k].value, 0, memory_order_relaxed);
    }
}

void parallel(task_function function, void *arguments, int64_t tasks, int64_t threads) {
    if (take_team(function, arguments, tasks, threads)) {
        deadline = NEVER;
        if (tasks <= FEW_TASKS * threads && !gomp_parallel) {
            job.range = 0;
        } else {
            start_ranges();
        }
        run_job(threads);
        release_team();
    }
}

// Let the caller do so many of the next brief jobs alone, or more if there was nobody before either.
static void be_alone(int64_t least) {
    briefs_alone = most_alone > least ? most_alone : least;
    most_alone = briefs_alone * 2 < MOST_AVOIDED ? briefs_alone * 2 : MOST_AVOIDED;
}

// Waking a worker, and waiting for one that does not run, take longer than a brief job.  So those
// that sleep are woken for the next one.  On a machine that is busy with something else they sleep
// again by then, or the caller has to: it asks them more and more rarely, until one helps.
void parallel_brief(task_function function, void *arguments, int64_t tasks, int64_t threads) {
    if (!take_team(function, arguments, tasks, threads)) {
        return;
    }
    bool alone = gomp_parallel != NULL;
    if (briefs_alone > 0) {
        briefs_alone--;
        alone = true;
    }
    if (!alone) {
        start_workers(threads);
        alone = wake(threads);
        if (alone && woken) {
            be_alone(ALONE_AFTER_WAKING);
        }
        woken = alone && !woken;
    }
    if (alone) {
        function(arguments, 0, tasks);
    } else {
        job.range = 0;
        run_job(threads);
        if (slept) {
            be_alone(ALONE_AFTER_SLEEP);
        } else if (helped) {
            most_alone = 0;
        }
    }
    release_team();
}

// Give the team back, with tasks of an interruptible job left over.
void abandon(int32_t *held) {
    *held = 0;
    release_team();
}

// The same as `parallel`, for long jobs: after INTERRUPT_NS it returns 1 with tasks left, no thread
// within a task, and *held set to 1.  Called again with that, it goes on in smaller ranges; `abandon`
// gives the team back instead.  Returns 0 when all tasks are done.
int32_t parallel_interruptible(task_function function, void *arguments, int64_t tasks,
                               int64_t threads, int32_t *held) {
    if (*held) {
        job.range = job.range > 1 ? job.range / 2 : 1;
        atomic_store_explicit(&paused, 0, memory_order_relaxed);
    } else {
        if (!take_team(function, arguments, tasks, threads)) {
            return 0;
        }
        start_ranges();
        job.range = job.range < MOST_TASKS ? job.range : MOST_TASKS;
    }
    *held = 1;
    deadline = now() + INTERRUPT_NS;
    run_job(threads);
    if (atomic_load_explicit(&paused, memory_order_relaxed)) {
        return 1;
    }
    abandon(held);
    return 0;
}

// Let OpenMP's threads be the team: GOMP_parallel and omp_get_thread_num.
void use_openmp(gomp_parallel_function parallel_region, int (*thread_number)(void)) {
    omp_thread_number = thread_number;
    gomp_parallel = parallel_region;
}

// In the child of a fork, where the parent's threads do not exist.
void forget_threads(void) {
    // Whatever job the parent was at, here it has the caller alone.
    atomic_store_explicit(&job.number, next_number(), memory_order_relaxed);
    atomic_store_explicit(&caller_sleeps, 0, memory_order_relaxed);
    for (int64_t k = 0; k < started; k++) {
        atomic_store_explicit(&workers[k].asleep, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&busy, 0, memory_order_relaxed);
    started = 1;
    gomp_parallel = NULL;
}

#endif
