/* Ranks that wait in an all_reduce for rank 0, which stays away until somebody opens the fifo to write.
   usage: mpirun -np RANKS mpi_wait FIFO      rank 0 prints "waiting" when it goes */
#include <mpi.h>
#include <stdio.h>

static void stay_away(const char* fifo) {
  puts("waiting");
  fflush(stdout);
  FILE* gate = fopen(fifo, "r");
  if (gate != NULL) {
    fgetc(gate);
    fclose(gate);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 2) return fprintf(stderr, "usage: mpi_wait FIFO\n"), 2;
  double one = 1;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) stay_away(argv[1]);
  one = 1;
  MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return one == size ? 0 : 1;
}
