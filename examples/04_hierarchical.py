"""A hierarchical all-reduce from groups within the world: sum in each team, sum over the teams' leaders, hand it down.

On several hosts the teams would be the hosts. The leaders' group is made by its members only: nobody else calls
anything.

unisono run -n 4 -- python examples/04_hierarchical.py
"""

import numpy as np
import unisono

world = unisono.init()
rank, n = world.rank, world.size
teams = 2 if n >= 2 else 1
colour = rank * teams // n  # 0 0 1 1 on four ranks
members = [r for r in range(n) if r * teams // n == colour]
leaders = [min(r for r in range(n) if r * teams // n == team) for team in range(teams)]

team = world.subgroup(members)
top = world.subgroup(leaders) if rank in leaders else None

x = np.array([rank + 1.0])
team.all_reduce(x)
print(f"rank {rank}: team {members} has {x[0]:g}", flush=True)
if top is not None:
    top.all_reduce(x)
team.broadcast(x, root=0)  # rank 0 of the team is its leader

assert x[0] == n * (n + 1) / 2, x

# The same teams in one call that every rank makes: those with one colour form a group.
same = world.split(colour)
assert same is not None and (same.size, same.rank) == (team.size, team.rank)

world.barrier()
if rank == 0:
    print(f"everybody has {x[0]:g}")
for group in (same, top, team, world):
    if group is not None:
        group.destroy()
