"""The part of `make demo` that trains with PyTorch: the same job on "unisono" and on "gloo", side by side."""

import importlib.util
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
BACKENDS = ("unisono", "gloo")
COLORS = {"unisono": "#2166ac", "gloo": "#e08214"}
RANKS = (2, 4)
EPOCHS = 20
WARM_UP = 10
MOST_DIFFERENCE = 1e-5
TORCH = "2.13.0"


@dataclass(frozen=True)
class Job:
    """What one training job wrote."""

    backend: str
    ranks: int
    losses: list[float]
    seconds: list[float]
    accuracy: float

    def step_ms(self) -> float:
        """The median time of a step on rank 0, the first ones left out."""
        return 1e3 * statistics.median(self.seconds[min(WARM_UP, len(self.seconds) // 2) :])


def is_there() -> bool:
    """Whether torch is installed; says so when it is not, and how to get it."""
    if importlib.util.find_spec("torch") is not None:
        return True
    print(f"torch is not installed, so nothing is trained with it: {sys.executable} -m pip install torch=={TORCH}")
    return False


def train(unisono: str, out: Path, backend: str, ranks: int) -> Job:
    """Run examples/digits_ddp.py. Ends the program when it fails: the job's own output says why."""
    figures = out / f"digits_ddp_{backend}_{ranks}.json"
    program = [sys.executable, str(HERE / "digits_ddp.py"), "--backend", backend, "--epochs", str(EPOCHS)]
    command = [unisono, "run", "-n", str(ranks), "--", *program, "--out", str(figures)]
    print("$", " ".join(command), flush=True)
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        raise SystemExit(f'demo: training with DDP on "{backend}" ended with status {status}')
    result = json.loads(figures.read_text())
    return Job(backend, ranks, result["losses"], result["seconds"], result["accuracy"])


def difference(one: Job, other: Job) -> float:
    """The largest difference of two jobs' losses at the same step."""
    return max(abs(a - b) for a, b in zip(one.losses, other.losses, strict=True))


def table(jobs: list[Job]) -> str:
    """Step times side by side, a row for each number of ranks."""
    rows = [f"{'ranks':>5}{'unisono':>14}{'gloo':>14}{'gloo / unisono':>17}{'losses differ by':>19}"]
    for ranks in RANKS:
        ours, theirs = (next(j for j in jobs if (j.backend, j.ranks) == (name, ranks)) for name in BACKENDS)
        times = f"{ours.step_ms():>11.2f} ms{theirs.step_ms():>11.2f} ms{theirs.step_ms() / ours.step_ms():>17.2f}"
        rows.append(f"{ranks:>5}{times}{difference(ours, theirs):>19.1e}")
    return "\n".join(rows)


def plot(path: Path, jobs: list[Job]) -> None:
    """Losses of both back ends, and the time of each step."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        2, len(RANKS), figsize=(11, 7.5), sharex=True, sharey="row", squeeze=False, layout="constrained"
    )
    for column, ranks in enumerate(RANKS):
        top, bottom = axes[0][column], axes[1][column]
        pair = [job for job in jobs if job.ranks == ranks]
        for job in reversed(pair):  # gloo below, wider, so that both can be seen where they agree
            ours = job.backend == "unisono"
            style = {"color": COLORS[job.backend], "linewidth": 1.4 if ours else 5, "alpha": 1 if ours else 0.45}
            top.plot(job.losses, label=f'"{job.backend}"', **style)
            bottom.plot([1e3 * s for s in job.seconds], color=COLORS[job.backend], linewidth=0.6, alpha=0.6)
            label = f'"{job.backend}": {job.step_ms():.2f} ms'
            bottom.axhline(job.step_ms(), color=COLORS[job.backend], linewidth=1.8, label=label)
        top.set_title(f"{ranks} ranks: losses differ by at most {difference(*pair):.1e}", fontsize=11, loc="left")
        top.set_yscale("log")
        bottom.set_yscale("log")
        bottom.set_xlabel("step")
        for one in (top, bottom):
            one.legend(loc="upper right", frameon=False)
            one.grid(alpha=0.25)
            one.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("cross-entropy of the batch")
    axes[1][0].set_ylabel("time of a step, ms (line: median)")
    figure.suptitle("Handwritten digits, trained with PyTorch's DistributedDataParallel", fontsize=13)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def compare(unisono: str, out: Path) -> tuple[list[str], bool]:
    """Train on both back ends, draw digits_ddp.png; what to say of it, and whether the losses agree."""
    if not is_there():
        return [], True
    jobs = [train(unisono, out, backend, ranks) for ranks in RANKS for backend in BACKENDS]
    plot(out / "digits_ddp.png", jobs)
    worst = max(difference(jobs[i], jobs[i + 1]) for i in range(0, len(jobs), len(BACKENDS)))
    agrees = worst <= MOST_DIFFERENCE
    lines = ["time of a training step with DDP, on each back end:", table(jobs)]
    if not agrees:
        lines.append(f"FAILED: the losses on the two back ends differ by {worst:.1e}, more than {MOST_DIFFERENCE:.0e}")
    return lines, agrees
