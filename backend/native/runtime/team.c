// A team of threads that share the tasks of one job.
//
// Each thread of a job gets a contiguous span of the tasks, the same one every time, so that it works
// on what its core has in its caches.  Ranges of a span are handed out by an atomic counter; a thread
// that has finished its own span takes ranges of the others'.
//
// A worker polls for the next job for a moment and then sleeps (a futex on `epoch`).  The caller never
// waits for a worker that has not arrived: a worker says in a cache line of its own that it is inside,
// and works only if the job is still open then; the caller closes the job when no range is left, and
// waits only for those inside.  What many threads write in turn is slow where there are many cores, so
// nothing is, but by the last of them that the caller waits for.  On a machine that is busy with
// something else, the caller does the work alone.  A worker that finds itself on the caller's core
// sleeps at once.  A call that finds the team busy runs its tasks alone.
//
#define _GNU_SOURCE // sched_getcpu
#include "team.h"

#ifndef __linux__

void parallel(task_function function, void *arguments, int64_t tasks, int64_t threads) {
    (void)threads;
    function(arguments, 0, tasks);
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
    STACK_BYTES = 4 << 20,
    CACHE_LINE = 64,
};

#define NEVER INT64_MAX
#define OWN_LINE _Alignas(CACHE_LINE)

struct counter {
    OWN_LINE _Atomic int64_t value;
};

// The job.  It is written by the caller that has set `busy`, before workers can enter.
static OWN_LINE task_function job_function;
static void *job_arguments;
static uint64_t job_tasks, job_threads;
static int64_t job_range;                    // tasks in a range
static struct counter handed_out[MOST_THREADS]; // tasks of each span that some thread has taken
static OWN_LINE _Atomic int32_t busy;
static int64_t deadline;                    // when the caller pauses the job
static OWN_LINE _Atomic int32_t paused;     // no more ranges are taken

// How workers find the job.
struct presence {
    OWN_LINE _Atomic uint32_t value;        // whether the worker is inside
};
static OWN_LINE _Atomic uint32_t epoch;     // counts where a job begins, and where it ends: odd if open
static _Atomic int32_t caller_core = -1;
static OWN_LINE _Atomic int32_t sleepers;   // workers that must be woken
static OWN_LINE _Atomic uint32_t caller_sleeps; // whether the caller must be woken
static struct presence inside[MOST_THREADS];
static OWN_LINE int64_t started = 1;        // threads, the caller included

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

static void work(uint64_t thread) {
    const task_function function = job_function;
    void *const arguments = job_arguments;
    const uint64_t tasks = job_tasks, threads = job_threads;
    const int64_t range = job_range;
    for (uint64_t k = 0; k < threads; k++) {
        const uint64_t span = (thread + k) % threads;
        const int64_t first = (int64_t)(tasks * span / threads);
        const int64_t last = (int64_t)(tasks * (span + 1) / threads);
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

// --- workers -----------------------------------------------------------------------------------

static bool is_open(uint32_t job) {
    return job & 1;
}

static uint32_t next_job(uint32_t previous) {
    const int64_t since = now();
    for (;;) {
        const uint32_t job = atomic_load(&epoch);
        if (job != previous && is_open(job)) {
            return job;
        }
        cpu_pause();
        if (sched_getcpu() == atomic_load_explicit(&caller_core, memory_order_relaxed)
            || now() - since >= POLL_NS) {
            atomic_fetch_add(&sleepers, 1);
            futex_wait(&epoch, job);
            atomic_fetch_sub(&sleepers, 1);
        }
    }
}

// Both sides write first and then read what the other writes, in one order for all (seq_cst): either
// the worker finds the job closed, or the caller finds the worker inside.
static bool enter(_Atomic uint32_t *own, uint32_t job) {
    atomic_store(own, 1);
    return atomic_load(&epoch) == job;
}

static void leave(_Atomic uint32_t *own) {
    atomic_store(own, 0);
    if (atomic_load(&caller_sleeps) && atomic_exchange(&caller_sleeps, 0)) {
        futex_wake(&caller_sleeps, 1);
    }
}

static void *worker(void *thread) {
    _Atomic uint32_t *const own = &inside[(uintptr_t)thread].value;
    uint32_t job = 0;
    for (;;) {
        job = next_job(job);
        if (enter(own, job)) {
            work((uintptr_t)thread);
        }
        leave(own);
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

static bool is_inside(int64_t *first) {
    for (; *first < started; ++*first) {
        if (atomic_load(&inside[*first].value)) {
            return true;
        }
    }
    return false;
}

static void wait_for_workers(void) {
    int64_t first = 1; // all before are outside, and stay there
    int polls = 0;
    while (is_inside(&first)) {
        if (polls++ < CALLER_POLLS) {
            cpu_pause();
            continue;
        }
        polls = 0;
        atomic_store(&caller_sleeps, 1);
        if (is_inside(&first)) {
            futex_wait(&caller_sleeps, 1);
        }
        atomic_store(&caller_sleeps, 0);
    }
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
    atomic_store_explicit(&caller_core, sched_getcpu(), memory_order_relaxed);
    atomic_fetch_add(&epoch, 1);
    if (atomic_load(&sleepers)) {
        futex_wake(&epoch, threads - 1);
    }
    work(0);
    atomic_fetch_add(&epoch, 1);
    wait_for_workers();
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
    job_function = function;
    job_arguments = arguments;
    job_tasks = (uint64_t)tasks;
    job_threads = (uint64_t)threads;
    job_range = tasks / (threads * RANGES) > 1 ? tasks / (threads * RANGES) : 1;
    atomic_store_explicit(&paused, 0, memory_order_relaxed);
    for (int64_t k = 0; k < threads; k++) {
        atomic_store_explicit(&handed_out[k].value, 0, memory_order_relaxed);
    }
    return true;
}

void parallel(task_function function, void *arguments, int64_t tasks, int64_t threads) {
    if (take_team(function, arguments, tasks, threads)) {
        deadline = NEVER;
        run_job(threads);
        release_team();
    }
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
        job_range = job_range > 1 ? job_range / 2 : 1;
        atomic_store_explicit(&paused, 0, memory_order_relaxed);
    } else {
        if (!take_team(function, arguments, tasks, threads)) {
            return 0;
        }
        job_range = job_range < MOST_TASKS ? job_range : MOST_TASKS;
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
    atomic_store_explicit(&epoch, 0, memory_order_relaxed);
    atomic_store_explicit(&sleepers, 0, memory_order_relaxed);
    atomic_store_explicit(&caller_sleeps, 0, memory_order_relaxed);
    for (int64_t k = 0; k < started; k++) {
        atomic_store_explicit(&inside[k].value, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&busy, 0, memory_order_relaxed);
    started = 1;
    gomp_parallel = NULL;
}

#endif
