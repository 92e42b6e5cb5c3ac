"""NPBench's codes of machine learning: inference in small networks."""

from __future__ import annotations

import treadle as td
from benchmarks.npbench.registry import program


def relu(x):
    return td.maximum(x, 0)


def conv2d(input, weights):
    """Windows of images (image, row, column, channel) times weights (row, column, channel, out)."""
    k, _, channels, _ = weights.shape
    images, height, width, _ = input.shape

    def windows(n, i, j, di, dj, c):
        return n, i + di, j + dj, c

    shape = (images, height - k + 1, width - k + 1, k, k, channels)
    return td.tensordot(td.backpermute(shape, windows, input), weights, 3)


def maxpool2d(x):
    h, w = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
    rows = td.maximum(x[:, 0:h:2], x[:, 1:h:2])
    return td.maximum(rows[:, :, 0:w:2], rows[:, :, 1:w:2])


@program("softmax")
def softmax(x):
    e = td.exp(x - td.max(x, axis=-1, keepdims=True))
    return e / td.sum(e, axis=-1, keepdims=True)


@program("mlp")
def mlp(input, w1, b1, w2, b2, w3, b3):
    x = relu(input @ w1 + b1)
    x = relu(x @ w2 + b2)
    return softmax(x @ w3 + b3)


@program("conv2d_bias")
def conv2d_bias(input, weights, bias):
    return conv2d(input, weights) + bias


@program("lenet")
def lenet(
    input, conv1, conv1bias, conv2, conv2bias, fc1w, fc1b, fc2w, fc2b, fc3w, fc3b, N, C_before_fc1
):
    x = maxpool2d(relu(conv2d(input, conv1) + conv1bias))
    x = maxpool2d(relu(conv2d(x, conv2) + conv2bias))
    x = td.reshape(x, (N, C_before_fc1))
    x = relu(x @ fc1w + fc1b)
    x = relu(x @ fc2w + fc2b)
    return x @ fc3w + fc3b


def batchnorm2d(x, eps=1e-5):
    return (x - td.mean(x, axis=0)) / td.sqrt(td.std(x, axis=0) + eps)


@program("resnet")
def resnet(input, conv1, conv2, conv3):
    # As in NumPy, what is padded is float64, and convolutions give float32.
    first = conv2d(input, conv1).astype(td.float64)
    x = relu(batchnorm2d(td.pad(first, ((0, 0), (1, 1), (1, 1), (0, 0)))))
    x = relu(batchnorm2d(conv2d(x, conv2).astype(td.float32)))
    x = batchnorm2d(conv2d(x, conv3))
    return relu(x + input)
