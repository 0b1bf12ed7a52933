/* MPI_Allreduce of f32 in place, measured as `unisono bench` measures: per size, the median over calls of the slowest rank.
   usage: mpi_all_reduce SECONDS BYTES...      prints one JSON object a size on rank 0 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void all_reduce(float* data, int count) { MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }

/* Seconds of each of `calls` calls on this rank. */
static void time_calls(float* data, int count, int calls, double* seconds) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < calls; i++) {
    all_reduce(data, count);
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
static int time_enough_calls(float* data, int count, double budget, double* seconds) {
  for (int i = 0; i < kWarmup; i++) all_reduce(data, count);
  double samples[kSamples];
  time_calls(data, count, kSamples, samples);
  qsort(samples, kSamples, sizeof(double), compare_doubles);
  const double fitting = budget / kPortions / (samples[kSamples / 2] + 1e-9);
  const int portion = agree(fitting < 1 ? 1 : fitting > kLargestPortion ? kLargestPortion : (int)fitting);
  const double begin = MPI_Wtime();
  int calls = 0, more = 1;
  while (more) {
    time_calls(data, count, portion, seconds + calls);
    calls += portion;
    more = agree(calls < kFewest || (MPI_Wtime() - begin < budget && calls < portion * kPortions));
  }
  return calls;
}

static void measure(double budget, long bytes, int rank, int size) {
  const int count = (int)(bytes / (long)sizeof(float));
  float* data = malloc((size_t)bytes + sizeof(float));
  memset(data, 0, (size_t)bytes); /* touch it */
  double* seconds = malloc(kMost * sizeof(double));
  double* slowest = malloc(kMost * sizeof(double));
  const int calls = time_enough_calls(data, count, budget, seconds);
  MPI_Reduce(seconds, slowest, calls, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    qsort(slowest, (size_t)calls, sizeof(double), compare_doubles);
    printf("{\"bytes\": %ld, \"ranks\": %d, \"time_us\": %.4f, \"calls\": %d}\n", bytes, size, slowest[calls / 2] * 1e6, calls);
    fflush(stdout);
  }
  free(slowest);
  free(seconds);
  free(data);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 2; i < argc; i++) measure(atof(argv[1]), atol(argv[i]), rank, size);
  MPI_Finalize();
  return 0;
}
