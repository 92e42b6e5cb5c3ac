"""Operations that are recorded and replayed: tapes, queues, CUDA graphs."""
