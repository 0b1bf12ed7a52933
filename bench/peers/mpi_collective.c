/* One collective of MPI on f32, measured as `unisono bench` measures: per size, the median over calls of the slowest rank. In place, but for
   all_to_all. BYTES are those of the buffer, or of all ranks' blocks together. "send": one way, half of there and back between ranks 0 and 1.
   usage: mpi_collective NAME SECONDS BYTES...      prints one JSON object a size on rank 0 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static float *whole, *other; /* of `count` elements each */
static int count, part;      /* part: a rank's block */

static float* block(float* of, int r) { return of + (size_t)r * (size_t)part; }

static void all_reduce(void) { MPI_Allreduce(MPI_IN_PLACE, whole, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void reduce(void) {
  MPI_Reduce(rank == 0 ? MPI_IN_PLACE : whole, whole, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void broadcast(void) { MPI_Bcast(whole, count, MPI_FLOAT, 0, MPI_COMM_WORLD); }
static void all_gather(void) {
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole, part, MPI_FLOAT, MPI_COMM_WORLD);
}
static void reduce_scatter(void) {
  MPI_Reduce_scatter_block(MPI_IN_PLACE, whole, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void all_to_all(void) { MPI_Alltoall(whole, part, MPI_FLOAT, other, part, MPI_FLOAT, MPI_COMM_WORLD); }
static void gather(void) {
  MPI_Gather(rank == 0 ? MPI_IN_PLACE : block(whole, rank), part, MPI_FLOAT, whole, part, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void scatter(void) {
  MPI_Scatter(whole, part, MPI_FLOAT, rank == 0 ? MPI_IN_PLACE : block(whole, rank), part, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void there_and_back(void) {
  if (rank == 0) MPI_Send(whole, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
  if (rank < 2) MPI_Recv(whole, count, MPI_FLOAT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(whole, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
}

/* meet: ranks could run ahead of each other in it, so that calls would overlap. */
static const struct Collective {
  const char* name;
  void (*call)(void);
  int meet;
} kAll[] = {{"all_reduce", all_reduce, 0}, {"reduce", reduce, 1},
            {"broadcast", broadcast, 1},   {"all_gather", all_gather, 0},
            {"reduce_scatter", reduce_scatter, 0}, {"all_to_all", all_to_all, 1},
            {"gather", gather, 1},         {"scatter", scatter, 1},
            {"send", there_and_back, 0}};

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Seconds of each of `calls` calls on this rank. */
static void time_calls(const struct Collective* c, int calls, double* seconds) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < calls; i++) {
    if (c->meet) {
      MPI_Barrier(MPI_COMM_WORLD);
      start = MPI_Wtime();
    }
    c->call();
    const double end = MPI_Wtime();
    seconds[i] = end - start;
    start = end;
  }
}

/* What rank 0 says, on every rank. */
static int agree(int value) {
  MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return value;
}

enum { kWarmup = 5, kSamples = 5, kFewest = 10, kPortions = 10, kLargestPortion = 2000, kMost = kPortions * kLargestPortion };

/* Seconds of each call on this rank, as many as fit into `budget` seconds, in portions; their number. */
static int time_enough_calls(const struct Collective* c, double budget, double* seconds) {
  for (int i = 0; i < kWarmup; i++) c->call();
  double samples[kSamples];
  time_calls(c, kSamples, samples);
  qsort(samples, kSamples, sizeof(double), compare_doubles);
  const double fitting = budget / kPortions / (samples[kSamples / 2] + 1e-9);
  const int portion = agree(fitting < 1 ? 1 : fitting > kLargestPortion ? kLargestPortion : (int)fitting);
  const double begin = MPI_Wtime();
  int calls = 0, more = 1;
  while (more) {
    time_calls(c, portion, seconds + calls);
    calls += portion;
    more = agree(calls < kFewest || (MPI_Wtime() - begin < budget && calls < portion * kPortions));
  }
  return calls;
}

/* Memory on pages of its own: what calloc() gives is the system's one page of zeros, over and over, until somebody writes to it. It is in every
   cache, and whoever sends it seems fast. And no zeros: there is hardware that moves them faster than all else. */
static void* touched(size_t bytes) {
  char* memory = malloc(bytes);
  memset(memory, 0x3f, bytes); /* 0.75 */
  return memory;
}

static void measure(const struct Collective* c, double budget, long bytes) {
  part = (int)(bytes / (long)sizeof(float) / size);
  if (part < 1) part = 1;
  const int blocks = c->call == all_gather || c->call == reduce_scatter || c->call == all_to_all || c->call == gather ||
                     c->call == scatter;
  count = blocks ? part * size : (int)(bytes / (long)sizeof(float));
  const size_t room = (size_t)count * sizeof(float) + 64;
  whole = touched(room);
  other = touched(room);
  double* seconds = malloc(kMost * sizeof(double));
  double* slowest = malloc(kMost * sizeof(double));
  const int calls = time_enough_calls(c, budget, seconds);
  MPI_Reduce(seconds, slowest, calls, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    qsort(slowest, (size_t)calls, sizeof(double), compare_doubles);
    const double each = slowest[calls / 2] / (c->call == there_and_back ? 2 : 1);
    printf("{\"bytes\": %ld, \"ranks\": %d, \"time_us\": %.4f, \"calls\": %d}\n", bytes, size, each * 1e6, calls);
    fflush(stdout);
  }
  free(slowest);
  free(seconds);
  free(other);
  free(whole);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const struct Collective* chosen = NULL;
  for (size_t i = 0; i < sizeof kAll / sizeof *kAll; i++)
    if (argc > 1 && strcmp(kAll[i].name, argv[1]) == 0) chosen = &kAll[i];
  if (chosen == NULL) fprintf(stderr, "no collective %s\n", argc > 1 ? argv[1] : "was named");
  for (int i = 3; chosen != NULL && i < argc; i++) measure(chosen, atof(argv[2]), atol(argv[i]));
  MPI_Finalize();
  return chosen == NULL;
}
