"""Train a classifier of handwritten digits data-parallel, and check it against training in one process.

    unisono run -n 4 -- python examples/digits.py [--plot out/digits.png] [--json out/digits.json]

The data are the 1797 scanned digits that scikit-learn ships. A small network (64-256-128-10, float64, plain NumPy) is
trained by gradient descent with momentum. Each rank computes the gradient of its share of a batch; gradients are
averaged by all_reduce, a bucket for each layer, started as soon as the backward pass has finished the layer: the last
layer's gradient travels while the first layer's is computed.

Afterwards rank 0 trains once more alone on the joined batches. The losses must agree to 1e-5 at every step and the
accuracy on digits never seen must be at least 0.95; otherwise the program says so and ends with status 1.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TextIO

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread a rank: NumPy's own would compete for the cores

import numpy as np
import unisono
from sklearn.datasets import load_digits

Array = np.ndarray
Data = tuple[Array, Array, Array, Array]
Summary = dict[str, float]
SIZES = (64, 256, 128, 10)
BATCH, EPOCHS, RATE, MOMENTUM = 256, 60, 0.05, 0.9
LEAST_ACCURACY, MOST_DIFFERENCE = 0.95, 1e-5


def load() -> Data:
    """Images and labels to train on, and to test on: one digit in five, by a fixed shuffle."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(labels))
    test, train = np.split(order, [len(labels) // 5])
    return images[train] / 16.0, labels[train], images[test] / 16.0, labels[test]


class Layer:
    """Weights and biases as views of one vector, their gradient as views of another: the bucket that is averaged."""

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        self.values = np.zeros((inputs + 1) * outputs)
        self.gradient = np.zeros_like(self.values)
        self.velocity = np.zeros_like(self.values)
        split = inputs * outputs
        self.weights, self.biases = self.values[:split].reshape(inputs, outputs), self.values[split:]
        self.d_weights, self.d_biases = self.gradient[:split].reshape(inputs, outputs), self.gradient[split:]
        self.weights[:] = rng.standard_normal((inputs, outputs)) * np.sqrt(2.0 / inputs)


class Network:
    """A multi-layer perceptron with a softmax at its end."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.layers = [Layer(*pair, rng) for pair in pairwise(SIZES)]

    def forward(self, images: Array) -> list[Array]:
        """Activations: the images, each hidden layer, the probabilities."""
        activations = [images]
        for layer in self.layers[:-1]:
            activations.append(np.maximum(activations[-1] @ layer.weights + layer.biases, 0.0))
        scores = activations[-1] @ self.layers[-1].weights + self.layers[-1].biases
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        activations.append(scores / scores.sum(axis=1, keepdims=True))
        return activations

    def backward(self, activations: list[Array], labels: Array, finished: Callable[[Layer], None]) -> float:
        """Fill the gradients, last layer first, calling finished(layer) after each. Returns the mean loss."""
        rows = np.arange(len(labels))
        probabilities = activations[-1]
        loss = -float(np.mean(np.log(probabilities[rows, labels])))
        delta = probabilities.copy()
        delta[rows, labels] -= 1.0
        delta /= len(labels)
        for index in reversed(range(len(self.layers))):
            layer = self.layers[index]
            np.matmul(activations[index].T, delta, out=layer.d_weights)
            np.sum(delta, axis=0, out=layer.d_biases)
            finished(layer)
            if index > 0:
                delta = (delta @ layer.weights.T) * (activations[index] > 0.0)
        return loss

    def step(self) -> None:
        """Descend along the gradient."""
        for layer in self.layers:
            layer.velocity *= MOMENTUM
            layer.velocity += layer.gradient
            layer.values -= RATE * layer.velocity

    def accuracy(self, images: Array, labels: Array) -> float:
        """Share of the images that get the right label."""
        return float(np.mean(self.forward(images)[-1].argmax(axis=1) == labels))


def batches(count: int, size: int, epoch: int) -> Iterator[Array]:
    """Indices of each whole batch of an epoch, in an order that all ranks agree on."""
    order = np.random.default_rng((11, epoch)).permutation(count)
    for start in range(0, count - size + 1, size):
        yield order[start : start + size]


@dataclass
class History:
    """What a training run leaves: the loss of each step, and where the time of each epoch went."""

    losses: list[float] = field(default_factory=list)
    computing: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)


def train_alone(data: tuple[Array, Array], size: int, epochs: int) -> tuple[Network, History]:
    """One process, whole batches: what the distributed run must agree with."""
    images, labels = data
    network, history = Network(seed=1), History()
    for epoch in range(epochs):
        for batch in batches(len(labels), size, epoch):
            activations = network.forward(images[batch])
            history.losses.append(network.backward(activations, labels[batch], lambda layer: None))
            network.step()
    return network, history


def train_together(
    world: unisono.Group, data: tuple[Array, Array], size: int, epochs: int, report: Callable[[int, float], None]
) -> tuple[Network, History]:
    """Every rank works on its share of each batch; gradients are averaged while the backward pass goes on."""
    images, labels = data
    share = size // world.size
    network, history = Network(seed=1), History()
    for layer in network.layers:
        world.broadcast(layer.values)  # equal seeds make this needless; a real job starts from rank 0's values
    loss = np.zeros(1)
    works: list[unisono.Work] = []

    def average(layer: Layer) -> None:
        works.append(world.all_reduce(layer.gradient, "avg", async_op=True))

    for epoch in range(epochs):
        waited, start = 0.0, time.perf_counter()
        for batch in batches(len(labels), size, epoch):
            mine = batch[world.rank * share : (world.rank + 1) * share]
            loss[0] = network.backward(network.forward(images[mine]), labels[mine], average)
            works.append(world.all_reduce(loss, "avg", async_op=True))
            blocked = time.perf_counter()
            for work in works:
                work.wait()
            waited += time.perf_counter() - blocked
            works.clear()
            history.losses.append(float(loss[0]))
            network.step()
        times = np.array([time.perf_counter() - start - waited, waited])
        world.all_reduce(times, "avg")
        history.computing.append(float(times[0]))
        history.waiting.append(float(times[1]))
        report(epoch, history.losses[-1])
    return network, history


def find_terminal() -> TextIO | None:
    """Where a bar can be drawn: standard output, or the terminal behind the launcher, which passes whole lines only."""
    if sys.stdout.isatty():
        return sys.stdout
    try:
        return open("/dev/tty", "w")
    except OSError:  # no terminal: a batch job, CI
        return None


class Progress:
    """A bar on a terminal, a line now and then elsewhere; silent on other ranks than 0."""

    def __init__(self, rank: int, epochs: int, mode: str) -> None:
        self.rank, self.epochs, self.bar = rank, epochs, None
        terminal = find_terminal() if rank == 0 and mode == "auto" else None
        if terminal is not None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            text = TextColumn("epochs, loss {task.fields[loss]}")
            columns = [TextColumn("training"), BarColumn(), MofNCompleteColumn(), text, TimeElapsedColumn()]
            self.bar = Bar(*columns, console=Console(file=terminal, force_terminal=True))
            self.task = self.bar.add_task("training", total=epochs, loss="-")
            self.bar.start()

    def report(self, epoch: int, loss: float) -> None:
        """An epoch is over."""
        if self.bar is not None:
            self.bar.update(self.task, completed=epoch + 1, loss=f"{loss:.4f}")
        elif self.rank == 0 and (epoch + 1) % max(1, self.epochs // 6) == 0:
            print(f"epoch {epoch + 1:3} of {self.epochs}: loss {loss:.5f}", flush=True)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self.bar is not None:
            self.bar.stop()


def plot(path: Path, together: History, alone: History, summary: Summary) -> None:
    """Draw the losses of both runs, and where the time went."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import PercentFormatter

    steps = len(together.losses) / len(together.waiting)
    epochs = (np.arange(len(together.losses)) + 1) / steps
    waiting = np.array(together.waiting)
    share = waiting / (waiting + np.array(together.computing))
    blue, orange, grey = "#2166ac", "#e08214", "#b8c4d0"

    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(9, 7.5), height_ratios=(3, 2), sharex=True, layout="constrained"
    )
    top.plot(epochs, alone.losses, color=orange, linewidth=5, alpha=0.45, label="one process, joined batches")
    top.plot(
        epochs,
        together.losses,
        color=blue,
        linewidth=1.3,
        label=f"{summary['ranks']:.0f} ranks, gradients averaged by all_reduce",
    )
    top.set_yscale("log")
    top.set_ylabel("cross-entropy of the batch")
    top.set_title("Handwritten digits, trained data-parallel with unisono", fontsize=13, loc="left")
    note = f"accuracy on unseen digits {summary['accuracy']:.3f}\ncurves differ by at most {summary['difference']:.1e}"
    top.text(0.98, 0.72, note, transform=top.transAxes, ha="right", va="top", fontsize=10.5)
    top.legend(loc="upper right", frameon=False)
    top.grid(alpha=0.25, which="major")

    centres = np.arange(len(share)) + 0.5
    bottom.bar(centres, 1 - share, bottom=share, width=1, color=grey, label="computing (forward, backward, update)")
    bottom.bar(centres, share, width=1, color=blue, label=f"waiting for communication: {share.mean():.0%} on average")
    bottom.set_ylim(0, 1)
    bottom.set_xlim(0, len(share))
    bottom.yaxis.set_major_formatter(PercentFormatter(1.0))
    bottom.set_ylabel("share of an epoch's time")
    cores = len(os.sched_getaffinity(0))
    crowded = ": who waits may be waiting for a core" if cores < summary["ranks"] else ""
    bottom.set_xlabel(f"epoch ({summary['ranks']:.0f} ranks on {cores} cores{crowded})")
    bottom.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, frameon=False, reverse=True, borderaxespad=0.1)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def compare(arguments: argparse.Namespace, data: Data, network: Network, together: History, summary: Summary) -> bool:
    """Train once more alone, add to the summary, tell and draw; whether everything is as it should be."""
    images, labels, test_images, test_labels = data
    start = time.perf_counter()
    reference, alone = train_alone((images, labels), int(summary["batch"]), arguments.epochs)
    waiting = sum(together.waiting)
    summary |= {
        "seconds_alone": time.perf_counter() - start,
        "waiting": waiting / (waiting + sum(together.computing)),
        "steps": len(together.losses),
        "accuracy": network.accuracy(test_images, test_labels),
        "accuracy_alone": reference.accuracy(test_images, test_labels),
        "difference": float(np.max(np.abs(np.array(together.losses) - np.array(alone.losses)))),
    }
    print("{ranks} ranks, {steps} steps in {seconds:.2f} s, {waiting:.0%} of it waiting".format(**summary), end="; ")
    print("one process {seconds_alone:.2f} s".format(**summary))
    print("accuracy on unseen digits {accuracy:.4f}".format(**summary), end=", ")
    print("largest difference of the losses {difference:.2e}".format(**summary), flush=True)
    failures = []
    if summary["accuracy"] < LEAST_ACCURACY:
        failures.append(f"the accuracy is below {LEAST_ACCURACY}")
    if not summary["difference"] <= MOST_DIFFERENCE:  # this way round for NaN
        failures.append(f"the losses differ by more than {MOST_DIFFERENCE} from training in one process")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    if arguments.plot:
        plot(arguments.plot, together, alone, summary)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(summary, indent=2) + "\n")
    return not failures


def main() -> int:
    """Train, compare, report; 0 when everything is as it should be."""
    parser = argparse.ArgumentParser(description="Train on handwritten digits, data-parallel.")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--plot", type=Path, help="write a picture here (PNG)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--progress", choices=("auto", "lines"), default="auto")
    arguments = parser.parse_args()

    world = unisono.init()
    data = load()
    size = BATCH // world.size * world.size  # every rank has an equal share
    progress = Progress(world.rank, arguments.epochs, arguments.progress)
    world.barrier()
    start = time.perf_counter()
    network, together = train_together(world, data[:2], size, arguments.epochs, progress.report)
    summary: Summary = {"ranks": world.size, "batch": size, "seconds": time.perf_counter() - start}
    progress.close()

    failed = np.zeros(1, dtype=bool)
    if world.rank == 0:
        failed[0] = not compare(arguments, data, network, together, summary)
    world.broadcast(failed)  # so that all ranks end with the same status
    world.destroy()
    return int(failed[0])


if __name__ == "__main__":
    sys.exit(main())
