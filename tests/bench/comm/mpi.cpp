// mpirun -n 2 bench_comm_mpi [seconds]: MPI_Allreduce.
#define OMPI_SKIP_MPICXX 1  // the C functions are enough
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>

#include "rounds.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<std::vector<float>> in, out;
  for (const uint64_t bytes : bench_comm::kSizes) {
    in.emplace_back(bytes / sizeof(float), 1.0f);
    out.emplace_back(bytes / sizeof(float));
  }
  uint64_t order[2];  // size, repetitions; 0 repetitions: the end
  const auto tell = [&](uint64_t size, uint64_t times) {
    order[0] = size, order[1] = times;
    MPI_Send(order, 2, MPI_UINT64_T, 1, 0, MPI_COMM_WORLD);
  };
  // Sleeps meanwhile, so that the other programs can use the cores.
  const auto listen = [&] {
    for (int there = 0; !there; usleep(200))
      MPI_Iprobe(0, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    MPI_Recv(order, 2, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return order[1] > 0;
  };
  const auto all_reduce = [&](uint64_t size) {
    MPI_Allreduce(in[size].data(), out[size].data(), static_cast<int>(in[size].size()), MPI_FLOAT,
                  MPI_SUM, MPI_COMM_WORLD);
  };
  if (rank == 0) {
    bench_comm::lead(argc > 1 ? std::atof(argv[1]) : 1, tell, all_reduce);
    tell(0, 0);
  } else {
    while (listen())
      for (uint64_t i = 0; i < order[1]; ++i) all_reduce(order[0]);
  }
  MPI_Finalize();
}
