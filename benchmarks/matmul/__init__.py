"""Matrix products: speed (`python -m benchmarks.matmul`), accuracy (`….accuracy`), the model
(`….model`); bench.py and engine.py drive the float32 engine by itself."""
