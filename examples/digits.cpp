// Train a classifier of handwritten digits data-parallel, and check it against training in one process.
//
// python examples/digits_csv.py out/digits.csv
// unisono run -n 4 -- build/release/examples/digits out/digits.csv
//
// The same job as digits.py, in C++: a small network (64-128-10, double), gradients averaged by all_reduce in a bucket for each
// layer, started as soon as the backward pass has finished the layer. Afterwards rank 0 trains once more alone on the joined
// batches: the losses must agree to 1e-5 and the accuracy on unseen digits be at least 0.95, or it ends with status 1.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unisono/unisono.hpp>
#include <vector>

namespace {

using Vector = std::vector<double>;
constexpr int kSizes[] = {64, 128, 10};
constexpr int kLayers = 2, kBatch = 256, kEpochs = 60;
constexpr double kRate = 0.1, kMomentum = 0.9;

struct Digits {
  std::vector<Vector> images;
  std::vector<int> labels;
  std::size_t training = 0;  // so many to train on; the rest is for testing
};

Digits load(const char* path) {
  std::ifstream file(path);
  Digits digits;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    Vector& image = digits.images.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) image.push_back(std::stod(field) / 16.0);
    if (image.size() != 65) throw std::runtime_error(std::string(path) + ": a line has no 64 pixels and a label");
    digits.labels.push_back(static_cast<int>(std::lround(image.back() * 16.0)));
    image.pop_back();
  }
  if (digits.images.empty()) throw std::runtime_error(std::string(path) + ": no digits; write it with digits_csv.py");
  digits.training = digits.images.size() - digits.images.size() / 5;
  return digits;
}

/// Weights [inputs][outputs], then biases, in one vector; the gradient likewise: the bucket that is averaged.
struct Layer {
  Layer(int in, int out, std::mt19937_64& random)
      : inputs(in), outputs(out), values((in + 1) * out), gradient(values.size()), velocity(values.size()) {
    std::normal_distribution<double> normal(0.0, std::sqrt(2.0 / in));
    for (int i = 0; i < in * out; i++) values[i] = normal(random);
  }
  int inputs, outputs;
  Vector values, gradient, velocity;
};

struct Network {
  Network() {
    std::mt19937_64 random(1);
    for (int i = 0; i < kLayers; i++) layers.emplace_back(kSizes[i], kSizes[i + 1], random);
  }

  /// Activations of one image: the hidden layers after ReLU, the last as probabilities.
  std::vector<Vector> forward(const Vector& image) const {
    std::vector<Vector> a{image};
    for (const Layer& layer : layers) {
      Vector out(layer.values.end() - layer.outputs, layer.values.end());
      for (int i = 0; i < layer.inputs; i++)
        for (int o = 0; o < layer.outputs; o++) out[o] += a.back()[i] * layer.values[i * layer.outputs + o];
      a.push_back(std::move(out));
      if (a.size() <= kLayers)
        for (double& x : a.back()) x = std::max(x, 0.0);
    }
    const double highest = *std::max_element(a.back().begin(), a.back().end());
    for (double& x : a.back()) x = std::exp(x - highest);
    const double sum = std::accumulate(a.back().begin(), a.back().end(), 0.0);
    for (double& x : a.back()) x /= sum;
    return a;
  }

