// A hierarchical all-reduce from groups within the world: sum in each team, sum over the teams' leaders, hand it down.
//
// On several hosts the teams would be the hosts. The leaders' group is made by its members only: nobody else calls anything.
//
// unisono run -n 4 -- build/release/examples/04_hierarchical

#include <algorithm>
#include <cstdio>
#include <unisono/unisono.hpp>
#include <vector>

int main() {
  const unisono::Group world = unisono::init();
  const int rank = world.rank(), n = world.size();
  const int teams = std::min(2, n);
  const auto team_of = [&](int r) { return r * teams / n; };  // 0 0 1 1 on four ranks

  std::vector<int> members, leaders;
  for (int r = 0; r < n; r++) {
    if (team_of(r) == team_of(rank)) members.push_back(r);
    if (r == 0 || team_of(r) != team_of(r - 1)) leaders.push_back(r);
  }
  const bool leads = members.front() == rank;

  const unisono::Group team = world.subgroup(members);
  const unisono::Group top = leads ? world.subgroup(leaders) : unisono::Group();

  double x = rank + 1;
  team.all_reduce(std::span(&x, 1));
  std::printf("rank %d: its team of %d has %g\n", rank, team.size(), x);
  std::fflush(stdout);
  if (top) top.all_reduce(std::span(&x, 1));
  team.broadcast(std::span(&x, 1), 0);  // rank 0 of the team is its leader
  if (x != n * (n + 1) / 2.0) return 1;

  // The same teams in one call that every rank makes: those with one colour form a group.
  const unisono::Group same = world.split(team_of(rank));
  if (same.size() != team.size() || same.rank() != team.rank()) return 1;

  world.barrier();
  if (rank == 0) std::printf("everybody has %g\n", x);
}
