/* When this rank has done its first all_reduce, in seconds of CLOCK_MONOTONIC.
   usage: mpirun -np RANKS mpi_start      each rank prints a line of JSON */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <time.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  double one = 1;
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  printf("{\"end\": %.9f}\n", (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
  MPI_Finalize();
  return one == size ? 0 : 1;
}
