"""Matrix products: speed (`python -m benchmarks.matmul`), accuracy (`….accuracy`), the model
(`….model`), engines by themselves (`….tensor --engines`)."""