  /// Gradients of the mean loss over `batch`, last layer first; `finished(layer)` after each. Returns the mean loss.
  double backward(const Digits& digits, std::span<const std::size_t> batch,
                  const std::function<void(Layer&)>& finished) {
    std::vector<std::vector<Vector>> activations;
    std::vector<Vector> deltas;
    double loss = 0;
    const double share = 1.0 / static_cast<double>(batch.size());
    for (const std::size_t i : batch) {
      activations.push_back(forward(digits.images[i]));
      Vector& delta = deltas.emplace_back(activations.back().back());
      loss -= std::log(delta[digits.labels[i]]) * share;
      delta[digits.labels[i]] -= 1.0;
      for (double& d : delta) d *= share;
    }
    for (int l = kLayers - 1; l >= 0; l--) {
      Layer& layer = layers[l];
      std::fill(layer.gradient.begin(), layer.gradient.end(), 0.0);
      for (std::size_t b = 0; b < batch.size(); b++) {
        const Vector& in = activations[b][l];
        const Vector& delta = deltas[b];
        for (int i = 0; i < layer.inputs; i++)
          for (int o = 0; o < layer.outputs; o++) layer.gradient[i * layer.outputs + o] += in[i] * delta[o];
        for (int o = 0; o < layer.outputs; o++) layer.gradient[layer.inputs * layer.outputs + o] += delta[o];
      }
      finished(layer);  // its gradient may travel while the layers before it are computed
      for (std::size_t b = 0; l > 0 && b < batch.size(); b++) {
        Vector before(layer.inputs);
        for (int i = 0; i < layer.inputs; i++)
          for (int o = 0; o < layer.outputs; o++)
            if (activations[b][l][i] > 0.0) before[i] += deltas[b][o] * layer.values[i * layer.outputs + o];
        deltas[b] = std::move(before);
      }
    }
    return loss;
  }

  void step() {
    for (Layer& layer : layers)
      for (std::size_t i = 0; i < layer.values.size(); i++) {
        layer.velocity[i] = kMomentum * layer.velocity[i] + layer.gradient[i];
        layer.values[i] -= kRate * layer.velocity[i];
      }
  }

  double accuracy(const Digits& digits) const {
    int right = 0;
    for (std::size_t i = digits.training; i < digits.images.size(); i++) {
      const Vector out = forward(digits.images[i]).back();
      right += std::max_element(out.begin(), out.end()) - out.begin() == digits.labels[i];
    }
    return right / static_cast<double>(digits.images.size() - digits.training);
  }

  std::vector<Layer> layers;
};

/// The losses of all steps. `world` empty: one process, whole batches.
Vector train(Network& network, const Digits& digits, const unisono::Group& world, std::size_t size) {
  const std::size_t ranks = world ? world.size() : 1, rank = world ? world.rank() : 0, share = size / ranks;
  Vector losses;
  std::vector<std::size_t> order(digits.training);
  for (int epoch = 0; epoch < kEpochs; epoch++) {
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(100 + epoch));  // equal on all ranks
    for (std::size_t start = 0; start + size <= order.size(); start += size) {
      std::vector<unisono::Work> works;
      const auto average = [&](std::span<double> x) {
        if (world) works.push_back(world.all_reduce_async(x, unisono::ReduceOp::avg));
      };
      double loss = network.backward(digits, std::span(order).subspan(start + rank * share, share),
                                     [&](Layer& l) { average(l.gradient); });
      average({&loss, 1});
      for (const unisono::Work& work : works) work.wait();
      losses.push_back(loss);
      network.step();
    }
    if (world && rank == 0 && (epoch + 1) % 10 == 0)
      std::printf("epoch %3d of %d: loss %.5f\n", epoch + 1, kEpochs, losses.back());
  }
  return losses;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: digits FILE.csv (write it with digits_csv.py)\n"), 2;
  const unisono::Group world = unisono::init();
  const Digits digits = load(argv[1]);
  const std::size_t size = kBatch / world.size() * world.size();  // every rank has an equal share
  Network together;
  const Vector losses = train(together, digits, world, size);

  bool good = true;
  if (world.rank() == 0) {
    Network alone;
    const Vector reference = train(alone, digits, unisono::Group(), size);
    double difference = 0;
    for (std::size_t i = 0; i < losses.size(); i++)
      difference = std::max(difference, std::abs(losses[i] - reference[i]));
    const double accuracy = together.accuracy(digits);
    std::printf("%d ranks, %zu steps: accuracy on unseen digits %.4f, largest difference of the losses %.2e\n",
                world.size(), losses.size(), accuracy, difference);
    good = accuracy >= 0.95 && difference <= 1e-5;
    if (!good) std::fprintf(stderr, "FAILED: the accuracy must be at least 0.95, the difference at most 1e-5\n");
  }
  world.broadcast(std::span(&good, 1));  // so that all ranks end with the same status
  return good ? 0 : 1;
}
