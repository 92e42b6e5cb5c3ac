// What team.c offers to other C files.
#include <stdint.h>

// A kernel: runs tasks first … last - 1 with its packed arguments.
typedef void (*task_function)(void *arguments, int64_t first, int64_t last);

// Run tasks 0 … tasks - 1 on up to so many threads, and return when all are done.
void parallel(task_function function, void *arguments, int64_t tasks, int64_t threads);

// The same for a few microseconds of work: by threads that are awake, or else by the caller alone.
void parallel_brief(task_function function, void *arguments, int64_t tasks, int64_t threads);
